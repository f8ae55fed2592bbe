"""Where gangs go: one table of stories. Each has a small world and says who starts where, and who waits for what."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.check import Rule, check
from fleet.decide import decide
from fleet.model.plan import Placement, Plan
from fleet.model.reason import Code
from fleet.model.unit import Component, Phase
from fleet.snapshot import Snapshot
from fleet.solver.cpsat import CpSat
from tests.builders import (
    GPU,
    NOW,
    MemberBuilder,
    NodeClaim,
    Requirement,
    Taint,
    Toleration,
    UnitBuilder,
    amounts,
    member,
    snapshot,
    tree,
    unit,
)  # fmt: skip

RACK = "topology.kubernetes.io/rack"


def model(name: str) -> dict[str, str]:
    return {"gpu.model": name}


def rack(name: str, **others: str) -> dict[str, str]:
    return {RACK: name, **others}


def wants(*models: str) -> NodeClaim:
    return NodeClaim(affinity=((Requirement("gpu.model", "In", models),),))


H800 = NodeClaim(node_selector=(("gpu.model", "H800"),))
TOLERANT = NodeClaim(tolerations=(Toleration("gpu", "Exists"),))


def asks(made: UnitBuilder, pods: int, **requests: int) -> UnitBuilder:
    """One component that asks for exactly these amounts."""
    part = Component("worker", pods, amounts(pods=1, **requests))
    return made.having(components=(part,))


def racks(name: str, *free: int, nodes: int = 2) -> MemberBuilder:
    """A rack of `nodes` nodes for each number of GPUs that are free on each of them."""
    made = member(name)
    for number, gpus in enumerate(free):
        made = made.nodes(nodes, free_gpu=gpus, labels=rack(f"r{number}"))
    return made


Story = tuple[str, tuple[Any, ...], dict[str, str | Code]]
STORIES: list[Story] = [
    (
        "a selector of a GPU model finds the member that has it",
        (unit("a").gang(1, gpu=8, claim=H800), member("x").nodes(9, labels=model("A100")),
         member("y").nodes(1, labels=model("H800"))),
        {"a": "y"},
    ),
    (
        "a required affinity with several models takes any of them, and no other",
        (unit("a").gang(2, gpu=8, claim=wants("H800", "H20")), unit("b").gang(1, gpu=8, claim=wants("L4")),
         member("x").nodes(2, labels=model("A100")),
         member("y").nodes(1, labels=model("H800")).nodes(1, labels=model("H20"))),
        {"a": "y", "b": Code.NO_NODE_MATCHES},
    ),
    (
        "two components with different models lie in one member that has both",
        (unit("a").gang(1, gpu=1, claim=wants("L4")).gang(2, gpu=8, claim=H800),
         member("x").nodes(4, labels=model("H800")),
         member("y").nodes(2, labels=model("H800")).nodes(1, labels=model("L4"))),
        {"a": "y"},
    ),
    (
        "a gang without a claim leaves no room out of account, whatever the labels",
        (unit("a").gpus(8, pods=2), member("x").nodes(1, labels=model("A")).nodes(1, labels=model("B"))),
        {"a": "x"},
    ),
    (
        "tainted nodes are for those who tolerate it",
        (unit("shy").gpus(8), unit("bold").gang(1, gpu=8, claim=TOLERANT),
         member("x").nodes(1, taints=(Taint("gpu", "yes"),))),
        {"bold": "x", "shy": Code.NO_NODE_MATCHES},
    ),
    (
        "a taint that only asks for preference keeps nobody out",
        (unit("a").gpus(8), member("x").nodes(1, taints=(Taint("gpu", "", "PreferNoSchedule"),))),
        {"a": "x"},
    ),
    (
        "an extended resource counts like GPUs",
        (asks(unit("a"), 2, gpu=1, **{"rdma/hca": 4}), asks(unit("b").since(1), 1, gpu=1, **{"rdma/hca": 4}),
         member("x").having(pools=(replace(
             member("").nodes(2).value.pools[0],
             free=((amounts(gpu=8, cpu=96, memory=768, pods=110, **{"rdma/hca": 4}), 2),),
             allocatable=amounts(gpu=8, cpu=96, memory=768, pods=110, **{"rdma/hca": 4})),))),
        {"a": "x", "b": Code.LOST_TO_OTHERS},
    ),
    (
        "CPU and memory beside GPUs are counted on each node",
        (unit("a").gang(2, gpu=1, cpu=90), unit("b").since(1).gang(1, gpu=1, memory=700, cpu=10), member("x").nodes(2)),
        {"a": "x", "b": Code.LOST_TO_OTHERS},
    ),
    (
        "a gang of CPUs only goes where it leaves GPU nodes alone",
        (asks(unit("a"), 4, cpu=20), member("gpus").nodes(1), member("cpus").nodes(1, gpu=0)),
        {"a": "cpus"},
    ),
    (
        "of nodes with and without GPUs in one member a CPU-only component takes those without",
        (unit("a").gang(4, cpu=20).having(components=(Component("worker", 4, amounts(cpu=20, pods=1)),)),
         unit("b").gang(1, gpu=8, cpu=90).since(1), member("x").nodes(1).nodes(1, gpu=0)),
        {"a": "x", "b": "x"},
    ),
    (
        "the pods that a node may have are counted",
        (asks(unit("a"), 3, cpu=1), member("x").having(pools=(replace(
            member("").nodes(1).value.pools[0], free=((amounts(cpu=96, pods=2), 1),),
            allocatable=amounts(cpu=96, pods=2)),))),
        {"a": Code.TOO_LARGE},
    ),
    (
        "the first affinity group that has room takes it, though the second fits better",
        (unit("a").gpus(4).only_in("big", "small"), member("big").nodes(2),
         member("small").nodes(1, gpu=8, free_gpu=4)),
        {"a": "big"},
    ),
    (
        "a later affinity group is tried when the first has no room",
        (unit("a").gpus(8).only_in("x", ("y", "z")), member("x").nodes(1, free_gpu=4), member("y").nodes(1),
         member("z").nodes(0)),
        {"a": "y"},
    ),
    (
        "a member where it failed is out of the question, one to avoid comes last",
        (unit("a").gpus(8).having(excluded=frozenset({"x"}), avoid=frozenset({"y"})), member("x").nodes(1),
         member("y").nodes(1), member("z").nodes(1)),
        {"a": "z"},
    ),
    (
        "a member to avoid is better than none",
        (unit("a").gpus(8).having(avoid=frozenset({"y"})), member("y").nodes(1)),
        {"a": "y"},
    ),
    (
        "weights come before price and before fit",
        (unit("a").gpus(4).having(preferences=(("dear", 5), ("cheap", 1))), member("dear").nodes(1).having(price=9),
         member("cheap").nodes(1, free_gpu=4).having(price=1)),
        {"a": "dear"},
    ),
    (
        "fit comes before price",
        (unit("a").gpus(4), member("whole").nodes(1).having(price=1),
         member("half").nodes(1, free_gpu=4).having(price=9)),
        {"a": "half"},
    ),
    (
        "the cheaper of two that fit alike takes it",
        (unit("a").gpus(4), member("dear").nodes(1).having(price=9), member("now").nodes(1).having(price=3)),
        {"a": "now"},
    ),
    (
        "at equal price and fit the name decides",
        (unit("a").gpus(4), member("y").nodes(1), member("x").nodes(1)),
        {"a": "x"},
    ),
    (
        "pods of 3, 5, 6 and 7 GPUs fill nodes exactly",
        (unit("a").gpus(5, pods=1).gang(3, gpu=3), member("x").nodes(1, free_gpu=6).nodes(1)),
        {"a": "x"},
    ),
    (
        "a gang that must lie in one rack does, though the member has room for it only across two",
        (unit("a").gpus(8, pods=3).within(RACK), unit("b").gpus(8, pods=2).within(RACK), racks("x", 8, 8)),
        {"a": Code.TOO_LARGE, "b": "x"},
    ),
    (
        "of several racks the fullest one that takes the gang",
        (unit("a").gpus(4, pods=2).within(RACK), unit("b").gpus(8, pods=2).within(RACK).since(1), racks("x", 8, 4)),
        {"a": "x", "b": "x"},
    ),
    (
        "a gang waits while every rack is short, and goes to the member whose rack is not",
        (unit("a").gpus(8, pods=2).within(RACK), unit("b").gpus(8, pods=2).within(RACK).only_in("x"),
         racks("x", 8, 8, nodes=1).nodes(1, free_gpu=0, labels=rack("r0")), racks("y", 8)),
        {"a": "y", "b": Code.NO_MEMBER_FITS},
    ),
    (
        "nodes without the label are in no rack",
        (unit("a").gpus(8, pods=2).within(RACK), unit("b").gpus(8, pods=2), member("x").nodes(2)),
        {"a": Code.NO_NODE_MATCHES, "b": "x"},
    ),
    (
        "a rack's GPU model counts for each component",
        (unit("a").gang(1, gpu=8, claim=H800).gang(1, gpu=8, claim=wants("A100")).within(RACK),
         member("x").nodes(2, labels=rack("r0", **model("H800"))).nodes(2, labels=rack("r1", **model("A100"))),
         member("y").nodes(1, labels=rack("r0", **model("H800"))).nodes(1, labels=rack("r0", **model("A100")))),
        {"a": "y"},
    ),
    (
        "a gang may be bound to one node",
        (asks(unit("a"), 2, gpu=4).within("kubernetes.io/hostname"),
         member("x").nodes(1, free_gpu=4, labels={"kubernetes.io/hostname": "n1"}).nodes(
             1, free_gpu=4, labels={"kubernetes.io/hostname": "n2"}),
         member("y").nodes(1, labels={"kubernetes.io/hostname": "n1"})),
        {"a": "y"},
    ),
    (
        "nodes that could be added are the last choice, in whatever group",
        (unit("a").gpus(8).only_in("x", "y"), unit("b").gpus(8).only_in("x").since(1),
         member("x").could_add(1), member("y").nodes(1)),
        {"a": "y", "b": "x"},
    ),
    (
        "pods without devices leave the room beside free devices to who needs both",
        (unit("prep").gang(2, cpu=96), unit("huge").gpus(9), member("a").nodes(2), member("b").nodes(2, gpu=0)),
        {"prep": "b", "huge": Code.LARGER_THAN_ANY_NODE},
    ),
    (
        "and take it where there is no other, or where all devices are in use",
        (unit("prep").gang(2, cpu=48), unit("next").gang(1, cpu=96).since(1), unit("huge").gpus(9).since(1),
         member("a").nodes(2, free_gpu=0), member("b").nodes(1)),
        {"prep": "a", "next": "a", "huge": Code.LARGER_THAN_ANY_NODE},
    ),
    (
        "a gang takes what is there and counts on the rest being added",
        (unit("a").gpus(8, pods=3), unit("b").gpus(8).since(1), member("x").nodes(1).could_add(2)),
        {"a": "x", "b": Code.LOST_TO_OTHERS},
    ),
    (
        "where fewest nodes must be added",
        (unit("a").gpus(8, pods=3), member("x").nodes(1).could_add(9), member("y").nodes(2).could_add(9)),
        {"a": "y"},
    ),
    (
        "what will never be added is never waited for",
        (unit("a").gpus(8, pods=3), member("x").nodes(1).could_add(1)),
        {"a": Code.TOO_LARGE},
    ),
    (
        "a promise counts on nodes that could be added, also for work that may not be preempted",
        (unit("firm").gpus(8).queue("root/ml").having(preemptible=False), member("x").could_add(1),
         tree(ml={"min": {GPU: 8}})),
        {"firm": "x"},
    ),
    (
        "added nodes have labels and racks, too",
        (unit("a").gang(2, gpu=8, claim=H800).within(RACK), unit("b").gang(1, gpu=8, claim=wants("A100")).within(RACK),
         member("x").nodes(1, labels=rack("r0", **model("H800"))).could_add(1, labels=rack("r0", **model("H800"))),
         member("y").could_add(4, labels=model("A100"))),
        {"a": "x", "b": Code.NO_NODE_MATCHES},
    ),
    (
        "a gang that waits for nodes to be added keeps their room",
        (unit("on-its-way").gpus(8, pods=2).runs_in("x", visible=0), unit("b").gpus(8), member("x").could_add(2)),
        {"b": Code.NO_MEMBER_FITS},
    ),
    (
        "a rack that a gang is on its way to is taken",
        (unit("on-its-way").gpus(8, pods=2).within(RACK).runs_in("x", visible=0),
         unit("b").gpus(8, pods=2).within(RACK), unit("c").gpus(8, pods=2).within(RACK).since(1), racks("x", 8, 8)),
        {"b": "x", "c": Code.LOST_TO_OTHERS},
    ),
]  # fmt: skip


def started(world: Snapshot, plan: Plan) -> dict[str, str | Code]:
    found: dict[str, str | Code] = {placement.unit: placement.member for placement in plan.placements}
    return found | {key: reason.code for key, reason in plan.reasons.items()}


@pytest.mark.parametrize("solver", [None, CpSat()], ids=["greedy", "cp-sat"])
@pytest.mark.parametrize(("parts", "expected"), [story[1:] for story in STORIES], ids=[story[0] for story in STORIES])
def test_where_gangs_go(parts: tuple[Any, ...], expected: dict[str, str | Code], solver: CpSat | None) -> None:
    world = snapshot(*parts)
    plan = decide(world, now=NOW, seed=1, solver=solver)
    assert started(world, plan) == expected
    assert not check(world, plan, now=NOW)


def test_a_gang_that_no_rack_takes_is_told_which_label_binds_it() -> None:
    world = snapshot(unit("a").gpus(8, pods=3).within(RACK), racks("x", 8, 8))
    text = decide(world, now=NOW, seed=1, solver=None).reasons["a"].text
    assert f"Closest is x: 1 pod finds no node with 8 nvidia.com/gpu within one {RACK}" in text


@pytest.mark.parametrize(("parts", "expected"), [story[1:] for story in STORIES], ids=[story[0] for story in STORIES])
def test_nothing_moves_when_the_same_is_decided_again(parts: tuple[Any, ...], expected: dict[str, str | Code]) -> None:
    world = snapshot(*parts)
    plan = decide(world, now=NOW, seed=1, solver=None)
    units = dict(world.units)
    for placement in plan.placements:
        seen = tuple((c.name, 0) for c in units[placement.unit].components)
        units[placement.unit] = replace(
            units[placement.unit], phase=Phase.PLACED, member=placement.member, placed_at=NOW, visible=seen
        )
    again = decide(replace(world, units=units), now=NOW, seed=1, solver=None)
    assert not again.placements


@pytest.mark.parametrize(
    ("parts", "moved"),
    [
        ((unit("a").gpus(8, pods=3).within(RACK), racks("x", 8, 8)), ("a", "x")),
        ((unit("a").gpus(8, pods=2).within(RACK), member("x").nodes(9)), ("a", "x")),
        ((unit("a").gpus(8, pods=3), member("x").nodes(1).could_add(1)), ("a", "x")),
        ((unit("a").gang(1, gpu=5).gang(3, gpu=3), member("x").nodes(1, free_gpu=5).nodes(1)), ("a", "x")),
    ],
    ids=["across two racks", "in no rack", "on more nodes than could be added", "on nodes that are too full"],
)
def test_the_checker_refuses_room_that_is_not_there(parts: tuple[Any, ...], moved: tuple[str, str]) -> None:
    world = snapshot(*parts)
    plan = Plan((Placement(*moved),), {})
    assert [violation.rule for violation in check(world, plan, now=NOW)] == [Rule.ROOM]
