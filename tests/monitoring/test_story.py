"""A real hub, Prometheus and Alertmanager beside it: panels and rules have rows, and faults arrive as alerts.

A fault of the database is in test_database.py, a bug of Fleet's own in test_bugs.py.
"""

from __future__ import annotations

import pytest

from fleet.accounts.models import SCHEMA, JobRecord
from fleet.monitoring.dashboards import BOARDS
from fleet.monitoring.rules import ALERTS, RECORDINGS
from tests.cli.hub import Up, until
from tests.monitoring.faults import frozen, locked
from tests.monitoring.scene import EDGE, EDGE_PODS, audit_log, job, write
from tests.monitoring.watch import WITHIN_S, Watch
from tests.testbed.processes import wait_for

pytestmark = [pytest.mark.xdist_group("monitoring"), pytest.mark.timeout(900)]  # one hub for all
# The only metrics without rows in the scene, and why.
NO_ROWS = {
    "fleet_loop_restarts_total": "no loop ended",
    "fleet_jobs_refused": "no job is refused",
    "fleet_api_webhook_calls_total": "no webhook is registered",
}
STANDING = {
    "FleetNotificationsFail": {},
    "FleetCertificateEnds": {"job": "fleet-api", "certificate": "client_authority"},
    "FleetMemberCredentialsEnd": {"member": "cfb"},
    "FleetGuaranteeWaits": {"queue": "root/child-2", "resource": "nvidia.com/gpu"},
}


def test_each_panel_and_each_rule_has_rows(watch: Watch) -> None:
    queries = [query for board in BOARDS for _, panels in board.rows for panel in panels for _, query in panel.queries]
    queries += [rule.query for rule in RECORDINGS] + [alert.value for alert in ALERTS]
    lacking = [query for query in queries if not any(metric in query for metric in NO_ROWS)]

    def served() -> bool:
        lacking[:] = [query for query in lacking if not watch.has(query)]
        assert not lacking, lacking
        return True

    wait_for("each query has rows", served, WITHIN_S, every_s=1.0)
    for query in queries:
        watch.ask(query)  # those without rows can be parsed at least


@pytest.mark.parametrize("alert", STANDING)
def test_a_standing_trouble_of_the_scene_arrives_as_an_alert_and_nothing_else_of_its_kind(
    watch: Watch, alert: str
) -> None:
    watch.await_alert(alert)
    [labels] = watch.arrived(alert) or []
    assert labels.items() >= STANDING[alert].items()


def test_members_exporters_and_a_history_that_do_not_answer_arrive_as_alerts(up: Up, watch: Watch) -> None:
    until("the members are ready", lambda: watch.has("sum(fleet_member_ready) == 3"), WITHIN_S)
    watch.await_end("FleetMemberNotReady", "FleetMemberSilent", "FleetGpuSourceDown")
    watch.await_end("FleetHistoryFails", "FleetHistoryBehind")
    with frozen(up.child("sim")), locked(up, f"{SCHEMA}.{JobRecord.__tablename__}"):
        up.hub.request("DELETE", f"{EDGE_PODS}/exporter")
        write(up, up.folder.parent, job("not-recorded"))
        watch.await_alert("FleetMemberNotReady", "FleetMemberSilent", member="cfa")
        watch.await_alert("FleetGpuSourceDown", member=EDGE)
        watch.await_alert("FleetHistoryFails", "FleetHistoryBehind")
    watch.await_end("FleetMemberNotReady", "FleetHistoryFails")


def test_controllers_that_hang_arrive_as_alerts(up: Up, watch: Watch) -> None:
    watch.await_end("FleetNoLeader", "FleetTargetDown")
    with frozen(up.child("controllers")):
        watch.await_alert("FleetNoLeader", "FleetTargetDown")
    watch.await_end("FleetNoLeader", "FleetTargetDown")


def test_an_audit_log_that_cannot_be_written_arrives_as_an_alert(up: Up, watch: Watch) -> None:
    watch.await_end("FleetAuditEventsLost")
    log = audit_log(up.folder.parent)
    log.rename(log.with_suffix(".old"))
    log.mkdir()
    try:
        write(up, up.folder.parent, job("not-audited"))
        watch.await_alert("FleetAuditEventsLost", outcome="Unwritable")
    finally:
        log.rmdir()
