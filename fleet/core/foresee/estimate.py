"""When a waiting unit will start: an estimate with a range that holds in four of five cases.

The queue is run forward many times (forward.py): by the real decider, with other luck each time. Luck is the rest of
the time of running work, the time of work that starts, and later arrivals (history.py). The times at which the unit
starts in these runs are the estimate: p50 is their median, and between p10 and p90 four fifths of further ones would
lie (quantiles.py, in the logarithm of the wait).

Work of one time is alike: users submit ten of a kind, and all ten are longer than their like was last month. Drawn one
by one, such differences cancel out, and the runs agree with each other more than with reality. So each run has a pace
of its own, for all work and for each leaf, by which the drawn durations are longer or shorter.

Runs do not know everything, so real starts lie wider than the runs say, and the range is stretched by how well ranges
fitted before. `ScoredEstimate` has the earlier ranges and the real starts. `stretched` moves both ends so that in the
past they would have held four fifths; the less is known, the less they move. Decisions of a run stand further apart the
further it looks (a twentieth of the time ahead): an estimate for a second in three days is of no use, and the distance
is what makes it affordable.

A run that finds the unit stuck, or looks past the horizon, counts as "later than everything"; so does one that has
more events than a run may have, and then the horizon is how far it came. A unit that the first run did not start is
run for once more, with nobody coming: if it is stuck when all others have ended, it never starts as things are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from statistics import NormalDist

from fleet.core.decide import decide
from fleet.core.foresee.certain import starts
from fleet.core.foresee.forward import Forward, Stop, core
from fleet.core.foresee.history import History
from fleet.core.foresee.position import standing
from fleet.core.foresee.quantiles import four_fifths, quantile
from fleet.core.model.plan import Plan
from fleet.core.model.reason import Code, Reason, Severity
from fleet.core.model.unit import Phase, Unit
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Snapshot, SnapshotChanges

SAMPLES = 20
SAMPLES_LEAST = 5
HORIZON_S = 30 * 86_400.0
_EVENTS = 20_000  # of one run: decisions, and events of units
_GROWTH = 0.05
_GAP_S = 1800.0  # between decisions: in a longer time, room would gather for large gangs that small jobs take in truth
_CYCLE_S = 5.0
_FIRST_S = 3600.0  # the runs look so far first, then four times as far, …
_BEHIND_MOST = 500  # waiting units after this one that are looked at, of each leaf as many as of another
_AHEAD_MOST = 5_000
_SPREAD = 0.4  # of the logarithm of a run's pace, for all work and again for each leaf: measured, see the decisions
_GOLDEN = 0.6180339887498949
_FLOOR_S = 30.0  # waits are compared by their logarithm, and no shorter than this …
_LOG_MOST = 700.0  # … nor by more than the logarithm of the largest float
_SCORES_LEAST = 20
_SCORES_MOST = 400  # the newest count

_PEOPLE = (Code.HELD, Code.SUSPENDED, Code.MEMBER_NOT_READY, Code.NO_MEMBERS)


@dataclass(frozen=True, slots=True)
class Estimate:
    """Starts at epoch seconds: four of five times between `p10` and `p90`, half the time before `p50`. None: later than
    the horizon. `samples`: how many runs it is made of."""

    p10: float
    p50: float
    p90: float | None
    samples: int


@dataclass(frozen=True, slots=True)
class NeverStarts:
    """The unit does not start as things are, even if all others end: a person must change something first. `reason`:
    the cause of its waiting."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class BeyondHorizon:
    """In at least half of the `samples` the unit does not start before the epoch second `horizon`, the end of the
    runs."""

    horizon: float
    samples: int


@dataclass(frozen=True, slots=True)
class NotEstimated:
    """There is no estimate, and `why`."""

    why: str


Outcome = Estimate | NeverStarts | BeyondHorizon | NotEstimated


