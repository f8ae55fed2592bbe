"""The victims of several gangs as a whole: against every way to deal them out, and whatever the solver says."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.check.claims import may_not_leave
from fleet.core.check.packer import first_unpackable
from fleet.core.check.units import gang_of, tiers_of
from fleet.core.decide import decide
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.leaving import vacated
from fleet.core.model.plan import Answer, Eviction, Plan, VictimSearch
from fleet.core.model.unit import Phase, Seat, Unit
from fleet.core.notation.codec import encode_record, replay
from fleet.core.placement.problem import Problem, VictimProblem
from fleet.core.quota.usage import Usage, request_of
from fleet.core.snapshot import Snapshot
from fleet.core.solver.cpsat import CpSat
from tests.builders import GPU, NOW, UnitBuilder, amounts, member, snapshot, tree, unit
from tests.core.check.reclaims import RECLAIM, crowded
from tests.core.placement.preemption.victims import Cost, Fails, cost, decided, evicted


def sits(name: str, gpus: int, age: float, *nodes: str, where: str = "x") -> UnitBuilder:
    """A gang of leaf c with a pod on each of these nodes, on which nothing is free."""
    beside = amounts(cpu=96, memory=768, pods=110)
    seats = tuple(Seat(node, 0, beside, amounts(gpu=gpus, pods=1)) for node in nodes)
    gang = unit(name).gpus(gpus, pods=len(nodes)).queue("root/c").runs_in(where)
    return gang.having(placed_at=NOW - age, seats=seats)


QUOTA = tree(a={"min": {GPU: 32}}, c={})
LATER = unit("later").gpus(8, pods=4).queue("root/a").having(backoff_until=NOW + 60)  # nothing is within c's share
SMALL, WHOLE = unit("small").gpus(4).queue("root/a").since(9), unit("whole").gpus(8).queue("root/a").since(8)
BIG = sits("big", 8, 500, "n1")  # loses less than one of the halves
HALVES = [sits(name, 4, age, "n2", where="y") for name, age in (("half1", 1100), ("half2", 1200))]
FULL = [member(name).nodes(1, free_gpu=0) for name in "xy"]
TRAP = snapshot(SMALL, WHOLE, LATER, BIG, *HALVES, *FULL, QUOTA, RECLAIM)


def together(plan: Plan) -> VictimSearch:
    (found,) = (search for search in plan.certificate.victims if search.beside)
    return found


def test_two_leave_for_two_gangs_where_one_after_the_other_would_take_three() -> None:
    assert evicted(decide(TRAP, now=NOW, seed=1, solver=None)) == ["big", "half1", "half2"]
    plan = decided(TRAP)
    assert [(e.unit, e.preemptor) for e in plan.evictions] == [("half1", "small"), ("big", "whole")]
    assert [(claim.unit, claim.member) for claim in plan.claims] == [("small", "y"), ("whole", "x")]
    search = together(plan)
    assert (search.unit, search.beside, search.shipped) == ("small", ("whole",), "cp-sat")
    assert [stage.value for stage in search.stages if stage.name == "evictions"] == [2]
    assert all(stage.status == "OPTIMAL" for stage in search.stages)


class Says:
    """Answers about several gangs as it is told to, about one as it is."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        if isinstance(problem, VictimProblem) and sum(problem.counts) > 1:
            return self.answers.pop(0) if self.answers else Answer(cause=Cause(CauseCode.STARTING))
        return CpSat().solve(problem, seed=seed, limit_s=limit_s)


LATE = Cause(CauseCode.LATE, {"limit_s": 1.5})
WRONG = {
    "no answer": (Answer(cause=LATE), CauseCode.LATE),
    "an answer to something else": (Answer((1, 0), (0, 0)), CauseCode.NO_VICTIMS),
    "a member for one of them only": (Answer((1, 1, 0), (0,)), CauseCode.NO_VICTIMS),
    "a member that there is not": (Answer((1, 1, 0), (0, 3)), CauseCode.NO_VICTIMS),
    "victims that do not suffice": (Answer((0, 0, 1), (0, 0)), CauseCode.STARTING),
    "more victims than are needed": (Answer((1, 1, 1), (0, 1)), CauseCode.ONE_BY_ONE_AS_GOOD),
}


@pytest.mark.parametrize("story", WRONG)
def test_whatever_the_solver_says_of_several_the_plan_is_sound_and_says_why(story: str) -> None:
    answer, code = WRONG[story]
    plan = decided(TRAP, Says(answer))
    assert len(plan.claims) == 2
    search = together(plan)
    assert search.cause is not None
    assert (search.shipped, search.cause.code) == ("greedy", code)


