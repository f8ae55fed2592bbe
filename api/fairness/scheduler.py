"""Seats and turns: the next request to go on, as a pure rule.

A request needs a seat of its priority level while it is worked on, and a turn on the event loop for each of its steps.
Both are given by start-time fair queueing. Each flow and each level has a tag: the time on the loop that it has had,
a level's divided by its shares. The lowest tag goes first. A flow that was idle starts at the tag of the last one that
was served, so that idleness saves nothing up, and a light flow never waits behind a heavy one.

Each flow has a queue of its own. A kube-apiserver deals flows onto a fixed number of queues; here `queues`, `hand_size`
and `queue_length` bound what may wait, as they do there (docs/decisions/0036).

The caller says how long a step took (`charge`), and when a request ends (`leave`). Nothing here reads a clock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from weakref import WeakValueDictionary


@dataclass(frozen=True, slots=True)
class Limits:
    """One PriorityLevelConfiguration. `queues` 0: a request that finds no seat is refused."""

    shares: int
    exempt: bool = False
    lendable_percent: int = 0
    borrowing_percent: int | None = None  # None: without limit
    queues: int = 0
    hand_size: int = 1
    queue_length: int = 0

    @property
    def of_flow(self) -> int:
        """Requests of one flow that may wait."""
        return min(self.hand_size, self.queues) * self.queue_length

    @property
    def of_all(self) -> int:
        return self.queues * self.queue_length


@dataclass(slots=True, eq=False)
class WaitingStep:
    """A step that waits for its turn. `seated`: its request has a seat already. `seats` 0: a request is still to be
    read; the number of connections bounds these, and not the queue."""

    level: PriorityLevel
    flow: Flow
    seats: int
    estimate_s: float
    since: float
    seated: bool
    owner: Any


@dataclass(slots=True, eq=False, weakref_slot=True)
class Flow:
    """The steps of one flow that wait. Requests with a seat come first: only these can give seats back.
    Nothing more is read while requests wait for seats."""

    tag: float = 0.0
    in_use: int = 0
    company: int = 0  # requests to come that do not count as alone
    seated: deque[WaitingStep] = field(default_factory=deque)
    arrived: deque[WaitingStep] = field(default_factory=deque)
    unread: deque[WaitingStep] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self.seated) + len(self.arrived) + len(self.unread)

    def line(self, place: WaitingStep) -> deque[WaitingStep]:
        return self.seated if place.seated else self.arrived if place.seats else self.unread


@dataclass(slots=True, eq=False)
class PriorityLevel:
    """One priority level at work. `uid` is that of the stored object."""

    name: str
    uid: str
    limits: Limits
    nominal: int = 0
    in_use: int = 0
    tag: float = 0.0
    served: float = 0.0  # the tag of the flow that was served last
    waiting: int = 0
    flows: WeakValueDictionary[str, Flow] = field(default_factory=WeakValueDictionary)
    busy: dict[Flow, None] = field(default_factory=dict)

    @property
    def unlent_seats(self) -> int:
        """The seats that are never lent."""
        return self.nominal - self.nominal * self.limits.lendable_percent // 100

    @property
    def most(self) -> int | None:
        """Its seats and those that it may borrow; None: without limit."""
        percent = self.limits.borrowing_percent
        return None if percent is None else self.nominal + self.nominal * percent // 100

    def flow(self, name: str) -> Flow:
        """The flow of this name. It is forgotten with the last class, step or request that knows it."""
        found = self.flows.get(name)
        if found is None:
            found = self.flows[name] = Flow()
        return found


def _tag(of: Flow | PriorityLevel) -> float:
    return of.tag


class Scheduler:
    """All priority levels of one process, with `seats` between them."""

    def __init__(self, seats: int) -> None:
        self._seats = seats
        self.levels: dict[str, PriorityLevel] = {}
        self._busy: dict[PriorityLevel, None] = {}
        self._served = 0.0
        self.waiting = 0
        self._in_use = 0

    def configure(self, wanted: Mapping[str, tuple[str, Limits]]) -> None:
        """Levels by name with uid and limits. Requests of a level that is gone end as they began."""
        before, self.levels = self.levels, {}
        shares = sum(limits.shares for _, limits in wanted.values()) or 1
        for name, (uid, limits) in wanted.items():
            level = before.get(name)
            if level is None or level.uid != uid:
                level = PriorityLevel(name, uid, limits)
            level.limits = limits
            level.nominal = -(-self._seats * limits.shares // shares)
            self.levels[name] = level

    def take(self, level: PriorityLevel, flow: Flow, seats: int) -> bool:
        """Take seats at once; False where there are none."""
        if not self._free(level, flow, seats):
            return False
        level.in_use += seats
        flow.in_use += seats
        self._in_use += seats
        return True

    def leave(self, level: PriorityLevel, flow: Flow, seats: int) -> None:
        level.in_use -= seats
        flow.in_use -= seats
        self._in_use -= seats

    def _free(self, level: PriorityLevel, flow: Flow, seats: int) -> bool:
        """No flow has more seats than are free beside it. So there is one for the first request of any other."""
        wanted = flow.in_use + seats
        return wanted <= level.nominal - level.in_use or not level.in_use or wanted <= self._left_for(level)

    def _left_for(self, level: PriorityLevel) -> int:
        """The free seats of a level, and those that it may borrow now."""
        kept = sum(max(0, other.unlent_seats - other.in_use) for other in self.levels.values() if other is not level)
        left = max(level.nominal - level.in_use, self._seats - self._in_use - kept)
        return left if level.most is None else min(left, level.most - level.in_use)

    def light(self, level: PriorityLevel, flow: Flow) -> bool:
        """Whether a step of this flow would be the next in any case."""
        return not len(flow) and flow.tag <= level.served and (level.tag <= self._served or len(self._busy) < 2)

    def wait(self, place: WaitingStep) -> bool:
        """Let a step wait; False where the queue is full."""
        level, flow = place.level, place.flow
        line = flow.line(place)
        if line is flow.arrived and not (len(line) < level.limits.of_flow and level.waiting < level.limits.of_all):
            return False
        line.append(place)
        self.waiting += 1
        level.waiting += place.seats > 0
        if flow not in level.busy:
            level.busy[flow] = None
            flow.tag = max(flow.tag, level.served)
        if level not in self._busy:
            self._busy[level] = None
            level.tag = max(level.tag, self._served)
        return True

    def next(self) -> WaitingStep | None:
        """The step whose turn it is, with its seats taken; None where none waits that could go on."""
        for level in sorted(self._busy, key=_tag) if len(self._busy) > 1 else self._busy:
            if ready := self._ready(level):
                flow = min(ready, key=_tag) if len(ready) > 1 else ready[0]
                place = self._pop(flow)
                self._left(place)
                self._served, level.served = level.tag, flow.tag
                self.charge(level, flow, place.estimate_s)
                return place
        return None

    def _ready(self, level: PriorityLevel) -> list[Flow]:
        return [
            flow
            for flow in level.busy
            if flow.seated or self._free(level, flow, flow.arrived[0].seats if flow.arrived else 0)
        ]

    def _pop(self, flow: Flow) -> WaitingStep:
        if flow.seated:
            return flow.seated.popleft()
        place = (flow.arrived or flow.unread).popleft()
        self.take(place.level, flow, place.seats)
        return place

    def _left(self, place: WaitingStep) -> None:
        self.waiting -= 1
        place.level.waiting -= place.seats > 0
        if not len(place.flow):
            place.level.busy.pop(place.flow, None)
        if not place.level.busy:
            self._busy.pop(place.level, None)

    def charge(self, level: PriorityLevel, flow: Flow, seconds: float) -> None:
        """Time on the loop that a flow had; negative where it had less than was thought."""
        flow.tag = max(flow.tag, level.served) + seconds
        level.tag = max(level.tag, self._served) + seconds / max(level.limits.shares, 1)

    def drop(self, place: WaitingStep) -> None:
        """Take a step out that waits no longer; nothing where it has had its turn."""
        line = place.flow.line(place)
        if place in line:
            line.remove(place)
            self._left(place)

    def overdue(self, since: float) -> list[WaitingStep]:
        """Take out all that came before `since` and have no seat yet."""
        late = [
            place
            for level in self._busy
            for flow in level.busy
            for place in chain(flow.arrived, flow.unread)
            if place.since < since
        ]
        for place in late:
            self.drop(place)
        return late