def estimate(
    snapshot: Snapshot,
    unit: str,
    history: History,
    *,
    now: float,
    seed: int = 0,
    samples: int = SAMPLES,
    horizon_s: float = HORIZON_S,
    plan: Plan | None = None,
    enough: Callable[[], bool] = lambda: False,
) -> Outcome:
    """For the waiting unit with this id: see `estimates`."""
    return estimates(
        snapshot, (unit,), history, now=now, seed=seed, samples=samples, horizon_s=horizon_s, plan=plan, enough=enough
    )[unit]


def estimates(
    snapshot: Snapshot,
    units: Collection[str],
    history: History,
    *,
    now: float,
    seed: int = 0,
    samples: int = SAMPLES,
    horizon_s: float = HORIZON_S,
    plan: Plan | None = None,
    enough: Callable[[], bool] = lambda: False,
    on_run: Callable[[Mapping[str, float]], None] = lambda run: None,
) -> dict[str, Outcome]:
    """For waiting units, by id, from the same runs. `plan`: the greedy plan of the snapshot, when the caller has it.
    `enough` is asked after every run and decision. When it says True, the runs so far are the answer, if there are five
    at least. `on_run` is told of every run: when units started in it. Raises KeyError for a unit that is not there or
    does not wait, and BadSnapshot as `decide` does."""
    for unit in units:
        if snapshot.units[unit].phase is not Phase.WAITING:
            raise KeyError(unit)
    if plan is None:
        plan = decide(snapshot, now=now, seed=seed, solver=None)
    outcomes = _certain(plan, units, now)
    pending = [unit for unit in units if unit not in outcomes]
    world = _near(snapshot, plan, pending) if pending else snapshot
    if world is None:
        return outcomes | dict.fromkeys(pending, NotEstimated(f"more than {_AHEAD_MOST} jobs are ahead of it"))
    runs: list[_RunStarts] = []
    for sample in range(samples):
        if not pending:
            break
        pace = Pace(Random(f"{seed}/pace/{sample}"), sample)
        run = _run(world, pending, history, now, Random(f"{seed}/{sample}"), pace, seed, horizon_s, enough)
        if run is None:
            break
        runs.append(run)
        on_run(run.started)
        if sample == 0 and (late := [unit for unit in pending if unit not in run.started]):
            rng = Random(f"{seed}/alone")
            alone = _run(world, late, history, now, rng, Pace(rng, 0), seed, horizon_s, enough, alone=True)
            if alone is not None and alone.stuck:
                outcomes |= {unit: NeverStarts(plan.reasons[unit]) for unit in late if unit not in alone.started}
            pending = [unit for unit in pending if unit not in outcomes]
    for unit in pending:
        if len(runs) < min(samples, SAMPLES_LEAST):
            outcomes[unit] = NotEstimated("it would take too long to run the queue forward")
        else:
            outcomes[unit] = _common(runs, unit, now, horizon_s)
    return outcomes


def _certain(plan: Plan, units: Collection[str], now: float) -> dict[str, Outcome]:
    """The units of which the plan says all: they start now, or never."""
    outcomes: dict[str, Outcome] = {}
    for unit in units:
        reason = plan.reasons.get(unit)
        if reason is None:
            outcomes[unit] = Estimate(now, now, now, 1)
        elif not starts(plan, unit) and never(reason):
            outcomes[unit] = NeverStarts(reason)
    return outcomes


def _common(runs: Sequence[_RunStarts], unit: str, now: float, horizon_s: float) -> Estimate | BeyondHorizon:
    """The common result of the runs for one unit. The horizon is no later than all of them looked."""
    outcome = of_runs((run.started.get(unit, math.inf) for run in runs), now, horizon_s)
    if isinstance(outcome, BeyondHorizon):
        looked = min(run.until for run in runs if unit not in run.started)
        outcome = replace(outcome, horizon=min(outcome.horizon, looked))
    return outcome


