"""The fewest and cheapest victims, proven: against every set there is, and whatever becomes of the solver."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.check import check
from fleet.core.check.claims import may_not_leave
from fleet.core.check.packer import Gang, first_unpackable
from fleet.core.check.quality import needless
from fleet.core.check.units import tiers_of
from fleet.core.decide import decide
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.leaving import vacated
from fleet.core.model.plan import Answer, Eviction
from fleet.core.model.unit import Phase, Seat, Unit
from fleet.core.notation.codec import encode_record, replay
from fleet.core.placement.preemption.preempt import lost_work
from fleet.core.placement.problem import Problem, VictimProblem
from fleet.core.quota.usage import Usage, request_of
from fleet.core.snapshot import Snapshot
from fleet.core.solver.cpsat import CpSat
from fleet.core.solver.process import ProcessSolver
from tests.builders import NOW, UnitBuilder, amounts, member, snapshot, unit
from tests.core.check.reclaims import PROMISED, RECLAIM
from tests.core.placement.preemption.victims import Cost, Fails, cost, decided, evicted, random_world


@pytest.mark.parametrize(
    ("placed_at", "checkpoint_at", "seconds"),
    [(0.0, None, NOW), (0.0, NOW - 50, 50), (NOW - 90, None, 90), (None, None, 0), (NOW - 90, 0.0, 90)],
)
def test_work_since_the_epoch_second_zero_is_lost_too(
    placed_at: float | None, checkpoint_at: float | None, seconds: float
) -> None:
    made = unit("u").gpus(2).runs_in("x").having(placed_at=placed_at, checkpoint_at=checkpoint_at)
    assert lost_work(made.value, NOW) == 2 * seconds


def test_the_time_that_an_eviction_takes_is_part_of_its_cost_with_and_without_a_checkpoint() -> None:
    made = unit("u").gpus(2).runs_in("x").having(placed_at=NOW - 90, leaving_s=60)
    assert lost_work(made.value, NOW) == 2 * (90 + 60)
    assert lost_work(made.having(checkpoint_at=NOW - 10).value, NOW) == 2 * (10 + 60)


def cheapest(world: Snapshot, owner: Unit) -> Cost | None:
    """Of all sets of those that it may evict, without which it has quota, and room in some member."""
    assert world.tree is not None and owner.leaf is not None
    tiers = tiers_of(world, NOW)
    able = [
        u
        for u in world.units.values()
        if u.phase is Phase.PLACED
        and may_not_leave(world, Eviction(u.id, u.member or "", owner.id), (), tiers, NOW) is None
    ]
    gang = Gang(owner.id, tuple((part.replicas, part.requests, part.claim) for part in owner.components))
    best: Cost | None = None
    for size in range(len(able) + 1):
        for chosen in combinations(able, size):
            found = cost(list(chosen), tiers)
            if best is not None and found >= best:
                continue
            rest = [u for u in world.units.values() if u not in chosen]
            if Usage.of(world.tree, rest).refusal(owner.leaf, request_of(owner)) is not None:
                continue
            for name, there in world.members.items():
                going = [u for u in chosen if u.member == name]
                if not first_unpackable(vacated(there, going), [], [gang]):
                    best = found
    return best


@pytest.mark.parametrize("seed", [26, 126, 162, 467])
def test_the_solver_finds_what_greedy_does_not(seed: int) -> None:
    world, _ = random_world(random.Random(seed))
    plans = [decided(world), decide(world, now=NOW, seed=1, solver=None)]
    tiers = tiers_of(world, NOW)
    proven, greedy = (cost([world.units[key] for key in evicted(plan)], tiers) for plan in plans)
    assert proven < greedy
    assert plans[0].certificate.victims[0].shipped == "cp-sat"
    assert plans[1].certificate.victims == ()


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_no_set_of_victims_is_smaller_or_cheaper(seed: int) -> None:
    world, owner = random_world(random.Random(seed))
    plan = decided(world)
    best = cheapest(world, owner)
    gone = [world.units[eviction.unit] for eviction in plan.evictions]
    if best is None:
        assert not plan.claims
        assert not gone
    elif best[1] == 0:
        assert plan.placements
        assert not gone
    else:
        assert cost(gone, tiers_of(world, NOW)) == best
        (search,) = plan.certificate.victims
        assert all(stage.status == "OPTIMAL" for stage in search.stages)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(0, 1 << 30))
def test_a_victim_more_than_the_plan_has_is_measured_as_needless(seed: int) -> None:
    world, owner = random_world(random.Random(seed))
    plan = decide(world, now=NOW, seed=1, solver=None)
    tiers = tiers_of(world, NOW)
    gone = set(evicted(plan))
    for other in world.units.values() if gone else ():
        also = Eviction(other.id, other.member or "", owner.id)
        if other.id not in gone and may_not_leave(world, also, (), tiers, NOW) is None:
            more = replace(plan, evictions=(*plan.evictions, also))
            assert check(world, more, now=NOW) == ()
            assert needless(world, more, now=NOW)


def sits(name: str, leaf: str, gpus: int, ages: float, *nodes: tuple[str, int]) -> UnitBuilder:
    """A gang with a pod on each of these nodes, which are full: (node, number of its pool)."""
    beside = amounts(cpu=96, memory=768, pods=110)
    seats = tuple(Seat(node, pool, beside, amounts(gpu=gpus, pods=1)) for node, pool in nodes)
    gang = unit(name).gpus(gpus, pods=len(nodes)).queue(f"root/{leaf}").runs_in("x")
    return gang.having(placed_at=NOW - ages, seats=seats)


LATER = unit("later").gpus(8).queue("root/a").having(backoff_until=NOW + 60)  # so that nothing is within its share
TRAP = snapshot(
    unit("owner").gpus(4, pods=2).queue("root/a"),
    LATER,
    sits("old", "c", 4, 9000, ("n1", 0), ("n2", 0)),
    sits("new1", "c", 4, 900, ("n1", 0)),
    sits("new2", "c", 4, 900, ("n2", 0)),
    member("x").nodes(2, free_gpu=0),
    PROMISED,
    RECLAIM,
)


class Says:
    """Answers about victims as it is told to, and about nothing else."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked = 0

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        if not isinstance(problem, VictimProblem):
            return Answer()
        self.asked += 1
        return self.answers.pop(0) if self.answers else Answer(cause=Cause(CauseCode.STARTING))


