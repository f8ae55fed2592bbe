"""Why a job waits, under /fleet/v1: position, estimate and smallest changes of one job."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fleet.core.snapshot import Snapshot
from fleet.rest import explanations
from fleet.rest.line import queue_paths
from fleet.rest.models import Explanation
from fleet.rest.past import pasts
from tests.controllers.fastloop import eventually
from tests.controllers.world import member, policy, pytorchjob, tree
from tests.rest.rest import Rest, rest

PATH = "/jobs/default/PyTorchJob"


async def explained(hub: Rest, name: str, token: str = "admin-token") -> Any:
    found = await hub.get(f"{PATH}/{name}/explanation", token)
    Explanation.model_validate(found)
    return found


async def waits(hub: Rest, name: str) -> None:
    await hub.world.apply(pytorchjob(name))
    await eventually(lambda: hub.world.message(name))
    await hub.seen(**{name: None})


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow the machine is."""
    monkeypatch.setattr(explanations, "LIMIT_S", math.inf)


async def test_a_job_that_waits_is_explained_with_its_place_its_start_and_what_would_start_it() -> None:
    async with rest(member("cfa"), objects=[tree(), policy(queue=True), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        await waits(hub, "two")
        await waits(hub, "three")
        said = await explained(hub, "three")
        assert (said["job"], said["queue"], said["starts"]) == ("default/three", "root/child-2", False)
        assert said["reason"]["code"] == "MaxJobsReached"
        assert said["position"] == {"place": 2, "of": 2, "ahead": 1, "tier": "Share"}
        estimate = said["estimate"]
        assert estimate["outcome"] == "Estimate" and estimate["samples"] >= 5
        assert said["at"] <= estimate["p10"] <= estimate["p50"]
        [quota] = [change["text"] for change in said["changes"] if change["kind"] == "MoreQuota"]
        assert quota.startswith("raise max of root/child-2 by 2 jobs, to 3")
        [edits] = [change["edits"] for change in said["changes"] if change["kind"] == "MoreQuota"]
        limit = {"node": "root/child-2", "limit": "max", "resource": "kube-queue/max-jobs", "amount": 3}
        assert edits[0] == {"SetLimit": limit}
        answer = await hub.client().post("/fleet/v1/what-if", json={"edits": edits})
        started = {(row["kind"], row["job"]) for row in answer.json()["rows"] if row["change"] == "starts"}
        assert ("PyTorchJob", "default/three") in started
        assert {entry["kind"] for entry in said["without"]} <= {"HigherPriority"}


async def test_what_is_not_ready_in_time_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explanations, "LIMIT_S", -1.0)
    async with rest(member("cfa"), objects=[tree(), policy(queue=True), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        await waits(hub, "two")
        said = await explained(hub, "two")
        assert (said["reason"]["code"], said["position"]["place"]) == ("MaxJobsReached", 1)
        assert said["estimate"]["outcome"] == "NotEstimated" and "too long" in said["estimate"]["why"]
        assert said["changes"] == [] and {entry["kind"] for entry in said["without"]} == {"MoreQuota", "HigherPriority"}


async def test_an_explanation_is_kept_while_nothing_changes() -> None:
    async with rest(member("cfa"), objects=[tree(), policy(queue=True), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        await waits(hub, "two")
        assert await explained(hub, "two") == await explained(hub, "two")


async def test_who_does_not_wait_is_not_explained() -> None:
    async with rest(member("cfa"), objects=[policy(queue=True), tree(), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        await hub.seen(one="cfa")
        assert (await hub.refused("GET", f"{PATH}/one/explanation"))["code"] == 404
        assert (await hub.refused("GET", f"{PATH}/nobody/explanation"))["code"] == 404


async def test_explaining_a_job_takes_the_right_to_get_it() -> None:
    async with rest(member("cfa"), objects=[tree(), policy(queue=True), pytorchjob("one")]) as hub:
        assert (await hub.refused("GET", f"{PATH}/one/explanation", "bob-token"))["code"] == 403


async def test_jobs_that_are_over_are_the_history_of_their_leaf() -> None:
    async with rest(member("cfa", runtime_s=0.2), objects=[tree(), policy(queue=True), pytorchjob("one")]) as hub:
        await hub.until("one", lambda job: job["state"] == "Succeeded")
        store = hub.world.objects.store
        [past] = await pasts(store, Snapshot(), queue_paths(store), hub.world.clock.now())
        assert (past.unit.leaf, past.unit.pods, past.unit.total["nvidia.com/gpu"]) == ("root/child-2", 3, 3)
        assert past.started is not None and past.ended is not None
        assert past.submitted - 1 < past.started <= past.ended  # statuses have whole seconds


async def test_what_is_over_tells_whose_it_was_and_how_long_it_might_have_taken() -> None:
    """Durations are drawn from work of the same user, and as shares of walltimes, before anything wider."""
    async with rest(member("cfa"), objects=[tree(), policy(queue=True), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        unit = "one-pytorchjob-rb-qu"
        await hub.world.edit("QueueUnit", unit, lambda body: body["spec"].update(maximumExecutionTimeSeconds=600))
        hub.world.members.finish("one")
        await hub.until("one", lambda found: found["state"] == "Succeeded")
        store = hub.world.objects.store
        [past] = await pasts(store, Snapshot(), queue_paths(store), hub.world.clock.now())
        assert (past.unit.user, past.unit.walltime_s) == ("alice", 600.0)  # who created it
