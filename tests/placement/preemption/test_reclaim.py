"""Taking room back across members: who must leave, who may not, what is kept for whom, and that it settles."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.check import check
from fleet.check.packer import Gang, first_unpackable
from fleet.check.violation import Rule, Violation
from fleet.decide import decide
from fleet.model.leaving import vacated
from fleet.model.plan import Plan
from fleet.model.reason import Code
from fleet.model.unit import Claim, Phase, Seat
from fleet.notation.codec import decode_plan, encode_plan, encode_record, replay
from fleet.quota.guarantee import LEND_LIMIT
from fleet.quota.tree import QuotaTree
from fleet.snapshot import Changes, Config, Snapshot
from tests.builders import GPU, NOW, MemberBuilder, UnitBuilder, amounts, member, snapshot, tree, unit
from tests.check.reclaims import PROMISED, RECLAIM, runs, waits

FULL = member("x").nodes(2, free_gpu=0)


def plan_of(*parts: UnitBuilder | MemberBuilder | QuotaTree | Config, config: Config = RECLAIM) -> Plan:
    world = snapshot(*parts, config)
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert check(world, plan, now=NOW) == ()
    assert "checker" not in plan.certificate.why
    return plan


def evicted(*parts: UnitBuilder | MemberBuilder | QuotaTree, config: Config = RECLAIM) -> list[str]:
    return [eviction.unit for eviction in plan_of(*parts, config=config).evictions]


def test_what_is_promised_takes_back_what_was_borrowed_and_claims_the_room() -> None:
    owner = waits("owner", "a")
    plan = plan_of(owner, runs("old", "c", since=NOW - 9000), runs("new", "c", since=NOW - 900), FULL, PROMISED)
    assert [(e.unit, e.member, e.preemptor) for e in plan.evictions] == [("new", "x", "owner")]
    (claim,) = plan.claims
    assert (claim.unit, claim.member, claim.room, claim.until) == ("owner", "x", owner.value.total, NOW + 900)
    assert plan.placements == ()
    assert plan.reasons["owner"].code is Code.ROOM_CLAIMED


def test_nobody_is_evicted_where_it_is_not_allowed_to() -> None:
    assert evicted(waits("owner", "a"), runs("r", "c"), FULL, PROMISED, config=Config()) == []


KEPT = {
    "work of a higher priority": runs("r", "c").priority(1),
    "work that may not be preempted": runs("r", "c").having(preemptible=False),
    "work that started a moment ago": runs("r", "c", since=NOW - 9),
    "work outside quota": runs("r", "c").queue(None),
    "work of the own leaf": runs("r", "a"),
}


@pytest.mark.parametrize("story", KEPT)
def test_never_evicted(story: str) -> None:
    assert evicted(waits("owner", "a"), KEPT[story], member("x").nodes(1, free_gpu=0), PROMISED) == []


@pytest.mark.parametrize(
    ("policy", "priority", "leaves"),
    [("", 0, True), ("PreemptLowerPriority", 0, False), ("PreemptLowerPriority", -1, True), ("AnyPriority", 7, True),
     ("Never", -1, False)],
)  # fmt: skip
def test_the_leaf_says_which_priorities_it_takes_from(policy: str, priority: int, leaves: bool) -> None:
    promised = tree(a={"min": {GPU: 8}, "attributes": {"preempt-policy": policy}}, c={})
    nodes = member("x").nodes(1, free_gpu=0)
    assert evicted(waits("owner", "a"), runs("r", "c").priority(priority), nodes, promised) == ["r"] * leaves


LOWER = {"attributes": {"preempt-policy": "PreemptLowerPriority"}}


def test_where_the_policy_says_so_higher_priority_takes_the_room_of_lower_in_its_own_leaf() -> None:
    works = [runs("calm", "a"), runs("calmer", "a").priority(-1), runs("other", "c").priority(-5)]
    nodes = member("x").nodes(3, free_gpu=0)
    urgent = waits("urgent", "a").priority(1)
    for promised in (0, 8, 16):
        lower = tree(a={"min": {GPU: promised}, **LOWER}, c={"min": {GPU: 8}})
        assert evicted(urgent, *works, nodes, lower) == ["calmer"]
    assert evicted(waits("as-calm", "a").priority(-1), *works, nodes, tree(a=LOWER, c={"min": {GPU: 8}})) == []
    assert evicted(urgent, *works, nodes, tree(a={}, c={"min": {GPU: 8}})) == []
    assert evicted(urgent, *works, nodes, tree(a={"attributes": {"preempt-policy": "AnyPriority"}}, c={})) == []


def test_what_nobody_can_take_back_uses_up_the_guarantee_of_its_leaf_before_what_may_leave() -> None:
    promised = tree(a={"min": {GPU: 8}}, b={"min": {GPU: 8}})
    firm = runs("firm", "b", since=NOW - 900).having(preemptible=False)
    assert evicted(waits("owner", "a"), runs("soft", "b").priority(0), firm, FULL, promised) == ["soft"]


def test_work_within_its_share_takes_back_only_what_is_borrowed() -> None:
    even = tree(a={}, c={})
    old, new = runs("old", "c", since=NOW - 9000), runs("new", "c", since=NOW - 900)
    assert evicted(waits("poor", "a"), old, new, FULL, even) == ["new"]
    assert evicted(waits("poor", "a"), waits("poor2", "a"), old, new, FULL, even) == ["new"]


def test_what_is_borrowed_goes_before_what_is_within_its_share() -> None:
    promised = tree(a={"min": {GPU: 8}}, c={"min": {GPU: 1}}, d={})
    nodes = member("x").nodes(3, free_gpu=0)
    rest = [runs("c1", "c"), runs("d1", "d", since=NOW - 5000), runs("d2", "d", since=NOW - 9000)]
    assert evicted(waits("owner", "a"), *rest, nodes, promised) == ["d1"]


def test_a_gang_leaves_whole() -> None:
    gang = unit("gang").gpus(8, pods=2).queue("root/c").runs_in("x").having(placed_at=NOW - 5000)
    plan = plan_of(waits("owner", "a"), gang, FULL, PROMISED)
    assert [(e.unit, e.member) for e in plan.evictions] == [("gang", "x")]


def test_the_one_with_a_recent_checkpoint_loses_less() -> None:
    owner, first = waits("owner", "a"), runs("c1", "c")
    assert evicted(owner, first.having(checkpoint_at=NOW - 10), runs("d1", "d"), FULL, PROMISED) == ["c1"]
    assert evicted(owner, first, runs("d1", "d").having(checkpoint_at=NOW - 10), FULL, PROMISED) == ["d1"]


def test_one_large_one_leaves_rather_than_several_small_ones() -> None:
    beside = amounts(cpu=96, memory=768, pods=110)
    small = [runs(f"s{i}", "c", 4) for i in range(2)]
    seated = [s.having(seats=(Seat("n1", 0, beside, amounts(gpu=4, pods=1)),)) for s in small]
    assert evicted(waits("owner", "a"), *seated, runs("large", "d"), FULL, PROMISED) == ["large"]


def test_seats_tell_that_two_small_ones_on_one_node_make_room_for_a_large_one() -> None:
    beside = amounts(cpu=96, memory=768, pods=110)
    small = [runs(f"s{i}", "c", 4) for i in range(2)]
    seated = [s.having(seats=(Seat("n1", 0, beside, amounts(gpu=4, pods=1)),)) for s in small]
    nodes = member("x").nodes(1, free_gpu=0)
    assert evicted(waits("owner", "a"), *small, nodes, PROMISED) == []
    assert evicted(waits("owner", "a"), *seated, nodes, PROMISED) == ["s0", "s1"]


def test_quota_that_is_lent_is_taken_back_across_members() -> None:
    """There is room in y, but not under the root's max: what borrows in x must leave for it."""
    limited = replace(PROMISED, nodes={**PROMISED.nodes, "root": replace(PROMISED.nodes["root"], max={GPU: 16})})
    owner = waits("owner", "a").only_in("y")
    plan = plan_of(owner, runs("r1", "c"), runs("r2", "c", since=NOW - 5000), FULL, member("y").nodes(1), limited)
    assert [(e.unit, e.member) for e in plan.evictions] == [("r2", "x")]
    assert [(c.unit, c.member) for c in plan.claims] == [("owner", "y")]


