"""A unit takes back beside a head that may not: victims for both leave, and the head keeps its moment."""

from __future__ import annotations

from dataclasses import replace

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.model.plan import Plan
from fleet.core.model.reason import Code
from fleet.core.model.unit import Claim, Nomination, Phase, Unit
from fleet.core.placement.preemption.state import POLICY
from fleet.core.placement.reservation.heads import nominated
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config, Snapshot
from tests.builders import GPU, NOW, member, snapshot, tree
from tests.core.placement.reservation.heads import Part, gang, heads, runs, small

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


def claimed(made: Snapshot, plan: Plan) -> tuple[Unit, ...]:
    """The units that claim room, and the heads, once the plan is carried out."""
    units = {unit.id: unit for unit in nominated(made.units, plan)}
    for claim in plan.claims:
        unit = units.get(claim.unit, made.units[claim.unit])
        units[claim.unit] = replace(unit, claim=Claim(claim.member, claim.until))
    return tuple(units.values())


def evicted(plan: Plan) -> set[tuple[str, str]]:
    return {(e.unit, e.preemptor) for e in plan.evictions}


ENDS = runs("ends", 8, "n", 0, leaf="root/c", left_s=600, since=LONG)
STAYS = runs("stays", 8, "m", 0, leaf="root/c", since=LONG - 1000, where="y")
ROOM: list[Part] = [member("x").nodes(1, free_gpu=0).nodes(2), member("y").nodes(1, free_gpu=0).nodes(2)]


def fours(*rest: Part) -> Snapshot:
    """The head needs twelve GPUs of sixteen, when four of eight have ended; the others have the min for four."""
    ends = runs("ends", 4, "n", 4, leaf="root/c", left_s=600, since=LONG)
    stays = runs("stays", 4, "m", 4, leaf="root/c", since=LONG, where="y")
    room = member("x").nodes(1, free_gpu=4).nodes(3), member("y").nodes(1, free_gpu=4).nodes(2)
    return world(gang("g", 6, 2), ends, stays, *room, *rest)


def test_nobody_leaves_for_a_claim_that_a_head_would_pay_for() -> None:
    """The head waits for the only unit that could leave: its room would not do for both."""
    firm = STAYS.having(preemptible=False)
    plan = decided(world(gang("g", 8), small("u", 8, "root/b"), ENDS, firm, *ROOM, quota(a=8, b=8)))
    assert plan.evictions == () and heads(plan) == {"g": ("x", 600.0, True)}


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


def test_planner_and_checker_agree_on_what_a_head_waits_for_that_waits_for_all_that_is_there() -> None:
    """It waits for the one that starts in claimed room, too; so its quota suffices beside who claims now."""
    claims = small("k", 3, "root/c").having(claim=Claim("y", NOW + 300))
    leaves = runs("gone", 3, "m", 3, leaf="root/c", where="y", since=LONG)
    leaves = leaves.having(phase=Phase.EVICTING, leaving_at=NOW - 10)
    stays = runs("stays", 8, "n", 0, leaf="root/c", since=LONG)
    nodes = member("x").nodes(1, free_gpu=0), member("y").nodes(1, gpu=6, free_gpu=3)
    head = gang("g", 4).only_in("y")
    plan = decided(world(head, claims, leaves, stays, small("u", 8, "root/b"), *nodes, quota(13, a=4, b=8)))
    assert evicted(plan) == {("stays", "u")} and set(heads(plan)) == {"g"}


def test_who_may_not_take_back_where_a_head_collects_is_in_the_way_of_those_behind_it_in_a_strict_queue() -> None:
    """The last has no right to take back, and is in nobody's way that is before it; the first, which has, is."""
    strict = tree(a={}, b={"policy": "Block"}, c={})
    ends = runs("ends", 8, "n", 0, leaf="root/c", left_s=600, since=LONG, where="y")
    borrow = [runs(f"borrows-{n}", 8, f"m{n}", 0, leaf="root/c", since=LONG + n) for n in range(4)]
    order = ("first", "y", 300), ("second", "x", 200), ("last", "x", 100)
    line = [small(name, 8, "root/b").only_in(where).since(ago) for name, where, ago in order]
    room = member("x").nodes(4, free_gpu=0), member("y").nodes(1, free_gpu=0).nodes(1)
    made = world(gang("g", 8, 2).only_in("y"), *line, ends, *borrow, *room, strict)
    plan = decided(made)
    assert set(heads(plan)) == {"g"}
    assert (plan.claims, plan.evictions, plan.placements) == ((), (), ())
    assert {plan.reasons[name].code for name in ("second", "last")} == {Code.BEHIND_IN_QUEUE}
