"""The files of deploy/monitoring: what the generator makes, and the verdict of promtool and amtool on them."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.monitoring.__main__ import DOCS, files
from fleet.monitoring.rules import ALERTS, Alert, document
from tests.checkout import ROOT
from tests.monitoring.watch import DEPLOY
from tests.testbed.prometheus import prometheus_binaries

PAGES = ROOT / "docs" / "runbooks"
LEADER = {'fleet_leader{job="fleet-controllers",instance="a"}': "1x100"}
LED = 'fleet_leader{job="fleet-controllers",instance="b"}'  # of a process that stands by now


@dataclass(frozen=True)
class Case:
    """Samples a minute apart: the fault begins at minute 20. No alert fires then; at minute `by` there is this one."""

    series: dict[str, str]
    labels: dict[str, str]
    by: int = 60


def of_leader(metric: str, samples: str, *, left: str = "") -> dict[str, str]:
    """`left`: what a process still tells that has led before."""
    name, _, labels = metric.partition("{")
    own = f",{labels}" if labels else "}"
    of = f'{name}{{job="fleet-controllers",instance='
    before = {LED: "0x100", f'{of}"b"{own}': left} if left else {}
    return {**LEADER, f'{of}"a"{own}': samples, **before}


CASES = {
    "FleetTargetDown": Case(
        {'up{job="fleet-api",instance="a"}': "1x20 0x80", 'up{job="other",instance="b"}': "0x100"},
        {"job": "fleet-api", "instance": "a"},
    ),
    "FleetNoLeader": Case({'fleet_leader{instance="a"}': "1x20 0x80", 'fleet_leader{instance="b"}': "0x100"}, {}),
    "FleetNobodyDecides": Case(of_leader("fleet_decision_last_timestamp_seconds", "0+60x20 1200x80"), {}),
    "FleetDeciderFaults": Case(
        of_leader('fleet_decision_faults_total{outcome="left_out"}', "0x20 1x80"), {"outcome": "left_out"}, by=25
    ),
    "FleetLoopFails": Case(of_leader('fleet_reconcile_failures_total{loop="bind"}', "0x20 1+10x80"), {"loop": "bind"}),
    "FleetLoopRestarted": Case(
        of_leader('fleet_loop_restarts_total{loop="bind"}', "_x21 1x80"), {"loop": "bind"}, by=25
    ),
    "FleetObjectsAside": Case(of_leader('fleet_keys_aside{loop="bind"}', "0x20 2x80", left="7x100"), {"loop": "bind"}),
    "FleetMemberNotReady": Case(
        {
            **of_leader('fleet_member_ready{member="cfa"}', "1x20 0x80"),
            LED: "0x100",
            'fleet_member_ready{job="fleet-controllers",instance="b",member="cfb"}': "0x100",
        },
        {"member": "cfa"},
    ),
    "FleetMemberSilent": Case(
        of_leader('fleet_member_last_heard_timestamp_seconds{member="cfa"}', "0+60x20 1200x80"), {"member": "cfa"}
    ),
    "FleetNodesNotReady": Case(
        {
            **of_leader('fleet_member_nodes{member="cfa",state="ready"}', "8x20 4x80"),
            **of_leader('fleet_member_nodes{member="cfa",state="not_ready"}', "1x20 5x80"),
        },
        {"member": "cfa"},
    ),
    "FleetJobsRefused": Case(
        of_leader('fleet_jobs_refused{code="OverrideFailed"}', "2x20 9x80", left="9x100"), {"code": "OverrideFailed"}
    ),
    "FleetUserFloods": Case(
        {
            **of_leader('fleet_user_units_waiting{user="ada"}', "999x20 5000x80"),
            **of_leader('fleet_units{leaf="root/a",phase="waiting"}', "1000x20 5001x80"),
        },
        {"user": "ada"},
    ),
    "FleetGpuSourceDown": Case(of_leader('fleet_member_gpu_source_up{member="cfa"}', "1x20 0x80"), {"member": "cfa"}),
    "FleetMemberCredentialsEnd": Case(
        of_leader('fleet_member_credentials_expiry_timestamp_seconds{member="cfa"}', "400000x20 200000x80"),
        {"member": "cfa"},
    ),
    "FleetCertificateEnds": Case(
        {
            'fleet_api_certificate_expiry_timestamp_seconds{job="fleet-api",instance="a",certificate="server"}': "2000000x20 1000000x80",  # noqa: E501
        },
        {"job": "fleet-api", "instance": "a", "certificate": "server"},
    ),
    "FleetDatabaseAway": Case(
        {'fleet_store_connections{job="fleet-api",instance="a",connection="follow"}': "1x20 0x80"},
        {"job": "fleet-api", "instance": "a", "connection": "follow"},
    ),
    "FleetDatabaseSlow": Case(
        {
            'fleet_store_batch_seconds_sum{job="fleet-api",instance="a"}': "0+1x20 20+60x80",
            'fleet_store_batch_seconds_count{job="fleet-api",instance="a"}': "0+60x100",
        },
        {"job": "fleet-api", "instance": "a"},
    ),
    "FleetHistoryFails": Case(of_leader("fleet_history_failing", "0x20 1x80", left="1x100"), {}),
    "FleetHistoryBehind": Case(of_leader("fleet_history_lag_seconds", "1x20 400x80", left="0+60x100"), {}),
    "FleetNotificationsFail": Case(of_leader('fleet_notifications_total{outcome="failed"}', "0x20 1+1x80"), {}),
    "FleetApiErrors": Case(
        {
            'fleet_api_requests_total{job="fleet-api",instance="a",resource="pods",verb="get",code="200"}': "0+90x100",
            'fleet_api_requests_total{job="fleet-api",instance="a",resource="pods",verb="get",code="503"}': "0x20 10+10x80",  # noqa: E501
            # probes, which name no resource, count for nothing
            'fleet_api_requests_total{job="fleet-api",instance="a",resource="",verb="",code="503"}': "0+90x100",
        },
        {},
    ),
    "FleetApiSlow": Case(
        {
            f'fleet_api_request_seconds_bucket{{job="fleet-api",instance="a",resource="pods",verb="get",le="{le}"}}': samples  # noqa: E501
            for le, samples in (("1", "0+60x20 1200x80"), ("5", "0+60x100"), ("+Inf", "0+60x100"))
        },
        {"verb": "get"},
    ),
    "FleetWebhookFails": Case(
        {
            'fleet_api_webhook_calls_total{job="fleet-api",instance="a",webhook="w",outcome="answered"}': "0+9x20 180x80",  # noqa: E501
            'fleet_api_webhook_calls_total{job="fleet-api",instance="a",webhook="w",outcome="failed"}': "0x20 9+9x80",
        },
        {"webhook": "w"},
    ),
    "FleetNeedlessEvictions": Case(of_leader("fleet_decider_needless_evictions_total", "0x20 5x80"), {}, by=25),
    "FleetGuaranteeWaits": Case(
        {
            **of_leader('fleet_quota_used{queue="root/a",resource="nvidia.com/gpu"}', "8x100"),
            **of_leader('fleet_quota_min{queue="root/a",resource="nvidia.com/gpu"}', "16x100"),
            **of_leader('fleet_units{leaf="root/a",phase="waiting"}', "_x20 1x100"),
            **of_leader('fleet_quota_used{queue="root/b",resource="nvidia.com/gpu"}', "16x100"),
            **of_leader('fleet_quota_min{queue="root/b",resource="nvidia.com/gpu"}', "16x100"),
            **of_leader('fleet_units{leaf="root/b",phase="waiting"}', "3x100"),
        },
        {"queue": "root/a", "resource": "nvidia.com/gpu"},
        by=90,
    ),
    "FleetAuditEventsLost": Case(
        {
            'fleet_api_audit_events_total{job="fleet-api",instance="a",to="log",outcome="Written"}': "0+9x100",
            'fleet_api_audit_events_total{job="fleet-api",instance="a",to="log",outcome="Overflow"}': "0x20 3x80",
        },
        {"to": "log", "outcome": "Overflow"},
        by=25,
    ),
}


def run(tool: str, *words: str | Path) -> str:
    done = subprocess.run(
        [prometheus_binaries() / tool, *words], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_files_are_those_that_the_generator_makes() -> None:
    wanted = files(DOCS)
    there = {name: (DEPLOY / name).read_text() for name in wanted if (DEPLOY / name).exists()}
    assert there == wanted, "run .venv/bin/python -m fleet.monitoring"
    assert {f"dashboards/{path.name}" for path in (DEPLOY / "dashboards").iterdir()} == wanted.keys() - {"rules.yaml"}


def test_the_address_of_the_pages_can_be_told() -> None:
    [rule, *_] = document("https://intra/fleet/")["groups"][1]["rules"]
    assert rule["annotations"]["runbook_url"] == f"https://intra/fleet/runbooks/{rule['alert']}.html"


def test_prometheus_and_alertmanager_accept_rules_and_examples(tmp_path: Path) -> None:
    assert "SUCCESS" in run("promtool", "check", "rules", "--lint=all", "--lint-fatal", DEPLOY / "rules.yaml")
    example = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    for number, job in enumerate(example["scrape_configs"]):
        for section, field in (("authorization", "credentials_file"), ("tls_config", "ca_file")):
            job[section][field] = str(tmp_path / f"{number}-{field}")
            Path(job[section][field]).touch()
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(example))
    (tmp_path / "rules.yaml").write_text((DEPLOY / "rules.yaml").read_text())
    assert "SUCCESS" in run("promtool", "check", "config", "--syntax-only", tmp_path / "prometheus.yml")
    assert "SUCCESS" in run("amtool", "check-config", DEPLOY / "alertmanager.yml")


def expected(alert: Alert, labels: dict[str, str]) -> dict[str, Any]:
    """The alert as Prometheus tells it, with the labels' values in its text."""
    [rule] = [one for one in document(DOCS)["groups"][1]["rules"] if one["alert"] == alert.name]
    said = {
        name: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda found: labels[found[1]], text)
        for name, text in rule["annotations"].items()
    }
    return {"exp_labels": {**labels, "severity": alert.severity}, "exp_annotations": said}


