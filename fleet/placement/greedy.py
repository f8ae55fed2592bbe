"""The greedy answer: gangs in order, each to the best member that takes it whole. There is always one.

Order is tier, then priority, then time of enqueueing, then name. Room and quota only shrink during a pass, so what
was refused once is not asked again for any gang alike: a pass costs what starts, and a glance at what waits. In a queue
with policy Block the first gang that cannot start stops its leaf; otherwise the next one is tried.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from fleet.model.amounts import Amounts
from fleet.model.unit import Unit
from fleet.placement.eligibility import Choice, Eligibility
from fleet.placement.room import Fit, MemberRoom, Space
from fleet.quota.tiers import Tier
from fleet.quota.usage import Usage


@dataclass(slots=True, eq=False)
class Candidate:
    """A waiting unit that may start now, as far as it alone can tell."""

    unit: Unit
    shape: int
    eligibility: Eligibility
    request: Amounts
    block: bool  # its queue starts strictly in order
    tier: Tier = Tier.SHARE


def order(unit: Unit) -> tuple[int, float, str, str]:
    """The order in which units are served."""
    return (-unit.priority, unit.enqueued_at, unit.name, unit.id)


def standing(candidate: Candidate) -> tuple[int, int, float, str, str]:
    """The order in which candidates are served: what they may count on first."""
    return (candidate.tier, *order(candidate.unit))


@dataclass(slots=True)
class Pass:
    """What one pass did: placements in order, and for each stopped leaf the unit that stopped it."""

    placed: list[tuple[Candidate, str]] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)


class Ground:
    """Rooms and usage while placing. Answers about a member are kept until its room changes."""

    def __init__(self, rooms: Mapping[str, MemberRoom], usage: Usage | None, space: Space) -> None:
        self.rooms = {name: room.copy() for name, room in rooms.items()}
        self.usage = usage.copy() if usage is not None else None
        self.space = space
        self._devices = space.devices
        self._fits: dict[tuple[int, str], tuple[int, Fit | None]] = {}

    def fit(self, shape: int, member: str) -> Fit | None:
        room = self.rooms[member]
        known = self._fits.get((shape, member))
        if known is not None and (known[0] == room.version or known[1] is None):
            return known[1]
        found = room.fit(self.space.shapes[shape], self._devices)
        self._fits[(shape, member)] = (room.version, found)
        return found

    def best(self, shape: int, eligibility: Eligibility) -> tuple[str, Fit] | None:
        """Policy's rank and weight first, then the member whose large slots suffer least, then price, then name."""
        best: tuple[Choice, Fit] | None = None
        for choice in eligibility.choices:  # by order, then by what comes after fit
            if best is not None and choice.order > best[0].order:
                break
            fit = self.fit(shape, choice.member)
            if fit is not None and (best is None or fit.broken < best[1].broken):
                best = (choice, fit)
        return None if best is None else (best[0].member, best[1])

    def admits(self, candidate: Candidate) -> bool:
        leaf = candidate.unit.leaf
        return leaf is None or self.usage is None or self.usage.refusal(leaf, candidate.request) is None

    def take(self, candidate: Candidate, member: str, fit: Fit) -> None:
        self.rooms[member].take(fit)
        if candidate.unit.leaf is not None and self.usage is not None:
            self.usage.charge(candidate.unit.leaf, candidate.request)


def place(ground: Ground, candidates: Sequence[Candidate], barred: Container[str] = ()) -> Pass:
    """Serve `candidates`, which are in order. Changes `ground`. `barred`: units that may not start in this plan."""
    done = Pass()
    no_room: set[tuple[int, int]] = set()
    no_quota: set[tuple[str, int, bool]] = set()
    for candidate in candidates:
        unit = candidate.unit
        leaf = unit.leaf
        if leaf is not None and leaf in done.stopped:
            continue
        kind = (candidate.shape, candidate.eligibility.number)
        charge = (leaf or "", candidate.shape, unit.preemptible)
        if unit.id not in barred and kind not in no_room and charge not in no_quota:
            if not ground.admits(candidate):
                no_quota.add(charge)
            else:
                best = ground.best(candidate.shape, candidate.eligibility)
                if best is not None:
                    ground.take(candidate, *best)
                    done.placed.append((candidate, best[0]))
                    continue
                no_room.add(kind)
        if candidate.block and leaf is not None:
            done.stopped[leaf] = unit.id
    return done
