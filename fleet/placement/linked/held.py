"""The heads' side of the linked model: what they keep others from, as rows over classes and lanes.

Whom a head binds differs by leaf, tier, walltime and whether the head may take it back, so gangs that different heads
bind are of different classes and lanes: a set of heads, as bits of the ground's holds, is part of both. A head keeps
quota, which is a row like any other, and room: how many gangs of one shape leave it its seat is tried out, and gangs of
several shapes share in it in proportion. That is not exact: what a row lets through too much is dropped in decoding,
and what it keeps out too much starts in the filling up that follows.

Guaranteed gangs of other leaves pass a head within its share, but leave it its seat where they have room elsewhere
(giveway.py). So they are of classes of their own, too, and of rows that an answer may exceed: by as little as can be
once all that is guaranteed is as good as it gets, and before anything else counts.

A head that greedy starts starts in every answer: it comes first in its tier. For the others the rows end with their
head: an answer may start it, and then it keeps nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet.model.amounts import Amounts
from fleet.placement.greedy.ground import Ground
from fleet.placement.problem import GangClass, HeldRow, Lane, Problem
from fleet.quota.usage import Usage

Charged = tuple[str | None, Amounts]  # an account, and what one gang asks for
MOST_HELD_LANES = 6_000  # beyond that lanes are not told apart by heads, and their room is in no row
_MOST_TERMS = 60_000  # of rows of quota
_MOST_TRIES = 2_000  # to find out how many gangs leave a head its seat
_WHOLE = 1_000_000
_PASSED = 16  # heads that are passed have bits above those of the holds that bind
_HEAD = 32  # a class that is a head alone has a bit of its own, above these


class Held:
    """The holds of a ground that bind somebody in an answer: those whose head is not among `started`. `waits`: these
    holds, as bits; `heads`: the number of each head's hold."""

    def __init__(self, ground: Ground, started: frozenset[str]) -> None:
        self._ground = ground
        self.heads = {hold.head.unit.id: number for number, hold in enumerate(ground.holds)}
        self.waits = sum(1 << number for key, number in self.heads.items() if key not in started)
        self._started = started
        self._tries = _MOST_TRIES

    def bits(self, binding: int, passing: int, unit: str) -> int:
        """Of the holds that bind a unit, and of those whose heads it passes, those that wait, and a bit of its own for
        a head."""
        if not self.heads:
            return 0
        number = self.heads.get(unit)
        own = 0 if number is None else 1 << _HEAD + number
        return binding & self.waits | (passing & self.waits) << _PASSED | own

    def binding(self, bits: int) -> int:
        """Of `bits`, the holds, both those that bind and those whose heads are passed."""
        return bits & (1 << _HEAD) - 1

    def rows(
        self,
        problem: Problem,
        behind: Sequence[Charged],
        bits: Sequence[int],
        known: tuple[Sequence[int], Sequence[int]],
        heads: Mapping[str, int],
    ) -> tuple[HeldRow, ...]:
        """All rows. `behind` and `bits`: where the gangs of each class are charged how much each, and who binds them;
        `known`: an answer that no row forbids, (admitted, placed); `heads`: the classes of heads, by unit."""
        if not self.waits:
            return ()
        rows = self._quota(problem.classes, behind, bits, known[0], heads)
        for number, hold in enumerate(self._ground.holds):
            if self.waits & 1 << number:
                rows += self._room(number, heads.get(hold.head.unit.id, -1), problem.lanes, known[1])
        return tuple(rows)

    def passed(self, lanes: Sequence[Lane], heads: Mapping[str, int]) -> tuple[HeldRow, ...]:
        """The rows that those exceed who pass a head and cost it its seat, by shape."""
        rows: list[HeldRow] = []
        for number, hold in enumerate(self._ground.holds):
            if not self.waits & 1 << number:
                continue
            for shape, indices in _by_shape(lanes, hold.member, 1 << number + _PASSED).items():
                most = self._most(number, shape, max(lanes[index].cap for index in indices))
                if most is not None and most < sum(lanes[index].cap for index in indices):
                    head, terms = heads.get(hold.head.unit.id, -1), tuple((index, 1) for index in indices)
                    rows.append(HeldRow(f"{hold.member} past {hold.head.unit.name}", (), terms, head, most))
        return tuple(rows)

    def starting(self, bands: Sequence[tuple[int, int]], heads: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
        """(band, class) of the heads that start in the known answer: from when on they come first."""
        found: list[tuple[int, int]] = []
        for hold in self._ground.holds:
            key = hold.head.unit.id
            if key in self._started and key in heads:
                first = next((number for number, band in enumerate(bands) if band[0] >= hold.tier), len(bands))
                found.append((first, heads[key]))
        return tuple(found)

    def _room(self, number: int, head: int, lanes: Sequence[Lane], placed: Sequence[int]) -> list[HeldRow]:
        hold = self._ground.holds[number]
        rows: list[HeldRow] = []
        joint: list[tuple[int, int]] = []
        for shape, indices in _by_shape(lanes, hold.member, 1 << number).items():
            cap = max(lanes[index].cap for index in indices)
            most = self._most(number, shape, cap)
            if most is None or most >= sum(lanes[index].cap for index in indices):
                continue
            known = sum(placed[index] for index in indices)
            terms = tuple((index, 1) for index in indices)
            rows.append(HeldRow(f"{hold.member} beside {hold.head.unit.name}", (), terms, head, max(most, known)))
            joint += ((index, _WHOLE // (most + 1)) for index in indices if most)
        if len({lanes[index].shape for index, _ in joint}) > 1:
            known = sum(amount * placed[index] for index, amount in joint)
            name = f"{hold.member} in all beside {hold.head.unit.name}"
            rows.append(HeldRow(name, (), tuple(joint), head, max(_WHOLE - 1, known)))
        return rows

    def _most(self, number: int, shape: int, cap: int) -> int | None:
        """How many gangs of a shape leave the head its seat, up to `cap`; None where that is not to be found out."""
        hold = self._ground.holds[number]
        low, high, step = 0, cap + 1, 1  # that many do; that many do not, or are more than there can be
        while high - low > 1:
            middle = min(low + step, high - 1) if high > cap else (low + high) // 2
            self._tries -= 1
            if self._tries < 0:
                return None
            if hold.spares_room(shape, middle):
                low, step = middle, 8 * step
            else:
                high = middle
        return low

    def _quota(
        self,
        classes: Sequence[GangClass],
        behind: Sequence[Charged],
        bits: Sequence[int],
        admitted: Sequence[int],
        heads: Mapping[str, int],
    ) -> list[HeldRow]:
        usage = self._ground.usage
        if usage is None:
            return []
        terms: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
        rooms: dict[tuple[int, str, str], int | None] = {}
        count = 0
        for index, (account, request) in enumerate(behind):
            for number, hold in enumerate(self._ground.holds):
                if account is None or not bits[index] & 1 << number:
                    continue
                for node in usage.path(account):
                    for resource, amount in request.items_:
                        key = (number, node, resource)
                        if key not in rooms:
                            rooms[key] = _tighter(hold.quota_room(node, resource), usage, node, resource)
                        if rooms[key] is not None:
                            terms.setdefault(key, []).append((index, amount))
                            count += 1
            if count > _MOST_TERMS:
                return []
        rows: list[HeldRow] = []
        for key, row in terms.items():
            number, node, resource = key
            known = sum(amount * admitted[index] for index, amount in row)
            room = max(rooms[key] or 0, known)
            if sum(amount * classes[index].cap for index, amount in row) > room:
                hold = self._ground.holds[number]
                head = heads.get(hold.head.unit.id, -1)
                rows.append(HeldRow(f"{node} {resource} beside {hold.head.unit.name}", tuple(row), (), head, room))
        return rows


def _by_shape(lanes: Sequence[Lane], member: str, bit: int) -> dict[int, list[int]]:
    """The lanes of a member that have a bit, by shape."""
    found: dict[int, list[int]] = {}
    for index, lane in enumerate(lanes):
        if lane.member == member and lane.bound & bit:
            found.setdefault(lane.shape, []).append(index)
    return found


def _tighter(room: int | None, usage: Usage, node: str, resource: str) -> int | None:
    """What a head leaves, where that is less than what there is: else a row says no more than the quota's own."""
    now = usage.room(node, resource)
    return room if room is not None and (now is None or room < now) else None