def test_what_others_do_not_lend_is_reason_enough_to_evict_though_there_is_room() -> None:
    keeps = {"min": {GPU: 8}, "attributes": {LEND_LIMIT: '{"nvidia.com/gpu": 0}'}}
    limited = tree(a={"min": {GPU: 8}}, keeps=keeps, c={})
    root = replace(limited.nodes["root"], max={GPU: 24})
    limited = replace(limited, nodes={**limited.nodes, "root": root})
    plan = plan_of(
        waits("owner", "a"),
        runs("old", "c", since=NOW - 9000),
        runs("new", "c", since=NOW - 900),
        member("x").nodes(2, free_gpu=0).nodes(1),
        limited,
    )
    assert [(e.unit, e.preemptor) for e in plan.evictions] == [("new", "owner")]


def test_quota_that_another_takes_in_the_same_plan_is_reason_enough_to_evict() -> None:
    quota = tree(a={"min": {GPU: 8}}, b={"min": {GPU: 8}}, c={})
    quota = replace(quota, nodes={**quota.nodes, "root": replace(quota.nodes["root"], max={GPU: 16})})
    first = waits("first", "b").priority(5)
    plan = plan_of(waits("owner", "a"), first, runs("r", "c"), member("x").nodes(1, free_gpu=0).nodes(2), quota)
    assert [placement.unit for placement in plan.placements] == ["first"]
    assert [(e.unit, e.preemptor) for e in plan.evictions] == [("r", "owner")]


