"""Lists of /fleet/v1 beside malformed objects: they answer, with every other row as it is."""

from __future__ import annotations

import copy

import pytest

from fleet.values.ports import Body
from tests.controllers.fastloop import eventually
from tests.controllers.world import member, policy, pytorchjob, tree
from tests.rest.rest import Rest, rest
from tests.security.loops.malformed import mutants
from tests.security.loops.world import batches, good_world, renamed, sample, write


async def all_jobs(hub: Rest) -> list[Body]:
    """Every page."""
    found: list[Body] = []
    more: dict[str, str] = {}
    while True:
        page = await hub.get("/jobs", **more)
        found += page["items"]
        if not page["continue"]:
            return found
        more = {"continue": page["continue"]}


async def beside(hub: Rest) -> None:
    world, shown = hub.world, await all_jobs(hub)
    jobs = {job["name"]: job for job in shown if job["namespace"] == "default"}
    assert jobs["good"]["state"] == "Running" and jobs["good"]["member"] == "cfa"
    assert {stored["metadata"]["name"] for stored in world.all("PyTorchJob")} == {job["name"] for job in shown}
    clusters = {one["name"]: one for one in (await hub.get("/clusters"))["items"]}
    assert clusters["cfa"]["jobs"].get("Running", 0) >= 1
    assert "root/child-2" in {node["path"] for node in (await hub.get("/queues"))["items"]}


@pytest.mark.parametrize("kind", ["PyTorchJob", "ResourceBinding", "QueueUnit", "Queue", "Cluster"])
async def test_lists_answer(kind: str) -> None:
    async with rest(member("cfa", count=40)) as hub:
        await good_world(hub.world)
        await hub.world.apply(pytorchjob("waits", workers=400))
        await eventually(lambda: hub.world.unit("waits"))
        await beside(hub)
        found = hub.world.all(kind)
        pattern = copy.deepcopy(next((b for b in found if "good" in b["metadata"]["name"]), found[-1]))
        await hub.world.kill()  # as stored, and not as mended
        entries = sample(list(mutants(pattern)))
        number = 0
        for batch in batches(entries):
            for _, body in batch:
                number += 1
                await write(hub.world, renamed(body, f"bad-{number}", number))
            try:
                await beside(hub)
            except AssertionError as error:
                raise AssertionError(f"{error} beside {[what for what, _ in batch]}") from error


@pytest.mark.parametrize("spec", [None, 5, "x", [], {}, {"root": None}, {"root": {"max": "x"}}])
async def test_a_tree_that_cannot_be_read_is_none_and_nothing_else_ends(spec: object) -> None:
    async with rest(member("cfa", count=4)) as hub:
        await hub.world.apply(policy(), tree(max_jobs=9), pytorchjob("good"))
        await hub.world.running("good")
        body = copy.deepcopy(hub.world.all("ElasticQuotaTree")[0])
        body["spec"] = spec
        await write(hub.world, body)
        assert (await hub.get("/queues"))["items"] == []
        await hub.world.apply(pytorchjob("later"))
        await hub.world.running("later")  # outside quota
        tree_events = [e for e in hub.world.all("Event") if e["reason"] == "HandlingFailed"]
        told = "HandlingFailed" in str(hub.world.all("ElasticQuotaTree")[0]) or tree_events
        assert told
