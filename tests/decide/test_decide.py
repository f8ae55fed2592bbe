"""What a decision starts: stories about quota, queues, members and room. (Why the others wait: test_why.py.)"""

from __future__ import annotations

import pytest

from fleet.check import check
from fleet.decide import decide
from fleet.model.plan import Plan
from fleet.snapshot import Snapshot
from tests.builders import GPU, NOW, NodeClaim, Requirement, Taint, Toleration, member, snapshot, tree, unit


def plan_of(world: Snapshot) -> Plan:
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert check(world, plan, now=NOW) == ()
    return plan


def starts(world: Snapshot) -> dict[str, str]:
    return {placement.unit: placement.member for placement in plan_of(world).placements}


STARTS = {
    "a gang goes whole to a member that has room for all of it": (
        snapshot(unit("a").gpus(8, pods=3), member("small").nodes(2), member("large").nodes(3)),
        {"a": "large"},
    ),
    "no room in one member is no reason to split a gang over two": (
        snapshot(unit("a").gpus(8, pods=3), member("x").nodes(2), member("y").nodes(2)),
        {},
    ),
    "a gang whose sum fits but whose pods do not fit the nodes is not sent there": (
        snapshot(unit("a").gpus(8, pods=2), member("x").nodes(4, free_gpu=4)),
        {},
    ),
    "GPUs on a node without CPU are no room": (
        snapshot(unit("a").gang(2, gpu=1, cpu=8), member("x").nodes(4, free_cpu=4), member("y").nodes(1)),
        {"a": "y"},
    ),
    "one-GPU gangs share a broken node before they break a whole one": (
        snapshot(unit("a"), unit("b"), unit("z").gpus(8), member("x").nodes(1).nodes(1, free_gpu=2)),
        {"a": "x", "b": "x", "z": "x"},
    ),
    "a small gang leaves the member with whole nodes to the large one": (
        snapshot(unit("a"), unit("b").gpus(8, pods=2), member("cheap").nodes(2), member("dear").nodes(1, free_gpu=4)),
        {"a": "dear", "b": "cheap"},
    ),
    "between equal members the cheaper one is taken": (
        snapshot(unit("a"), member("a-dear").nodes(1).having(price=9), member("cheap").nodes(1).having(price=2)),
        {"a": "cheap"},
    ),
    "higher priority starts first": (
        snapshot(unit("low").gpus(8), unit("high").gpus(8).priority(5).since(1), member("x").nodes(1)),
        {"high": "x"},
    ),
    "at equal priority the older starts first": (
        snapshot(unit("young").gpus(8).since(1), unit("old").gpus(8).since(99), member("x").nodes(1)),
        {"old": "x"},
    ),
    "max-jobs lets exactly so many start": (
        snapshot(unit("a").queue("root/ml"), unit("b").queue("root/ml"), member("x").nodes(9), tree(ml={"jobs": 1})),
        {"a": "x"},
    ),
    "a running job counts for max-jobs": (
        snapshot(
            unit("r").queue("root/ml").runs_in("x"),
            unit("b").queue("root/ml"),
            member("x").nodes(9),
            tree(ml={"jobs": 1}),
        ),
        {},
    ),
    "an evicting job still counts": (
        snapshot(
            unit("r").queue("root/ml").evicting_from("x"),
            unit("b").queue("root/ml"),
            member("x").nodes(9),
            tree(ml={"jobs": 1}),
        ),
        {},
    ),
    "max of an ancestor binds all leaves below it together": (
        snapshot(
            unit("a").gpus(4).queue("root/org/a"),
            unit("b").gpus(4).queue("root/org/b").since(1),
            member("x").nodes(9),
            tree(org={"max": {GPU: 6}}, org__a={}, org__b={}),
        ),
        {"a": "x"},
    ),
    "a smaller job behind one that quota refuses goes on in a Priority queue": (
        snapshot(
            unit("a").gpus(8).queue("root/ml").since(99),
            unit("b").queue("root/ml"),
            member("x").nodes(9),
            tree(ml={"max": {GPU: 4}}),
        ),
        {"b": "x"},
    ),
    "a Block queue stops at the first that cannot start": (
        snapshot(
            unit("a").gpus(8).queue("root/ml").since(99),
            unit("b").queue("root/ml"),
            unit("c").queue("root/other"),
            member("x").nodes(9),
            tree(ml={"max": {GPU: 4}, "policy": "Block"}, other={}),
        ),
        {"c": "x"},
    ),
    "an Intelligent queue stops at one of high priority that cannot start": (
        snapshot(
            unit("a").gpus(8).queue("root/ml").priority(4),
            unit("b").queue("root/ml").priority(3),
            unit("c").queue("root/other"),
            member("x").nodes(9),
            tree(ml={"max": {GPU: 4}, "policy": "Intelligent"}, other={}),
        ),
        {"c": "x"},
    ),
    "an Intelligent queue passes by one of low priority that cannot start": (
        snapshot(
            unit("top").queue("root/ml").priority(9),
            unit("a").gpus(8).queue("root/ml").priority(3),
            unit("b").queue("root/ml"),
            member("x").nodes(9),
            tree(ml={"max": {GPU: 4}, "policy": "Intelligent"}),
        ),
        {"top": "x", "b": "x"},
    ),
    "an Intelligent queue may say from which priority on it stops": (
        snapshot(
            unit("a").gpus(8).queue("root/ml").priority(90),
            unit("b").queue("root/ml").priority(80),
            member("x").nodes(9),
            tree(ml={"max": {GPU: 4}, "policy": "Intelligent", "threshold": 100}),
        ),
        {"b": "x"},
    ),
    "a Round queue is a Priority queue": (
        snapshot(
            unit("a").gpus(8).queue("root/ml").priority(9),
            unit("b").queue("root/ml"),
            member("x").nodes(9),
            tree(ml={"max": {GPU: 4}, "policy": "Round"}),
        ),
        {"b": "x"},
    ),
    "who is held or backs off does not stop a Block queue": (
        snapshot(
            unit("h").queue("root/ml").since(99).having(held=True),
            unit("w").queue("root/ml").since(98).having(backoff_until=NOW + 5),
            unit("b").queue("root/ml"),
            member("x").nodes(9),
            tree(ml={"policy": "Block"}),
        ),
        {"b": "x"},
    ),
    "memory limits above two gibibytes are limits": (
        snapshot(
            unit("a").gang(1, memory=5).queue("root/ml"),
            unit("b").gang(1, memory=5).queue("root/ml"),
            member("x").nodes(9),
            tree(ml={"max": {"memory": 9 << 30}}),
        ),
        {"a": "x"},
    ),
    "a resource that max does not name is unlimited": (
        snapshot(unit("a").gpus(8, pods=9).queue("root/ml"), member("x").nodes(9), tree(ml={"max": {"cpu": 0}})),
        {"a": "x"},
    ),
    "a unit outside quota starts although every queue is full": (
        snapshot(unit("r").queue("root/ml").runs_in("x"), unit("a"), member("x").nodes(9), tree(ml={"jobs": 1})),
        {"a": "x"},
    ),
    "room of pods that are coming but not seen yet is not given twice": (
        snapshot(unit("r").gpus(8, pods=2).runs_in("x", visible=1), unit("a").gpus(8), member("x").nodes(1)),
        {},
    ),
    "pods that the inventory shows are not subtracted again": (
        snapshot(unit("r").gpus(8, pods=2).runs_in("x"), unit("a").gpus(8), member("x").nodes(1)),
        {"a": "x"},
    ),
    "coming pods that fit nowhere make the freest nodes unusable": (
        snapshot(
            unit("r").gpus(8, pods=2).runs_in("x", visible=0), unit("a").gpus(4), member("x").nodes(2, free_gpu=4)
        ),
        {},
    ),
    "a lost member's jobs do not stop the others": (
        snapshot(unit("r").runs_in("gone"), unit("a"), member("x").nodes(1)),
        {"a": "x"},
    ),
    "affinity groups are tried in order": (
        snapshot(unit("a").only_in("y", "x"), member("x").nodes(1), member("y").nodes(1)),
        {"a": "y"},
    ),
    "the next affinity group is taken when the first has no room": (
        snapshot(unit("a").gpus(8, pods=2).only_in("y", "x"), member("x").nodes(2), member("y").nodes(1)),
        {"a": "x"},
    ),
    "policy weights come before fit and price": (
        snapshot(
            unit("a").having(preferences=(("x", 1), ("y", 3))), member("x").nodes(1, free_gpu=1), member("y").nodes(1)
        ),
        {"a": "y"},
    ),
    "a member to avoid is taken only when no other will do": (
        snapshot(unit("a").having(avoid=frozenset({"x"})), member("x").nodes(1), member("y").nodes(1)),
        {"a": "y"},
    ),
    "a member to avoid is taken when no other will do": (
        snapshot(unit("a").having(avoid=frozenset({"x"})), member("x").nodes(1)),
        {"a": "x"},
    ),
    "a tainted member takes only who tolerates it": (
        snapshot(
            unit("a"),
            unit("b").having(tolerations=(Toleration("gpu", "Exists"),)),
            member("x").nodes(1).having(taints=(Taint("gpu", "only"),)),
        ),
        {"b": "x"},
    ),
    "a kind that the member does not serve is not sent there": (
        snapshot(
            unit("a").having(needs_kind="kubeflow.org/TFJob"),
            member("x").nodes(9).having(kinds=frozenset({"batch/Job"})),
            member("y").nodes(1),
        ),
        {"a": "y"},
    ),
    "a node selector finds its pool": (
        snapshot(
            unit("a").gang(1, gpu=1, claim=NodeClaim(node_selector=(("model", "A100"),))),
            member("x").nodes(9, labels={"model": "T4"}),
            member("y").nodes(1, labels={"model": "A100"}),
        ),
        {"a": "y"},
    ),
    "master and workers may lie in different pools of one member": (
        snapshot(
            unit("a")
            .gang(2, gpu=8, claim=NodeClaim(node_selector=(("model", "A100"),)))
            .gang(1, cpu=64, claim=NodeClaim(node_selector=(("model", "none"),))),
            member("x").nodes(2, labels={"model": "A100"}, cpu=8).nodes(1, gpu=0, labels={"model": "none"}),
        ),
        {"a": "x"},
    ),
    "required affinity is alternatives of terms": (
        snapshot(
            unit("a").gang(
                1,
                gpu=1,
                claim=NodeClaim(
                    affinity=(
                        (Requirement("gen", "Gt", ("7",)),),
                        (Requirement("model", "In", ("H800",)), Requirement("old", "DoesNotExist")),
                    )
                ),
            ),
            member("x").nodes(1, labels={"gen": "7", "model": "H800", "old": "yes"}),
            member("y").nodes(1, labels={"gen": "8"}),
        ),
        {"a": "y"},
    ),
    "tainted nodes take only pods that tolerate them": (
        snapshot(
            unit("a"),
            unit("b").gang(1, gpu=1, claim=NodeClaim(tolerations=(Toleration("k", "Equal", "v"),))),
            member("x").nodes(1, taints=(Taint("k", "v", "NoExecute"),)),
        ),
        {"b": "x"},
    ),
    "PreferNoSchedule keeps nobody out": (
        snapshot(unit("a"), member("x").nodes(1, taints=(Taint("k", "v", "PreferNoSchedule"),))),
        {"a": "x"},
    ),
    "a node with less than nothing free takes nothing, and the others go on": (
        snapshot(unit("a").gang(1, cpu=1), member("x").nodes(1, free_cpu=-3), member("y").nodes(1)),
        {"a": "y"},
    ),
    "a clock that went backwards changes nothing": (
        snapshot(unit("a").since(-5000), member("x").nodes(1)),
        {"a": "x"},
    ),
}


@pytest.mark.parametrize("story", STARTS)
def test_what_starts(story: str) -> None:
    world, expected = STARTS[story]
    assert starts(world) == expected


def test_an_empty_fleet_decides_nothing() -> None:
    assert plan_of(Snapshot()).placements == ()


def test_the_plan_does_not_depend_on_the_order_in_which_the_snapshot_was_filled() -> None:
    parts = [unit(f"u{i}").gpus(1 + i % 4) for i in range(12)] + [member(name).nodes(1) for name in "abc"]
    assert plan_of(snapshot(*parts)) == plan_of(snapshot(*reversed(parts)))