def test_a_set_that_does_not_suffice_for_several_comes_back_as_a_cut() -> None:
    class Stubborn:
        """Says first that the cheapest of all suffices."""

        def __init__(self) -> None:
            self.cuts: list[int] = []

        def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
            if not isinstance(problem, VictimProblem) or sum(problem.counts) < 2:
                return CpSat().solve(problem, seed=seed, limit_s=limit_s)
            self.cuts.append(len(problem.cuts))
            if not problem.cuts:
                return Answer(tuple(int(number == 0) for number in range(len(problem.victims))), (0, 0))
            return CpSat().solve(problem, seed=seed, limit_s=limit_s)

    solver = Stubborn()
    assert evicted(decided(TRAP, solver)) == ["big", "half1"]
    assert solver.cuts == [0, 1]


@pytest.mark.parametrize("solver", [CpSat(), Fails(), Says(Answer((1, 1, 1), (0, 1)))])
def test_a_decision_about_several_replays_whatever_became_of_the_solver(solver: Any) -> None:
    plan = decide(TRAP, now=NOW, seed=3, solver=solver)
    assert len(plan.claims) == 2
    record = json.loads(json.dumps(encode_record(TRAP, plan, now=NOW, seed=3)))
    assert replay(record) == plan


def random_world(rng: random.Random) -> Snapshot:
    """Two members of a few nodes with gangs of three leaves on them, and two or three owners of two leaves that wait.
    All pods have 4 or 8 GPUs, and nodes whole or half: any packer packs them as well as can be."""
    units, members = crowded(rng, leaves="bccd", gpus=(4, 4, 8), pods=3, others=(0, 4, 8))
    owners = [
        unit(f"owner{number}")
        .gpus(rng.choice((4, 8)), pods=rng.randint(1, 2))
        .queue(f"root/{rng.choice('aab')}")
        .since(9 - number)
        for number in range(rng.randint(2, 3))
    ]
    quota = tree(
        a={"min": {GPU: 24}}, b={"min": {GPU: rng.choice((0, 16))}}, c={}, d={"min": {GPU: rng.choice((0, 4))}}
    )
    if rng.random() < 0.4:
        used = sum(u.value.total[GPU] for u in units)
        most = used + rng.randint(0, sum(owner.value.total[GPU] for owner in owners))
        quota = replace(quota, nodes={**quota.nodes, "root": replace(quota.nodes["root"], max={GPU: most})})
    return snapshot(*owners, *units, *members, quota, RECLAIM)


def claimants(world: Snapshot, plan: Plan) -> list[Unit]:
    return [world.units[claim.unit] for claim in plan.claims]


def least(world: Snapshot, owners: Sequence[Unit]) -> Cost | None:
    """Of all sets of victims that make room for all owners, and of whom nobody could stay: the first owner without room
    then is one that may evict it."""
    assert world.tree is not None
    quota, tiers = world.tree, tiers_of(world, NOW)
    running = [u for u in world.units.values() if u.phase is Phase.PLACED]
    known: dict[tuple[tuple[str, ...], frozenset[str]], Unit | None] = {}

    def may_leave(u: Unit, owner: Unit) -> bool:
        return may_not_leave(world, Eviction(u.id, u.member or "", owner.id), (), tiers, NOW) is None

    def first_short(members: tuple[str, ...], gone: frozenset[str]) -> Unit | None:
        if (members, gone) not in known:
            usage = Usage.of(quota, [u for u in running if u.id not in gone])
            known[members, gone] = None
            for number, owner in enumerate(owners):
                where = members[number]
                going = [u for u in running if u.id in gone and u.member == where]
                gangs = [
                    gang_of(other) for other, at in zip(owners[: number + 1], members, strict=False) if at == where
                ]
                over = usage.refusal(owner.leaf or "", request_of(owner)) is not None
                if over or first_unpackable(vacated(world.members[where], going), [], gangs):
                    known[members, gone] = owner
                    break
                usage.charge(owner.leaf or "", request_of(owner))
        return known[members, gone]

    def suffices(members: tuple[str, ...], chosen: Sequence[Unit]) -> bool:
        gone = frozenset(u.id for u in chosen)
        if first_short(members, gone) is not None:
            return False
        shorts = ((u, first_short(members, gone - {u.id})) for u in chosen)
        return all(short is not None and may_leave(u, short) for u, short in shorts)

    best: Cost | None = None
    could = [u for u in running if any(may_leave(u, owner) for owner in owners)]
    for size in range(len(could) + 1):
        for chosen in combinations(could, size):
            found = cost(list(chosen), tiers)
            choices = product(sorted(world.members), repeat=len(owners))
            if (best is None or found < best) and any(suffices(members, chosen) for members in choices):
                best = found
    return best


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_no_victims_of_several_are_fewer_or_cheaper(seed: int) -> None:
    world = random_world(random.Random(seed))
    plan = decided(world)
    if plan.placements:
        return
    tiers, owners = tiers_of(world, NOW), claimants(world, plan)
    best = least(world, owners)
    if len(owners) > 1 and best is not None:  # None: one after another, each had a right to what it needed then
        assert cost([world.units[key] for key in evicted(plan)], tiers) == best
