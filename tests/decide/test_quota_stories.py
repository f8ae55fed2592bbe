"""Quota and queues as stories: a world, and who starts. Each holds without a solver and with one."""

from __future__ import annotations

import pytest

from fleet.check import check
from fleet.decide import decide
from fleet.model.member import Pool
from fleet.model.reason import Code
from fleet.model.unit import Component, Unit
from fleet.placement.linked.linked import AGES_S, age_bucket, weight
from fleet.placement.packing.space import Space
from fleet.placement.problem import Solver
from fleet.quota.guarantee import LEND_LIMIT
from fleet.snapshot import Snapshot
from fleet.solver.cpsat import CpSat
from tests.builders import GPU, NOW, UnitBuilder, amounts, member, snapshot, tree, unit

FPGA = "vendor.example/fpga"
ROOMY = member("x").nodes(8)


def fpgas(name: str, count: int) -> UnitBuilder:
    return unit(name).having(components=(Component("worker", 1, amounts(pods=1, **{FPGA: count})),))


def with_fpgas() -> Snapshot:
    node = amounts(cpu=9, pods=9, **{FPGA: 8})
    return snapshot(
        fpgas("a", 3).queue("root/ml").since(99),
        fpgas("b", 2).queue("root/ml"),
        member("x").having(pools=(Pool((), (), "", ((node, 1),), node),)),
        tree(ml={"max": {FPGA: 4}}),
    )


SHRUNK = "a max of nothing lets nothing start, and one that was shrunk below what runs lets nothing new start"
STORIES: dict[str, tuple[Snapshot, set[str]]] = {
    "a leaf borrows above its min up to its max, and no further": (
        snapshot(
            unit("a").gpus(4).queue("root/ml").since(99),
            unit("b").gpus(4).queue("root/ml").since(98),
            unit("c").gpus(4).queue("root/ml").since(97),
            tree(ml={"min": {GPU: 4}, "max": {GPU: 8}}, idle={"min": {GPU: 8}}),
            ROOMY,
        ),
        {"a", "b"},
    ),
    "a leaf without min borrows all that idles": (
        snapshot(
            *(unit(name).gpus(8).queue("root/ml") for name in "abcdefgh"),
            tree(ml={}, idle={"min": {GPU: 32}}),
            ROOMY,
        ),
        set("abcdefgh"),
    ),
    "what a leaf does not lend is borrowed by nobody": (
        snapshot(
            *(unit(name).gpus(8).queue("root/org/ml") for name in "abcd"),
            tree(
                org={"max": {GPU: 32}},
                org__ml={},
                org__idle={"min": {GPU: 16}, "attributes": {LEND_LIMIT: '{"nvidia.com/gpu": 8}'}},
            ),
            ROOMY,
        ),
        {"a", "b", "c"},
    ),
    "any resource name is limited": (with_fpgas(), {"a"}),
    "limits far above 32 bits are exact": (
        snapshot(
            *(unit(name).gang(1, memory=512).queue("root/ml") for name in "abcde"),
            tree(ml={"max": {"memory": 4 * (512 << 30) + (512 << 30) - 1}}),
            ROOMY,
        ),
        set("abcd"),
    ),
    "an ancestor's max binds although every leaf's is unlimited": (
        snapshot(
            unit("a").gpus(8).queue("root/org/a").since(99),
            unit("b").gpus(8).queue("root/org/b"),
            unit("c").gpus(8).queue("root/c"),
            tree(org={"max": {GPU: 8}}, org__a={}, org__b={}, c={}),
            ROOMY,
        ),
        {"a", "c"},
    ),
    SHRUNK: (
        snapshot(
            unit("r").gpus(8).queue("root/shrunk").runs_in("x"),
            unit("a").queue("root/shrunk"),
            unit("b").queue("root/none"),
            unit("c").gang(1, cpu=1).queue("root/shrunk"),
            tree(shrunk={"max": {GPU: 4}}, none={"max": {GPU: 0}}),
            ROOMY,
        ),
        {"c"},  # it asks for nothing of what is above its max
    ),
    "between equals the older starts first, between equally old ones the first by name": (
        snapshot(
            unit("c").queue("root/ml").since(60),
            unit("b").queue("root/ml").since(60),
            unit("z").queue("root/ml").since(61),
            tree(ml={"jobs": 2}),
            ROOMY,
        ),
        {"z", "b"},
    ),
    "priority comes before age": (
        snapshot(
            unit("old").queue("root/ml").since(500),
            unit("urgent").queue("root/ml").priority(1).since(1),
            tree(ml={"jobs": 1}),
            ROOMY,
        ),
        {"urgent"},
    ),
    "work that may not be preempted waits for min although max has room, and lets others pass": (
        snapshot(
            unit("firm").gpus(4).queue("root/ml").having(preemptible=False).since(99),
            unit("soft").gpus(4).queue("root/ml"),
            tree(ml={"min": {GPU: 2}, "max": {GPU: 8}}),
            ROOMY,
        ),
        {"soft"},
    ),
    "work that may not be preempted is bound by min along the whole line": (
        snapshot(
            unit("r").gpus(4).queue("root/org/a").having(preemptible=False).runs_in("x"),
            unit("firm").gpus(4).queue("root/org/b").having(preemptible=False),
            tree(org={"min": {GPU: 6}}, org__a={"min": {GPU: 2}}, org__b={"min": {GPU: 4}}),
            ROOMY,
        ),
        set(),
    ),
    "the head of an Intelligent queue that backs off or is held stops nobody": (
        snapshot(
            unit("h").queue("root/ml").priority(9).having(held=True),
            unit("w").queue("root/ml").priority(8).having(backoff_until=NOW + 5),
            unit("b").queue("root/ml"),
            tree(ml={"policy": "Intelligent"}),
            ROOMY,
        ),
        {"b"},
    ),
}


@pytest.mark.parametrize("solver", [None, CpSat()], ids=["greedy", "cp-sat"])
@pytest.mark.parametrize("story", STORIES)
def test_stories(story: str, solver: Solver | None) -> None:
    world, start = STORIES[story]
    plan = decide(world, now=NOW, seed=1, solver=solver)
    assert {placement.unit for placement in plan.placements} == start
    assert check(world, plan, now=NOW) == ()


def test_a_shrunk_max_says_what_runs_and_what_is_allowed() -> None:
    world, _ = STORIES[SHRUNK]
    reason = decide(world, now=NOW, seed=1, solver=None).reasons["a"]
    assert reason.code is Code.QUOTA_EXHAUSTED
    assert "requested 1, used 8, max 4; 5 more needed" in reason.text


def test_a_gang_is_worth_more_in_each_age_bucket_and_the_same_within_one() -> None:
    components = unit("a").gpus(8).value.components
    space = Space([components])
    shape = space.shapes[space.number(components)]

    def worth(waited: float) -> int:
        aged: Unit = unit("a").gpus(8).since(waited).value
        return weight(shape, age_bucket(aged, NOW), space)

    edges = [0.0, *AGES_S]
    assert sorted({worth(edge) for edge in edges}) == [worth(edge) for edge in edges]
    assert len({worth(edge) for edge in edges}) == len(edges)
    assert all(worth(edge) == worth(edge + 1) for edge in edges)
    assert len(edges) <= 4
    assert worth(-100.0) == worth(0.0)
