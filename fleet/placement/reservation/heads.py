"""Heads: who has waited too long collects room, so that a stream of small jobs cannot shut a large gang out.

One per leaf: the first in its queue that is within its guarantee or its share beside what came before it (see
precedence.py), has waited past the bound, and would fit; jobs outside quota have one between them. A head collects in
one member, the one where it starts earliest, and stays there: a seat that moved would never be complete. When it can
start follows from when others end: by walltime, or because it may take back their room. Where that is known for all it
needs, the moment is *certain*. Else it waits for all work that was there when it became head, whenever that ends, and
what comes later leaves its seat alone. Only work of a higher tier may break a seat; then it waits for that work too.

Heads are served in the order in which they became heads. One for which there is no seat beside those ahead of it waits
for them, and holds nothing. A head stays one until it starts, even when the share of its leaf is used up meanwhile by
what started beside it. Numbers of heads and of members looked at are bounded; who is not reached keeps its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from heapq import heapify, heappop
from itertools import islice

from fleet.model.plan import Head, Plan
from fleet.model.unit import Nomination, Unit
from fleet.placement.candidates.candidate import Candidate, Group, order
from fleet.placement.packing.room import MemberRoom
from fleet.placement.packing.space import Space
from fleet.placement.reservation.hold import FOREVER, Ends, Hold
from fleet.placement.reservation.outlook import ALL, KNOWN, PRESENT, WHOLE, Outlook, Queued, Work, end_of
from fleet.placement.reservation.precedence import Precedence
from fleet.placement.reservation.seat import Seat
from fleet.quota.entitlement import Entitlement
from fleet.quota.tiers import Tier
from fleet.quota.usage import Usage
from fleet.snapshot import Snapshot

MOST_HEADS = 16  # that hold room at the same time
_MOST_REMEMBERED = 1_000  # who comes after them keeps its turn
_MOST_LOOKS = 4  # heads that look for a member in one plan; and of those that have one, for a better one
_TURN_S = 60.0
_MOST_MEMBERS = 8  # that one of them looks at closely
_LAG_S = 300.0  # for so long nodes may show pods of work that has ended
Pairs = Sequence[tuple[Candidate, str]]


@dataclass(frozen=True, slots=True)
class _Seating:
    """What a head waits for in a member, from when on it could start, and what is there for it then."""

    kind: int
    at: float
    seat: Seat | None
    usage: Usage | None


class Heads:
    """The heads of one decision. `usage`: what runs is charged there and nothing else; None without a tree."""

    def __init__(
        self, snapshot: Snapshot, space: Space, tiers: Callable[[], Mapping[str, Tier]], usage: Usage | None,
        entitled: Entitlement | None, now: float,
    ) -> None:  # fmt: skip
        """`tiers`: gives those of what runs, by unit id; asked only where a head may evict."""
        self._snapshot = snapshot
        self._tree = snapshot.tree
        self._space = space
        self._tiers = tiers
        self._promises = promises = entitled.promises if entitled is not None else None
        self._precedence = Precedence(snapshot, entitled)
        self._now = now
        self._queue: list[Queued] = []
        self._later: list[tuple[str, float]] = []  # who comes after those, and since when it is a head
        self._outlook = Outlook(snapshot, space, usage, now)
        self._nothing = Usage(self._tree, promises) if self._tree is not None else None  # as if nothing ran
        self._empty: dict[str, MemberRoom | None] = {}
        self._fitting: dict[tuple[int, int], bool] = {}
        self._lines: tuple[list[str], list[str]] = ([], [])  # heads without a member, and with one

    def choose(self, groups: Iterable[Group]) -> tuple[Candidate, ...]:
        """Find the heads among `groups`, which are of all waiting units that may start."""
        if self._snapshot.config.head_after_s <= 0:
            return ()
        leaves: dict[str | None, list[Group]] = {}
        for group in groups:
            leaves.setdefault(group.leaf, []).append(group)
        firsts: list[tuple[Candidate, Tier]] = []
        for waiting in leaves.values():
            firsts += islice(self._able(waiting), 1)
        mins = self._promises.min if self._promises is not None else {}
        promised = {path for path, limits in mins.items() if any(limits.values())}
        firsts.sort(key=lambda first: _turn(*first))
        for candidate, _ in firsts[MOST_HEADS:_MOST_REMEMBERED]:
            known = candidate.unit.head
            self._later.append((candidate.unit.id, self._now if known is None else min(self._now, known.became)))
        for candidate, tier in firsts[:MOST_HEADS]:
            said = candidate.unit.head
            stays = said is not None and any(c.member == said.member for c in candidate.eligibility.choices)
            turn = min(self._now, said.became) if said is not None else self._now
            since = min(self._now, said.since) if said is not None and stays else self._now
            member = said.member if said is not None and stays else None
            ends = Ends(self._snapshot, candidate, promised, self._now)
            self._queue.append(Queued(candidate, tier, ends, turn, since, member))
            self._lines[member is not None].append(candidate.unit.id)
        if self._queue:
            self._outlook.list_work(self._tiers() if self._snapshot.config.reclaim else {}, self._queue)
        return tuple(queued.candidate for queued in self._queue)

    def holds(self, placed: Pairs, kept: Pairs, rooms: Mapping[str, MemberRoom]) -> tuple[Hold, ...]:
        """What the heads hold beside what this plan has placed so far and the room that is `kept` for others. `rooms`:
        what is free before anything is placed."""
        if not self._queue:
            return ()
        new = [self._outlook.planned(candidate, member) for candidate, member in (*placed, *kept)]
        sizes = {id(work.hidden): self._outlook.sizes(work.hidden) for work in new}  # many have one shape
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

    def named(self, holds: Iterable[Hold], started: Container[str]) -> tuple[Head, ...]:
        """The heads once this plan is carried out. Who holds nothing yet is one too: it keeps its turn, and its leaf,
        though others of it may use up its share meanwhile."""
        found = {hold.head.unit.id: Head(hold.head.unit.id, hold.nomination, hold.delayed) for hold in holds}
        turns = ((queued.candidate.unit.id, queued.turn) for queued in self._queue)
        return tuple(
            found.get(key) or Head(key, Nomination("", turn, turn))
            for key, turn in (*turns, *self._later)
            if key not in started
        )

    def dismiss(self, units: Container[str]) -> None:
        """They are no heads in this decision."""
        self._queue = [queued for queued in self._queue if queued.candidate.unit.id not in units]
        self._later = [(key, since) for key, since in self._later if key not in units]

    def leaving(self, units: Iterable[str]) -> None:
        """This plan evicts them: they end now."""
        self._outlook.leaving(units, self._queue)

    def _able(self, waiting: Sequence[Group]) -> Iterator[tuple[Candidate, Tier]]:
        """The units of one leaf that may be its head, in order, and what each counts on: who is one already; then who
        has waited long, would start if nothing ran, and is within guarantee or share as far as its turn goes."""
        after = self._snapshot.config.head_after_s
        stop = min((order(group.units[0]) for group in waiting if group.block), default=None)
        line: list[tuple[bool, tuple[int, float, str, str], int]] = []
        late: list[Candidate] = []
        for group in waiting:
            if group.units[0].head is not None or self._now - group.units[0].enqueued_at >= after:
                for candidate in group.firsts:
                    unit = candidate.unit
                    turn, told = order(unit), unit.head is not None
                    if (told or self._now - unit.enqueued_at >= after) and (stop is None or turn <= stop):
                        line.append((not told, turn, len(late)))
                        late.append(candidate)
        heapify(line)
        able: list[Group] | None = None
        used_up: set[tuple[str, ...]] = set()  # nobody behind who asks for these counts on more
        while line:
            candidate = late[heappop(line)[2]]
            asked = tuple(name for name, _ in candidate.request.items_)
            told = candidate.unit.head is not None
            spent = asked in used_up and candidate.tier > Tier.SHARE
            if (spent and not told) or not self._may_ever_start(candidate, candidate.account):
                continue
            if able is None:
                able = [group for group in waiting if self._may_ever_start(group, group.leaf)]
            tier = self._precedence.tier(candidate, able)
            if tier > Tier.SHARE and not told:
                used_up.add(asked)
            else:
                yield candidate, min(tier, Tier.SHARE)

    def _may_ever_start(self, kind: Candidate | Group, account: str | None) -> bool:
        """Whether it would start if nothing ran, as far as quota and the inventory say."""
        nothing = self._nothing
        if account is not None and nothing is not None and nothing.refusal(account, kind.request) is not None:
            return False
        key = (kind.shape, kind.eligibility.number)
        fits = self._fitting.get(key)
        if fits is None:
            fits = any(self._would_fit(kind, choice.member) for choice in kind.eligibility.choices)
            self._fitting[key] = fits
        return fits

    def _would_fit(self, candidate: Candidate | Group, member: str) -> bool:
        """Whether the member takes it when nothing runs there, as far as the inventory says."""
        if member not in self._empty:
            self._empty[member] = MemberRoom.emptied(self._snapshot.members[member], self._space)
        empty = self._empty[member]
        return empty is None or empty.fit(self._space.shapes[candidate.shape], self._space.devices) is not None

    def _hold(
        self, queued: Queued, new: Sequence[Work], ahead: Sequence[Hold], rooms: Mapping[str, MemberRoom]
    ) -> Hold | None:
        said = queued.candidate.unit.head if not queued.lost else None
        if queued.last is not None and queued.member is not None:
            found = self._as_told(queued, new, ahead) or self._seating(queued, queued.member, *queued.last, new, ahead)
            found = found or self._closed(queued, *queued.last, new, ahead)
        else:
            found = self._first(queued, new, ahead, rooms)
        if found is None or queued.member is None:
            queued.lost = True
            return None
        queued.last = (found.kind, found.at)
        at, certain = found.at, found.kind == KNOWN
        if said is not None and said.member == queued.member and said.certain == certain and said.at > self._now:
            at = min(at, said.at)  # what was let pass was to end before the moment that was told first
        elif at <= self._now and said is not None and said.member == queued.member and said.certain == certain:
            at = said.at  # it has been due since then
        turn = queued.turn if queued.turn < queued.since else None
        nomination = Nomination(queued.member, queued.since, at, certain, turn)
        delayed = found.at if found.at > nomination.at else None
        told = None
        if delayed is not None:
            told = self._outlook.best_seat(queued, nomination.member, found.kind, nomination.at, new, ahead)
        shapes = self._space.shapes
        meets = partial(self._outlook.remains, queued, found.kind, found.at)
        return Hold(
            queued.candidate, queued.tier, nomination, delayed, queued.ends, found.seat, found.usage, shapes, told,
            meets,
        )  # fmt: skip

    def _as_told(self, queued: Queued, new: Sequence[Work], ahead: Sequence[Hold]) -> _Seating | None:
        """The moment that was told, if one ahead that had pushed it back has started meanwhile, and elsewhere."""
        said, last, member = queued.candidate.unit.head, queued.last, queued.member
        if said is None or queued.lost or last is None or not said.certain or said.member != member:
            return None
        soon = self._now < said.at < last[1] and last[0] == KNOWN
        return self._seating(queued, said.member, KNOWN, said.at, new, ahead) if soon else None

    def _first(
        self, queued: Queued, new: Sequence[Work], ahead: Sequence[Hold], rooms: Mapping[str, MemberRoom]
    ) -> _Seating | None:
        """Where and when it starts, seen for the first time in this decision."""
        said, member = queued.candidate.unit.head if not queued.lost else None, queued.member
        found = self._seek(queued, member, new, ahead) if member is not None else None
        if queued.lost and found is not None and found.kind == WHOLE:
            return None  # others of this plan have come into the member already
        if said is not None and member is not None and self._outlook.unseen(member, new):
            if said.certain and said.at > self._now and (found is None or (found.kind, found.at) > (KNOWN, said.at)):
                return self._closed(queued, KNOWN, said.at, new, ahead)
            if not said.certain and (found is None or found.kind == ALL):
                return self._closed(queued, PRESENT, self._now, new, ahead)
        if (found is None or found.kind != KNOWN) and self._may_look(queued):
            other = self._look_around(queued, new, ahead, rooms, found is not None)
            if other is not None:
                queued.member, found = other
                queued.since = self._now
        queued.looked = True
        here = [hold for hold in ahead if hold.member == member]
        passed = [hold for hold in here if hold.tier < queued.tier and hold.nomination.at <= self._now]
        if found is None and said and member and passed == here != [] and self._would_fit(queued.candidate, member):
            kind = KNOWN if said.certain else PRESENT
            return self._closed(queued, kind, said.at, new, ahead)  # they start now; what else came in would stay, too
        alone = not here
        if found is None and said and member and alone and self._would_fit(queued.candidate, member):
            due = min(said.at, self._now) if said.certain else self._now
            return self._closed(queued, KNOWN, due, new, ahead) if self._now - due <= _LAG_S else None
        if found is not None and found.kind == ALL:
            queued.since = self._now
        return found

    def _may_look(self, queued: Queued) -> bool:
        """Whether it is its turn to look at other members. Those that collect in one already take turns, by the
        clock, and so do the others."""
        if queued.looked:
            return False
        key = queued.candidate.unit.id
        line = next(line for line in self._lines if key in line)
        return (line.index(key) + int(self._now // _TURN_S)) % max(len(line), _MOST_LOOKS) < _MOST_LOOKS

    def _closed(self, queued: Queued, kind: int, at: float, new: Sequence[Work], ahead: Sequence[Hold]) -> _Seating:
        """What is coming might cost the head its seat, or what has ended still shows on nodes. Until they show how it
        is, nothing more comes in: work that is let in for a later start would make it later."""
        usage = self._outlook.usage_at(queued, kind, at, new, ahead)
        if usage is not None and queued.candidate.account is not None:
            usage.charge(queued.candidate.account, queued.candidate.request)
        return _Seating(kind, at, None, usage)

    def _look_around(
        self, queued: Queued, new: Sequence[Work], ahead: Sequence[Hold], rooms: Mapping[str, MemberRoom], has: bool
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
            if found is None or (has and (found.kind != KNOWN or found.at - self._now > self._now - since)):
                continue
            certain = found.kind == KNOWN
            rank = (not certain, found.at if certain else 0.0, missing, number)
            if best is None or rank < best[0]:
                best = (rank, member, found)
        queued.since = since
        return None if best is None else best[1:]

    def _seek(self, queued: Queued, member: str, new: Sequence[Work], ahead: Sequence[Hold]) -> _Seating | None:
        """The first moment at which there is quota, and room in the member."""
        for kind in (KNOWN, PRESENT, ALL, WHOLE):
            begin = self._outlook.quota_time(queued, kind, new, ahead)
            if begin is None or (kind == WHOLE and not self._is_loose(queued, member, ahead)):
                continue
            ends = (self._outlook.end(queued, work) for work in self._outlook.inside(member, new))
            times = sorted({end for end in (*ends, *map(end_of, ahead)) if begin < end < FOREVER})
            times.insert(0, begin)
            if kind == WHOLE:
                return self._seating(queued, member, kind, times[-1], new, ahead)
            low, high = 0, len(times)
            while low < high:  # what ends only adds room
                middle = (low + high) // 2
                if self._outlook.seat(queued, member, kind, times[middle], new, ahead) is not None:
                    high = middle
                else:
                    low = middle + 1
            if low < len(times):
                return self._seating(queued, member, kind, times[low], new, ahead)
        return None

    def _is_loose(self, queued: Queued, member: str, ahead: Sequence[Hold]) -> bool:
        """Whether the inventory does not say which pods share a node, so that only the whole member is a seat."""
        return (
            self._outlook.loose(member)
            and self._would_fit(queued.candidate, member)
            and all(hold.member != member for hold in ahead)
        )

    def _seating(
        self, queued: Queued, member: str, kind: int, at: float, new: Sequence[Work], ahead: Sequence[Hold]
    ) -> _Seating | None:
        seat = self._outlook.seat(queued, member, kind, at, new, ahead)
        usage = self._outlook.usage_at(queued, kind, at, new, ahead)
        account = queued.candidate.account
        if usage is not None and account is not None:
            if usage.refusal(account, queued.candidate.request) is not None:
                return None
            usage.charge(account, queued.candidate.request)
        return None if seat is None and kind != WHOLE else _Seating(kind, at, seat, usage)


def _turn(candidate: Candidate, tier: Tier) -> tuple[object, ...]:
    """Heads in order: guaranteed ones first, then who has been a head for longest, then who has waited longest."""
    unit = candidate.unit
    since = unit.head.became if unit.head is not None else FOREVER
    return (tier, since, unit.enqueued_at, unit.name, unit.id)


def nominated(units: Mapping[str, Unit], plan: Plan) -> tuple[Unit, ...]:
    """The units of a snapshot whose nomination is another once the plan is carried out."""
    said = {head.unit: head.nomination for head in plan.heads}
    heads = [key for key, unit in units.items() if unit.head is not None]
    return tuple(
        replace(units[key], head=said.get(key))
        for key in sorted({*heads, *said})
        if key in units and units[key].head != said.get(key)
    )