LATE = Cause(CauseCode.LATE, {"limit_s": 1.5})
WRONG = {
    "no answer": (Answer(cause=LATE), CauseCode.LATE),
    "an answer to something else": (Answer((1, 0), (0,)), CauseCode.NO_VICTIMS),
    "a member that there is not": (Answer((1, 0, 0), (7,)), CauseCode.NO_VICTIMS),
    "victims that do not suffice": (Answer((1, 0, 0), (0,)), CauseCode.STARTING),
    "more victims than are needed": (Answer((1, 1, 1), (0,)), CauseCode.BETTER),
}


@pytest.mark.parametrize("story", WRONG)
def test_whatever_the_solver_says_the_plan_is_sound_and_says_why(story: str) -> None:
    answer, code = WRONG[story]
    solver = Says(answer)
    plan = decided(TRAP, solver)
    assert solver.asked
    assert evicted(plan) in (["old"], ["new1", "new2"])
    (search,) = plan.certificate.victims
    assert search.cause is not None
    assert (search.shipped, search.cause.code) == ("greedy", code)


def test_a_solver_that_fails_costs_nothing_but_its_proof() -> None:
    plan = decided(TRAP, Fails())
    assert plan.claims
    assert plan.certificate.victims[0].cause == Cause(CauseCode.FAILED, {"detail": "MemoryError"})


def test_a_choice_that_does_not_suffice_comes_back_as_a_cut() -> None:
    class Stubborn:
        """Thinks that there is room, as a problem with nodes counted together may."""

        def __init__(self) -> None:
            self.cuts: list[int] = []

        def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
            if not isinstance(problem, VictimProblem):
                return Answer()
            self.cuts.append(len(problem.cuts))
            first = problem.places[0]
            roomy = replace(first, count=9, free=(99, *first.free[1:]))
            problem = replace(problem, places=(roomy, *problem.places[1:]))
            return CpSat().solve(problem, seed=seed, limit_s=limit_s)

    solver = Stubborn()
    assert evicted(decided(TRAP, solver)) == ["old"]
    assert len(solver.cuts) > 1


@pytest.mark.parametrize("solver", [CpSat(), Fails(), Says(Answer((1, 0, 0), (0,)), Answer((0, 0, 1), (0,)))])
def test_a_decision_about_victims_replays_whatever_became_of_the_solver(solver: Any) -> None:
    plan = decide(TRAP, now=NOW, seed=3, solver=solver)
    assert plan.evictions
    record = json.loads(json.dumps(encode_record(TRAP, plan, now=NOW, seed=3)))
    assert replay(record) == plan


def test_victims_are_proven_in_the_child_process_too() -> None:
    solver = ProcessSolver()
    try:
        solver.warm()
        world = replace(TRAP, config=replace(RECLAIM, solve_limit_s=600.0))
        (search,) = decided(world, solver).certificate.victims
        assert [stage.status for stage in search.stages] == ["OPTIMAL"] * 2
    finally:
        solver.close()
