"""What a decision starts and what it leaves waiting: stories about quota, queues, members and room."""

from __future__ import annotations

import pytest

from fleet.check import check
from fleet.decide import decide
from fleet.model.reason import Code
from fleet.plan import Plan
from fleet.snapshot import Snapshot
from tests.core.builders import GPU, NOW, NodeClaim, Requirement, Taint, Toleration, member, snapshot, tree, unit


def plan_of(world: Snapshot) -> Plan:
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert check(world, plan, now=NOW) == ()
    return plan


def starts(world: Snapshot) -> dict[str, str]:
    return {placement.unit: placement.member for placement in plan_of(world).placements}


def reason(world: Snapshot, name: str) -> tuple[Code, str]:
    found = plan_of(world).reasons[name]
    return found.code, found.text


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


REASONS = {
    "quota": (
        snapshot(
            unit("r").gpus(6).queue("root/child-2").runs_in("x"),
            unit("a").gpus(3).queue("root/child-2"),
            member("x").nodes(9),
            tree(**{"child-2": {"max": {GPU: 8}}}),
        ),
        Code.QUOTA_EXHAUSTED,
        "quota root/child-2 is exhausted: nvidia.com/gpu requested 3, used 6, max 8; short by 1."
        " It waits for running jobs of that quota to finish.",
    ),
    "quota in memory, for people": (
        snapshot(
            unit("a").gang(1, memory=64).queue("root/ml"),
            unit("r").gang(1, memory=1536).queue("root/ml").runs_in("x"),
            member("x").nodes(9),
            tree(ml={"max": {"memory": 1588 << 30}}),
        ),
        Code.QUOTA_EXHAUSTED,
        "quota root/ml is exhausted: memory requested 64 GiB, used 1.5 TiB, max 1.55 TiB; short by 12 GiB."
        " It waits for running jobs of that quota to finish.",
    ),
    "more than quota ever allows": (
        snapshot(unit("a").gpus(4, pods=4).queue("root/ml"), member("x").nodes(9), tree(ml={"max": {GPU: 8}})),
        Code.QUOTA_EXHAUSTED,
        "it is larger than quota root/ml allows at all: nvidia.com/gpu requested 16, max 8."
        " It needs a smaller gang or a higher max.",
    ),
    "max-jobs": (
        snapshot(
            unit("r").queue("root/child-2").runs_in("x"),
            unit("a").queue("root/child-2"),
            member("x").nodes(9),
            tree(**{"child-2": {"jobs": 1}}),
        ),
        Code.MAX_JOBS,
        "root/child-2 already runs 1 of at most 1 jobs; starts when one finishes",
    ),
    "no leaf": (
        snapshot(unit("a").queue("root/gone"), member("x").nodes(1), tree(ml={})),
        Code.NO_LEAF,
        "root/gone is no leaf of the quota tree: ask an administrator to add it, or use another",
    ),
    "no tree": (
        snapshot(unit("a").queue("root/ml"), member("x").nodes(1)),
        Code.NO_LEAF,
        "there is no quota tree, and the job asks for queue root/ml: apply an ElasticQuotaTree",
    ),
    "an inner node is no queue": (
        snapshot(unit("a").queue("root/org"), member("x").nodes(1), tree(org__ml={})),
        Code.NO_LEAF,
        "root/org is no leaf of the quota tree: ask an administrator to add it, or use another",
    ),
    "closest member, in slots": (
        snapshot(
            unit("a").gpus(8, pods=3), member("cfa").nodes(1).nodes(4, free_gpu=6), member("cfb").nodes(9, free_gpu=7)
        ),
        Code.NO_MEMBER_FITS,
        "no member fits the whole gang of 3 pods; closest is cfa: short by 2 slots of 8 nvidia.com/gpu",
    ),
    "closest member, by CPU": (
        snapshot(unit("a").gang(2, gpu=1, cpu=8, memory=64), member("x").nodes(1, free_cpu=8).nodes(9, free_cpu=1)),
        Code.NO_MEMBER_FITS,
        "no member fits the whole gang of 2 pods; closest is x:"
        " short by 1 slot of 1 nvidia.com/gpu, 8 CPU, 64 GiB memory",
    ),
    "one pod": (
        snapshot(unit("a").gpus(8), member("x").nodes(3, free_gpu=1)),
        Code.NO_MEMBER_FITS,
        "no member fits the one pod; closest is x: short by 1 slot of 8 nvidia.com/gpu",
    ),
    "larger than everything": (
        snapshot(unit("a").gpus(8, pods=6), member("x").nodes(4), member("y").nodes(2)),
        Code.TOO_LARGE,
        "the gang of 6 pods is larger than any member that may take it, even an empty one;"
        " closest is x: short by 2 slots of 8 nvidia.com/gpu",
    ),
    "no members": (
        snapshot(unit("a")),
        Code.NO_MEMBERS,
        "no member cluster has joined yet; join one with `fleet join`",
    ),
    "no member allowed": (
        snapshot(unit("a").only_in("y"), member("x").nodes(1), member("z").nodes(1)),
        Code.NO_MEMBER_ALLOWED,
        "no member may take it: 2 members: not in the policy's cluster affinity",
    ),
    "the job failed in the only member": (
        snapshot(unit("a").having(excluded=frozenset({"x"})), member("x").nodes(1)),
        Code.NO_MEMBER_ALLOWED,
        "no member may take it: 1 member: the job failed there",
    ),
    "member not ready": (
        snapshot(unit("a"), member("x").nodes(1).not_ready("no answer for 40 s")),
        Code.MEMBER_NOT_READY,
        "no member that may take it is ready: x (no answer for 40 s)",
    ),
    "back-off": (
        snapshot(unit("a").having(backoff_until=NOW + 60, attempts=2), member("x").nodes(1)),
        Code.BACK_OFF,
        "backs off until 1970-01-12T13:47:40Z after 2 attempts",
    ),
    "held": (
        snapshot(unit("a").having(held=True), member("x").nodes(1)),
        Code.HELD,
        "held by a person; starts after it is released",
    ),
    "behind in a Block queue": (
        snapshot(
            unit("first").gpus(8).queue("root/ml").since(99),
            unit("a").queue("root/ml"),
            member("x").nodes(9),
            tree(ml={"max": {GPU: 4}, "policy": "Block"}),
        ),
        Code.BEHIND_IN_QUEUE,
        "number 2 in queue root/ml, which starts jobs strictly in order: waits for default/first (QuotaExhausted)",
    ),
    "others of this cycle took the room": (
        snapshot(unit("first").gpus(8).since(99), unit("a").gpus(8), member("x").nodes(1)),
        Code.LOST_TO_OTHERS,
        "the room it would fit into goes to jobs ahead of it; closest now is x: short by 1 slot of 8 nvidia.com/gpu",
    ),
    "no pods": (
        snapshot(unit("a").having(components=()), member("x").nodes(1)),
        Code.BAD_UNIT,
        "components: a gang needs at least one component",
    ),
    "replicas below zero": (
        snapshot(unit("a").gpus(1, pods=-2), member("x").nodes(1)),
        Code.BAD_UNIT,
        "components[0].replicas: -2 is below zero",
    ),
    "no nodes at all": (
        snapshot(unit("a"), member("x")),
        Code.NO_MEMBER_FITS,
        "no member fits the one pod; closest is x: short by 1 slot of 1 nvidia.com/gpu",
    ),
}


@pytest.mark.parametrize("story", REASONS)
def test_why_it_waits(story: str) -> None:
    world, code, text = REASONS[story]
    assert reason(world, "a") == (code, text)


def test_an_empty_fleet_decides_nothing() -> None:
    assert plan_of(Snapshot()).placements == ()


def test_the_plan_does_not_depend_on_the_order_in_which_the_snapshot_was_filled() -> None:
    parts = [unit(f"u{i}").gpus(1 + i % 4) for i in range(12)] + [member(name).nodes(1) for name in "abc"]
    assert plan_of(snapshot(*parts)) == plan_of(snapshot(*reversed(parts)))
