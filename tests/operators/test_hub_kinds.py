"""A hub before a member with the real controllers of all job kinds: every kind through its life, as a user sees it.

One leaf for each kind runs one job at a time, so that the start of the next job shows that the last has left its quota.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.e2e.hub import World
from tests.e2e.manifests import leaf
from tests.operators.hub import RealJobs, hub_before
from tests.operators.jobs import stays
from tests.operators.kinds import KINDS, RAYJOB, Kind
from tests.testbed.operators.controllers import OPERATORS

Body = dict[str, Any]


def of(*kinds: Kind) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.kind) for kind in kinds])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    leaves = [leaf(kind.kind, kind.kind.lower(), **{"kube-queue/max-jobs": 1}) for kind in KINDS]
    folder = tmp_path_factory.mktemp("kinds")
    with hub_before(folder, "kubernetes", operators=tuple(OPERATORS), leaves=leaves) as world:
        for kind in KINDS:
            world.kubectl.run("create", "namespace", kind.kind.lower())
        yield world


@of(*KINDS)
def test_a_gang_runs_and_waits_for_quota_and_leaves_nothing_when_it_is_deleted(world: World, kind: Kind) -> None:
    jobs = RealJobs(world, kind)
    jobs.submit("runs")
    jobs.until("runs", "Running")
    world.until("all its pods run", lambda: list(jobs.pods().values()) == ["Running"] * kind.pods)
    world.until("the hub shows that it runs", lambda: (kind.on_hub or kind.running)(jobs.status("runs")))
    world.until("the hub shows all that its controller says", lambda: jobs.mirrored("runs"))
    told = {event["reason"] for event in world.kubectl.items("events", "-n", jobs.namespace)}
    assert {"ScheduleBindingSucceed", "SyncSucceed"} <= told
    (binding,) = world.kubectl.items("rb", "-n", jobs.namespace)
    (seen,) = binding["status"]["aggregatedStatus"]
    assert (seen["clusterName"], seen["health"]) == ("cfa", "Healthy")
    jobs.submit("next")
    jobs.until("next", "Enqueued")
    before = jobs.copy("runs")["metadata"]["generation"], sorted(jobs.pods())
    stays(
        "hub and controller agree", lambda: (jobs.copy("runs")["metadata"]["generation"], sorted(jobs.pods())) == before
    )
    jobs.delete("runs")
    jobs.until("next", "Running")
    jobs.delete("next")
    jobs.leave_nothing()


@of(*(kind for kind in KINDS if kind.ends))
def test_a_gang_that_succeeds_and_one_that_fails_say_so_and_leave_their_quota(world: World, kind: Kind) -> None:
    jobs = RealJobs(world, kind)
    jobs.submit("good", run_for="3s")
    jobs.until("good", "Running")
    jobs.submit("bad", run_for="1s", exit_code=1)
    jobs.until("good", "Succeed")
    jobs.submit("after")
    jobs.until("bad", "Failed")
    jobs.until("after", "Running")
    assert kind.succeeded(jobs.status("good")) and not kind.failed(jobs.status("good"))
    assert kind.failed(jobs.status("bad")) and not kind.succeeded(jobs.status("bad"))
    jobs.delete("good", "bad", "after")
    jobs.leave_nothing()


@of(*(kind for kind in KINDS if kind.suspend))
def test_a_suspended_gang_leaves_its_quota_and_its_member_until_it_is_resumed(world: World, kind: Kind) -> None:
    jobs = RealJobs(world, kind)
    jobs.submit("rests")
    jobs.until("rests", "Running")
    jobs.suspend("rests", True)
    world.until("nothing of it is in the member", lambda: not jobs.in_members())
    jobs.submit("between")
    jobs.until("between", "Running")
    assert jobs.phase("rests") == "Enqueued"
    jobs.suspend("rests", False)
    jobs.delete("between")
    jobs.until("rests", "Running")
    world.until("all its pods run", lambda: list(jobs.pods().values()) == ["Running"] * kind.pods)
    jobs.delete("rests")
    jobs.leave_nothing()
    assert jobs.pods() == {}


def test_a_ray_job_that_keeps_its_cluster_is_suspended_and_keeps_its_quota_after_its_end(world: World) -> None:
    """KubeRay refuses to suspend such a RayJob; the hub takes it out of the member instead."""

    def kept(name: str, template: Body) -> Body:
        body = RAYJOB.body(name, template)
        return {**body, "spec": {**body["spec"], "shutdownAfterJobFinishes": False}}

    jobs = RealJobs(world, replace(RAYJOB, body=kept))
    jobs.submit("keeps", run_for="3s")
    jobs.until("keeps", "Running")
    jobs.suspend("keeps", True)
    world.until("nothing of it is in the member", lambda: not jobs.in_members())
    jobs.suspend("keeps", False)
    jobs.until("keeps", "Succeed")
    jobs.submit("waits")
    jobs.until("waits", "Enqueued")
    stays("its cluster has its room", lambda: jobs.phase("waits") == "Enqueued")
    assert sorted(jobs.pods().values()) == ["Running"] * 3 + ["Succeeded"]
    jobs.delete("keeps")
    jobs.until("waits", "Running")
    jobs.delete("waits")
    jobs.leave_nothing()
