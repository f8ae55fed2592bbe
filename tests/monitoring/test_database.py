"""Faults of the database under a real hub arrive as alerts."""

from __future__ import annotations

import pytest

from tests.cli.hub import Up
from tests.monitoring.faults import away, trigger, writing
from tests.monitoring.scene import job, write
from tests.monitoring.watch import Watch

pytestmark = [pytest.mark.xdist_group("monitoring"), pytest.mark.timeout(900)]
SLOW_S = 3
REFUSED = 6  # jobs
# No binding of a job `refused-…` can be made. That of `stuck` can be made and not changed: the decider places the job,
# cannot say so, tries again as on a full disk, and finishes no look. Users who write `full-…` are told of a full disk.
# The Lease is the sign of life of the controllers, and the loop that makes it ends by an exception.
REFUSES = """
    IF NEW.resource = 'resourcebindings' AND NEW.name LIKE 'refused-%'
        OR NEW.resource = 'leases' AND NEW.name = 'fleet-controllers'
    THEN
        RAISE EXCEPTION 'not this row';
    ELSIF NEW.resource = 'resourcebindings' AND NEW.name LIKE 'stuck-%' AND NEW.type = 'MODIFIED'
        OR NEW.resource = 'configmaps' AND NEW.name LIKE 'full-%'
    THEN
        RAISE EXCEPTION 'no room for this row' USING ERRCODE = 'disk_full';
    END IF;
    RETURN NEW;
"""


def test_rows_that_the_database_refuses_arrive_as_alerts(up: Up, watch: Watch) -> None:
    watch.await_end("FleetLoopFails", "FleetObjectsAside", "FleetLoopRestarted", "FleetApiErrors", "FleetNobodyDecides")
    with trigger(up, "BEFORE INSERT ON events FOR EACH ROW", REFUSES):
        write(up, up.folder.parent, job("stuck"), *(job(f"refused-{number}") for number in range(REFUSED)))
        with writing(up, "full"):
            watch.await_alert("FleetApiErrors")
        watch.await_alert("FleetLoopFails", "FleetObjectsAside", loop="bind")
        watch.await_alert("FleetLoopRestarted", loop="heartbeat")
        watch.await_alert("FleetNobodyDecides")
    watch.await_end("FleetNobodyDecides")


def test_a_database_that_is_slow_arrives_as_alerts(up: Up, watch: Watch) -> None:
    watch.await_end("FleetDatabaseSlow", "FleetApiSlow")
    with (
        trigger(up, "AFTER INSERT ON events FOR EACH STATEMENT", f"PERFORM pg_sleep({SLOW_S}); RETURN NULL;"),
        writing(up, "slow"),
    ):
        watch.await_alert("FleetDatabaseSlow", "FleetApiSlow")


def test_a_database_that_is_away_arrives_as_alerts(up: Up, watch: Watch) -> None:
    watch.await_end("FleetDatabaseAway")
    with away(up):
        watch.await_alert("FleetDatabaseAway")
    watch.await_end("FleetDatabaseAway", "FleetNoLeader")
