"""The effect of some edits: the units that start, move, stop or wait, why, and when.

The fleet is decided twice, as it is and edited, and both are run forward (forward.py) with the same luck. So the
differences come from the edits. Without a past to learn from, jobs are taken to run until their walltime, as
backfilling does. Work without one never ends, so a unit that waits for it has no time. With a past, durations are drawn
from it and times become ranges. Later arrivals are not in these runs: they tell the outcome of the present units.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from fleet.core.decide import decide
from fleet.core.foresee.binding import Bottleneck, named_by, waiting, what_binds
from fleet.core.foresee.edits import Edit, edited
from fleet.core.foresee.forward import Forward, RunsS, Stop, UnitEventKind, by_walltime, core
from fleet.core.foresee.history import History
from fleet.core.foresee.quantiles import quantile
from fleet.core.model.difference import HORIZON_S, UnitState, Verdict
from fleet.core.model.plan import Plan
from fleet.core.model.reason import Code, Reason
from fleet.core.model.unit import Phase, Unit
from fleet.core.placement.problem import Solver
from fleet.core.snapshot import Snapshot

MOST_WAITING = 5_000  # jobs in a queue that is run forward
_MOST_EVENTS = 20_000
_CYCLE_S = 5.0
_GROWTH, _GROWTH_OF_MANY, _MANY = 0.05, 0.15, 1_000  # share of the time ahead by which decisions of a run stand apart
_SOONER_S, _SOONER_SHARE = 60.0, 0.05  # a start is sooner or later when it differs by more than both


@dataclass(frozen=True, slots=True)
class StartTimes:
    """Epoch seconds of a start: the middle of the runs, and the range that encloses four fifths of them; one run: all
    the same. Infinity: not within the horizon."""

    p10: float
    p50: float
    p90: float

    @property
    def known(self) -> bool:
        """Whether it starts within the horizon in half of the runs."""
        return not math.isinf(self.p50)


@dataclass(frozen=True, slots=True)
class UnitStanding:
    """The state of a unit under one decision. `member`: where the unit runs, starts, or leaves. `reason`: why it waits.
    `when`: its start or, if it leaves, its next start; None where that is unknown."""

    state: UnitState
    member: str = ""
    reason: Reason | None = None
    when: StartTimes | None = None


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """A unit that the edits make a difference to."""

    unit: Unit
    verdict: Verdict
    before: UnitStanding
    after: UnitStanding


@dataclass(frozen=True, slots=True)
class Comparison:
    """`rows`: submitted units first, then by verdict and name. `until`: a unit without a time does not start before it.
    `no_times`: the cause why no unit has a time, or "". `endless`: the number of running jobs without a known end.
    `bound`: the obstacles of units that the edits are about, and that wait still; the first few of `bound_of`."""

    rows: tuple[ComparisonRow, ...]
    before: Plan
    after: Plan
    snapshot: Snapshot  # edited
    until: float
    no_times: str = ""
    endless: int = 0
    bound: tuple[Bottleneck, ...] = ()
    bound_of: int = 0


def drawn(history: History, seed: int, number: int) -> RunsS:
    """Run `number` of several: durations drawn from the past, the same for the same unit in every such run."""

    def runs_s(unit: Unit, now: float) -> float:
        ran = max(0.0, now - unit.placed_at) if unit.placed_at is not None else 0.0
        return history.runs_s(Random(f"{seed}/{number}/{unit.id}"), unit, ran) - ran

    return runs_s


def what_if(
    snapshot: Snapshot,
    edits: Iterable[Edit],
    *,
    now: float,
    seed: int,
    solver: Solver | None = None,
    runs: Sequence[RunsS] = (by_walltime(),),
    horizon_s: float = HORIZON_S,
    enough: Callable[[], bool] = lambda: False,
    enough_changes: Callable[[], bool] = lambda: False,
) -> Comparison:
    """`runs`: how long units run, once for each run forward; none: no times. `enough` is asked after every decision of
    a run; when it says True, starts that were not found by then have no time. `enough_changes` likewise ends the search
    for changes that start units that wait all the same. Raises BadEdit, and BadSnapshot as `decide` does."""
    edits = tuple(edits)
    after = edited(snapshot, edits)
    plans = (
        decide(snapshot, now=now, seed=seed, solver=solver),
        decide(after, now=now, seed=seed, solver=solver),
    )
    unmoved = waiting(after, plans[1], named_by(edits))
    bound = what_binds(after, plans[1], unmoved, now=now, seed=seed, enough=enough_changes, solver=solver)
    times = _times((snapshot, after), runs, now, seed, horizon_s, enough)
    befores = _standings(snapshot, plans[0], times.before)
    afters = _standings(after, plans[1], times.after)
    absent = UnitStanding(UnitState.ABSENT)
    rows: list[ComparisonRow] = []
    for key in {**snapshot.units, **after.units}:
        was, is_now = befores.get(key, absent), afters.get(key, absent)
        verdict = _verdict(was, is_now, now)
        if verdict is not None:
            rows.append(ComparisonRow(after.units.get(key) or snapshot.units[key], verdict, was, is_now))
    order = list(Verdict)
    rows.sort(key=lambda row: (row.before.state is not UnitState.ABSENT, order.index(row.verdict), row.unit.name))
    endless = sum(
        unit.phase is not Phase.WAITING and any(runs_s(unit, now) is None for runs_s in runs)
        for unit in after.units.values()
    )
    return Comparison(tuple(rows), *plans, after, times.until, times.why_not, endless, bound, len(unmoved))


@dataclass(frozen=True, slots=True)
class _Times:
    """When units start, before and after the edits; known up to `until`."""

    before: Mapping[str, StartTimes]
    after: Mapping[str, StartTimes]
    until: float
    why_not: str = ""


def _times(
    worlds: tuple[Snapshot, Snapshot],
    runs: Sequence[RunsS],
    now: float,
    seed: int,
    horizon_s: float,
    enough: Callable[[], bool],
) -> _Times:
    if not runs:
        return _Times({}, {}, now, "no times were asked for")
    waiting = max(sum(unit.phase is Phase.WAITING for unit in world.units.values()) for world in worlds)
    if waiting > MOST_WAITING:
        return _Times({}, {}, now, f"{waiting} jobs wait, more than the {MOST_WAITING} that are run forward")
    times: tuple[dict[str, list[float]], dict[str, list[float]]] = ({}, {})
    until, count = math.inf, 0
    for runs_s in runs:
        pair, cut = _pair(worlds, runs_s, now, seed, horizon_s, enough)
        if count and cut < now + horizon_s:
            break  # runs to the end say more than this one
        until, count = min(until, cut), count + 1
        for starts, one in zip(times, pair, strict=True):
            for key, at in one.items():
                starts.setdefault(key, []).append(at)
    before, after = ({key: _when(at, count) for key, at in starts.items()} for starts in times)
    return _Times(before, after, until)


def _when(starts: Sequence[float], runs: int) -> StartTimes:
    ordered = [*sorted(starts), *(math.inf for _ in range(runs - len(starts)))]
    p10, p50, p90 = (quantile(ordered, share) for share in (0.1, 0.5, 0.9))
    return StartTimes(p10, p50, p90)


def _pair(
    worlds: tuple[Snapshot, Snapshot],
    runs_s: RunsS,
    now: float,
    seed: int,
    horizon_s: float,
    enough: Callable[[], bool],
) -> tuple[tuple[dict[str, float], ...], float]:
    """For either world the starts of the units that do not run now, or are told to leave, in epoch seconds; and the
    second up to which both were run. The worlds go side by side, the one behind first, so that `enough` finds both
    equally far."""
    runs = [_run(world, runs_s, now, seed) for world in worlds]
    steps = [run.steps(most_events=_MOST_EVENTS, until=now + horizon_s) for run in runs]
    going, decisions = [0, 1], [0, 0]
    until = now + horizon_s
    while going:
        behind = min(going, key=lambda number: (runs[number].now, decisions[number]))
        decisions[behind] += 1
        if next(steps[behind], None) is None:
            going.remove(behind)
            if runs[behind].stopped is Stop.EVENTS:
                until = min(until, runs[behind].now)
        elif all(decisions) and enough():  # each has made the decision of this moment at least
            until = min(runs[number].now for number in going)
            break
    return tuple(_starts(world, run, until) for world, run in zip(worlds, runs, strict=True)), until


def _run(world: Snapshot, runs_s: RunsS, now: float, seed: int) -> Forward:
    def ends(unit: Unit, at: float) -> float | None:
        member = world.members.get(unit.member or "")
        return runs_s(unit, at) if member is not None and (member.ready or at > now) else None

    many = sum(unit.phase is Phase.WAITING for unit in world.units.values()) > _MANY
    growth = _GROWTH_OF_MANY if many else _GROWTH
    return Forward(world, now=now, decider=core(seed), runs_s=ends, cycle_s=_CYCLE_S, growth=growth)


def _starts(world: Snapshot, run: Forward, until: float) -> dict[str, float]:
    may_start = {key for key, unit in world.units.items() if unit.phase is not Phase.PLACED}
    starts: dict[str, float] = {}
    for event in run.log:
        if event.what is UnitEventKind.LEFT:
            may_start.add(event.unit)
        elif event.what is UnitEventKind.STARTED and event.unit in may_start and event.at <= until:
            starts.setdefault(event.unit, event.at)
    return starts


def _standings(snapshot: Snapshot, plan: Plan, times: Mapping[str, StartTimes]) -> dict[str, UnitStanding]:
    starting = {placement.unit: placement.member for placement in plan.placements}
    leaving = {eviction.unit for eviction in plan.evictions}
    standings: dict[str, UnitStanding] = {}
    for key, unit in snapshot.units.items():
        when = times.get(key)
        if unit.phase is Phase.WAITING:
            if key in starting:
                standings[key] = UnitStanding(UnitState.STARTS, starting[key], when=when)
            else:
                standings[key] = UnitStanding(UnitState.WAITS, reason=plan.reasons[key], when=when)
            continue
        name = unit.member or ""
        member = snapshot.members.get(name)
        if member is None or not member.ready:
            reason = Reason(Code.MEMBER_UNREACHABLE, {"member": name})
            standings[key] = UnitStanding(UnitState.UNREACHABLE, name, reason)
        elif key in leaving or unit.phase is Phase.EVICTING:
            standings[key] = UnitStanding(UnitState.LEAVES, name, when=when)
        else:
            standings[key] = UnitStanding(UnitState.RUNS, name)
    return standings


_PAIRS: Mapping[tuple[UnitState, UnitState], Verdict] = {
    (UnitState.ABSENT, UnitState.STARTS): Verdict.STARTS,
    (UnitState.ABSENT, UnitState.WAITS): Verdict.WAITS,
    (UnitState.RUNS, UnitState.STARTS): Verdict.MOVES,
    (UnitState.RUNS, UnitState.WAITS): Verdict.STOPS,
    (UnitState.RUNS, UnitState.LEAVES): Verdict.LEAVES,
    (UnitState.STARTS, UnitState.WAITS): Verdict.WAITS,
    (UnitState.WAITS, UnitState.STARTS): Verdict.STARTS,
    (UnitState.LEAVES, UnitState.STARTS): Verdict.MOVES,
    (UnitState.LEAVES, UnitState.WAITS): Verdict.STOPS,
    (UnitState.LEAVES, UnitState.RUNS): Verdict.STAYS,
}


def _verdict(before: UnitStanding, after: UnitStanding, now: float) -> Verdict | None:
    """The outcome; None: nothing worth a word."""
    if after.state is UnitState.ABSENT:
        return Verdict.REMOVED
    if after.state is UnitState.UNREACHABLE:
        return Verdict.UNREACHABLE if before.state is not UnitState.UNREACHABLE else None
    pair = (before.state, after.state)
    if pair in _PAIRS:
        return _PAIRS[pair]
    if pair == (UnitState.STARTS, UnitState.STARTS):
        return Verdict.MOVES if before.member != after.member else None
    if before.state is UnitState.UNREACHABLE:
        return Verdict.MOVES if after.state is UnitState.STARTS else Verdict.STOPS
    if pair != (UnitState.WAITS, UnitState.WAITS):
        return None
    return _shifted(before.when, after.when, now) or (Verdict.WAITS if _code(before) != _code(after) else None)


def _code(standing: UnitStanding) -> Code | None:
    return standing.reason.code if standing.reason is not None else None


def _shifted(before: StartTimes | None, after: StartTimes | None, now: float) -> Verdict | None:
    was = before.p50 if before is not None else math.inf
    now_is = after.p50 if after is not None else math.inf
    if was == now_is:
        return None
    least = max(_SOONER_S, _SOONER_SHARE * (min(was, now_is) - now))
    if abs(was - now_is) <= least:
        return None
    return Verdict.SOONER if now_is < was else Verdict.LATER
