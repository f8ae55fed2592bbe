"""Place trees under /fleet/v1/topology: domains in order, with what is free in them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fleet.rest.membermodels import TopologyList
from fleet.rest.topology import trees_of
from tests.controllers.world import member, policy, pytorchjob
from tests.rest.rest import rest

MEMBERS = {"apiGroups": ["cluster.karmada.io"], "resources": ["clusters"], "verbs": ["list"]}


def row(name: str, used: int = 0, state: str = "ready", gpus: int = 8) -> list[Any]:
    return [name, "", gpus, used, state, {}]


def walk_through(number: int) -> list[tuple[str, str]]:
    rack, switch = (number - 1) // 2, (number - 1) // 4 + 4
    return [("tier-3", "/s6"), ("tier-2", f"/s6/s{switch}"), ("tier-1", f"/s6/s{switch}/s{rack}")]


def shown(found: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (one["path"], one["nodes"], one["free"], *one["slots"].values(), ",".join(one["names"]))
        for tree in found["trees"]
        for one in tree["domains"]
    ]


def test_the_walk_through_with_a_node_that_is_broken_and_one_that_is_cordoned() -> None:
    rows = [row(f"te{number}") for number in range(1, 9)]
    rows[1], rows[6] = row("te2", 3), row("te7", 0, "cordoned")
    found = trees_of(rows, [walk_through(number) for number in range(1, 9)], range(8))
    assert found["trees"][0]["levels"] == ["tier-3", "tier-2", "tier-1"] and found["outside"] == []
    assert shown(found) == [
        ("/s6", 8, 53, 6, 13, 26, 53, ""),
        ("/s6/s4", 4, 29, 3, 7, 14, 29, ""),
        ("/s6/s4/s0", 2, 13, 1, 3, 6, 13, "te1,te2"),
        ("/s6/s4/s1", 2, 16, 2, 4, 8, 16, "te3,te4"),
        ("/s6/s5", 4, 24, 3, 6, 12, 24, ""),
        ("/s6/s5/s2", 2, 16, 2, 4, 8, 16, "te5,te6"),
        ("/s6/s5/s3", 2, 8, 1, 2, 4, 8, "te7,te8"),
    ]


@pytest.mark.parametrize(
    ("places", "levels", "paths"),
    [
        ([[("rack", "r10")], [("rack", "r2")]], [["rack"]], ["r2", "r10"]),
        ([[("block", "b"), ("rack", "b/r")], [("block", "b")]], [["block", "rack"]], ["b", "b/r"]),
        ([[("block", "b"), ("rack", "b//r")]], [["block", "rack"]], ["b", "b//r"]),
        ([[("rack", "r"), ("clique", "c")]], [["clique"], ["rack"]], ["c", "r"]),
        ([[("rack", "/r")], [("block", "b"), ("rack", "b/r")]], [["block", "rack"]], ["/r", "b", "b/r"]),
        ([[]], [], []),
    ],
)
def test_levels_that_nodes_share_are_of_one_tree(places: Any, levels: Any, paths: list[str]) -> None:
    found = trees_of([row(f"n{number}") for number in range(len(places))], places, range(len(places)))
    assert [tree["levels"] for tree in found["trees"]] == levels
    assert [one[0] for one in shown(found)] == paths
    assert found["outside"] == ([] if levels else ["n0"])


async def test_members_are_shown_to_those_who_may_list_them() -> None:
    async with rest(member("cfa"), member("cfb"), objects=[policy(), pytorchjob("one")]) as hub:
        await hub.world.running("one")
        for _ in range(1200):  # a minute
            found = await hub.get("/topology")
            TopologyList.model_validate(found)
            if found["items"]:
                break
            await asyncio.sleep(0.05)
        assert [item["member"] for item in found["items"]] == ["cfa", "cfb"]
        assert all(item["trees"] == [] and item["outside"] for item in found["items"])
        one = await hub.get("/topology", member="cfb")
        assert [item["member"] for item in one["items"]] == ["cfb"]
        assert (await hub.get("/topology", member="none"))["items"] == []
        assert (await hub.refused("GET", "/topology", "alice-token"))["code"] == 403
        await hub.grant("alice", MEMBERS)
        assert (await hub.get("/topology", "alice-token"))["items"]


async def test_before_the_first_look_there_are_no_trees() -> None:
    async with rest(start=False) as hub:
        assert await hub.get("/topology") == {"at": None, "items": [], "left": 0}