def test_what_leaves_already_is_waited_for_before_anybody_else_must_go() -> None:
    going = unit("going").gpus(8).queue("root/c").evicting_from("x")
    plan = plan_of(waits("owner", "a"), going, runs("r", "c"), FULL, PROMISED)
    assert plan.evictions == ()
    assert [claim.unit for claim in plan.claims] == ["owner"]


def test_what_has_been_leaving_for_longer_than_a_claim_lasts_is_not_waited_for() -> None:
    stuck = unit("stuck").gpus(8).queue("root/c").evicting_from("x")
    for since, gone in ((NOW - 899, []), (NOW - 901, ["r"])):
        going = stuck.having(leaving_at=since)
        assert evicted(waits("owner", "a"), going, runs("r", "c"), FULL, PROMISED) == gone


def test_who_takes_claimed_room_in_the_eyes_of_the_checker_waits_and_what_evicts_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def strict(world: Snapshot, plan: Plan, *, now: float) -> tuple[Violation, ...]:
        placed = [placement.unit for placement in plan.placements if placement.unit.startswith("small")]
        return tuple(Violation(Rule.CLAIM_TAKEN, key, f"{key} takes claimed room") for key in placed)

    monkeypatch.setattr("fleet.decide.check", strict)
    small = [waits(f"small{i}", "c", 1) for i in range(3)]
    world = snapshot(
        waits("owner", "a"), *small, runs("r", "c"), FULL, member("y").nodes(1, free_gpu=2), PROMISED, RECLAIM
    )
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert [(eviction.unit, eviction.preemptor) for eviction in plan.evictions] == [("r", "owner")]
    assert plan.placements == ()
    assert set(plan.reasons) == {"owner", "small0", "small1", "small2"}


CLAIMED = waits("owner", "a").having(claim=Claim("x", NOW + 60))


def test_claimed_room_is_given_to_nobody_else() -> None:
    nodes = member("x").nodes(1, free_gpu=4)
    plan = plan_of(CLAIMED, waits("quick", "c", 4), unit("outside").gpus(2).priority(9), nodes, PROMISED)
    assert plan.placements == ()
    assert plan.reasons["owner"].code is Code.ROOM_CLAIMED


def test_a_claim_becomes_a_start_when_the_room_is_seen_free() -> None:
    plan = plan_of(CLAIMED, waits("quick", "c", 4).priority(9), member("x").nodes(1), PROMISED)
    assert [(p.unit, p.member) for p in plan.placements] == [("owner", "x")]


def test_a_claim_that_ran_out_keeps_nothing() -> None:
    late = waits("owner", "a").having(claim=Claim("x", NOW - 1))
    plan = plan_of(late, waits("quick", "c", 4), member("x").nodes(1, free_gpu=4), PROMISED)
    assert [p.unit for p in plan.placements] == ["quick"]


def test_planning_again_once_evictions_are_under_way_evicts_nobody_else() -> None:
    world = snapshot(waits("owner", "a"), runs("r1", "c"), runs("r2", "c", since=NOW - 5000), FULL, PROMISED, RECLAIM)
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert plan.evictions
    again = decide(carried_out(world, plan), now=NOW, seed=1, solver=None)
    assert (again.placements, again.evictions, again.claims) == ((), (), ())


