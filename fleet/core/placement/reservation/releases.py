"""The ends of all that runs: the units that hold room or quota, and what their members and the quota tree have then.

A running unit ends at its walltime; without a walltime, its length is unknown. Room and usage after now are added up
once for all reservations.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from operator import itemgetter

from fleet.core.model.amounts import Amounts
from fleet.core.model.leaving import leaves
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Phase, Unit
from fleet.core.placement.candidates.candidate import Candidate
from fleet.core.placement.packing.room import committed
from fleet.core.placement.packing.space import Shape, Space
from fleet.core.placement.reservation.span import NodeTable, SpanNodes
from fleet.core.quota.requests import Requests
from fleet.core.quota.usage import Usage, account_of
from fleet.core.quota.users import split
from fleet.core.snapshot import Snapshot

FOREVER = float("inf")
CERTAIN = -FOREVER  # as `before`: no unit of unknown length is counted as gone
Pairs = Iterable[tuple[Candidate, str]]


@dataclass(frozen=True, slots=True)
class Release:
    """A unit that holds room or quota until it ends. `hidden`: its pods that the inventory does not show yet; `start`
    and `end`: of its run, the end FOREVER where nobody knows."""

    unit: Unit
    member: str
    hidden: Shape
    request: Amounts
    account: str | None
    start: float
    end: float
    tier: Tier = Tier.SHARE  # of a unit that would start now

    def ends_by(self, at: float, before: float) -> bool:
        """Whether the unit has ended by `at`, where units of unknown length that started before `before` have."""
        return self.end <= at if self.end < FOREVER else self.start < before


@dataclass(slots=True)
class _AccountCharges:
    """Amounts charged to one account, by the ends of its work in order, or by the starts where the end is unknown."""

    by_end: list[tuple[float, Amounts]] = field(default_factory=list)
    by_start: list[tuple[float, Amounts]] = field(default_factory=list)
    _sums: tuple[_Sums, _Sums] | None = None

    def released_amounts(self, at: float, before: float) -> tuple[Amounts, Amounts]:
        """The amounts that are released by then, of work of known and of unknown length."""
        if self._sums is None:
            self._sums = (_Sums(self.by_end), _Sums(self.by_start))
        known = bisect_right(self.by_end, at, key=lambda item: item[0])
        unknown = bisect_left(self.by_start, before, key=lambda item: item[0])
        return self._sums[0].of_first(known), self._sums[1].of_first(unknown)


class _Sums:
    """Sums of the first so many amounts; sorts them by their times."""

    def __init__(self, items: list[tuple[float, Amounts]]) -> None:
        items.sort(key=itemgetter(0))
        rows = [dict(amounts.items_) for _, amounts in items]
        names = {name for row in rows for name in row}
        self._by_name = {name: [0, *accumulate([row.get(name, 0) for row in rows])] for name in names}

    def of_first(self, count: int) -> Amounts:
        return Amounts.of({name: sums[count] for name, sums in self._by_name.items()})


class Releases:
    """The ends of all that runs. `usage` has running work and claims charged; None without a tree. `claims`: units for
    which room is kept, with their members: such a unit counts as running from now on."""

    def __init__(
        self,
        snapshot: Snapshot,
        space: Space,
        usage: Usage | None,
        now: float,
        claims: Pairs,
        leaving: Iterable[str] = (),
        users: Iterable[str] = (),
        holding: Sequence[Release] | None = None,
    ) -> None:
        """`leaving`: units that this plan evicts, which end now. `users`: users whose caps matter; work of all others
        is added up by leaf. `holding`: all units that hold room or quota; None: not read yet."""
        self._snapshot = snapshot
        self._space = space
        self._usage = usage
        self._now = now
        self._by_member: dict[str, list[Release]] = {}
        self._charged: dict[str, _AccountCharges] = {}
        self._tables: dict[str, NodeTable] = {}
        self._bare: dict[tuple[str, float, float], SpanNodes] = {}
        self._holding = self._read() if holding is None else holding
        gone = frozenset(leaving)
        held = (replace(release, end=now) if release.unit.id in gone else release for release in self._holding)
        kept = (self.starting(candidate, member) for candidate, member in claims)
        self._add_up(chain(held, kept), frozenset(users))
        ends = {release.end for there in self._by_member.values() for release in there}
        self._ends = sorted(end for end in ends if now < end < FOREVER)

    @property
    def reclaims(self) -> bool:
        """Whether plans may take room back."""
        return self._snapshot.config.reclaim

    @property
    def usage(self) -> Usage | None:
        """The usage now."""
        return self._usage

    def starting(self, candidate: Candidate, member: str) -> Release:
        """A unit that would start now."""
        walltime, now = candidate.unit.walltime_s, self._now
        end = FOREVER if walltime is None else max(now, now + walltime)
        shape = self._space.shapes[candidate.shape]
        return Release(candidate.unit, member, shape, candidate.request, candidate.account, now, end, candidate.tier)

    @property
    def ends(self) -> list[float]:
        """The known times after now at which something ends, in order."""
        return self._ends

    def nodes(self, member: str, at: float, before: float) -> SpanNodes:
        """The nodes of a member at a time, before anything starts; a copy of its own."""
        key = (member, at, before)
        nodes = self._bare.get(key)
        if nodes is None:
            if member not in self._tables:
                self._tables[member] = NodeTable(self._snapshot.members[member], self._space)
            ended = [release.unit for release in self._by_member.get(member, ()) if release.ends_by(at, before)]
            nodes = self._bare[key] = self._tables[member].once_gone(ended)
        return nodes.copy()

    def loose(self, member: str) -> bool:
        """Whether the inventory does not say which pods of a member share a node."""
        return any(release.unit.visible and not release.unit.seats for release in self._by_member.get(member, ()))

    def landing(self, member: str, at: float, before: float) -> list[Release]:
        """The units whose pods no node of the member shows yet, and that have not ended at a time."""
        return [
            release for release in self._by_member.get(member, ()) if release.hidden and not release.ends_by(at, before)
        ]

    def usage_at(self, at: float, before: float) -> Usage | None:
        """The usage at a time, before anything starts; None where there is no tree."""
        if self._usage is None:
            return None
        usage = self._usage.copy()
        for account, charged in self._charged.items():
            for amounts in charged.released_amounts(at, before):
                if amounts.items_:
                    usage.charge(account, amounts, -1)
        return usage

    def beside(self, usage: Usage | None, claims: Pairs, leaving: Iterable[str], users: Iterable[str]) -> Releases:
        """The releases of the same units with other usage, claims, units that leave and users."""
        made = Releases(self._snapshot, self._space, usage, self._now, claims, leaving, users, self._holding)
        made._tables = self._tables
        return made

    def _read(self) -> list[Release]:
        """The units that hold room or quota."""
        backlog, tree = self._snapshot.backlog, self._snapshot.tree
        requests, releases = Requests(), list[Release]()
        for key in sorted(backlog.holding):
            unit = backlog.holding[key]
            hidden = committed(unit, self._space) if key in backlog.unseen else ()
            account = account_of(tree, unit) if tree is not None else None
            start = unit.placed_at if unit.placed_at is not None else (self._now if hidden else CERTAIN)
            releases.append(
                Release(unit, unit.member or "", hidden, requests.of(unit), account, start, self._end(unit))
            )
        return releases

    def _add_up(self, releases: Iterable[Release], users: frozenset[str]) -> None:
        """List the releases by member, and their charges by account."""
        charged_to: dict[str, _AccountCharges] = {}  # by account
        for release in releases:
            self._by_member.setdefault(release.member, []).append(release)
            if release.account is None:
                continue
            charged = charged_to.get(release.account)
            if charged is None:
                leaf, user = split(release.account)
                charged = self._charged.setdefault(release.account if user in users else leaf, _AccountCharges())
                charged_to[release.account] = charged
            if release.end < FOREVER:
                charged.by_end.append((release.end, release.request))
            else:
                charged.by_start.append((release.start, release.request))

    def _end(self, unit: Unit) -> float:
        """When a unit that runs or leaves ends."""
        now = self._now
        if unit.phase is Phase.EVICTING:
            return now if leaves(unit, now, self._snapshot.config.claim_s) else FOREVER
        since = now if unit.placed_at is None else unit.placed_at
        return FOREVER if unit.walltime_s is None else max(now, since + unit.walltime_s)
