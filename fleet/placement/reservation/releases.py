"""When room and quota that are in use become free: the profile after now.

A running unit ends at its walltime, if it has one. One of unknown length ends some time later; a reservation counts on
that only of those that ran before it was made, since what starts beside it must spare it for good. Room and usage are
added up once for all reservations.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, field

from fleet.model.amounts import NOTHING, Amounts
from fleet.model.leaving import leaves
from fleet.model.unit import Phase, Unit
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.packing.room import committed
from fleet.placement.packing.space import Shape, Space
from fleet.placement.reservation.nodes import NodeTable, SpanNodes
from fleet.quota.requests import Requests
from fleet.quota.tiers import Tier
from fleet.quota.usage import Usage, account_of
from fleet.quota.users import split
from fleet.snapshot import Snapshot

FOREVER = float("inf")
CERTAIN = -FOREVER  # as `before`: no unit of unknown length is counted as gone


@dataclass(frozen=True, slots=True)
class Work:
    """A unit that holds room or quota: `hidden` is what the inventory does not show of it yet, `start` when it started
    and `end` when it ends, FOREVER where nobody knows."""

    unit: Unit
    member: str
    hidden: Shape
    request: Amounts
    account: str | None
    start: float
    end: float
    tier: Tier = Tier.SHARE  # of a unit that would start now

    def gone(self, at: float, before: float) -> bool:
        """Whether it has ended by `at`, all of unknown length that started before `before` having ended."""
        return self.end <= at if self.end < FOREVER else self.start < before


@dataclass(slots=True)
class _Charged:
    """What the work of one account is charged, in the order of its ends, and of its starts where the end is unknown."""

    known: list[tuple[float, Amounts]] = field(default_factory=list)
    unknown: list[tuple[float, Amounts]] = field(default_factory=list)
    _sums: tuple[list[Amounts], list[Amounts]] | None = None

    def gone(self, at: float, before: float) -> tuple[Amounts, Amounts]:
        """What is released by then, of known and of unknown length."""
        if self._sums is None:
            self._sums = (_running_sums(self.known), _running_sums(self.unknown))
        known = bisect_right(self.known, at, key=lambda item: item[0])
        unknown = bisect_left(self.unknown, before, key=lambda item: item[0])
        return self._sums[0][known], self._sums[1][unknown]


def _running_sums(items: list[tuple[float, Amounts]]) -> list[Amounts]:
    items.sort(key=lambda item: item[0])
    sums = [NOTHING]
    for _, amounts in items:
        sums.append(sums[-1].plus(amounts))
    return sums


class Releases:
    """See the module. `usage`: what runs and the claims are charged there; None without a tree. `claims`: units for
    which room is kept, with their members: they count as running from now on."""

    def __init__(
        self, snapshot: Snapshot, space: Space, usage: Usage | None, now: float,
        claims: Iterable[tuple[Candidate, str]], leaving: Iterable[str] = (), users: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """`leaving`: units that this plan evicts; they end now. `users`: those whose caps matter; what all others have
        is added up by leaf."""
        self._snapshot = snapshot
        self._space = space
        self._usage = usage
        self._now = now
        self._by_member: dict[str, list[Work]] = {}
        self._charged: dict[str, _Charged] = {}
        self._tables: dict[str, NodeTable] = {}
        self._bare: dict[tuple[str, float, float], SpanNodes] = {}
        self._list(frozenset(leaving), frozenset(users), claims)
        ends = {work.end for works in self._by_member.values() for work in works}
        self._ends = sorted(end for end in ends if now < end < FOREVER)

    @property
    def usage(self) -> Usage | None:
        """What is used now."""
        return self._usage

    def starting(self, candidate: Candidate, member: str) -> Work:
        """A unit that would start now."""
        walltime, now = candidate.unit.walltime_s, self._now
        end = FOREVER if walltime is None else max(now, now + walltime)
        shape = self._space.shapes[candidate.shape]
        return Work(candidate.unit, member, shape, candidate.request, candidate.account, now, end, candidate.tier)

    @property
    def ends(self) -> list[float]:
        """The known times after now at which something ends, in order."""
        return self._ends

    def nodes(self, member: str, at: float, before: float) -> SpanNodes:
        """The nodes of a member at a time, before anything starts; a copy of its own."""
        key = (member, at, before)
        found = self._bare.get(key)
        if found is None:
            if member not in self._tables:
                self._tables[member] = NodeTable(self._snapshot.members[member], self._space)
            ended = [work.unit for work in self._by_member.get(member, ()) if work.gone(at, before)]
            found = self._bare[key] = self._tables[member].once_gone(ended)
        return found.copy()

    def loose(self, member: str) -> bool:
        """Whether the inventory does not say which pods of a member share a node."""
        return any(work.unit.visible and not work.unit.seats for work in self._by_member.get(member, ()))

    def landing(self, member: str, at: float, before: float) -> list[Work]:
        """The work whose pods no node of the member shows yet, and which is still there at a time."""
        return [work for work in self._by_member.get(member, ()) if work.hidden and not work.gone(at, before)]

    def usage_at(self, at: float, before: float) -> Usage | None:
        """What is used at a time, before anything starts; None where there is no tree."""
        if self._usage is None:
            return None
        usage = self._usage.copy()
        for account, charged in self._charged.items():
            for amounts in charged.gone(at, before):
                if amounts.items_:
                    usage.charge(account, amounts, -1)
        return usage

    def _list(self, leaving: frozenset[str], users: frozenset[str], claims: Iterable[tuple[Candidate, str]]) -> None:
        backlog, tree = self._snapshot.backlog, self._snapshot.tree
        requests = Requests()
        for key in sorted(backlog.holding):
            unit = backlog.holding[key]
            hidden = committed(unit, self._space) if key in backlog.unseen else ()
            account = account_of(tree, unit) if tree is not None else None
            end = self._now if key in leaving else self._end(unit)
            start = unit.placed_at if unit.placed_at is not None else (self._now if hidden else CERTAIN)
            self._put(Work(unit, unit.member or "", hidden, requests.of(unit), account, start, end), users)
        for candidate, member in claims:
            self._put(self.starting(candidate, member), users)

    def _put(self, work: Work, users: frozenset[str]) -> None:
        self._by_member.setdefault(work.member, []).append(work)
        if work.account is not None:
            leaf, user = split(work.account)
            charged = self._charged.setdefault(work.account if user in users else leaf, _Charged())
            (charged.known if work.end < FOREVER else charged.unknown).append(
                (work.end if work.end < FOREVER else work.start, work.request)
            )

    def _end(self, unit: Unit) -> float:
        """When a unit that runs or leaves ends."""
        now = self._now
        if unit.phase is Phase.EVICTING:
            return now if leaves(unit, now, self._snapshot.config.claim_s) else FOREVER
        since = now if unit.placed_at is None else unit.placed_at
        return FOREVER if unit.walltime_s is None else max(now, since + unit.walltime_s)