def test_evictions_and_claims_survive_json_and_replay() -> None:
    world = snapshot(waits("owner", "a"), runs("r1", "c"), runs("r2", "c"), FULL, PROMISED, RECLAIM)
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert plan.evictions
    assert decode_plan(json.loads(json.dumps(encode_plan(plan)))) == plan
    assert replay(json.loads(json.dumps(encode_record(world, plan, now=NOW, seed=1)))) == plan


@pytest.mark.parametrize(("kinds", "why"), [(199, ""), (200, "no room for 200 kinds of gangs")])
def test_kinds_of_gangs_that_find_no_room_are_looked_at_up_to_a_bound_that_the_plan_names(kinds: int, why: str) -> None:
    hopeless = [unit(f"h{i:03}").gang(1, gpu=1, memory=1 + i).queue("root/a").only_in("x") for i in range(kinds)]
    last = waits("last", "a", 1).only_in("y").having(enqueued_at=NOW + 1)
    quota = tree(a={"min": {GPU: 240}}, c={})
    members = member("x").nodes(40, free_gpu=0), member("y").nodes(1, free_gpu=0)
    plan = plan_of(*hopeless, last, runs("r", "c", 1, where="y"), *members, quota)
    assert plan.certificate.reclaim == why
    assert [eviction.preemptor for eviction in plan.evictions] == ([] if why else ["last"])


def carried_out(world: Snapshot, plan: Plan) -> Snapshot:
    """The plan begun: who must leave is leaving, and claims are written down."""
    leaving = [replace(world.units[e.unit], phase=Phase.EVICTING) for e in plan.evictions]
    claiming = [replace(world.units[c.unit], claim=Claim(c.member, c.until)) for c in plan.claims]
    return world.apply(Changes(put_units=(*leaving, *claiming)))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from(("c", "d")), st.sampled_from((1, 2, 4, 8)), st.integers(1, 2), st.sampled_from("xy")),
        max_size=8,
    ),
    st.sampled_from((2, 4, 8)),
    st.integers(1, 3),
    st.integers(0, 2),
)
def test_removing_any_one_from_the_set_leaves_the_preemptor_without_room(
    running: list[tuple[str, int, int, str]], gpus: int, pods: int, idle: int
) -> None:
    work = [
        unit(f"r{i}").gpus(size, pods=count).queue(f"root/{leaf}").runs_in(where).having(placed_at=NOW - 5000 - i)
        for i, (leaf, size, count, where) in enumerate(running)
    ]
    owner = unit("owner").gpus(gpus, pods=pods).queue("root/a")
    nodes = [member(name).nodes(4, free_gpu=0).nodes(idle, free_gpu=2) for name in "xy"]
    world = snapshot(owner, *work, *nodes, tree(a={"min": {GPU: 24}}, c={}, d={}), RECLAIM)
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert check(world, plan, now=NOW) == ()
    assert "checker" not in plan.certificate.why
    if not plan.evictions:
        return
    (claim,) = plan.claims
    gone = [world.units[eviction.unit] for eviction in plan.evictions]
    part = owner.value.components[0]
    gang = Gang("owner", ((part.replicas, part.requests, part.claim),))
    assert not first_unpackable(vacated(world.members[claim.member], gone), [], [gang])
    for one in gone:
        rest = [other for other in gone if other is not one]
        assert first_unpackable(vacated(world.members[claim.member], rest), [], [gang])


