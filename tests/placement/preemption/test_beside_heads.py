"""Who takes back beside a head that may not: what suffices for both leaves, and the head keeps its moment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.check import check
from fleet.check.violation import Rule
from fleet.decide import decide
from fleet.model.plan import Eviction, Plan
from fleet.model.unit import Nomination
from fleet.placement.preemption.rights import POLICY
from fleet.quota.tree import QuotaTree
from fleet.snapshot import Config, Snapshot
from tests.builders import GPU, NOW, member, snapshot, tree, unit
from tests.placement.reservation.streams import CYCLE_S, Small, Stream
from tests.placement.reservation.test_heads import Part, gang, runs, small

LONG = NOW - 5000
NEVER = {POLICY: "Never"}


def quota(most: int = 16, **mins: int) -> QuotaTree:
    """Leaves with these mins, `a` of which evicts nobody, and `c`, which is promised nothing; at most so many GPUs."""
    leaves = {name: {"min": {GPU: amount}} for name, amount in mins.items() if name != "a"}
    made = tree(a={"min": {GPU: mins["a"]}, "attributes": NEVER}, c={}, **leaves)
    return QuotaTree("root", {**made.nodes, "root": replace(made.nodes["root"], max={GPU: most})})


def world(*parts: Part) -> Snapshot:
    return snapshot(*parts, Config(reclaim=True))


def decided(made: Snapshot) -> Plan:
    plan = decide(made, now=NOW, seed=1, solver=None)
    assert check(made, plan, now=NOW) == ()
    assert "checker" not in plan.certificate.why
    return plan


def evicted(plan: Plan) -> set[tuple[str, str]]:
    return {(e.unit, e.preemptor) for e in plan.evictions}


ENDS = runs("ends", 8, "n", 0, leaf="root/c", left_s=600, since=LONG)
STAYS = runs("stays", 8, "m", 0, leaf="root/c", since=LONG - 1000, where="y")
ROOM: list[Part] = [member("x").nodes(1, free_gpu=0).nodes(2), member("y").nodes(1, free_gpu=0).nodes(2)]


CORRUPTIONS = {
    "takes what the head waits for": (Rule.HEAD_QUOTA, ["ends"], 16),
    "takes more than both need": (Rule.EVICTS_NEEDLESSLY, ["ends", "stays"], 16),
    "takes what it has without": (Rule.EVICTS_NEEDLESSLY, ["stays"], 24),
}


@pytest.mark.parametrize("story", CORRUPTIONS)
def test_the_checker_counts_what_suffices_for_both(story: str) -> None:
    rule, victims, most = CORRUPTIONS[story]
    made = world(gang("g", 8), small("u", 8, "root/b"), ENDS, STAYS, *ROOM, quota(most, a=8, b=8))
    sound = decided(world(gang("g", 8), small("u", 8, "root/b"), ENDS, STAYS, *ROOM, quota(a=8, b=8)))
    where = {"ends": "x", "stays": "y"}
    plan = replace(
        sound,
        evictions=tuple(Eviction(name, where[name], "u") for name in victims),
        claims=tuple(replace(claim, member="y") for claim in sound.claims),
    )
    assert {violation.rule for violation in check(made, plan, now=NOW)} == {rule}


def kept(*parts: Part, free: int = 4) -> Snapshot:
    """A head in x passes nobody who is guaranteed: for those four GPUs are kept in y, where others borrow."""
    head = gang("g", 8, 2).only_in("x").having(head=Nomination("x", NOW - 60, NOW + 600, True))
    there = [runs("r", 4, "n", 4, left_s=600), runs("f", 4, "m", 4, leaf="root/c", left_s=600)]
    borrow = [runs(f"b{i}", 8, f"b{i}", 0, leaf="root/d", where="y", pool=1, since=LONG + i) for i in range(3)]
    nodes = member("x").nodes(2, free_gpu=4), member("y").nodes(1, free_gpu=free).nodes(3, free_gpu=0)
    return world(head, *there, *borrow, *parts, *nodes, tree(a={}, b={}, c={"min": {GPU: 8}}, d={}))


def test_who_is_within_its_share_takes_back_beside_room_that_is_kept() -> None:
    plan = decided(kept(small("u", 8).only_in("y")))
    assert evicted(plan) == {("b2", "u")} and [claim.member for claim in plan.claims] == ["y"]


def test_nobody_leaves_so_that_room_stays_kept() -> None:
    """It would have room where room is kept."""
    plan = decided(kept(small("u", 4).only_in("y")))
    assert plan.placements == () and plan.evictions == () and plan.claims == ()


def test_a_leaf_gets_its_min_at_once_while_a_head_that_may_not_take_back_waits_and_starts_in_time() -> None:
    """Of what borrows some says when it ends, and some runs on for up to 50 minutes; nobody leaves twice."""
    made = quota(24, a=16, b=8)
    tree_ = QuotaTree("root", {**made.nodes, "root/d": replace(made.nodes["root/c"], path="root/d", name="d")})
    root = replace(tree_.nodes["root"], children=(*tree_.nodes["root"].children, "root/d"))
    soon = Small("root/c", (2, 4), runs_s=(1500.0, 2400.0))
    late = Small("root/d", (2,), runs_s=(2400.0, 3000.0), says=False, waiting=4)
    config = Config(reclaim=True, protection_s=120.0)
    stream = Stream({"x": 3, "y": 3}, QuotaTree("root", {**tree_.nodes, "root": root}), config, [soon, late])
    for _ in range(14):
        stream.cycle()
    stream.submit(unit("head").gpus(7, pods=2).queue("root/a").value, 600.0)
    for _ in range(12):
        stream.cycle()
    assert [head.unit for head in stream.plan.heads][:1] == ["head"]
    for name in ("u", "v"):
        stream.submit(unit(name).gpus(4).queue("root/b").value, 9000.0)
    came, left = stream.now, list[str]()
    while "head" not in stream.started and stream.now < came + 3600.0:
        stream.cycle()
        left += [eviction.unit for eviction in stream.plan.evictions]
    assert max(stream.started[name] - came for name in ("u", "v")) <= 2 * CYCLE_S
    assert "head" in stream.started and len(left) == len(set(left)) <= 3
