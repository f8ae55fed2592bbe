"""Nodes under /fleet/v1/nodes: as the controllers saw them, with the jobs that the user may get."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fleet.rest.membermodels import NodeList
from tests.controllers.world import member, policy, pytorchjob
from tests.rest.rest import Rest, rest

MEMBERS = {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["list"]}


async def map_with(hub: Rest, gpus: int, token: str = "admin-token", **params: Any) -> Any:
    """The nodes, as soon as so many of their GPUs are in use."""
    for _ in range(1200):  # a minute
        found = await hub.get("/nodes", token, **params)
        NodeList.model_validate(found)
        if sum(sum(job["gpus"] for job in node["jobs"]) + node["other"] for node in found["items"]) == gpus:
            break
        await asyncio.sleep(0.05)
    return found


async def test_a_node_shows_the_jobs_on_it_and_of_unseen_ones_the_sum() -> None:
    async with rest(member("cfa"), objects=[policy(), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        found = await map_with(hub, 3)
        jobs = [job for node in found["items"] for job in node["jobs"]]
        assert {(job["namespace"], job["kind"], job["name"]) for job in jobs} == {("default", "PyTorchJob", "one")}
        assert (sum(job["gpus"] for job in jobs), {node["other"] for node in found["items"]}) == (3, {0})
        assert {(node["member"], node["state"]) for node in found["items"]} == {("cfa", "ready")} and found["at"]
        await hub.grant("alice", MEMBERS)
        others = await map_with(hub, 3, "alice-token")
        assert [node["jobs"] for node in others["items"]] == [[] for _ in found["items"]]
        assert sum(node["other"] for node in others["items"]) == 3


async def test_nodes_are_of_one_member_and_of_a_bounded_number() -> None:
    async with rest(member("cfa"), member("cfb"), objects=[policy(), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        whole = await map_with(hub, 3)
        first = await hub.get("/nodes", limit=1)
        assert (first["items"], first["left"]) == (whole["items"][:1], len(whole["items"]) - 1)
        second = await hub.get("/nodes", member="cfb")
        assert {node["member"] for node in second["items"]} == {"cfb"}
        assert (await hub.get("/nodes", member="none"))["items"] == []


async def test_before_the_first_look_there_are_no_nodes() -> None:
    async with rest(start=False) as hub:
        assert await hub.get("/nodes") == {"at": None, "items": [], "left": 0}


@pytest.mark.parametrize("query", ["limit=0", "limit=5001", "member="])
async def test_what_makes_no_sense_is_refused_by_its_name(query: str) -> None:
    async with rest(start=False) as hub:
        refused = await hub.refused("GET", f"/nodes?{query}")
        assert (refused["code"], refused["details"]["causes"][0]["field"]) == (422, query.partition("=")[0])
