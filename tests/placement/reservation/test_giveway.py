"""Guaranteed work passes a head within its share by right; it uses the room that is collected only where it must."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.check import check
from fleet.check.packer import first_unpackable
from fleet.check.units import gang_of
from fleet.decide import decide
from fleet.model.reason import Code
from fleet.model.unit import Nomination
from fleet.notation import codec
from fleet.placement.candidates.candidate import standing
from fleet.placement.greedy import decision
from fleet.placement.greedy.decision import Decision
from fleet.placement.problem import GangClass, HeldRow, Lane, Problem, RoomRow, Solver
from fleet.quota.tiers import Tier
from fleet.quota.tree import QuotaTree
from fleet.snapshot import Config, Snapshot
from fleet.solver.cpsat import CpSat
from tests.builders import GPU, NOW, MemberBuilder, UnitBuilder, member, snapshot, tree
from tests.placement.reservation.test_heads import HALF_FULL, gang, runs, small
from tests.worlds import MEMBERS

FIRM = tree(a={}, b={}, c={"min": {GPU: 12}})


def firm(name: str, ends_in: float | None = None) -> UnitBuilder:
    return small(name, 4, "root/c", ends_in)


SOLVERS: list[Solver | None] = [None, CpSat()]
Y = member("y").nodes(1, free_gpu=4).having(price=9)
STORIES: dict[str, tuple[list[UnitBuilder | MemberBuilder], dict[str, str]]] = {
    "it goes where there is room for it, though that costs more": ([firm("f"), Y], {"f": "y"}),
    "it uses the head's room where it has no other": ([firm("f").since(99), firm("e"), Y], {"f": "x", "e": "y"}),
    "it comes before what is not guaranteed": ([firm("f"), small("s", 4).since(99), Y], {"f": "y"}),
    "and before what counts for more, of higher priority": ([firm("f"), small("s", 4).priority(9), Y], {"f": "y"}),
    "what ends before the head could start stays": ([firm("f", ends_in=500.0), Y], {"f": "x"}),
    "it does not move to where its policy does not let it": ([firm("f").only_in("x"), Y], {"f": "x"}),
    "it does not wait for a node that would have to be added": ([firm("f"), member("y").could_add(1)], {"f": "x"}),
    "none is left without room so that another gives way": (
        [firm("e").only_in("y"), firm("f").since(99), Y], {"e": "y", "f": "x"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("story", STORIES)
def test_who_gives_way(story: str, solver: Solver | None) -> None:
    parts, expected = STORIES[story]
    head = gang("g", 8).only_in("x").having(head=Nomination("x", NOW - 60, NOW + 600, True))
    world = snapshot(head, *HALF_FULL, *parts, FIRM)
    plan = decide(world, now=NOW, seed=1, solver=solver)
    assert check(world, plan, now=NOW) == ()
    assert {p.unit: p.member for p in plan.placements} == expected
    assert [h.nomination.member for h in plan.heads] == ["x"]


def test_the_solver_gets_more_of_what_is_guaranteed_where_it_can_though_that_costs_a_head_its_seat() -> None:
    classes = (GangClass(None, 0, 0, 0, 0, 2, 1, 2), GangClass(None, 1, 0, 1, 0, 1, 9, 1))
    lanes = (Lane(0, 0, "x", 2, 0), Lane(0, 0, "y", 2, 1), Lane(1, 0, "y", 1, 0))
    rows = (RoomRow("y", ((1, 1), (2, 1)), (), 1),)
    passed = (HeldRow("x past a head", (), ((0, 1),), -1, 0),)
    problem = Problem(("guaranteed", "share"), classes, lanes, (), rows, passed=passed, firm=1)
    answer = CpSat().solve(problem, seed=1, limit_s=9.0)
    assert (answer.admitted, answer.placed) == ((2, 0), (1, 1, 0)), "both start, one of them where no head is"
    assert [stage.name for stage in answer.stages] == ["guaranteed", "share", "fit"]
    known = ((2, 1), (2, 0, 1))
    answer = CpSat().solve(replace(problem, hint=known), seed=1, limit_s=9.0)
    assert (answer.admitted, answer.placed) == ((2, 0), (1, 1, 0)), "a known answer that passes more is left"
    answer = CpSat().solve(replace(problem, passed=()), seed=1, limit_s=9.0)
    assert answer.admitted == (2, 1)


@st.composite
def fleets(draw: st.DrawFn) -> Snapshot:
    """Heads within their share, and jobs of which some are guaranteed; sizes divide each other."""
    parts: list[UnitBuilder | MemberBuilder | QuotaTree | Config] = [
        tree(a={}, b={}, c={"min": {GPU: draw(st.sampled_from((4, 12)))}}, d={"min": {GPU: 8}})
    ]
    for name in MEMBERS[: draw(st.integers(1, 3))]:
        made = member(name).having(price=draw(st.sampled_from((0, 3))))
        for number, free in enumerate(draw(st.lists(st.sampled_from((0, 1, 2, 4, 8)), min_size=1, max_size=3))):
            made = made.nodes(1, free_gpu=free)
            if free < 8:
                ends = draw(st.sampled_from((None, 600.0)))
                parts.append(runs(f"r{name}{number}", 8 - free, f"{name}{number}", free, where=name, left_s=ends,
                                  leaf="root/b", pool=number))  # fmt: skip
        parts.append(made)
    for number, leaf in enumerate(draw(st.lists(st.sampled_from(("root/a", "root/b", None)), max_size=2))):
        parts.append(gang(f"g{number}", draw(st.sampled_from((4, 8))), draw(st.integers(1, 2)), leaf))
    for number in range(draw(st.integers(1, 7))):
        made_unit = small(f"s{number}", draw(st.sampled_from((1, 1, 2, 4))), f"root/{draw(st.sampled_from('bccd'))}")
        made_unit = made_unit.having(walltime_s=draw(st.sampled_from((None, None, 300.0))))
        if draw(st.sampled_from((False, False, True))):
            made_unit = made_unit.only_in(draw(st.sampled_from(MEMBERS)))
        parts.append(made_unit.priority(draw(st.sampled_from((0, 0, 5)))))
    return snapshot(*parts)


many = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@many
@given(fleets(), st.sampled_from(SOLVERS))
def test_nothing_guaranteed_is_left_out_for_a_head_and_none_uses_its_room_that_has_other_room(
    world: Snapshot, solver: Solver | None
) -> None:
    plan = decide(world, now=NOW, seed=1, solver=solver)
    assert check(world, plan, now=NOW) == ()
    assert "checker" not in plan.certificate.why
    made = Decision(world, NOW)
    waiting = {key: group.candidate(n) for group in made.groups for n, key in enumerate(group.ids)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decision, "passable", lambda holds: False)
        before = decide(world, now=NOW, seed=1, solver=None)
    now, without = (
        {p.unit: p.member for p in one.placements if waiting[p.unit].tier is Tier.GUARANTEED} for one in (plan, before)
    )
    assert set(without) <= set(now)
    holds = made.holds(())
    collected = {hold.member for hold in holds}
    for key in sorted(now, key=lambda key: standing(waiting[key])):
        for hold in holds:
            spared = hold.member != now[key] or not hold.passed_by(waiting[key]) or hold.spares_room(waiting[key].shape)
            for choice in waiting[key].eligibility.choices if not spared else ():
                beside = [gang_of(world.units[other]) for other, at in now.items() if at == choice.member]
                alone = first_unpackable(world.members[choice.member], [], [*beside, gang_of(world.units[key])])
                assert choice.member in collected or alone, f"{key} has room in {choice.member}"
            if spared and hold.member == now[key]:
                hold.see(waiting[key], now[key])


BYPASS = tree(a={}, b={}, c={"min": {GPU: 8}})


def beside(*parts: UnitBuilder | MemberBuilder, ends: float | None = None) -> Snapshot:
    """A head in x that needs all of it, where four guaranteed GPUs run on; y has a node with four free."""
    head = gang("g", 8, 2).only_in("x").having(head=Nomination("x", NOW - 60, NOW + 600, True))
    others = [runs("r", 4, "n", 4, left_s=600), runs("f", 4, "m", 4, leaf="root/c", left_s=ends or 600.0)]
    return snapshot(head, *others, *parts, member("x").nodes(2, free_gpu=4), BYPASS)


KEPT: dict[str, tuple[Snapshot, dict[str, str]]] = {
    "room is kept from what is not guaranteed": (beside(small("s"), Y), {}),
    "not from what is": (beside(firm("e"), small("s"), Y), {"e": "y"}),
    "what is left beside it is used": (beside(small("s"), small("t", 4), Y.nodes(1, free_gpu=1)), {"s": "y"}),
    "none where it could not be enough": (beside(small("s"), member("y").nodes(1, gpu=2)), {"s": "y"}),
    "nor where what comes in now has ended by then": (
        beside(small("s"), Y, firm("e", ends_in=500.0), ends=10.0), {"s": "y", "e": "x"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("story", KEPT)
def test_room_in_another_member_is_kept_for_what_would_else_pass_the_head(story: str, solver: Solver | None) -> None:
    world, expected = KEPT[story]
    plan = decide(world, now=NOW, seed=1, solver=solver)
    assert check(world, plan, now=NOW) == ()
    assert {p.unit: p.member for p in plan.placements} == expected
    waiting = [reason.code for key, reason in plan.reasons.items() if key != "g"]
    assert waiting == [Code.BEHIND_HEAD] * len(waiting)


def test_the_solver_chooses_beside_the_room_that_is_kept() -> None:
    """There would be room for both in y, but for the four GPUs that are kept; and the solver is told of it."""
    world = beside(small("s").since(99), small("t", 4), Y.nodes(1, free_gpu=4))
    greedy, solved = (decide(world, now=NOW, seed=1, solver=solver) for solver in SOLVERS)
    assert {p.unit: p.member for p in greedy.placements} == {"s": "y"}
    assert check(world, solved, now=NOW) == ()
    assert {p.unit: p.member for p in solved.placements} == {"t": "y"}
    assert solved.certificate.shipped == "cp-sat"
    (stage,) = (stage for stage in solved.certificate.stages if stage.name != "fit")
    assert stage.bound == stage.value == 20, "of the whole question, in which other work could be guaranteed"
    again = codec.replay(json.loads(json.dumps(codec.encode_record(world, solved, now=NOW, seed=1))))
    assert again == solved


def test_room_is_kept_for_what_starts_beside_the_head_in_this_very_plan() -> None:
    world = beside(firm("e"), small("s"), member("y").nodes(2, free_gpu=3))
    for solver in SOLVERS:
        plan = decide(world, now=NOW, seed=1, solver=solver)
        assert {p.unit: p.member for p in plan.placements} == {"e": "x"}