def of_runs(found: Iterable[float], now: float, horizon_s: float = HORIZON_S) -> Estimate | BeyondHorizon:
    """The common result of the runs. `found`: the epoch second at which the unit started in each, at least one;
    infinity for not at all."""
    ordered = sorted(found)
    p50 = quantile(ordered, 0.5)
    if math.isinf(p50):
        return BeyondHorizon(now + horizon_s, len(ordered))
    low, high = four_fifths([_log(start - now) for start in ordered])
    p10, p90 = min(p50, now + _seconds(low)), max(p50, now + _seconds(high))
    return Estimate(p10, p50, p90 if p90 <= now + horizon_s else None, len(ordered))


class Pace:
    """The factor by which the work of one run lasts longer than its like in the past; its median is one. The factors of
    all work are spread evenly over the runs, so that few runs suffice."""

    def __init__(self, rng: Random, number: int) -> None:
        self._rng = rng
        share = (0.5 + number * _GOLDEN) % 1.0
        self._all = _SPREAD * NormalDist().inv_cdf(min(0.999, max(0.001, share)))
        self._leaves: dict[str | None, float] = {}

    def of(self, leaf: str | None) -> float:
        if leaf not in self._leaves:
            self._leaves[leaf] = math.exp(self._all + self._rng.gauss(0.0, _SPREAD))
        return self._leaves[leaf]


def never(reason: Reason) -> bool:
    """Whether a unit with this reason waits until a person changes something."""
    request, limit = reason.numbers.get("request"), reason.numbers.get("max")
    larger = isinstance(request, int) and isinstance(limit, int) and request > limit
    return reason.severity is Severity.ERROR or reason.code in _PEOPLE or larger


def _near(snapshot: Snapshot, plan: Plan, units: Collection[str]) -> Snapshot | None:
    """The snapshot without most of the waiting units that stand behind these; None when too many stand before them. Of
    the units behind, the first of each leaf stay, since the next turn may be theirs, and so do units with a
    reservation. A unit that its queue does not consider yet counts as considered, since the core does not know when its
    queue will consider it."""
    waiting = [unit for unit in snapshot.units.values() if unit.phase is Phase.WAITING]
    first = [unit for unit in waiting if unit.id not in plan.reasons]  # these start now
    line = sorted((u for u in waiting if u.id in plan.reasons), key=partial(standing, plan.reasons))
    place = max(number for number, other in enumerate(line) if other.id in units)
    if len(first) + place > _AHEAD_MOST:
        return None
    turns: dict[str | None, int] = {}
    behind: list[tuple[int, int, str]] = []
    for number, other in enumerate(line[place + 1 :]):
        turn = turns[other.leaf] = turns.get(other.leaf, 0) + 1
        if other.head is None and other.claim is None:
            behind.append((turn, number, other.id))
    far = {unit for _, _, unit in sorted(behind)[_BEHIND_MOST:]}
    held = [unit for unit in waiting if unit.waits_turn and unit.id not in far]
    considered = tuple(replace(unit, held=False, held_why="", waits_turn=False) for unit in held)
    changes = SnapshotChanges(considered, tuple(sorted(far)), tree=_in_any_number(snapshot.tree), new_tree=True)
    return snapshot.apply(changes)


def _in_any_number(tree: QuotaTree | None) -> QuotaTree | None:
    """The tree in which no queue starts one unit at a time."""
    return tree.in_any_number() if tree is not None else None


@dataclass(frozen=True, slots=True)
class _RunStarts:
    """The starts of units in a run, as epoch seconds; the end of the run, if it was cut short, else infinity; and
    whether the run ended since nothing could start any more."""

    started: Mapping[str, float]
    until: float
    stuck: bool