def test_who_is_shown_to_be_needless_stays_and_the_others_leave_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the planner evict whatever could be of use."""
    monkeypatch.setattr(
        "fleet.placement.preemption.search.Search._first", lambda self, most, enough: most if enough(most) else None
    )
    monkeypatch.setattr("fleet.placement.preemption.trial.Trial.needed", lambda self, member, victims: list(victims))
    works = [runs(f"r{i}", "c", since=NOW - 1000 * (i + 1)) for i in range(3)]
    plan = plan_of(waits("owner", "a"), *works, member("x").nodes(3, free_gpu=0), PROMISED)
    assert len(plan.evictions) == len(plan.claims) == 1


STRICT = tree(a={"min": {GPU: 16}, "policy": "Block"}, c={})
FIRST, SECOND, THIRD = (waits(name, "a").since(ago) for name, ago in (("first", 30), ("second", 20), ("third", 10)))
THREE = [runs(f"r{i}", "c", since=NOW - 1000 * (i + 1)) for i in range(3)]
FULL3 = member("x").nodes(3, free_gpu=0)


def test_a_queue_that_starts_in_order_takes_back_in_order_what_it_is_promised() -> None:
    plan = plan_of(THIRD, SECOND, FIRST, *THREE, FULL3, STRICT)
    assert [claim.unit for claim in plan.claims] == ["first", "second"]
    assert sorted(e.unit for e in plan.evictions) == ["r0", "r1"]
    reason = plan.reasons["third"]
    assert (reason.code, reason.numbers["position"], reason.numbers["head"]) == (
        Code.BEHIND_IN_QUEUE, 3, "default/first"
    )  # fmt: skip


def test_nobody_takes_back_behind_one_of_its_queue_that_cannot() -> None:
    stuck = waits("stuck", "a").since(40).only_in("y")
    busy = runs("busy", "a", where="y").having(preemptible=False)

    def gone(priority: int, policy: str) -> list[str]:
        quota = tree(a={"min": {GPU: 32}, "policy": policy}, c={})
        y = member("y").nodes(1, free_gpu=0)
        return evicted(stuck.priority(priority), FIRST, *THREE, FULL3, busy, y, quota)

    assert gone(0, "Block") == gone(4, "Intelligent") == []
    assert gone(3, "Intelligent") == ["r0"]


def claimed(waiting: UnitBuilder, where: str) -> UnitBuilder:
    return waiting.having(claim=Claim(where, NOW + 99))


def test_claims_of_a_queue_that_starts_in_order_become_starts_in_order() -> None:
    x, y = FULL3, member("y").nodes(1)
    plan = plan_of(claimed(FIRST, "x"), claimed(SECOND, "y"), waits("other", "c"), *THREE, x, y, STRICT)
    assert plan.placements == ()
    assert {plan.reasons[name].code for name in ("first", "second")} == {Code.ROOM_CLAIMED}
    plan = plan_of(claimed(FIRST, "y"), claimed(SECOND, "x"), THIRD, *THREE[:2], x, y, STRICT)
    assert [(p.unit, p.member) for p in plan.placements] == [("first", "y")]
    assert plan.reasons["third"].code is Code.BEHIND_IN_QUEUE


def test_a_claim_is_worth_nothing_behind_one_that_came_in_ahead_without_one() -> None:
    ahead = waits("ahead", "a").priority(1)
    plan = plan_of(ahead, claimed(FIRST, "y"), *THREE, FULL3, member("y").nodes(1), STRICT)
    assert [(p.unit, p.member) for p in plan.placements] == [("ahead", "y")]


def test_the_checker_refuses_a_claim_out_of_turn() -> None:
    world = snapshot(FIRST, SECOND, *THREE, FULL3, STRICT, RECLAIM)
    plan = decide(world, now=NOW, seed=1, solver=None)
    out_of_turn = replace(
        plan,
        claims=tuple(claim for claim in plan.claims if claim.unit == "second"),
        evictions=tuple(e for e in plan.evictions if e.preemptor == "second"),
    )
    found = check(world, out_of_turn, now=NOW)
    assert {(violation.rule, violation.unit) for violation in found} == {(Rule.CLAIM_UNSOUND, "second")}


def test_who_was_told_to_leave_and_is_not_gone_is_named_to_who_waits_for_its_room_and_quota() -> None:
    """Nobody counts on it any more, so nothing is claimed; but it is why there is nothing yet."""
    stuck = runs("s1", "c").having(phase=Phase.EVICTING, leaving_at=NOW - 1000)
    once = Claim("x", NOW - 5)
    world = snapshot(waits("owner", "a").having(claim=once), stuck, member("x").nodes(1, free_gpu=0), PROMISED, RECLAIM)
    reason = decide(world, now=NOW, seed=1, solver=None).reasons["owner"]
    assert reason.text.endswith("; default/s1 should have left by now, and is not gone (waits within its guarantee)")
    full = tree(a={"min": {GPU: 8}}, c={})
    root = replace(full.nodes["root"], max={GPU: 8})
    world = world.apply(
        Changes(
            tree=QuotaTree("root", {**full.nodes, "root": root}),
            new_tree=True,
            put_members=(member("x").nodes(2).value,),
        )
    )
    reason = decide(world, now=NOW, seed=1, solver=None).reasons["owner"]
    assert reason.text.endswith("there to finish. default/s1 should have left by now, and is not gone.")
