"""A decider that fails: others go on, what it failed on is kept, and people are told."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from fleet.controllers.decide import decider as subject
from fleet.controllers.decide import snapshot as snapshot_module
from fleet.controllers.decide.decider import ASIDE_S, FEW, TRIALS_MOST, Decider, Resort
from fleet.controllers.decide.faults import KIND
from fleet.controllers.decide.loop import DecideLoop
from fleet.controllers.decide.units import now_unit as unit_now
from fleet.core.decide import decide
from fleet.core.model.plan import Answer, Plan
from fleet.core.model.unit import Phase, Unit
from fleet.core.notation.codec import decode_snapshot
from fleet.core.placement.problem import Problem, VictimProblem
from fleet.core.snapshot import Config, Snapshot
from fleet.wellknown import DECISION_FAILED
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

Fails = Callable[[Snapshot, Any], bool]


@dataclass
class Buggy:
    """`decide` with a bug in it: it raises where `fails` says so."""

    fails: Fails
    asked: list[Snapshot] = field(default_factory=list)

    def __call__(self, snapshot: Snapshot, *, solver: Any, **how: Any) -> Plan:
        self.asked.append(snapshot)
        if self.fails(snapshot, solver):
            raise KeyError("a bug")
        return decide(snapshot, solver=solver, **how)


class NoAnswer:
    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
        return Answer()


def units(count: int) -> Snapshot:
    return Snapshot.of(Unit(f"u{number:03}", f"u{number:03}", (), None) for number in range(count))


def has(*names: str) -> Fails:
    """All of these are in it."""
    return lambda snapshot, _: set(names) <= snapshot.units.keys()


def any_of(*names: str) -> Fails:
    return lambda snapshot, _: bool(set(names) & snapshot.units.keys())


SECOND = [f"u{number:03}" for number in range(0, 2 * FEW, 2)]  # every second unit
CULPRITS: list[tuple[str, int, Fails, set[str]]] = [
    ("one", 100, has("u023"), {"u023"}),
    ("the only one", 1, has("u000"), {"u000"}),
    ("two, each by itself", 50, any_of("u003", "u045"), {"u003", "u045"}),
    ("neighbours", 32, any_of("u015", "u016"), {"u015", "u016"}),
    (
        "as many as may be",
        40,
        any_of(*(f"u{n:03}" for n in range(0, 2 * FEW, 2))),
        {f"u{n:03}" for n in range(0, 40, 2)},
    ),
]


@pytest.mark.parametrize(("count", "fails", "wanted"), [case[1:] for case in CULPRITS], ids=[c[0] for c in CULPRITS])
def test_those_that_it_fails_on_are_left_out_and_nobody_else(count: int, fails: Fails, wanted: set[str]) -> None:
    buggy = Buggy(fails)
    decider = Decider(lambda: 0.0, buggy)
    snapshot = units(count)
    found = decider.decide(snapshot, now=10.0, solver=NoAnswer(), mark=lambda part: None)
    assert (found.plan, found.resort, {unit.id for unit in found.left_out}) == (None, Resort.LEFT_OUT, wanted)
    assert len(buggy.asked) <= TRIALS_MOST + 5
    heard = decider.without_aside(snapshot, 11.0)
    assert snapshot.units.keys() - heard.units.keys() == wanted
    again = decider.decide(heard, now=11.0, solver=NoAnswer(), mark=lambda part: None)
    assert again.fault is None and again.plan is not None


def test_of_two_that_only_fail_together_one_is_left_out() -> None:
    decider = Decider(lambda: 0.0, Buggy(has("u003", "u030")))
    found = decider.decide(units(32), now=10.0, solver=None, mark=lambda part: None)
    assert {unit.id for unit in found.left_out} in ({"u003"}, {"u030"})


def test_who_was_left_out_comes_back_when_it_changes_or_its_time_is_over_and_costs_one_look() -> None:
    buggy = Buggy(has("u007"))
    decider = Decider(lambda: 0.0, buggy)
    snapshot = units(40)
    decider.decide(snapshot, now=10.0, solver=None, mark=lambda part: None)
    assert "u007" not in decider.without_aside(snapshot, 10.0 + ASIDE_S / 2).units
    assert "u007" in decider.without_aside(snapshot, 10.0 + ASIDE_S).units
    before = len(buggy.asked)
    found = decider.decide(snapshot, now=10.0 + ASIDE_S, solver=None, mark=lambda part: None)
    assert [unit.id for unit in found.left_out] == ["u007"]
    assert len(buggy.asked) - before == 3  # with it, twice, and without
    changed = Snapshot(None, {**snapshot.units, "u007": Unit("u007", "other", (), None)})
    assert "u007" in decider.without_aside(changed, 11.0 + ASIDE_S).units


def test_those_that_came_since_the_last_plan_are_suspected_first() -> None:
    buggy = Buggy(has("u500"))
    decider = Decider(lambda: 0.0, buggy)
    later = units(502)
    first = Snapshot(units=dict(list(later.units.items())[:500]))
    decider.decide(first, now=10.0, solver=None, mark=lambda part: None)
    before = len(buggy.asked)
    found = decider.decide(later, now=11.0, solver=None, mark=lambda part: None)
    assert [unit.id for unit in found.left_out] == ["u500"]
    assert len(buggy.asked) - before == 4  # with it, twice; without both; without one


def test_trials_are_made_by_a_decide_of_their_own() -> None:
    buggy, trial = Buggy(has("u001")), Buggy(has("u001"))
    found = Decider(lambda: 0.0, buggy, trial).decide(units(4), now=10.0, solver=None, mark=lambda part: None)
    assert [unit.id for unit in found.left_out] == ["u001"]
    assert len(buggy.asked) == 1 and len(trial.asked) > 1


def test_where_the_solver_is_the_bug_decisions_go_on_without_it_for_a_while() -> None:
    buggy = Buggy(lambda _, solver: solver is not None)
    decider, solver = Decider(lambda: 0.0, buggy), NoAnswer()
    first = decider.decide(units(3), now=10.0, solver=solver, mark=lambda part: None)
    assert (first.resort, first.left_out, first.plan is not None) == (Resort.WITHOUT_SOLVER, (), True)
    second = decider.decide(units(3), now=11.0, solver=solver, mark=lambda part: None)
    assert second.fault is None
    assert len(buggy.asked) == 3
    assert decider.decide(units(3), now=10.0 + ASIDE_S, solver=solver, mark=lambda part: None).fault is not None


def test_rather_than_leaving_out_many_nothing_is_taken_back() -> None:
    buggy = Buggy(lambda snapshot, _: snapshot.config.reclaim and len(snapshot.units) > 0)
    decider = Decider(lambda: 0.0, buggy)
    snapshot = Snapshot(None, units(FEW + 2).units, {}, Config(reclaim=True))
    found = decider.decide(snapshot, now=10.0, solver=None, mark=lambda part: None)
    assert (found.resort, found.plan is not None, dict(decider.aside)) == (Resort.WITHOUT_RECLAIM, True, {})
    assert decider.decide(snapshot, now=11.0, solver=None, mark=lambda part: None).fault is None


def test_running_units_are_never_left_out() -> None:
    running = Unit("runs", "runs", (), None, phase=Phase.PLACED, member="m")
    snapshot = Snapshot(None, {**units(3).units, "runs": running})
    decider = Decider(lambda: 0.0, Buggy(has("runs")))
    with pytest.raises(KeyError):
        decider.decide(snapshot, now=10.0, solver=None, mark=lambda part: None)
    assert decider.aside == {}


def test_a_search_ends_when_its_time_is_over_and_leaves_out_more_than_need_be() -> None:
    clock = iter(range(0, 10**9, 30))
    decider = Decider(lambda: float(next(clock)), Buggy(any_of("u003")))
    found = decider.decide(units(16), now=10.0, solver=None, mark=lambda part: None)
    assert "u003" in {unit.id for unit in found.left_out}
    assert 1 < len(found.left_out) <= FEW


@contextmanager
def bug(world: World, fails: Fails) -> Iterator[Buggy]:
    """Deciding fails so in this world, from its next start of the controllers on."""
    buggy = Buggy(fails)
    made = subject.Decider.__init__

    def init(self: Decider, clock: Callable[[], float]) -> None:
        made(self, clock, buggy)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(subject.Decider, "__init__", init)
        yield buggy


def named(*names: str) -> Fails:
    wanted = {f"default/{name}" for name in names}
    return lambda snapshot, _: any(u.name in wanted and u.phase is Phase.WAITING for u in snapshot.units.values())


def sample(world: World, name: str, **labels: str) -> float:
    return world.hub.metrics.registry.get_sample_value(name, labels) or 0.0


async def test_a_job_that_the_decider_fails_on_is_told_why_and_the_others_start() -> None:
    async with hub(member("cfa"), start=False) as world:
        with bug(world, named("poison")):
            world.start()
            await world.apply(tree(max_jobs=5), policy(queue=True), pytorchjob("poison"), pytorchjob("one"))
            await world.running("one")
            await eventually(lambda: "left out" in world.message("poison"))
            assert (world.unit("poison") or {})["status"]["reason"]["code"] == "DeciderFailed"
            assert "KeyError: 'a bug'" in world.message("poison")
            (event,) = world.events("fleet-system", DECISION_FAILED)
            assert "others are decided without default/poison" in event["message"]
            assert event["type"] == "Warning"
            assert sample(world, "fleet_decision_faults_total", outcome="left_out") == 1
            assert sample(world, "fleet_units_aside") == 1
            assert sample(world, "fleet_jobs_waiting", code="DeciderFailed") == 1
            await world.apply(pytorchjob("two"))
            await world.running("two")
        await world.kill()
        world.start()  # the bug is mended
        await world.running("poison")


async def test_what_it_failed_on_is_kept_once_so_that_the_bug_can_be_had_again() -> None:
    async with hub(member("cfa"), start=False) as world:
        with bug(world, lambda snapshot, _: bool(snapshot.units)):
            world.start()
            await world.apply(policy(), pytorchjob("one"))
            await eventually(lambda: sample(world, "fleet_decision_faults_total", outcome="left_out"))
            await settle(30)
            (row,) = await world.store.read_history(KIND)
            document = json.loads(zlib.decompress(base64.b64decode(row["snapshot"])))
            assert [unit.name for unit in decode_snapshot(document).units.values()] == ["default/one"]
            assert (row["error"], row["resort"]) == ("KeyError: 'a bug'", "left_out")
            assert "Traceback" in row["trace"] and "raise KeyError" in row["trace"]


async def test_what_fails_whatever_is_left_out_is_told_of_each_time_and_kept_once() -> None:
    async with hub(member("cfa"), start=False) as world:
        with bug(world, lambda snapshot, _: bool(snapshot.members)):
            world.start()
            await world.apply(policy(), pytorchjob("one"))
            await eventually(lambda: sample(world, "fleet_decision_faults_total", outcome="undecided") >= 3)
            (event,) = world.events("fleet-system", DECISION_FAILED)
            assert event["count"] >= 2 and "nobody is placed" in event["message"]
            assert len(await world.store.read_history(KIND)) == 1
            assert sample(world, "fleet_reconcile_failures_total", loop="decide") >= 2
            assert sample(world, "fleet_decision_cycles_total", outcome="failed") >= 3
        await world.kill()
        world.start()
        await world.running("one")


async def test_faults_outside_of_decide_are_told_of_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> bool:
        raise RuntimeError("no hands")

    async with hub(member("cfa"), start=False) as world:
        monkeypatch.setattr(DecideLoop, "_carry_out", broken)
        world.start()
        await world.apply(policy(), pytorchjob("one"))
        await eventually(lambda: world.events("fleet-system", DECISION_FAILED))
        assert "RuntimeError: no hands" in world.events("fleet-system", DECISION_FAILED)[0]["message"]
        monkeypatch.undo()
        await world.running("one")


async def test_a_binding_that_cannot_be_read_is_told_of_once_and_the_others_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:

    def now_unit(base: Unit, *around: Any) -> Unit | None:
        if base.name == "default/poison" and not base.held:
            raise KeyError("fromCluster")
        return unit_now(base, *around)

    async with hub(member("cfa"), start=False) as world:
        monkeypatch.setattr(snapshot_module, "now_unit", now_unit)
        world.start()
        await world.apply(tree(max_jobs=5), policy(queue=True), pytorchjob("poison"), pytorchjob("one"))
        await world.running("one")
        await eventually(lambda: "cannot be read, KeyError: 'fromCluster'" in world.message("poison"))
        assert (world.unit("poison") or {})["status"]["reason"]["code"] == "Held"
        assert not world.message("poison").endswith("released")
        (event,) = world.events("fleet-system", DECISION_FAILED)
        assert "without default/poison-pytorchjob, whose ResourceBinding cannot be read" in event["message"]
        told = sample(world, "fleet_decision_faults_total", outcome="unread")
        await settle(60)
        assert sample(world, "fleet_decision_faults_total", outcome="unread") == told