def _run(
    snapshot: Snapshot,
    units: Collection[str],
    history: History,
    now: float,
    rng: Random,
    pace: Pace,
    seed: int,
    horizon_s: float,
    enough: Callable[[], bool],
    alone: bool = False,
) -> _RunStarts | None:
    """One run; None when `enough` stopped it. `alone`: without arrivals."""

    def runs_s(running: Unit, at: float) -> float:
        ran = max(0.0, at - running.placed_at) if running.placed_at is not None else 0.0
        return history.runs_s(rng, running, ran, pace.of(running.leaf)) - ran

    arrivals = history.arrivals(Random(rng.random())) if not alone else iter(())
    gangs = {past.unit.components: past.unit for past in history.pasts}
    run = Forward(
        snapshot,
        now=now,
        decider=core(seed),
        runs_s=runs_s,
        cycle_s=_CYCLE_S,
        growth=_GROWTH,
        gap_s=_GAP_S,
        gangs=gangs.values(),
    )
    following, number, look, decided = next(arrivals, None), 0, _FIRST_S, 0
    while True:
        until = now + min(look, horizon_s)
        while following is not None and following[0] <= until:
            at, like = following
            later = replace(
                like,
                id=f"later/{number}",
                name=f"later/{number:06}",
                phase=Phase.WAITING,
                member=None,
                placed_at=None,
                share_until=None,
                visible=(),
                seats=(),
                claim=None,
                created_at=at,
                enqueued_at=at,
                backoff_until=None,
                held=False,
                waits_turn=False,
                suspended=False,
                head=None,
                leaving_at=None,
                checkpoint_at=None,
                excluded=frozenset(),
                avoid=frozenset(),
                attempts=0,
            )
            run.submit(at, later)
            number += 1
            following = next(arrivals, None)
        left = max(0, _EVENTS - decided - len(run.log))
        for _ in run.steps(most_events=left, until=until, watch=units):
            decided += 1
            if enough():
                return None
        if run.stopped is Stop.EVENTS:
            return _RunStarts(run.started, run.now, False)
        over = run.stopped is not Stop.TIME and (following is None or run.stopped is not Stop.STUCK)
        if over or look >= horizon_s:
            return _RunStarts(run.started, math.inf, run.stopped is Stop.STUCK)
        look *= 4


@dataclass(frozen=True, slots=True)
class ScoredEstimate:
    """The range that was told at the epoch second `at`, and the time when the unit started."""

    estimate: Estimate
    at: float
    started: float

    @property
    def score(self) -> float:
        """The distance of the start from the median, in lengths of the half of the range that the start lies in:
        between -1 and 1 inside the range."""
        middle = _log(self.estimate.p50 - self.at)
        off = _log(self.started - self.at) - middle
        half = middle - _log(self.estimate.p10 - self.at) if off < 0 else _upper(self.estimate, self.at) - middle
        return off / max(half, _NARROWEST)


_AS_SAID = [NormalDist().inv_cdf(n / 21) / NormalDist().inv_cdf(0.9) for n in range(1, 21)]
"""Scores as they would be, were ranges right as they are."""

_NARROWEST = 0.05  # of half a range, in the logarithm of the wait: five per cent


def stretched(estimate: Estimate, at: float, scores: Sequence[float]) -> Estimate:
    """The estimate with both ends moved to where they would have held four fifths of the earlier starts: `scores` of
    earlier estimates, oldest first. Unchanged while there are too few; a few move it little, since estimates of one
    time share their luck."""
    if len(scores) < _SCORES_LEAST:
        return estimate
    newest = sorted([*scores[-_SCORES_MOST:], *_AS_SAID])
    low, high = min(0.0, quantile(newest, 0.1)), max(0.0, quantile(newest, 0.9))
    middle = _log(estimate.p50 - at)
    below = max(middle - _log(estimate.p10 - at), _NARROWEST)
    above = max(_upper(estimate, at) - middle, _NARROWEST)
    p10 = at + _seconds(middle + low * below)
    p90 = at + _seconds(middle + high * above)
    late = estimate.p90 is None or p90 > at + HORIZON_S
    return replace(estimate, p10=min(p10, estimate.p50), p90=None if late else max(p90, estimate.p50))


def _upper(said: Estimate, at: float) -> float:
    return _log((said.p90 if said.p90 is not None else at + HORIZON_S) - at)


def _log(wait_s: float) -> float:
    return math.log(max(0.0, wait_s) + _FLOOR_S)


def _seconds(log: float) -> float:
    return max(0.0, math.exp(min(log, _LOG_MOST)) - _FLOOR_S)
