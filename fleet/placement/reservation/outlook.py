"""What will be free for a head, and when: the room that is left in a member, and the quota.

What runs, comes or is planned ends when it says, or when the head may take it back; of the rest nobody knows. So a head
is answered for one *kind* of waiting at a time, from what is certain to what is only hoped for. Many heads ask about
the same work: what runs is listed once, and added up once for all heads that agree on when it ends.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fleet.model.amounts import NOTHING, Amounts
from fleet.model.unit import Phase, Unit
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.packing.room import committed
from fleet.placement.packing.space import Shape, Space
from fleet.placement.reservation.hold import FOREVER, Ends, Hold, all_seen
from fleet.placement.reservation.seat import Nodes, Seat
from fleet.quota.tiers import Tier
from fleet.quota.usage import Usage, account_of, request_of
from fleet.quota.users import split
from fleet.snapshot import Snapshot
from fleet.snapshot.backlog import Key, gang_key

KNOWN, PRESENT, ALL, WHOLE = range(4)  # what is waited for: known ends; also what was there; all; nothing left


@dataclass(slots=True)
class Work:
    """Something that holds room or quota: `hidden` is what the inventory does not show of it yet."""

    unit: Unit
    tier: Tier
    hidden: Shape
    request: Amounts
    account: str | None
    member: str


@dataclass(slots=True)
class _Charged:
    """What runs of one account: `known` by when it ends, of the rest what was there when the head became one, and all
    of it."""

    known: list[tuple[float, Amounts]]
    present: Amounts
    rest: Amounts
    _sums: list[Amounts] | None = None

    def ended_by(self, at: float) -> Amounts:
        """What is known to have ended by an epoch second."""
        if self._sums is None:
            self._sums = [NOTHING]
            for _, amounts in self.known:
                self._sums.append(self._sums[-1].plus(amounts))
        return self._sums[bisect_right(self.known, at, key=lambda item: item[0])]


@dataclass(slots=True)
class Queued:
    """One head while a decision lasts: it counts on its `tier`, collects in `member` `since`, a head since `turn`."""

    candidate: Candidate
    tier: Tier
    ends: Ends
    turn: float
    since: float
    member: str | None
    looked: bool = False
    lost: bool = False  # there was no seat beside those ahead of it, so what it was told holds no more
    last: tuple[int, float] | None = None
    accounts: list[str] | None = None  # that count where quota limits it
    limited: bool = False
    known_ends: dict[str, float] = field(default_factory=dict)
    bare: dict[tuple[str, int, float, float], Seat] = field(default_factory=dict)


def _sum(requests: Iterable[Amounts]) -> Amounts:
    total: dict[str, int] = {}
    for request in requests:
        for name, amount in request.items_:
            total[name] = total.get(name, 0) + amount
    return Amounts.of(total)


class Outlook:
    """See the module; the same for all heads of one decision. `usage`: what runs is charged there and nothing else;
    None without a tree."""

    def __init__(self, snapshot: Snapshot, space: Space, usage: Usage | None, now: float) -> None:
        self._snapshot = snapshot
        self._tree = snapshot.tree
        self._space = space
        self._usage = usage
        self._now = now
        self._work: dict[str, list[Work]] = {}
        self._by_account: dict[str, list[Work]] = {}
        self._sums: dict[tuple[str, float, str], _Charged] = {}
        self._plans: dict[tuple[str, str], Work] = {}
        self._leaving: dict[str, float] = {}  # what this plan evicts, and when that ends
        self._nodes: dict[str, Nodes] = {}

    def leaving(self, units: Iterable[str], heads: Iterable[Queued]) -> None:
        """This plan evicts them: they end now."""
        gone = dict.fromkeys(units, self._now)
        self._leaving.update(gone)
        self._sums.clear()
        for queued in heads:
            queued.known_ends.update(gone)
            queued.bare.clear()

    def planned(self, candidate: Candidate, member: str) -> Work:
        """What this plan places, or keeps room for."""
        key = (candidate.unit.id, member)
        work = self._plans.get(key)
        if work is None:
            shape = self._space.shapes[candidate.shape]
            work = Work(candidate.unit, candidate.tier, shape, candidate.request, candidate.account, member)
            self._plans[key] = work
        return work

    def inside(self, member: str, new: Sequence[Work]) -> Iterator[Work]:
        """What runs in the member, and what of `new` goes there."""
        return (work for work in (*self._work.get(member, ()), *new) if work.member == member)

    def unseen(self, member: str, new: Sequence[Work]) -> bool:
        """Whether pods are coming to the member that no node shows yet."""
        return any(work.hidden for work in self.inside(member, new))

    def loose(self, member: str) -> bool:
        """Whether the inventory does not say which pods share a node."""
        return any(work.unit.visible and not work.unit.seats for work in self._work.get(member, ()))

    def end(self, queued: Queued, work: Work) -> float:
        """When it ends as the head counts on it; FOREVER where nobody knows."""
        end = queued.known_ends.get(work.unit.id)
        if end is None:
            end = queued.known_ends[work.unit.id] = queued.ends.of(work.unit, work.tier)
        return end

    def seat(
        self, queued: Queued, member: str, kind: int, at: float, new: Sequence[Work], ahead: Sequence[Hold]
    ) -> Seat | None:
        """The seat there at that time; None where the head does not fit."""
        if kind == WHOLE:
            return None
        key = (member, kind, at, queued.since)
        bare = queued.bare.get(key)
        if bare is None:
            if member not in self._nodes:
                self._nodes[member] = Nodes(self._snapshot.members[member], self._space)
            ended = [work.unit for work in self._work.get(member, ()) if self._gone(queued, work, kind, at)]
            bare = queued.bare[key] = self._nodes[member].seat(ended)
        seat = bare.copy()
        mine = self._space.shapes[queued.candidate.shape]
        coming = [work for work in self.inside(member, new) if work.hidden]
        coming.sort(key=lambda work: work.unit.id)
        coming.sort(key=lambda work: self.sizes(work.hidden), reverse=True)
        for work in coming:
            if not self._gone(queued, work, kind, at):
                seat.crowd(work.hidden, mine)
        for hold in ahead:
            stays = hold.member == member and end_of(hold) > at
            if stays and not seat.give(self._space.shapes[hold.head.shape]):
                return None
        return seat if seat.takes(mine) else None

    def best_seat(
        self, queued: Queued, member: str, kind: int, at: float, new: Sequence[Work], ahead: Sequence[Hold]
    ) -> Seat | None:
        """What is left beside the head at that time if all the others were packed as well as can be, and not where they
        do the most harm; None where it does not fit even so."""
        seat = self.seat(queued, member, kind, at, (), ())
        mine = self._space.shapes[queued.candidate.shape]
        beside = [self._space.shapes[hold.head.shape] for hold in ahead if hold.member == member and end_of(hold) > at]
        here = (work for work in new if work.member == member and work.hidden)
        beside += [work.hidden for work in here if not self._gone(queued, work, kind, at)]
        return seat if seat is not None and all(seat.give(shape) for shape in (mine, *beside)) else None

    def usage_at(
        self, queued: Queued, kind: int, at: float, new: Sequence[Work], ahead: Sequence[Hold]
    ) -> Usage | None:
        """What is used then, the head not included; None where quota does not limit it."""
        accounts = self._limited(queued)
        if accounts is None or self._usage is None:
            return None
        usage = self._usage.copy()
        for name in accounts:
            charged = self._charged(queued, name)
            usage.charge(name, charged.ended_by(at), -1)
            if kind != KNOWN:
                usage.charge(name, charged.present if kind == PRESENT else charged.rest, -1)
        for work in new:
            if work.account is not None and not self._gone(queued, work, kind, at):
                usage.charge(work.account, work.request)
        for hold in ahead:
            account = hold.head.account
            if account is not None and end_of(hold) > at:
                usage.charge(account, hold.head.request)
        return usage

    def quota_time(self, queued: Queued, kind: int, new: Sequence[Work], ahead: Sequence[Hold]) -> float | None:
        """From when on there is quota for it; None for never, as far as known."""
        account, request = queued.candidate.account, queued.candidate.request
        usage = self.usage_at(queued, kind, self._now, new, ahead)
        if usage is None or account is None or usage.refusal(account, request) is None:
            return self._now
        ends: dict[float, list[tuple[str, Amounts]]] = {}
        for name in self._limited(queued) or ():
            for end, amounts in self._charged(queued, name).known:
                ends.setdefault(end, []).append((name, amounts))
        for work in new:
            if work.account is not None:
                ends.setdefault(self.end(queued, work), []).append((work.account, work.request))
        for hold in ahead:
            other = hold.head.account
            if other is not None:
                ends.setdefault(end_of(hold), []).append((other, hold.head.request))
        for at in sorted(end for end in ends if self._now < end < FOREVER):
            for name, amounts in ends[at]:
                usage.charge(name, amounts, -1)
            if usage.refusal(account, request) is None:
                return at
        return None

    def list_work(self, tiers: Mapping[str, Tier], heads: Iterable[Queued]) -> None:
        """Before anything is asked, with all who will ask. `tiers`: of what runs, by unit id; not needed where no head
        may evict. What users have who have no head is added up by leaf: as long as nobody waits for it, their caps are
        no tighter at any later moment than they are now."""
        backlog = self._snapshot.backlog
        users = {split(queued.candidate.account or "")[1] for queued in heads}
        requests: dict[tuple[Key, bool], Amounts] = {}
        for key in sorted(backlog.holding):
            unit = backlog.holding[key]
            account = account_of(self._tree, unit) if self._tree is not None else None
            alike = (gang_key(unit.components), unit.preemptible)
            if alike not in requests:
                requests[alike] = request_of(unit)
            tier = tiers.get(key, Tier.SHARE if unit.leaf is None else Tier.BORROWED)
            hidden = committed(unit, self._space) if key in backlog.unseen else ()
            work = Work(unit, tier, hidden, requests[alike], account, unit.member or "")
            self._work.setdefault(work.member, []).append(work)
            if account is not None:
                leaf, user = split(account)
                self._by_account.setdefault(account if user in users else leaf, []).append(work)

    def _gone(self, queued: Queued, work: Work, kind: int, at: float) -> bool:
        """Whether the head counts on this to have ended by then."""
        end = self.end(queued, work)
        if end < FOREVER or kind == KNOWN:
            return end <= at
        return self._is_there(work.unit) if kind == ALL else kind != PRESENT or self._is_present(queued, work.unit)

    def remains(self, queued: Queued, kind: int, at: float, unit: Unit, tier: Tier) -> bool:
        """Whether what runs is counted in `usage_at`."""
        return not self._gone(queued, Work(unit, tier, (), NOTHING, None, unit.member or ""), kind, at)

    def _is_there(self, unit: Unit) -> bool:
        """Whether it runs, or starts in room claimed for it: what else this plan adds leaves the seat alone."""
        return unit.phase is not Phase.WAITING or (unit.claim is not None and unit.claim.until > self._now)

    def _is_present(self, queued: Queued, unit: Unit) -> bool:
        """Whether it was there when the head became one."""
        if unit.phase is Phase.WAITING:
            return False
        return unit.placed_at < queued.since if unit.placed_at is not None else all_seen(unit)

    def _limited(self, queued: Queued) -> list[str] | None:
        """The accounts of what runs that count where quota limits the head; None where nothing does."""
        account, usage = queued.candidate.account, self._usage
        if account is None or usage is None:
            return None
        if queued.accounts is None:
            asked = [name for name, amount in queued.candidate.request.items_ if amount > 0]
            limited = {
                node for node in usage.path(account) if any(usage.room(node, name) is not None for name in asked)
            }
            queued.limited = bool(limited)
            queued.accounts = [other for other in self._by_account if limited.intersection(usage.path(other))]
        return queued.accounts if queued.limited else None

    def _charged(self, queued: Queued, account: str) -> _Charged:
        """What runs of an account, added up by when it ends. Heads that may not evict agree on when that is."""
        key = (account, queued.since, queued.candidate.unit.id if queued.ends.evicts else "")
        found = self._sums.get(key)
        if found is None:
            known: list[tuple[float, Amounts]] = []
            rest: list[Amounts] = []
            present: list[Amounts] = []
            for work in self._by_account[account]:
                end = self._leaving.get(work.unit.id)
                end = queued.ends.of(work.unit, work.tier) if end is None else end
                if end < FOREVER:
                    known.append((end, work.request))
                    continue
                rest.append(work.request)
                if self._is_present(queued, work.unit):
                    present.append(work.request)
            known.sort(key=lambda item: item[0])
            found = self._sums[key] = _Charged(known, _sum(present), _sum(rest))
        return found

    def sizes(self, shape: Shape) -> tuple[tuple[int, ...], ...]:
        return tuple(self._space.size(part.need) for part in shape)


def end_of(hold: Hold) -> float:
    """When a head will have ended, as far as known."""
    walltime = hold.head.unit.walltime_s
    return FOREVER if walltime is None or not hold.nomination.certain else hold.nomination.at + walltime
