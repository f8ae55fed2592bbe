"""Waiting groups cut into classes: gangs that the linked model need not tell apart.

The gangs of a class are alike in leaf, account, band, age bucket, shape, eligibility, and in the reservations whose
start they outlast; a head is a class of its own. Fewer classes make a faster model. So users whose caps leave room for
all their gangs share one account, and neighbours alike in a Block queue are one link of its chain. The filling up after
every answer starts units that the model leaves out; `left_out` names these parts for the certificate.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import NamedTuple

from fleet.core.model.bounds import BOUNDS
from fleet.core.model.cause import Cause, left_out
from fleet.core.model.order import queue_order
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Unit
from fleet.core.placement.candidates.candidate import Candidate, Group, service_order
from fleet.core.placement.greedy.greedy import AGES_S, age_bucket, band_of
from fleet.core.placement.problem import OutlastedSpans
from fleet.core.placement.reservation.heads import LeafHead
from fleet.core.placement.reservation.profile import Profile
from fleet.core.quota.usage import Usage
from fleet.core.quota.users import split


class ClassKey(NamedTuple):
    """The common part of the gangs of a class. `link`: the number in a chain, or 0; `head`: the id of a head alone."""

    leaf: str | None
    account: str | None
    band: int
    age: int
    shape: int
    eligibility: int
    link: int
    preemptible: bool
    beside: OutlastedSpans
    head: str


@dataclass(frozen=True, slots=True)
class Units:
    """The units of a class: groups, and the numbers of units of each group, in queue order."""

    parts: Sequence[tuple[Group, Sequence[int]]]

    @property
    def group(self) -> Group:
        """The group of the first unit: groups of one class differ in nothing that the model counts."""
        return self.parts[0][0]

    @property
    def first(self) -> Candidate:
        return self.group.candidate(self.parts[0][1][0])

    @property
    def count(self) -> int:
        return sum(len(indices) for _, indices in self.parts)

    def oldest(self, count: int) -> list[Candidate]:
        """The first `count` units, or all, in service order."""
        runs = [[group.candidate(index) for index in indices[:count]] for group, indices in self.parts]
        return runs[0][:count] if len(runs) == 1 else list(islice(merge(*runs, key=service_order), count))


class GangClasses:
    """The classes of some groups. `parts`: their units, by key; `bands`: the priority bands, most important first."""

    def __init__(
        self, groups: Iterable[Group], profile: Profile, waiting: int, heads: Sequence[LeafHead], now: float
    ) -> None:
        """`waiting`: the spans of heads that do not start in the known answer, as bits."""
        self._now = now
        self._profile = profile
        self._waiting = waiting
        self._heads = {head.candidate.unit.id for head in heads}
        self.left_out: list[Cause] = []
        groups = [group for group in groups if group.eligibility.choices]
        bands = sorted({(int(tier), -group.priority) for group in groups for tier, _, _ in group.segments})
        self.bands = bands[: BOUNDS.bands]
        if len(bands) > BOUNDS.bands:
            self.left_out.append(left_out("bands", most=BOUNDS.bands))
        self._numbers = {band: number for number, band in enumerate(self.bands)}
        self.most = cache(lambda shape, member: profile.rooms[member].most(profile.space.shapes[shape]))
        self.parts: dict[ClassKey, list[tuple[Group, Sequence[int]]]] = {}
        self._capped = self._capped_accounts(groups, profile.usage)
        self._links: dict[str, int] = {}  # the link of each unit in a chain
        queues: dict[str, list[Group]] = {}
        for group in groups:
            if group.block and group.leaf is not None:
                queues.setdefault(group.leaf, []).append(group)
        whole = {leaf for leaf, queue in queues.items() if self._chain(queue)}
        for group in groups:
            if not group.block and (group.leaf not in queues or group.leaf in whole):
                self._cut(group)

    def key(self, candidate: Candidate) -> ClassKey | None:
        """The key of the class that counts a unit, if one does."""
        unit = candidate.unit
        band = self._numbers.get(band_of(candidate))
        if band is None:
            return None
        beside = self._beside(unit, candidate.tier)
        return ClassKey(
            unit.leaf,
            self._account(candidate.account),
            band,
            age_bucket(unit, self._now),
            candidate.shape,
            candidate.eligibility.number,
            self._links.get(unit.id, 0),
            unit.preemptible,
            beside,
            unit.id if unit.id in self._heads else "",
        )

    def _beside(self, unit: Unit, tier: Tier) -> OutlastedSpans:
        profile, waiting = self._profile, self._waiting
        binding, passing = profile.binding(unit, tier) & waiting, profile.passing(unit, tier) & waiting
        return OutlastedSpans(profile.standing(binding, unit), profile.standing(passing, unit))

    def cap(self, group: Group, account: str | None) -> int:
        """How many gangs of a group could start at most, charged to `account`, if all others were away."""
        usage = self._profile.usage
        most = sum(self.most(group.shape, choice.member) for choice in group.eligibility.choices)
        if usage is None or account is None:
            return most
        for node in usage.path(account):
            for resource, amount in group.request.items_:
                room = usage.room(node, resource)
                most = min(most, room // amount) if room is not None else most
        return most

    def _account(self, account: str | None) -> str | None:
        """The account of a class, the leaf's own for users whose caps leave room for all their gangs."""
        return account if account is None or account in self._capped else split(account)[0]

    def _capped_accounts(self, groups: Sequence[Group], usage: Usage | None) -> frozenset[str]:
        """The accounts of users whose waiting gangs exceed their caps. None where the accounts are too many for rows:
        then decoding drops the excess."""
        limits: dict[str, list[tuple[str, str]]] = {}  # of an account, by (node, resource)
        demand: Counter[tuple[str, str]] = Counter()
        for group in groups:
            if usage is None or not group.by_user:
                continue
            for account, count in Counter(map(group.account, range(len(group.units)))).items():
                if account is None:
                    continue
                if account not in limits:
                    limits[account] = usage.caps(account)
                for node, resource in limits[account]:
                    demand[node, resource] += count * group.request[resource]
        full = {limit for limit, amount in demand.items() if usage is not None and amount > (usage.room(*limit) or 0)}
        found = frozenset(account for account, mine in limits.items() if not full.isdisjoint(mine))
        if len(found) > BOUNDS.capped_users:
            self.left_out.append(left_out("capped_users", users=len(found)))
            return frozenset()
        return found

    def _cut(self, group: Group) -> None:
        """Units are in queue order, so the units of one age bucket are neighbours, the oldest first."""
        for tier, start, end in group.segments:
            if (int(tier), -group.priority) not in self._numbers:
                continue
            for age in range(len(AGES_S), -1, -1):
                stop = end
                if age:
                    stop = bisect_right(group.units, -age, start, end, key=lambda unit: -age_bucket(unit, self._now))
                for indices in self._parts(group, start, stop):
                    key = self.key(group.candidate(indices[0]))
                    if key is not None:
                        self.parts.setdefault(key, []).append((group, indices))
                start = stop

    def _parts(self, group: Group, start: int, stop: int) -> Iterable[Sequence[int]]:
        """The units of a range, by account and by the reservations whose start they outlast."""
        if start == stop:
            return ()
        if not (group.by_user and self._capped) and not (self._waiting and group.timed):
            return (range(start, stop),)
        found: dict[tuple[str | None, int], list[int]] = {}
        for index in range(start, stop):
            beside = self._profile.standing(self._waiting, group.units[index])
            found.setdefault((self._account(group.account(index)), beside), []).append(index)
        return found.values()

    def _chain(self, groups: Sequence[Group]) -> bool:
        """Cut a Block queue into the links of its chain, each with neighbours alike. Return whether the chain has all
        units. A chain ends behind a link that cannot start whole, since no unit can start behind it, and after a
        number of links."""
        runs = ([(queue_order(unit), index, group) for index, unit in enumerate(group.units)] for group in groups)
        caps: dict[tuple[int, str | None], int] = {}
        last: tuple[ClassKey, Group] | None = None
        link, count = 0, 0
        for _, index, group in merge(*runs, key=itemgetter(0)):
            candidate = group.candidate(index)
            plain = self.key(candidate)
            if last is not None:
                alike = (id(last[1]), last[0].account)
                if alike not in caps:
                    caps[alike] = self.cap(last[1], last[0].account)
                if count > caps[alike]:
                    return False
            if link >= BOUNDS.links:
                self.left_out.append(left_out("links", queue=group.leaf or "", most=BOUNDS.links))
                return False
            if plain is None:
                return False
            if last is None or plain != last[0]:
                last, link, count = (plain, group), link + 1, 0
            count += 1
            self._links[candidate.unit.id] = link
            parts = self.parts.setdefault(plain._replace(link=link), [])
            growing = parts[-1][1] if parts and parts[-1][0] is group else None
            if isinstance(growing, list):
                growing.append(index)
            else:
                parts.append((group, [index]))
        return True