def test_each_alert_fires_for_its_fault_and_not_before(tmp_path: Path) -> None:
    assert CASES.keys() == {alert.name for alert in ALERTS}
    tests = [
        {
            "name": alert.name,
            "interval": "1m",
            "input_series": [{"series": series, "values": samples} for series, samples in case.series.items()],
            "alert_rule_test": [
                {"eval_time": "20m", "alertname": alert.name, "exp_alerts": []},
                {"eval_time": f"{case.by}m", "alertname": alert.name, "exp_alerts": [expected(alert, case.labels)]},
            ],
        }
        for alert in ALERTS
        for case in (CASES[alert.name],)
    ]
    file = tmp_path / "alerts.yaml"
    file.write_text(
        yaml.safe_dump(
            {
                "rule_files": [str(DEPLOY / "rules.yaml")],
                "evaluation_interval": "1m",
                "tests": tests,
            }
        )
    )
    assert "SUCCESS" in run("promtool", "test", "rules", file)


@pytest.mark.parametrize("alert", [alert.name for alert in ALERTS])
def test_each_alert_has_a_page_to_act_by(alert: str) -> None:
    text = (PAGES / f"{alert}.md").read_text()
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.MULTILINE)
    assert headings == [alert, "What it means", "How to look", "What to do", "How to tell that it is over"]


def test_no_page_is_left_of_an_alert_that_is_gone() -> None:
    assert {page.stem for page in PAGES.glob("*.md")} == {alert.name for alert in ALERTS} | {"README"}
