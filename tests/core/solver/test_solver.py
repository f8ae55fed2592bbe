"""CP-SAT beside greedy: where it does better, that it counts right, and that greedy ships whenever it fails."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.core.check import check
from fleet.core.check.violation import Rule, Violation
from fleet.core.decide import decide
from fleet.core.model.plan import Answer, Plan
from fleet.core.placement.problem import GangClass, GangKind, Lane, LimitRow, Problem, VictimProblem
from fleet.core.snapshot import Config, Snapshot
from fleet.core.solver.cpsat import CpSat
from fleet.core.solver.stages import scaled
from tests.builders import NOW, member, snapshot, tree, unit
from tests.core.solver.traps import TRAP, TRAPS, better


@pytest.mark.parametrize("story", TRAPS)
def test_the_solver_escapes_traps_of_greedy(story: str) -> None:
    world, expected = TRAPS[story]
    plan = better(world, CpSat())
    placed = {p.unit: p.member for p in plan.placements}
    assert (placed if isinstance(expected, dict) else set(placed)) == expected


def test_the_certificate_says_who_made_the_plan_and_how_good_it_is() -> None:
    plan = better(TRAPS["an old gang that keeps a larger one out of the quota"][0], CpSat())
    assert plan.certificate.shipped == "cp-sat"
    (stage,) = plan.certificate.stages
    assert (stage.name, stage.value, stage.bound, stage.status) == ("share, priority 0", 32, 32, "OPTIMAL")


def test_higher_priority_is_never_traded_for_more_of_lower() -> None:
    lows = [unit(f"low{i}").gpus(8) for i in range(4)]
    world = snapshot(unit("high").gpus(1, pods=4).priority(1), *lows, member("x").nodes(4, free_gpu=8))
    placed = {p.unit for p in better(world, CpSat()).placements}
    assert "high" in placed
    assert len(placed) == 4


class Refusing:
    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        raise AssertionError("asked")


def test_no_solver_is_asked_when_greedy_has_placed_everything() -> None:
    plan = decide(snapshot(unit("a"), member("x").nodes(1)), now=NOW, seed=1, solver=Refusing())
    assert plan.certificate.why == "optimal: everything that may start is placed"
    full = snapshot(unit("a").gpus(8), member("x").nodes(1, free_gpu=1))
    assert decide(full, now=NOW, seed=1, solver=Refusing()).certificate.why == "optimal: no other gang could start"


def test_of_nodes_that_could_be_added_nothing_is_said_to_be_proven() -> None:
    """The solver does not know them, and greedy fills them one gang after another."""
    full = snapshot(unit("a").gpus(8, pods=2), unit("b").gpus(8), member("m").nodes(1, free_gpu=0).could_add(1))
    plan = decide(full, now=NOW, seed=1, solver=Refusing())
    assert [placement.unit for placement in plan.placements] == ["b"]
    assert plan.certificate.why == "optimal: no other gang could start on the nodes that are there"


class Says:
    def __init__(self, answer: Answer | Exception) -> None:
        self.answer = answer

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


WRONG: dict[str, tuple[Answer | Exception, str]] = {
    "raises": (MemoryError("no memory"), "the solver failed (MemoryError)"),
    "knows nothing": (Answer(), "the solver found no answer"),
    "answers another problem": (Answer((1,), ()), "the solver's answer does not belong to the problem"),
    "admits more than there is": (Answer((9, 9), (9, 9)), "the solver's answer does not belong to the problem"),
    "admits below zero": (Answer((-1, 1), (0, 0)), "the solver's answer does not belong to the problem"),
    "is worse": (Answer((0, 0), (0, 0)), "greedy is better"),
    "is as good": (Answer((1, 0), (1, 0)), "greedy is as good"),
}


@pytest.mark.parametrize("how", WRONG)
def test_greedy_ships_when_the_solver(how: str) -> None:
    answer, why = WRONG[how]
    plan = better(TRAP, Says(answer))
    assert {p.unit for p in plan.placements} == {"a"}
    assert (plan.certificate.shipped, plan.certificate.why) == ("greedy", why)


def test_an_answer_that_breaks_the_quota_is_cut_down_to_what_quota_allows() -> None:
    plan = better(TRAP, Says(Answer((1, 1), (1, 1))))
    assert {p.unit for p in plan.placements} == {"b"}


def test_an_answer_that_does_not_pack_is_repaired() -> None:
    """Sums of CPU and of GPUs both fit; no node has enough of both for the second gang."""
    world = snapshot(
        unit("a").gang(1, gpu=3, cpu=10).since(99),
        unit("b").gang(2, gpu=4, cpu=80),
        unit("c").gang(1, gpu=4, cpu=90),
        member("x").nodes(1, cpu=90).nodes(1, cpu=90, free_gpu=4),
    )
    assert better(world, CpSat()).placements


def test_rows_are_scaled_so_that_no_sum_overflows_and_no_answer_exceeds_the_room() -> None:
    exact, room = scaled([(6 << 30, 10), (9 << 30, 10)], 20 << 30)
    assert (exact, room) == ([2, 3], 6)
    huge, room = scaled([((1 << 61) + 1, 1_000_000), (3, 1_000_000)], (1 << 62) + 1)
    assert sum(amount * 1_000_000 for amount in huge) < 1 << 62
    most = room // huge[0]
    assert most * ((1 << 61) + 1) <= (1 << 62) + 1


def halves(hint: tuple[int, ...], room: int = 100) -> Problem:
    """Bands of gangs of one size that share a room; half of what is proven is good enough."""
    bands = range(len(hint))
    classes = tuple(GangClass(GangKind(band, 0), band, 60, 1, 60) for band in bands)
    lanes = tuple(Lane(GangKind(band, 0), "x", 60, 0) for band in bands)
    rows = (LimitRow("x", room, lanes=tuple((band, 1) for band in bands)),)
    names = tuple(f"band {band}" for band in bands)
    return Problem(names, classes, lanes, (), rows, hint=(hint, hint), relative_gap=0.5)


@pytest.mark.parametrize("hint", [(60, 40), (55, 45), (31, 0), (30, 60), (60, 60)], ids=repr)
def test_no_gap_is_so_wide_that_an_answer_is_worth_less_than_the_known_one(hint: tuple[int, int]) -> None:
    answer = CpSat().solve(halves(hint, max(100, sum(hint))), seed=1, limit_s=10.0)
    assert answer.admitted >= hint
    assert all(stage.value == count for stage, count in zip(answer.stages, answer.admitted, strict=True))


def test_bands_below_the_last_one_that_has_room_are_proven_empty_all_at_once() -> None:
    full = CpSat().solve(halves((50, 0, 0, 0), room=50), seed=1, limit_s=10.0)
    assert [(stage.value, stage.status) for stage in full.stages] == [(50, "OPTIMAL"), *[(0, "OPTIMAL")] * 3]
    assert [stage.bound for stage in full.stages[1:]] == [0, 0, 0]
    free = CpSat().solve(halves((50, 0, 0, 0), room=90), seed=1, limit_s=10.0)
    assert free.admitted[0] >= 50 and sum(free.admitted) > 50
    assert [stage.value for stage in free.stages] == list(free.admitted)


def test_a_known_answer_that_breaks_a_limit_of_the_model_is_no_reason_to_find_none() -> None:
    answer = CpSat().solve(halves((60, 59)), seed=1, limit_s=10.0)
    assert answer.stages[0].bound == 60
    assert 50 <= sum(answer.admitted) <= 100
    assert CpSat().solve(halves((55, 59), room=10), seed=1, limit_s=10.0).admitted >= (5, 0)


def test_exabytes_of_memory_overflow_nothing() -> None:
    wants = [unit(f"u{i}").gang(3, memory=1 << 29).queue("root/ml") for i in range(5)]
    trap = unit("young").gang(2, memory=1 << 29).queue("root/ml").since(1)
    world = snapshot(*wants, trap, member("x").nodes(9, memory=1 << 31), tree(ml={"max": {"memory": 5 << 59}}))
    assert len(better(world, CpSat()).placements) >= 1


small = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@small
@given(
    st.lists(st.tuples(st.sampled_from((1, 2, 4, 8)), st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=3),
    st.lists(st.lists(st.integers(0, 8), max_size=3), min_size=1, max_size=2),
)
def test_the_linked_model_finds_what_trying_everything_finds(
    kinds: list[tuple[int, int, int]], nodes: list[list[int]]
) -> None:
    """GPU sizes that divide each other: slot rows are exact, so the model's optimum is the true one."""
    gangs = [(size, pods) for size, pods, count in kinds for _ in range(count)]
    parts = [unit(f"u{i}").gpus(size, pods=pods) for i, (size, pods) in enumerate(gangs)]
    fleet = [member(f"m{i}") for i in range(len(nodes))]
    for index, free in enumerate(nodes):
        for gpus in free:
            fleet[index] = fleet[index].nodes(1, free_gpu=gpus)
    world = snapshot(*parts, *fleet, Config(relative_gap=0.0))
    plan = better(world, CpSat())
    started = sum(gangs[int(p.unit[1:])][0] * gangs[int(p.unit[1:])][1] for p in plan.placements)
    assert started == max(
        sum(size * pods for (size, pods), home in zip(gangs, homes, strict=True) if home >= 0)
        for homes in product(range(-1, len(nodes)), repeat=len(gangs))
        if all(_packs([g for g, h in zip(gangs, homes, strict=True) if h == i], free) for i, free in enumerate(nodes))
    )


