"""Deciding although deciding fails: an exception out of `decide` is a bug, and must not stop the whole fleet. So is a
decision that does not end, where `decide` has a deadline (process.py).

A unit that a plan names as too costly is left out for the same time, without a search: nobody's job may make each
decision slow for all others.

Three resorts are tried in this order, each with a name that metrics and Events say: the decision without the solver;
without the waiting units (few) that it fails on, found by leaving out halves; without taking back. Those that came or
changed since the last plan are suspected first: they are few, so the search is short. The resort that
helped stays for ASIDE_S, so that a bug costs its search once. A unit that is left out comes back when it changes, or
then. Running units are never left out: their room would be given away. Everything is bounded, by trials and by time;
where it does not suffice more units are left out than need be. A failure that no resort helps against stays an
exception.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from fleet.core.decide import decide
from fleet.core.model.plan import Plan
from fleet.core.model.reason import Code, Reason
from fleet.core.model.unit import Phase, Unit
from fleet.core.placement.problem import Solver
from fleet.core.snapshot import Snapshot, SnapshotChanges
from fleet.values.times import instant

SEED = 1  # for all decisions: the same snapshot gives the same plan (I8)
ASIDE_S = 600.0
FEW = 20  # units left out, rather than that no unit takes back
TRIALS_MOST = 100  # decisions of one search
SEARCH_S = 60.0
ERROR_MAX = 300  # characters
TOO_MANY_STEPS = frozenset({"gang_steps", "search_steps"})  # bounds past which a plan names units that cost too much


class Resort(StrEnum):
    """The resort after a decision that failed."""

    WITHOUT_SOLVER = "without_solver"
    LEFT_OUT = "left_out"
    WITHOUT_RECLAIM = "without_reclaim"
    UNDECIDED = "undecided"
    UNREAD = "unread"  # the sources of a unit


@dataclass(frozen=True, slots=True)
class OmittedUnit:
    """A waiting unit that is left out until the epoch second `until`, for as long as it is this very unit."""

    unit: Unit
    reason: Reason
    until: float


@dataclass(frozen=True, slots=True)
class DeciderAnswer:
    """`plan` None: units were left out; decide again. `fault`: the exception, and `resort` the way around it."""

    plan: Plan | None
    fault: Exception | None = None
    resort: Resort | None = None
    left_out: tuple[Unit, ...] = ()


class Decider:
    """Decides, and remembers what helped. One decision at a time."""

    def __init__(
        self,
        clock: Callable[[], float],
        decide: Callable[..., Plan] = decide,
        trial: Callable[..., Plan] | None = None,
    ) -> None:
        """`clock`: seconds that only grow. `decide`: makes the decisions. `trial`: makes those of a search, which are
        many, and some of which may not end; None: `decide`."""
        self._clock = clock
        self._decide = decide
        self._trial = trial or decide
        self.ended = False  # whether nobody waits for a search any more: it then ends with the trial that it makes
        self._way: Resort | None = None  # how decisions are made until `_way_until`
        self._way_until = 0.0
        self._suspects: frozenset[str] = frozenset()  # that were left out before
        self._sound = Snapshot()  # there was a plan for it
        self.aside: dict[str, OmittedUnit] = {}

    def without_aside(self, snapshot: Snapshot, now: float) -> Snapshot:
        """The snapshot without the units that are aside still."""
        gone = {key for key, one in self.aside.items() if one.until <= now or snapshot.units.get(key) != one.unit}
        if gone:
            self._suspects = frozenset(gone & snapshot.units.keys())
            self.aside = {key: one for key, one in self.aside.items() if key not in gone}
        return _without(snapshot, self.aside) if self.aside else snapshot

    def decide(
        self, snapshot: Snapshot, *, now: float, solver: Solver | None, mark: Callable[[str], None]
    ) -> DeciderAnswer:
        """`snapshot`: the result of `heard`. Raises what no resort helps against."""
        way = self._way if now < self._way_until else None
        try:
            plan = self._decide(_as(snapshot, way), now=now, seed=SEED, solver=None if way else solver, mark=mark)
        except Exception as error:
            return self._resorted(snapshot, now, way, error)
        self._sound = snapshot
        self._leave_out_costly(snapshot, plan, now)
        return DeciderAnswer(plan)

    def _leave_out_costly(self, snapshot: Snapshot, plan: Plan, now: float) -> None:
        """Leave the units out of later decisions that took too many steps of this one."""
        if TOO_MANY_STEPS.isdisjoint(plan.certificate.bounds):
            return
        costly = {key: reason for key, reason in plan.reasons.items() if reason.code is Code.TOO_COSTLY}
        self.aside |= {key: OmittedUnit(snapshot.units[key], why, now + ASIDE_S) for key, why in costly.items()}

    def _resorted(self, snapshot: Snapshot, now: float, way: Resort | None, error: Exception) -> DeciderAnswer:
        if way is None:
            plan = self._tried(snapshot, now, Resort.WITHOUT_SOLVER)
            if plan is not None:
                return self._kept_to(Resort.WITHOUT_SOLVER, plan, now, error)
        if way is not Resort.WITHOUT_RECLAIM:
            culprits = self._search(snapshot, now, Resort.WITHOUT_SOLVER, FEW)
            if culprits is not None:
                return self._left_out(snapshot, culprits, now, error)
            plan = self._tried(snapshot, now, Resort.WITHOUT_RECLAIM)
            if plan is not None:
                return self._kept_to(Resort.WITHOUT_RECLAIM, plan, now, error)
        culprits = self._search(snapshot, now, Resort.WITHOUT_RECLAIM, len(snapshot.units))
        if culprits is None:
            raise error
        return self._left_out(snapshot, culprits, now, error)

    def _search(self, snapshot: Snapshot, now: float, way: Resort, most: int) -> frozenset[str] | None:
        sound = self._sound.units
        new = {key for key, unit in snapshot.units.items() if sound.get(key) is not unit}
        return _Search(self, snapshot, now, way, most).run(self._suspects, self._suspects | new)

    def _kept_to(self, way: Resort, plan: Plan, now: float, error: Exception) -> DeciderAnswer:
        self._way, self._way_until = way, now + ASIDE_S
        return DeciderAnswer(plan, error, way)

    def _left_out(self, snapshot: Snapshot, found: Collection[str], now: float, error: Exception) -> DeciderAnswer:
        units = tuple(snapshot.units[key] for key in sorted(found))
        until = now + ASIDE_S
        reason = Reason(Code.DECIDER_FAILED, {"error": text_of(error), "until": instant(until)})
        self.aside |= {unit.id: OmittedUnit(unit, reason, until) for unit in units}
        return DeciderAnswer(None, error, Resort.LEFT_OUT, units)

    def _tried(self, snapshot: Snapshot, now: float, way: Resort) -> Plan | None:
        """The plan, or None when it is not to be had in this way."""
        if self.ended:
            return None
        try:
            return self._trial(_as(snapshot, way), now=now, seed=SEED, solver=None)
        except Exception:
            return None

    def fine(self, snapshot: Snapshot, now: float, way: Resort) -> bool:
        """Whether the snapshot can be decided in this way."""
        return self._tried(snapshot, now, way) is not None

    def clock(self) -> float:
        """Seconds that only grow."""
        return self._clock()


class _Search:
    """For waiting units without which a snapshot can be decided: of those left out, halves that need not be come back,
    down to single ones. None of what it finds could come back alone, unless trials or time ran out."""

    def __init__(self, decider: Decider, snapshot: Snapshot, now: float, way: Resort, most: int) -> None:
        self._decider, self._snapshot, self._now, self._way, self._most = decider, snapshot, now, way, most
        self._trials = TRIALS_MOST
        self._ends = decider.clock() + SEARCH_S
        self._culprits: list[str] = []

    def run(self, *suspects: Collection[str]) -> frozenset[str] | None:
        """None when leaving out at most `most` does not help. `suspects`: sets of units to look among first."""
        waiting = {unit.id for unit in self._snapshot.units.values() if unit.phase is Phase.WAITING}
        tried: set[str] = set()
        for some in (*suspects, waiting):
            out = sorted(waiting.intersection(some))
            if len(out) > len(tried) and self._fine(out):
                self._narrow(out, [])
                return frozenset(self._culprits) if len(self._culprits) <= self._most else None
            tried.update(out)
        return None

    def _narrow(self, out: Sequence[str], rest: Sequence[str]) -> None:
        """Without `out`, those found and `rest` it can be decided: find who of `out` must stay out."""
        over = self._trials <= 0 or self._decider.clock() > self._ends
        if len(out) == 1 or over or len(self._culprits) > self._most:
            self._culprits += out
            return
        half = len(out) // 2
        first, second = out[:half], out[half:]
        if self._fine([*first, *rest]):
            self._narrow(first, rest)
        elif self._fine([*second, *rest]):
            self._narrow(second, rest)
        else:
            self._narrow(first, [*second, *rest])
            self._narrow(second, rest)

    def _fine(self, out: Sequence[str]) -> bool:
        self._trials -= 1
        return self._decider.fine(_without(self._snapshot, {*out, *self._culprits}), self._now, self._way)


def text_of(error: Exception) -> str:
    """One line that names it."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:ERROR_MAX]


def _as(snapshot: Snapshot, way: Resort | None) -> Snapshot:
    if way is not Resort.WITHOUT_RECLAIM:
        return snapshot
    return snapshot.apply(SnapshotChanges(config=replace(snapshot.config, reclaim=False), new_config=True))


def _without(snapshot: Snapshot, units: Iterable[str]) -> Snapshot:
    return snapshot.apply(SnapshotChanges(removed_units=tuple(units)))
