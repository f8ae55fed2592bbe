"""Virtual time: a snapshot run forward, decision by decision, until everything has happened or a bound is reached.

Units start where the decider says and their pods are seen at once; they end when `runs_s` says. An evicted unit leaves
after a grace and waits again, with the time of its first enqueueing. Claims and heads are carried into the next
snapshot. So the real decider is asked, as often as things change, and its acts are the result. Acts of a member by
itself (slow starts, failures) are left out. Decisions stand `cycle_s` apart at least. While a unit waits they are made
again every `tick_s`, since protection, claims and heads are matters of time, and when a head becomes overdue or ceases
to be.

    run = Forward(snapshot, now=now, decider=core(seed=0), runs_s=by_walltime(3600.0))
    run.submit(now + 60.0, unit)                    # a unit that comes later
    stop = run.run(most_events=10_000, until=now + 86_400.0, watch={"some-unit"})
    run.started["some-unit"]                        # epoch second of its first start, if it started
    run.log                                         # everything that happened, in order

The time of a run is that of its decisions: one for every event that is more than `cycle_s` after the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import heappop, heappush
from math import ceil

from fleet.core.decide import decide
from fleet.core.foresee.nodes import ForwardNodes
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Claim, Phase, Unit
from fleet.core.placement.problem import Solver
from fleet.core.placement.reservation.heads import nominated, overdue_change
from fleet.core.snapshot import Snapshot, SnapshotChanges

_STEP_S = 1.0  # at the least between a decision and the next change of a head

RunsS = Callable[[Unit, float], float | None]
"""How long a placed unit still runs from an epoch second on; None: it does not end by itself. Asked once for every
unit that runs at the beginning, and at every start."""


class Stop(StrEnum):
    """Why a run ended."""

    DONE = "nothing waits, runs or comes any more"
    STUCK = "units wait, and nothing ends or comes any more that could start them"
    WATCHED = "every unit that was watched has started"
    EVENTS = "the most events"
    TIME = "the end of the time that was looked at"


class UnitEventKind(StrEnum):
    SUBMITTED = "submitted"
    STARTED = "started"
    ENDED = "ended"
    EVICTED = "evicted"  # was told to leave
    LEFT = "left"  # is gone after its eviction, and waits again
    REFUSED = "refused"  # the member finds no room for it yet; it starts there when it does


@dataclass(frozen=True, slots=True)
class UnitEvent:
    """An event of a unit at the epoch second `at`, and its member if it has one."""

    at: float
    what: UnitEventKind
    unit: str
    member: str = ""


Decider = Callable[["Forward"], Plan]


def core(seed: int, solver: Solver | None = None) -> Decider:
    """The real decider, on the snapshot of the moment."""
    return lambda run: decide(run.snapshot(), now=run.now, seed=seed, solver=solver)


def by_walltime(otherwise: float | None = None) -> RunsS:
    """Units run for their walltime since their start, units without one for `otherwise` seconds; None: these do not
    end. A unit that is beyond its walltime runs a second more."""

    def runs_s(unit: Unit, now: float) -> float | None:
        length = unit.walltime_s or otherwise
        if length is None:
            return None
        ran = now - unit.placed_at if unit.placed_at is not None else 0.0
        return max(1.0, length - ran)

    return runs_s


class Forward:
    """One run. All public fields may be read at any time, by the decider too, and changed by this class alone."""

    def __init__(
        self,
        snapshot: Snapshot,
        *,
        now: float,
        decider: Decider,
        runs_s: RunsS,
        grace_s: float = 30.0,
        cycle_s: float = 1.0,
        tick_s: float = 60.0,
        growth: float = 0.0,
        gap_s: float = float("inf"),
        gangs: Collection[Unit] = (),
        passes: Callable[[float], None] | None = None,
    ) -> None:
        """`growth`: decisions stand apart by this share of the time that has passed in the run, too, but no more than
        `gap_s`. `gangs`: units shaped like the units that `submit` will bring, where the snapshot has none like them.
        `passes` gets each time that comes, before it comes: until then nothing changes."""
        self.now = now
        self.units: dict[str, Unit] = dict(snapshot.units)
        known = [*self.units.values(), *gangs]
        self.nodes = {name: ForwardNodes(member, known) for name, member in snapshot.members.items()}
        self.waiting: dict[str, None] = {}  # ids, in order of arrival
        self.log: list[UnitEvent] = []
        self.started: dict[str, float] = {}  # unit -> its first start in this run
        self.stopped = Stop.EVENTS
        self._snapshot = snapshot
        self._put: set[str] = set()
        self._gone: set[str] = set()
        self._moved: set[str] = set()  # members whose nodes have changed since the last snapshot
        self._decider = decider
        self._runs_s = runs_s
        self._grace_s, self._cycle_s, self._tick_s = grace_s, cycle_s, tick_s
        self._began, self._growth, self._gap_s = now, growth, gap_s
        self._heap: list[tuple[float, int, UnitEventKind | None, Unit | str, int]] = []
        self._number = 0
        self._turn: dict[str, int] = {}  # of a unit: events that were foreseen in an earlier turn do not come true
        self._heads = {unit.id for unit in snapshot.units.values() if unit.head is not None}
        self._without_room: dict[str, dict[str, None]] = {}
        self._passes = passes
        self._fresh = True  # something happened since the last decision
        self._decided_at: float | None = None
        self._last = now  # when something happened last
        for unit in snapshot.units.values():
            self._begin(unit)

    def submit(self, at: float, unit: Unit) -> None:
        """`unit` waits from `at` on."""
        self._push(at, UnitEventKind.SUBMITTED, unit)

    def snapshot(self) -> Snapshot:
        """The snapshot that the decider sees now."""
        for name in self._moved:
            nodes = self.nodes[name]
            for key in nodes.changed:
                unit = self.units.get(key)
                if unit is not None and unit.phase is not Phase.WAITING:
                    self._set(replace(unit, seats=nodes.seats(key)))
            nodes.changed.clear()
        if self._put or self._gone or self._moved:
            changes = SnapshotChanges(
                put_units=tuple(self.units[key] for key in sorted(self._put)),
                removed_units=tuple(sorted(self._gone)),
                put_members=tuple(self.nodes[name].member for name in sorted(self._moved)),
            )
            self._snapshot = self._snapshot.apply(changes)
            self._put, self._gone, self._moved = set(), set(), set()
        return self._snapshot

    def run(self, *, most_events: int, until: float, watch: Collection[str] = ()) -> Stop:
        """Go on until a bound is reached, and return the bound. `most_events`: happenings and decisions together;
        `until`: an epoch second; `watch`: ids of units: the run ends at the last of their first starts. May be called
        again."""
        for _ in self.steps(most_events=most_events, until=until, watch=watch):
            pass
        return self.stopped

    def steps(self, *, most_events: int, until: float, watch: Collection[str] = ()) -> Iterator[Plan]:
        """Run as `run` does, one decision at a time; `stopped` gives the cause of the end."""
        missing = {key for key in watch if key not in self.started}
        for _ in range(most_events):
            if watch and not missing:
                self.stopped = Stop.WATCHED
                return
            happens, decides = self._heap[0][0] if self._heap else None, self._next_decision()
            if happens is None and decides is None:
                self.stopped = Stop.STUCK if self.waiting else Stop.DONE
                return
            at = min(time for time in (happens, decides) if time is not None)
            if at > until:
                self.now, self.stopped = max(self.now, until), Stop.TIME
                return
            if self._passes is not None and at > self.now:
                self._passes(at)
            self.now = max(self.now, at)
            if happens is not None and happens <= at:
                _, _, what, subject, turn = heappop(self._heap)
                self._happen(what, subject, turn)
            else:
                plan = self._decider(self)
                self._decided_at = self.now
                self._carry_out(plan)
                missing.difference_update(self.started)
                yield plan
        self.stopped = Stop.EVENTS

    def _next_decision(self) -> float | None:
        """When to decide next; None: nothing has changed, and time alone changes nothing any more."""
        if not self.waiting:
            return None
        if self._decided_at is None:
            return self.now
        grown = min(self._gap_s, self._growth * (self._decided_at - self._began))
        if self._fresh:
            return max(self.now, self._decided_at + max(self._cycle_s, grown))
        config = self._snapshot.config
        longest = max(config.head_after_s, config.protection_s, config.claim_s) + self._tick_s
        quiet_s = self._decided_at - self._last
        tick = [self._decided_at + max(self._tick_s, grown)] if quiet_s <= longest else []
        return min([*tick, *self._overdue_changes(self._decided_at)], default=None)

    def _overdue_changes(self, decided_at: float) -> Iterator[float]:
        """For each head with a reservation the second after a decision in which guaranteed work begins or ceases to
        wait for it, within one whole turn of the head since the last event. A later turn brings nothing new."""
        config = self._snapshot.config
        turn_s = config.delay_s + config.head_after_s
        for unit in (self.units[key] for key in self._heads):
            if unit.head is None or not unit.head.member:
                continue
            change = overdue_change(unit, config, decided_at)
            first = unit.enqueued_at + 2 * config.head_after_s
            if change is not None and change <= max(self._last, first) + turn_s:
                yield max(ceil(change), decided_at + max(_STEP_S, self._cycle_s))

    def _begin(self, unit: Unit) -> None:
        if unit.phase is Phase.WAITING:
            self._wait(unit)
        elif unit.phase is Phase.EVICTING:
            self._push(self.now + self._grace_s, UnitEventKind.LEFT, unit.id)
        elif any(dict(unit.visible).get(part.name, 0) < part.replicas for part in unit.components):
            self._give_room(unit, unit.placed_at)
        else:
            self._will_end(unit)

    def _wait(self, unit: Unit) -> None:
        self.waiting[unit.id] = None
        if unit.backoff_until is not None and unit.backoff_until > self.now:
            self._push(unit.backoff_until, None, unit.id)

    def _push(self, at: float, what: UnitEventKind | None, subject: Unit | str) -> None:
        turn = self._turn.get(subject, 0) if isinstance(subject, str) else 0
        heappush(self._heap, (at, self._number, what, subject, turn))
        self._number += 1

    def _note(self, what: UnitEventKind, unit: Unit) -> None:
        self.log.append(UnitEvent(self.now, what, unit.id, unit.member or ""))
        self._fresh, self._last = True, self.now

    def _set(self, unit: Unit) -> None:
        self.units[unit.id] = unit
        self._put.add(unit.id)
        self._gone.discard(unit.id)

    def _happen(self, what: UnitEventKind | None, subject: Unit | str, turn: int) -> None:
        if isinstance(subject, Unit):
            self._set(subject)
            self._wait(subject)
            self._note(UnitEventKind.SUBMITTED, subject)
            return
        if what is None:  # a time that was waited for
            self._fresh, self._last = True, self.now
            return
        if turn != self._turn.get(subject, 0):
            return
        unit = self.units[subject]
        self._turn[subject] = turn + 1
        self._note(what, unit)
        self._free(unit)
        if what is UnitEventKind.ENDED:
            del self.units[subject]
            self._put.discard(subject)
            self._gone.add(subject)
        else:
            again = replace(
                unit,
                phase=Phase.WAITING,
                member=None,
                placed_at=None,
                share_until=None,
                visible=(),
                seats=(),
                claim=None,
                head=None,
                attempts=unit.attempts + 1,
            )
            self._set(again)
            self._wait(again)

    def _free(self, unit: Unit) -> None:
        """Free the room of the unit. Units that wait for room in that member get it, in order."""
        name = unit.member or ""
        nodes, queue = self.nodes.get(name), self._without_room.get(name, {})
        queue.pop(unit.id, None)
        if nodes is None:
            return
        nodes.release(unit)
        self._moved.add(name)
        for key in list(queue):
            if nodes.fits(self.units[key]):
                del queue[key]
                self._give_room(self.units[key])

    def _give_room(self, unit: Unit, since: float | None = None) -> None:
        """Give the pods of a placed unit their nodes, so that it runs (`since` an epoch second, unless from now on). A
        unit for which the member has no room yet waits there."""
        name = unit.member or ""
        nodes = self.nodes.get(name)
        if nodes is None or not nodes.seat(unit):
            self._without_room.setdefault(name, {})[unit.id] = None
            self._note(UnitEventKind.REFUSED, unit)
            return
        self._moved.add(name)
        seen = tuple((part.name, part.replicas) for part in unit.components)
        since = unit.placed_at if unit.visible else since
        seated = replace(unit, visible=seen, placed_at=self.now if since is None else since)
        self._set(seated)
        self.started.setdefault(unit.id, self.now)
        self._note(UnitEventKind.STARTED, seated)
        self._will_end(seated)

    def _will_end(self, unit: Unit) -> None:
        runs_s = self._runs_s(unit, self.now)
        if runs_s is not None:
            self._push(self.now + max(0.0, runs_s), UnitEventKind.ENDED, unit.id)

    def _carry_out(self, plan: Plan) -> None:
        for eviction in plan.evictions:
            unit = replace(self.units[eviction.unit], phase=Phase.EVICTING)
            self._set(unit)
            self._note(UnitEventKind.EVICTED, unit)
            self._push(self.now + self._grace_s, UnitEventKind.LEFT, unit.id)
        for claim in plan.claims:
            self._set(replace(self.units[claim.unit], claim=Claim(claim.member, claim.until)))
            self._last = self.now
        said = {head.unit for head in plan.heads}
        for unit in nominated({key: self.units[key] for key in self._heads | said}, plan):
            self._set(unit)
        self._heads = said.difference(placement.unit for placement in plan.placements)
        for placement in plan.placements:
            del self.waiting[placement.unit]
            placed = replace(
                self.units[placement.unit],
                phase=Phase.PLACED,
                member=placement.member,
                placed_at=self.now,
                share_until=placement.share_until,
                claim=None,
                head=None,
                backoff_until=None,
            )
            self._set(placed)
            self._give_room(placed)
        self._fresh = False  # planning again right after a plan changes nothing (I7)