def _packs(gangs: list[tuple[int, int]], free: list[int]) -> bool:
    """Whether the pods fit the nodes, by trying every node for every pod."""
    pods = sorted((size for size, count in gangs for _ in range(count)), reverse=True)

    def put(index: int, left: tuple[int, ...]) -> bool:
        if index == len(pods):
            return True
        return any(
            put(index + 1, (*left[:n], have - pods[index], *left[n + 1 :]))
            for n, have in enumerate(left)
            if have >= pods[index] and have not in left[:n]
        )

    return put(0, tuple(free))


def test_a_known_answer_that_the_model_does_not_allow_ends_no_later_stage() -> None:
    counts = (2, 1, 1)
    classes = tuple(GangClass(GangKind(band, 0), band, count, 1, count) for band, count in enumerate(counts))
    lanes = tuple(Lane(GangKind(band, 0), "x", count, 0) for band, count in enumerate(counts))
    rows = (LimitRow("x", 1, lanes=((0, 1), (1, 1))),)
    problem = Problem(("first", "second", "third"), classes, lanes, (), rows, hint=((1, 1, 0), (1, 1, 0)))
    answer = CpSat().solve(problem, seed=1, limit_s=9.0)
    assert (answer.admitted, answer.placed) == ((1, 0, 1), (1, 0, 1))


@pytest.mark.parametrize(("refused", "started"), [("e", {"b", "c", "d"}), ("bcde", {"odd", "too"})])
def test_what_the_checker_refuses_of_the_solvers_plan_is_left_out_and_greedy_ships_only_where_it_is_better(
    refused: str, started: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def strict(world: Snapshot, plan: Plan, *, now: float) -> tuple[Violation, ...]:
        wrong = (p.unit for p in plan.placements if p.unit in refused and plan.certificate.shipped == "cp-sat")
        return (*check(world, plan, now=now), *(Violation(Rule.ROOM, key, f"no room for {key}") for key in wrong))

    monkeypatch.setattr("fleet.core.decide.check", strict)
    odd, fours = (unit(name).gpus(5).since(99) for name in ("odd", "too")), (unit(name).gpus(4) for name in "bcde")
    world = snapshot(*odd, *fours, member("x").nodes(1), member("y").nodes(1))
    plan = decide(world, now=NOW, seed=1, solver=CpSat())
    assert {p.unit for p in plan.placements} == started
    assert set(plan.reasons) == set(world.units) - started
    assert ("dropped 1" in plan.certificate.why) == (plan.certificate.shipped == "cp-sat") == (refused == "e")
