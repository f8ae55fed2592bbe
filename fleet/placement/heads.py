"""Heads: who has waited too long collects room, so that a stream of small jobs cannot shut a large gang out.

One per leaf: the first in its queue that is within its guarantee or its share, has waited past the bound, and would
fit; jobs outside quota have one between them. A head collects in one member, the one where it starts earliest, and
stays there: a seat that moved would never be complete. When it can start follows from when others end: by walltime, or
because it may take back their room. Where that is known for all it needs, the moment is *certain*. Else it waits for
all work that was there when it became head, whenever that ends, and what comes later leaves its seat alone. Only work
of a higher tier may break a seat; then it waits for that work too.

Heads are served in the order in which they became heads. One for which there is no seat beside those ahead of it waits
for them. A head stays one until it starts, even when the share of its leaf is used up meanwhile by what started beside
it. Numbers of heads and of members looked at are bounded; who is not reached waits for its turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from fleet.backlog import Key, gang_key
from fleet.model.amounts import NOTHING, Amounts
from fleet.model.unit import Nomination, Phase, Unit
from fleet.placement.candidate import Candidate, order
from fleet.placement.hold import FOREVER, Ends, Hold, all_seen
from fleet.placement.room import MemberRoom, committed
from fleet.placement.seat import Nodes, Seat
from fleet.placement.space import Shape, Space
from fleet.plan import Plan
from fleet.quota.guarantee import Guarantees
from fleet.quota.tiers import Tier
from fleet.quota.usage import Usage, account_of, request_of
from fleet.snapshot import Snapshot

MOST_HEADS = 16
_MOST_NEW = 4  # heads that look for a member in one plan; and of those that have one, for a better one
_TURN_S = 60.0
_MOST_MEMBERS = 8  # that one of them looks at closely
_LAG_S = 300.0  # for so long nodes may show pods of work that has ended
_KNOWN, _PRESENT, _ALL, _WHOLE = range(4)  # what is waited for: known ends; also what was there; all; nothing left
Pairs = Sequence[tuple[Candidate, str]]


@dataclass(slots=True)
class _Work:
    """Something that holds room or quota: `hidden` is what the inventory does not show of it yet."""

    unit: Unit
    tier: Tier
    hidden: Shape
    request: Amounts
    account: str | None
    member: str


@dataclass(frozen=True, slots=True)
class _Seating:
    """What a head waits for in a member, from when on it could start, and what is there for it then."""

    kind: int
    at: float
    seat: Seat | None
    usage: Usage | None


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


def _sum(requests: Iterable[Amounts]) -> Amounts:
    total: dict[str, int] = {}
    for request in requests:
        for name, amount in request.items_:
            total[name] = total.get(name, 0) + amount
    return Amounts.of(total)


@dataclass(slots=True)
class _Queued:
    """One head while a decision lasts."""

    candidate: Candidate
    ends: Ends
    since: float
    member: str | None
    looked: bool = False
    last: tuple[int, float] | None = None
    accounts: list[str] | None = None  # that count where quota limits it
    limited: bool = False
    known_ends: dict[str, float] = field(default_factory=dict)
    bare: dict[tuple[str, int, float, float], Seat] = field(default_factory=dict)


class Heads:
    """The heads of one decision. `usage`: what runs is charged there and nothing else; None without a tree."""

    def __init__(
        self, snapshot: Snapshot, space: Space, tiers: Callable[[], Mapping[str, Tier]], usage: Usage | None,
        promises: Guarantees | None, now: float,
    ) -> None:  # fmt: skip
        """`tiers`: gives those of what runs, by unit id; asked only where a head may evict."""
        self._snapshot = snapshot
        self._tree = snapshot.tree
        self._space = space
        self._tiers = tiers
        self._usage = usage
        self._promises = promises
        self._now = now
        self._queue: list[_Queued] = []
        self._work: dict[str, list[_Work]] = {}
        self._by_account: dict[str, list[_Work]] = {}
        self._sums: dict[tuple[str, float, str], _Charged] = {}
        self._nothing = Usage(self._tree, promises) if self._tree is not None else None  # as if nothing ran
        self._plans: dict[tuple[str, str], _Work] = {}
        self._leaving: dict[str, float] = {}  # what this plan evicts, and when that ends
        self._nodes: dict[str, Nodes] = {}
        self._empty: dict[str, MemberRoom | None] = {}
        self._new = _MOST_NEW

    def choose(self, candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
        """Find the heads among `candidates`: every waiting unit that may start, or of those alike the first."""
        after = self._snapshot.config.head_after_s
        if after <= 0:
            return ()
        leaves: dict[str | None, list[Candidate]] = {}
        for candidate in candidates:
            unit = candidate.unit
            late = candidate.tier <= Tier.SHARE and self._now - unit.enqueued_at >= after
            if late or candidate.block or unit.head is not None:
                leaves.setdefault(unit.leaf, []).append(candidate)
        firsts: list[Candidate] = []
        for waiting in leaves.values():
            stop = min((order(c.unit) for c in waiting if c.block), default=None)
            able = [c for c in waiting if stop is None or order(c.unit) <= stop]
            able.sort(key=lambda c: (c.unit.head is None, order(c.unit)))
            firsts += islice((c for c in able if self._able(c, after)), 1)
        mins = self._promises.min if self._promises is not None else {}
        promised = {path for path, limits in mins.items() if any(limits.values())}
        for candidate in sorted(firsts, key=_turn)[:MOST_HEADS]:
            said = candidate.unit.head
            stays = said is not None and any(c.member == said.member for c in candidate.eligibility.choices)
            since = min(self._now, said.since) if said is not None and stays else self._now
            member = said.member if said is not None and stays else None
            ends = Ends(self._snapshot, candidate, promised, self._now)
            self._queue.append(_Queued(candidate, ends, since, member))
        if self._queue:
            self._list_work()
        return tuple(queued.candidate for queued in self._queue)

    def holds(self, placed: Pairs, kept: Pairs, rooms: Mapping[str, MemberRoom]) -> tuple[Hold, ...]:
        """What the heads hold beside what this plan has placed so far and the room that is `kept` for others. `rooms`:
        what is free before anything is placed."""
        if not self._queue:
            return ()
        new = [self._planned(candidate, member) for candidate, member in (*placed, *kept)]
        sizes = {id(work.hidden): self._sizes(work.hidden) for work in new}  # many have one shape
        new.sort(key=lambda work: work.unit.id)
        new.sort(key=lambda work: sizes[id(work.hidden)], reverse=True)
        served = {work.unit.id for work in new}
        found: list[Hold] = []
        for queued in self._queue:
            if queued.candidate.unit.id not in served:
                hold = self._hold(queued, new, found, rooms)
                if hold is not None:
                    found.append(hold)
        return tuple(found)

    def leaving(self, units: Iterable[str]) -> None:
        """This plan evicts them: they end now."""
        gone = dict.fromkeys(units, self._now)
        self._leaving.update(gone)
        self._sums.clear()
        for queued in self._queue:
            queued.known_ends.update(gone)
            queued.bare.clear()

    def _able(self, candidate: Candidate, after: float) -> bool:
        """Whether it is late, and would start if nothing ran."""
        unit = candidate.unit
        if unit.head is None and (candidate.tier > Tier.SHARE or self._now - unit.enqueued_at < after):
            return False
        account = candidate.account
        nothing = self._nothing
        if account is not None and nothing is not None and nothing.refusal(account, candidate.request) is not None:
            return False
        return any(self._would_fit(candidate, choice.member) for choice in candidate.eligibility.choices)

    def _would_fit(self, candidate: Candidate, member: str) -> bool:
        """Whether the member takes it when nothing runs there, as far as the inventory says."""
        if member not in self._empty:
            self._empty[member] = MemberRoom.emptied(self._snapshot.members[member], self._space)
        empty = self._empty[member]
        return empty is None or empty.fit(self._space.shapes[candidate.shape], self._space.devices) is not None

    def _list_work(self) -> None:
        tiers = self._tiers() if self._snapshot.config.reclaim else {}
        backlog = self._snapshot.backlog
        requests: dict[tuple[Key, bool], Amounts] = {}
        for key in sorted(backlog.holding):
            unit = backlog.holding[key]
            account = account_of(self._tree, unit) if self._tree is not None else None
            alike = (gang_key(unit.components), unit.preemptible)
            if alike not in requests:
                requests[alike] = request_of(unit)
            tier = tiers.get(key, Tier.SHARE if unit.leaf is None else Tier.BORROWED)
            hidden = committed(unit, self._space) if key in backlog.unseen else ()
            work = _Work(unit, tier, hidden, requests[alike], account, unit.member or "")
            self._work.setdefault(work.member, []).append(work)
            if account is not None:
                self._by_account.setdefault(account, []).append(work)

    def _planned(self, candidate: Candidate, member: str) -> _Work:
        key = (candidate.unit.id, member)
        work = self._plans.get(key)
        if work is None:
            shape = self._space.shapes[candidate.shape]
            work = _Work(candidate.unit, candidate.tier, shape, candidate.request, candidate.account, member)
            self._plans[key] = work
        return work

    def _sizes(self, shape: Shape) -> tuple[tuple[int, ...], ...]:
        return tuple(self._space.size(part.need) for part in shape)

    def _hold(
        self, queued: _Queued, new: Sequence[_Work], ahead: Sequence[Hold], rooms: Mapping[str, MemberRoom]
    ) -> Hold | None:
        said = queued.candidate.unit.head
        if queued.last is not None and queued.member is not None:
            found = self._seating(queued, queued.member, *queued.last, new, ahead)
            found = found or self._closed(queued, *queued.last, new, ahead)
        else:
            found = self._first(queued, new, ahead, rooms)
        if found is None or queued.member is None:
            return None
        queued.last = (found.kind, found.at)
        at, certain = found.at, found.kind == _KNOWN
        if said is not None and said.member == queued.member and said.certain == certain and said.at > self._now:
            at = min(at, said.at)  # what was let pass was to end before the moment that was told first
        elif at <= self._now and said is not None and said.member == queued.member and said.certain == certain:
            at = said.at  # it has been due since then
        nomination = Nomination(queued.member, queued.since, at, certain)
        return Hold(queued.candidate, nomination, queued.ends, found.seat, found.usage, self._space.shapes)

    def _first(
        self, queued: _Queued, new: Sequence[_Work], ahead: Sequence[Hold], rooms: Mapping[str, MemberRoom]
    ) -> _Seating | None:
        """Where and when it starts, seen for the first time in this decision."""
        said, member = queued.candidate.unit.head, queued.member
        found = self._seek(queued, member, new, ahead) if member is not None else None
        if said is not None and member is not None and self._unseen(queued, member, new):
            if said.certain and said.at > self._now and (found is None or (found.kind, found.at) > (_KNOWN, said.at)):
                return self._closed(queued, _KNOWN, said.at, new, ahead)
            if not said.certain and (found is None or found.kind == _ALL):
                return self._closed(queued, _PRESENT, self._now, new, ahead)
        if (found is None or found.kind != _KNOWN) and self._may_look(queued):
            other = self._look_around(queued, new, ahead, rooms, found is not None)
            if other is not None:
                queued.member, found = other
                queued.since = self._now
        queued.looked = True
        alone = all(hold.member != member for hold in ahead)
        if found is None and said and member and alone and self._would_fit(queued.candidate, member):
            due = min(said.at, self._now) if said.certain else self._now
            return self._closed(queued, _KNOWN, due, new, ahead) if self._now - due <= _LAG_S else None
        if found is not None and found.kind == _ALL:
            queued.since = self._now
        return found

    def _may_look(self, queued: _Queued) -> bool:
        """Whether it is its turn to look at other members. Those that collect in one already take turns, by the
        clock."""
        if queued.looked:
            return False
        if queued.member is not None:
            turn = self._queue.index(queued) + int(self._now // _TURN_S)
            return turn % max(len(self._queue), _MOST_NEW) < _MOST_NEW
        self._new -= 1
        return self._new >= 0

    def _unseen(self, queued: _Queued, member: str, new: Sequence[_Work]) -> bool:
        """Whether pods are coming to the member that no node shows yet."""
        return any(w.hidden and w.member == member for w in (*self._work.get(member, ()), *new))

    def _closed(self, queued: _Queued, kind: int, at: float, new: Sequence[_Work], ahead: Sequence[Hold]) -> _Seating:
        """What is coming might cost the head its seat, or what has ended still shows on nodes. Until they show how it
        is, nothing more comes in: work that is let in for a later start would make it later."""
        usage = self._usage_at(queued, kind, at, new, ahead)
        if usage is not None and queued.candidate.account is not None:
            usage.charge(queued.candidate.account, queued.candidate.request)
        return _Seating(kind, at, None, usage)

    def _look_around(
        self, queued: _Queued, new: Sequence[_Work], ahead: Sequence[Hold], rooms: Mapping[str, MemberRoom], has: bool
    ) -> tuple[str, _Seating] | None:
        """The member where it starts earliest. One that `has` a seat leaves it only for a moment that is certain, and
        no further away than it has collected for."""
        candidate = queued.candidate
        shape = self._space.shapes[candidate.shape]
        near: list[tuple[int, int, str]] = []
        for number, choice in enumerate(candidate.eligibility.choices):
            if choice.member != queued.member and self._would_fit(candidate, choice.member):
                near.append((sum(rooms[choice.member].missing(shape, self._space.devices)), number, choice.member))
        best: tuple[tuple[bool, float, int, int], str, _Seating] | None = None
        since, queued.since = queued.since, self._now
        for missing, number, member in sorted(near)[:_MOST_MEMBERS]:
            found = self._seek(queued, member, new, ahead)
            if found is None or (has and (found.kind != _KNOWN or found.at - self._now > self._now - since)):
                continue
            certain = found.kind == _KNOWN
            rank = (not certain, found.at if certain else 0.0, missing, number)
            if best is None or rank < best[0]:
                best = (rank, member, found)
        queued.since = since
        return None if best is None else best[1:]

    def _seek(self, queued: _Queued, member: str, new: Sequence[_Work], ahead: Sequence[Hold]) -> _Seating | None:
        """The first moment at which there is quota, and room in the member."""
        for kind in (_KNOWN, _PRESENT, _ALL, _WHOLE):
            begin = self._quota_time(queued, kind, new, ahead)
            if begin is None or (kind == _WHOLE and not self._is_loose(queued, member, ahead)):
                continue
            ends = (self._end(queued, work) for work in (*self._work.get(member, ()), *new) if work.member == member)
            times = sorted({end for end in (*ends, *map(_end_of, ahead)) if begin < end < FOREVER})
            times.insert(0, begin)
            if kind == _WHOLE:
                return self._seating(queued, member, kind, times[-1], new, ahead)
            low, high = 0, len(times)
            while low < high:  # what ends only adds room
                middle = (low + high) // 2
                if self._seat(queued, member, kind, times[middle], new, ahead) is not None:
                    high = middle
                else:
                    low = middle + 1
            if low < len(times):
                return self._seating(queued, member, kind, times[low], new, ahead)
        return None

    def _is_loose(self, queued: _Queued, member: str, ahead: Sequence[Hold]) -> bool:
        """Whether the inventory does not say which pods share a node, so that only the whole member is a seat."""
        loose = any(work.unit.visible and not work.unit.seats for work in self._work.get(member, ()))
        return loose and self._would_fit(queued.candidate, member) and all(hold.member != member for hold in ahead)

    def _seating(
        self, queued: _Queued, member: str, kind: int, at: float, new: Sequence[_Work], ahead: Sequence[Hold]
    ) -> _Seating | None:
        seat = self._seat(queued, member, kind, at, new, ahead)
        usage = self._usage_at(queued, kind, at, new, ahead)
        account = queued.candidate.account
        if usage is not None and account is not None:
            if usage.refusal(account, queued.candidate.request) is not None:
                return None
            usage.charge(account, queued.candidate.request)
        return None if seat is None and kind != _WHOLE else _Seating(kind, at, seat, usage)

    def _end(self, queued: _Queued, work: _Work) -> float:
        end = queued.known_ends.get(work.unit.id)
        if end is None:
            end = queued.known_ends[work.unit.id] = queued.ends.of(work.unit, work.tier)
        return end

    def _gone(self, queued: _Queued, work: _Work, kind: int, at: float) -> bool:
        """Whether the head counts on this to have ended by then."""
        end = self._end(queued, work)
        if end < FOREVER or kind == _KNOWN:
            return end <= at
        return kind != _PRESENT or self._is_present(queued, work.unit)

    def _is_present(self, queued: _Queued, unit: Unit) -> bool:
        """Whether it was there when the head became one."""
        if unit.phase is Phase.WAITING:
            return False
        return unit.placed_at < queued.since if unit.placed_at is not None else all_seen(unit)

    def _seat(
        self, queued: _Queued, member: str, kind: int, at: float, new: Sequence[_Work], ahead: Sequence[Hold]
    ) -> Seat | None:
        """The seat there at that time; None where the head does not fit."""
        if kind == _WHOLE:
            return None
        running = self._work.get(member, ())
        key = (member, kind, at, queued.since)
        bare = queued.bare.get(key)
        if bare is None:
            if member not in self._nodes:
                self._nodes[member] = Nodes(self._snapshot.members[member], self._space)
            ended = [work.unit for work in running if self._gone(queued, work, kind, at)]
            bare = queued.bare[key] = self._nodes[member].seat(ended)
        seat = bare.copy()
        mine = self._space.shapes[queued.candidate.shape]
        coming = [work for work in (*running, *new) if work.hidden and work.member == member]
        coming.sort(key=lambda work: work.unit.id)
        coming.sort(key=lambda work: self._sizes(work.hidden), reverse=True)
        for work in coming:
            if not self._gone(queued, work, kind, at):
                seat.crowd(work.hidden, mine)
        for hold in ahead:
            stays = hold.member == member and _end_of(hold) > at
            if stays and not seat.give(self._space.shapes[hold.head.shape]):
                return None
        return seat if seat.takes(mine) else None

    def _limited(self, queued: _Queued) -> list[str] | None:
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

    def _charged(self, queued: _Queued, account: str) -> _Charged:
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

    def _usage_at(
        self, queued: _Queued, kind: int, at: float, new: Sequence[_Work], ahead: Sequence[Hold]
    ) -> Usage | None:
        """What is used then, the head not included; None where quota does not limit it."""
        accounts = self._limited(queued)
        if accounts is None or self._usage is None:
            return None
        usage = self._usage.copy()
        for name in accounts:
            charged = self._charged(queued, name)
            usage.charge(name, charged.ended_by(at), -1)
            if kind != _KNOWN:
                usage.charge(name, charged.present if kind == _PRESENT else charged.rest, -1)
        for work in new:
            if work.account is not None and not self._gone(queued, work, kind, at):
                usage.charge(work.account, work.request)
        for hold in ahead:
            account = hold.head.account
            if account is not None and _end_of(hold) > at:
                usage.charge(account, hold.head.request)
        return usage

    def _quota_time(self, queued: _Queued, kind: int, new: Sequence[_Work], ahead: Sequence[Hold]) -> float | None:
        """From when on there is quota for it; None for never, as far as known."""
        account, request = queued.candidate.account, queued.candidate.request
        usage = self._usage_at(queued, kind, self._now, new, ahead)
        if usage is None or account is None or usage.refusal(account, request) is None:
            return self._now
        ends: dict[float, list[tuple[str, Amounts]]] = {}
        for name in self._limited(queued) or ():
            for end, amounts in self._charged(queued, name).known:
                ends.setdefault(end, []).append((name, amounts))
        for work in new:
            if work.account is not None:
                ends.setdefault(self._end(queued, work), []).append((work.account, work.request))
        for hold in ahead:
            other = hold.head.account
            if other is not None:
                ends.setdefault(_end_of(hold), []).append((other, hold.head.request))
        for at in sorted(end for end in ends if self._now < end < FOREVER):
            for name, amounts in ends[at]:
                usage.charge(name, amounts, -1)
            if usage.refusal(account, request) is None:
                return at
        return None


def _turn(candidate: Candidate) -> tuple[object, ...]:
    """Heads in order: guaranteed ones first, then who has been a head for longest, then who has waited longest."""
    unit = candidate.unit
    since = unit.head.since if unit.head is not None else FOREVER
    return (min(candidate.tier, Tier.SHARE), since, unit.enqueued_at, unit.name, unit.id)


def _end_of(hold: Hold) -> float:
    """When a head will have ended, as far as known."""
    walltime = hold.head.unit.walltime_s
    return FOREVER if walltime is None or not hold.nomination.certain else hold.nomination.at + walltime


def nominated(units: Mapping[str, Unit], plan: Plan) -> tuple[Unit, ...]:
    """The units of a snapshot whose nomination is another once the plan is carried out."""
    said = {head.unit: head.nomination for head in plan.heads}
    heads = [key for key, unit in units.items() if unit.head is not None]
    return tuple(
        replace(units[key], head=said.get(key))
        for key in sorted({*heads, *said})
        if key in units and units[key].head != said.get(key)
    )
