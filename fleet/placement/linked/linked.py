"""The linked model: a decision as a counting problem.

Gangs alike are counted per class (who wants) and per lane (where they go); quota limits the classes, room limits the
lanes (rows.py), and sums link the two. Its size grows with kinds of gangs, not with gangs. Rows may promise too much,
never too little: what does not pack is dropped when the answer is decoded (decode.py).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from operator import itemgetter

from fleet.model.order import queue_order
from fleet.placement.candidates.candidate import Candidate, Group, service_order
from fleet.placement.candidates.eligibility import Eligibility
from fleet.placement.greedy.worth import AGES_S, Band, age_bucket, band_of, weight
from fleet.placement.linked.rows import Kind, KindCaps, lanes_of, room_rows
from fleet.placement.linked.spanrows import MOST_BOUND_LANES, Charged, SpanRows
from fleet.placement.problem import Answer, GangClass, Problem, QuotaRow
from fleet.placement.reservation.heads import Head
from fleet.placement.reservation.profile import Profile
from fleet.quota.tiers import Tier
from fleet.quota.usage import Usage
from fleet.quota.users import split
from fleet.snapshot import Config

MOST_BANDS = 12
MOST_VARIABLES = 200_000
MOST_LINKS = 256  # of a queue that starts strictly in order
_Key = tuple[str | None, str | None, int, int, int, int, int, bool, int]
# of a class: leaf, account, band, age, shape, eligibility, link, preemptible, which heads bind
Part = tuple[Group, Sequence[int]]  # some units of a group
_MOST_USERS = 300  # whose caps are in rows
_BAND_NAMES = ("guaranteed", "share", "crossing", "borrowed")


@dataclass(frozen=True, slots=True)
class Behind:
    """The units that a class counts: groups, and which of their units, by turn."""

    parts: Sequence[Part]

    @property
    def first(self) -> Candidate:
        group, indices = self.parts[0]
        return group.candidate(indices[0])

    def oldest(self, count: int) -> list[Candidate]:
        """As many of them, or all, in the order of the queue."""
        runs = [[group.candidate(index) for index in indices[:count]] for group, indices in self.parts]
        return runs[0][:count] if len(runs) == 1 else list(islice(merge(*runs, key=service_order), count))


@dataclass(frozen=True, slots=True)
class Linked:
    """A problem, and the units behind each of its classes."""

    problem: Problem
    behind: tuple[Behind, ...]
    bands: tuple[Band, ...]  # of the problem
    number: Callable[[Candidate], int | None]  # of the class that counts a unit

    def hint(self, placed: Iterable[tuple[Candidate, str]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """A known answer, as the problem counts it: (admitted, placed)."""
        return _hint(placed, self.number, self.problem)

    def gains(self, answer: Answer) -> int:
        """Whether the model values an answer above the known one (1), the same (0), or below it (-1)."""
        admitted = self.problem.hint[0]
        if not admitted:
            return 1
        more = [0] * len(self.problem.bands)
        for cls, now, before in zip(self.problem.classes, answer.admitted, admitted, strict=True):
            more[cls.band] += cls.weight * (now - before)
        first = next((difference for difference in more if difference), 0)
        return (first > 0) - (first < 0)

    @property
    def trivial_bounds(self) -> tuple[int, ...]:
        """Per band what no answer can exceed, since no class can start more than its cap."""
        totals = [0] * len(self.problem.bands)
        for cls in self.problem.classes:
            totals[cls.band] += cls.weight * cls.cap
        return tuple(totals)


class _Classes:
    """Groups cut into classes: what of a group is in one tier and age bucket, together with the like of others."""

    def __init__(self, groups: Iterable[Group], profile: Profile, spans: SpanRows, now: float) -> None:
        self._now = now
        self._profile = profile
        self._spans = spans
        groups = [group for group in groups if group.eligibility.choices]
        bands = {(int(tier), -group.priority) for group in groups for tier, _, _ in group.segments}
        self.bands = sorted(bands)[:MOST_BANDS]
        self._numbers = {band: number for number, band in enumerate(self.bands)}
        self.caps = KindCaps(profile)
        self.found: dict[_Key, list[Part]] = {}
        self._capped = _capped(groups, profile.usage)
        self._links: dict[str, int] = {}  # of units in chains, which of their leaf's links they are in
        lines: dict[str, list[Group]] = {}
        for group in groups:
            if group.block and group.leaf is not None:
                lines.setdefault(group.leaf, []).append(group)
        whole = {leaf for leaf, line in lines.items() if self._chain(line)}
        for group in groups:
            if not group.block and (group.leaf not in lines or group.leaf in whole):
                self._cut(group)

    def key(self, candidate: Candidate) -> _Key | None:
        """Of the class that counts a unit, if any does."""
        band = self._numbers.get(band_of(candidate))
        if band is None:
            return None
        unit = candidate.unit
        age, link = age_bucket(unit, self._now), self._links.get(unit.id, 0)
        kind = (candidate.shape, candidate.eligibility.number)
        passing = self._profile.standing(self._profile.passing(unit, candidate.tier), unit)
        bits = self._spans.bits(self._profile.bound(candidate), passing, unit.id)
        return (unit.leaf, self._account(candidate.account), band, age, *kind, link, unit.preemptible, bits)

    def cap(self, group: Group, account: str | None) -> int:
        """How many of its gangs that are charged there could start at most."""
        return min(self.caps.room(group.shape, group.eligibility), self.caps.quota(account, group.request))

    def _account(self, account: str | None) -> str | None:
        """The account of a class: users whose caps leave room for all that they wait for are not told apart."""
        return account if account is None or account in self._capped else split(account)[0]

    def _cut(self, group: Group) -> None:
        """Units are by turn, so those of one age bucket are neighbours, the oldest first."""
        for tier, start, end in group.segments:
            if (int(tier), -group.priority) not in self._numbers:
                continue
            for age in range(len(AGES_S), -1, -1):
                stop = end
                if age:
                    stop = bisect_right(group.units, -age, start, end, key=lambda unit: -age_bucket(unit, self._now))
                for indices in self._parts(group, tier, start, stop):
                    key = self.key(group.candidate(indices[0]))
                    if key is not None:
                        self.found.setdefault(key, []).append((group, indices))
                start = stop

    def _parts(self, group: Group, tier: Tier, start: int, stop: int) -> Iterable[Sequence[int]]:
        """The units of a range by where they are charged and which heads bind them. A head is a part of its own."""
        if start == stop:
            return ()
        profile, spans = self._profile, self._spans
        binding = profile.binding(group.units[start], tier) & spans.waits
        passing = profile.passing(group.units[start], tier) & spans.waits
        by_user = group.by_user and bool(self._capped)
        timed = binding | passing and group.timed
        if not by_user and not timed and spans.chosen.keys().isdisjoint(group.ids[start:stop]):
            return (range(start, stop),)
        found: dict[tuple[str | None, int], list[int]] = {}
        for index in range(start, stop):
            unit = group.units[index]
            bits = spans.bits(profile.standing(binding, unit), profile.standing(passing, unit), unit.id)
            found.setdefault((self._account(group.account(index)), bits), []).append(index)
        return found.values()

    def _chain(self, groups: Sequence[Group]) -> bool:
        """The links of a leaf that starts strictly in order: equal neighbours in its queue are one. Nothing can start
        behind a link that cannot start whole, so the chain ends there; it ends after a number of links, too, and what
        stands behind waits for the filling up that follows every answer. Says whether all of them are in it."""
        runs = (_run(group) for group in groups)
        caps: dict[tuple[int, str | None], int] = {}
        last: tuple[_Key, Group] | None = None
        link, count = 0, 0
        for _, index, group in merge(*runs, key=itemgetter(0)):
            candidate = group.candidate(index)
            plain = self.key(candidate)
            if last is not None:
                alike = (id(last[1]), last[0][1])
                if alike not in caps:
                    caps[alike] = self.cap(last[1], last[0][1])
                if count > caps[alike]:
                    return False
            if plain is None or link >= MOST_LINKS:
                return False
            if last is None or plain != last[0]:
                last, link, count = (plain, group), link + 1, 0
            count += 1
            self._links[candidate.unit.id] = link
            parts = self.found.setdefault((*plain[:6], link, *plain[7:]), [])
            growing = parts[-1][1] if parts and parts[-1][0] is group else None
            if isinstance(growing, list):
                growing.append(index)
            else:
                parts.append((group, [index]))
        return True


def _run(group: Group) -> Iterable[tuple[tuple[int, float, str, str], int, Group]]:
    return ((queue_order(unit), index, group) for index, unit in enumerate(group.units))


def build(
    groups: Iterable[Group],
    profile: Profile,
    greedy: Sequence[tuple[Candidate, str]],
    *,
    now: float,
    config: Config,
    heads: Sequence[Head] = (),
) -> Linked:
    """The problem of starting the units of `groups` in `profile`. `greedy`: a known answer; `heads`: those
    with reservations, and those that start."""
    spans = SpanRows(profile, frozenset(candidate.unit.id for candidate, _ in greedy), heads)
    cut = _Classes(groups, profile, spans, now)
    classes: list[GangClass] = []
    behind: list[Behind] = []
    numbers: dict[_Key, int] = {}
    chains: dict[str, list[int]] = {}
    charged: list[Charged] = []
    bound: list[int] = []
    alone: dict[str, int] = {}
    wanted: dict[Kind, int] = {}
    eligibilities: dict[int, Eligibility] = {}
    followers: dict[str, list[int]] = {}
    for key in sorted(cut.found, key=lambda key: service_order(Behind(cut.found[key]).first)):
        leaf, account, band, age, shape, eligibility, link, _, bits = key
        parts = cut.found[key]
        group = parts[0][0]
        count = sum(len(indices) for _, indices in parts)
        cap = min(count, cut.cap(group, account))
        if cap <= 0 and not link:
            continue
        if leaf is not None:
            (chains if link else followers).setdefault(leaf, []).append(len(classes))
        worth = weight(profile.space.shapes[shape], age, profile.space)
        numbers[key] = len(classes)
        if spans.binding(bits) != bits:
            alone[group.ids[parts[0][1][0]]] = len(classes)
        bound.append(spans.binding(bits))
        classes.append(GangClass(leaf, band, age, shape, eligibility, count, worth, cap, bound[-1]))
        behind.append(Behind(parts))
        charged.append((account, group.request))
        kind = (shape, eligibility, bound[-1])
        wanted[kind] = wanted.get(kind, 0) + cap
        eligibilities[eligibility] = group.eligibility
    lanes = lanes_of(wanted, eligibilities, cut.caps)
    if len(lanes) > MOST_BOUND_LANES and any(bound):
        classes = [replace(cls, bound=0) for cls in classes]
        merged: Counter[Kind] = Counter()
        for cls in classes:
            merged[cls.shape, cls.eligibility, 0] += cls.cap
        lanes = lanes_of(merged, eligibilities, cut.caps)
    rooms, spreads = room_rows(lanes, profile)
    problem = Problem(
        bands=tuple(f"{_BAND_NAMES[tier]}, priority {-minus}" for tier, minus in cut.bands),
        classes=tuple(classes),
        lanes=lanes,
        quota=_quota(classes, charged, profile),
        rooms=rooms,
        spreads=spreads,
        chains=(
            *(tuple(chain) for chain in chains.values() if len(chain) > 1),
            *((chain[-1], index) for leaf, chain in chains.items() for index in followers.get(leaf, ())),
        ),
        relative_gap=config.relative_gap,
        given=spans.starting(cut.bands, alone),
        firm=sum(tier == Tier.GUARANTEED for tier, _ in cut.bands),
        deterministic_limit=config.deterministic_limit,
    )

    def number(candidate: Candidate) -> int | None:
        key = cut.key(candidate)
        return numbers.get(key) if key is not None else None

    linked = Linked(problem, tuple(behind), tuple(cut.bands), number)
    hint = linked.hint(greedy)
    rows, passed = spans.rows(problem, charged, bound, hint, alone)
    return replace(linked, problem=replace(problem, hint=hint, spans=rows, passed=passed))


def _capped(groups: Sequence[Group], usage: Usage | None) -> frozenset[str]:
    """The accounts of users who wait for more than their caps leave them; none where they are too many for rows: what
    is too much is dropped when the answer is decoded."""
    waiting: dict[str, list[tuple[str, str]]] = {}  # accounts, and what is limited of their users: (node, resource)
    wanted: Counter[tuple[str, str]] = Counter()
    for group in groups:
        if usage is None or not group.by_user:
            continue
        for account, count in Counter(map(group.account, range(len(group.units)))).items():
            if account is None:
                continue
            if account not in waiting:
                waiting[account] = usage.caps(account)
            for limit in waiting[account]:
                wanted[limit] += count * group.request[limit[1]]
    full = {
        (node, resource)
        for (node, resource), amount in wanted.items()
        if usage is not None and amount > (usage.room(node, resource) or 0)
    }
    found = frozenset(account for account, limits in waiting.items() if not full.isdisjoint(limits))
    return found if len(found) <= _MOST_USERS else frozenset()


def _quota(classes: Sequence[GangClass], charged: Sequence[Charged], profile: Profile) -> tuple[QuotaRow, ...]:
    usage = profile.usage
    if usage is None:
        return ()
    terms: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for index, (account, request) in enumerate(charged):
        for node in usage.path(account) if account is not None else ():
            for resource, amount in request.items_:
                if usage.room(node, resource) is not None:
                    terms.setdefault((node, resource), []).append((index, amount))
    rows: list[QuotaRow] = []
    for (node, resource), row in terms.items():
        room = usage.room(node, resource) or 0
        if sum(amount * classes[index].cap for index, amount in row) > room:
            rows.append(QuotaRow(node, resource, tuple(row), room))
    return tuple(rows)


def _hint(
    known: Iterable[tuple[Candidate, str]], number: Callable[[Candidate], int | None], problem: Problem
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    admitted = [0] * len(problem.classes)
    placed: Counter[tuple[int, int, int, str]] = Counter()
    for candidate, member in known:
        index = number(candidate)
        if index is not None:
            admitted[index] += 1
            placed[candidate.shape, candidate.eligibility.number, problem.classes[index].bound, member] += 1
    lanes = problem.lanes
    return tuple(admitted), tuple(placed[lane.shape, lane.eligibility, lane.bound, lane.member] for lane in lanes)
