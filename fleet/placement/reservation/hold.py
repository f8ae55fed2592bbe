"""What one head keeps others from: the room of its seat, and the quota that it waits for.

Work of a higher tier passes, of other leaves: in its own leaf the head is first. So does what ends before the head can
start, by its walltime or because the head may take back its room by then. All else starts only where the head still
fits beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace

from fleet.model.leaving import leaves
from fleet.model.unit import Nomination, Phase, Unit
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.packing.space import Shape
from fleet.placement.preemption.rights import may_evict
from fleet.placement.reservation.seat import Seat
from fleet.quota.tiers import Tier
from fleet.quota.usage import Usage
from fleet.snapshot import Snapshot

FOREVER = float("inf")


class Ends:
    """When work ends as one head may count on it, epoch seconds; FOREVER where nobody knows.

    What is borrowed today may be within a share tomorrow, when older work of its leaf has ended. So only a guaranteed
    head counts on taking back, and only from leaves that are promised nothing: that nothing changes."""

    def __init__(self, snapshot: Snapshot, head: Candidate, promised: Container[str], now: float) -> None:
        """`promised`: the leaves with a min."""
        self._tree = snapshot.tree
        self._patience = snapshot.config.claim_s
        self._protection = snapshot.config.protection_s
        self._reclaims = snapshot.config.reclaim and not head.block and head.tier is Tier.GUARANTEED
        self._promised = promised
        self._head = head
        self.now = now

    @property
    def evicts(self) -> bool:
        """Whether the head counts on taking back; if not, work ends for it when it ends for all others."""
        return self._reclaims and self._tree is not None

    def of(self, unit: Unit, tier: Tier) -> float:
        """`unit` runs, leaves, or would start now."""
        now = self.now
        if unit.phase is Phase.EVICTING:
            return now if leaves(unit, now, self._patience) else FOREVER
        runs = unit.phase is Phase.PLACED
        since = unit.placed_at if runs and unit.placed_at is not None else now
        end = FOREVER if unit.walltime_s is None else max(now, since + unit.walltime_s)
        if not self._reclaims or self._tree is None or unit.leaf in self._promised:
            return end
        if not may_evict(self._tree, self._head.unit, self._head.tier, unit, tier):
            return end
        old = runs and unit.placed_at is None and all_seen(unit)
        return min(end, now if old else max(now, since + self._protection))


def all_seen(unit: Unit) -> bool:
    """Whether the inventory shows every pod of it."""
    seen = dict(unit.visible)
    return all(seen.get(part.name, 0) >= part.replicas for part in unit.components)


class Hold:
    """See the module. `tier`: what the head counts on. `delayed`: the moment that `seat` and `usage` are of, where that
    is later than the head was told; whoever outlasts the one that was told is bound. `seat` None: nobody knows which
    nodes will be free together, so nothing more comes in. `usage`: what will be used when the head starts, the head
    included; None where quota does not limit it. Changes with what is placed."""

    def __init__(
        self, head: Candidate, tier: Tier, nomination: Nomination, delayed: float | None, ends: Ends,
        seat: Seat | None, usage: Usage | None, shapes: Sequence[Shape], told: Seat | None = None,
        meets: Callable[[Unit, Tier], bool] = lambda unit, tier: True,
    ) -> None:  # fmt: skip
        """`told`: for one that is delayed, what the best packing would leave at the moment that was told, if that is
        possible still: nobody else makes it impossible. `meets`: whether what runs is still there, and counted in
        `usage`, when the head starts."""
        self._told = told
        self.meets = meets
        self.head = head
        self.nomination = nomination
        self.delayed = delayed
        self.member = nomination.member
        self.tier = tier
        self._ends = ends
        self._seat = seat
        self._usage = usage
        self._shapes = shapes
        self._spared: dict[int, bool] = {}

    def copy(self) -> Hold:
        made = Hold.__new__(Hold)
        made.__dict__.update(self.__dict__)
        made._seat = self._seat.copy() if self._seat is not None else None
        made._told = self._told.copy() if self._told is not None else None
        made._usage = self._usage.copy() if self._usage is not None else None
        made._spared = {}
        return made

    def close(self) -> None:
        """Its seat is not known any more."""
        self._seat = None
        self._spared.clear()

    @property
    def now(self) -> float:
        """When what starts now starts."""
        return self._ends.now

    def outlasts(self, unit: Unit, tier: Tier) -> bool:
        """Whether work that starts now may still be there when the head could start."""
        return self._ends.of(unit, tier) > self.nomination.at

    def binds(self, candidate: Candidate) -> bool:
        """Whether a candidate, not the head itself, starts only where the head still fits beside it. The same for all
        alike in leaf, tier, priority, walltime and preemptible."""
        return not self._lets_pass(candidate) and self.outlasts(candidate.unit, candidate.tier)

    def passed_by(self, candidate: Candidate) -> bool:
        """Whether a candidate starts by right though the head might not fit beside it any more."""
        return self._lets_pass(candidate) and self.outlasts(candidate.unit, candidate.tier)

    def _lets_pass(self, candidate: Candidate) -> bool:
        return candidate.tier < self.tier and candidate.unit.leaf != self.head.unit.leaf

    def spares_room(self, shape: int, gangs: int = 1) -> bool:
        """Whether the head still fits its member beside a gang of this shape, or beside so many."""
        known = self._spared.get(shape)
        if known is None or gangs != 1:
            seat = self._seat.copy() if self._seat is not None else None
            mine = self._shapes[self.head.shape]
            others = tuple(replace(part, replicas=part.replicas * gangs) for part in self._shapes[shape])
            known = seat is not None and seat.crowd(others, mine) and seat.takes(mine)
            if known and self._told is not None:
                known = self._told.copy().give(others)
            if gangs == 1:
                self._spared[shape] = known
        return known

    def spares_all(self, shapes: Iterable[Shape]) -> bool:
        """Whether the head still fits its member beside one more gang of each of these."""
        seat = self._seat.copy() if self._seat is not None else None
        mine = self._shapes[self.head.shape]
        return seat is not None and all(seat.crowd(shape, mine) for shape in shapes) and seat.takes(mine)

    def spares_quota(self, candidate: Candidate) -> bool:
        """Whether quota has room for the head beside the candidate."""
        account = candidate.account
        return account is None or self._usage is None or self._usage.refusal(account, candidate.request) is None

    @property
    def usage(self) -> Usage | None:
        """What will be used when the head starts, the head included; None where quota does not limit it."""
        return self._usage

    def quota_room(self, node: str, resource: str) -> int | None:
        """What quota leaves beside the head at a node; None where nothing limits it."""
        return self._usage.room(node, resource) if self._usage is not None else None

    def see(self, candidate: Candidate, member: str) -> None:
        """Something starts now."""
        if candidate.unit.id == self.head.unit.id or not self.outlasts(candidate.unit, candidate.tier):
            return
        if member == self.member and self._seat is not None:
            self._seat.crowd(self._shapes[candidate.shape], self._shapes[self.head.shape])
            if self._told is not None and not self._told.give(self._shapes[candidate.shape]):
                self._told = None
            self._spared = {shape: False for shape, spared in self._spared.items() if not spared}
        account = candidate.account
        if account is not None and self._usage is not None:
            self._usage.charge(account, candidate.request)


def passable(holds: Sequence[Hold]) -> bool:
    """Whether guaranteed work of other leaves passes any of these heads."""
    return any(hold.tier > Tier.GUARANTEED for hold in holds)
