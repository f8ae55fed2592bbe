"""Taking room back across members: who must leave, who may not, what is kept for whom, and that it settles."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.check import check
from fleet.core.check.packer import Gang, first_unpackable
from fleet.core.check.violation import Rule, Violation
from fleet.core.decide import decide
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.leaving import vacated
from fleet.core.model.plan import Plan
from fleet.core.notation.codec import decode_plan, encode_plan, encode_record, replay
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config, Snapshot
from tests.builders import GPU, NOW, MemberBuilder, UnitBuilder, member, snapshot, tree, unit
from tests.core.check.reclaims import PROMISED, RECLAIM, runs, waits

FULL = member("x").nodes(2, free_gpu=0)


def plan_of(*parts: UnitBuilder | MemberBuilder | QuotaTree | Config, config: Config = RECLAIM) -> Plan:
    world = snapshot(*parts, config)
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert check(world, plan, now=NOW) == ()
    assert "checker" not in plan.certificate.why
    return plan


def test_who_takes_claimed_room_in_the_eyes_of_the_checker_waits_and_what_evicts_stands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def strict(world: Snapshot, plan: Plan, *, now: float) -> tuple[Violation, ...]:
        placed = [placement.unit for placement in plan.placements if placement.unit.startswith("small")]
        return tuple(Violation(Rule.CLAIM_TAKEN, key, f"{key} takes claimed room") for key in placed)

    monkeypatch.setattr("fleet.core.decide.check", strict)
    small = [waits(f"small{i}", "c", 1) for i in range(3)]
    world = snapshot(
        waits("owner", "a"), *small, runs("r", "c"), FULL, member("y").nodes(1, free_gpu=2), PROMISED, RECLAIM
    )
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert [(eviction.unit, eviction.preemptor) for eviction in plan.evictions] == [("r", "owner")]
    assert plan.placements == ()
    assert set(plan.reasons) == {"owner", "small0", "small1", "small2"}


def test_evictions_and_claims_survive_json_and_replay() -> None:
    world = snapshot(waits("owner", "a"), runs("r1", "c"), runs("r2", "c"), FULL, PROMISED, RECLAIM)
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert plan.evictions
    assert decode_plan(json.loads(json.dumps(encode_plan(plan)))) == plan
    assert replay(json.loads(json.dumps(encode_record(world, plan, now=NOW, seed=1)))) == plan


@pytest.mark.parametrize(("kinds", "cut"), [(199, None), (200, Cause(CauseCode.HOPELESS, {"kinds": 200}))])
def test_kinds_of_gangs_that_find_no_room_are_looked_at_up_to_a_bound_that_the_plan_names(
    kinds: int, cut: Cause | None
) -> None:
    hopeless = [unit(f"h{i:03}").gang(1, gpu=1, memory=1 + i).queue("root/a").only_in("x") for i in range(kinds)]
    last = waits("last", "a", 1).only_in("y").having(enqueued_at=NOW + 1)
    quota = tree(a={"min": {GPU: 240}}, c={})
    members = member("x").nodes(40, free_gpu=0), member("y").nodes(1, free_gpu=0)
    plan = plan_of(*hopeless, last, runs("r", "c", 1, where="y"), *members, quota)
    assert plan.certificate.reclaim == cut
    assert [eviction.preemptor for eviction in plan.evictions] == ([] if cut else ["last"])


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


STRICT = tree(a={"min": {GPU: 16}, "policy": "Block"}, c={})
FIRST, SECOND = waits("first", "a").since(30), waits("second", "a").since(20)
THREE = [runs(f"r{i}", "c", since=NOW - 1000 * (i + 1)) for i in range(3)]
FULL3 = member("x").nodes(3, free_gpu=0)


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
