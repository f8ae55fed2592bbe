"""The reservations' side of the linked model, as rows over classes and lanes.

Whom a reservation binds differs by leaf, tier, priority and walltime. So gangs that different reservations bind are of
different classes and lanes: a set of spans, as bits, is part of both. The quota beside a reservation is a row like any
other. For its room, how many gangs of one shape leave the reserved gang its place is tried out, and gangs of several
shapes share in it in proportion. That is not exact: what a row lets through too much is dropped in decoding, and what
it keeps out too much starts in the filling up that follows.

Gangs that pass a reservation by right count in its rows, too. An answer may give a reservation up, if such a gang
starts there: then no other gang that outlasts its start may. Answers give up as few as they can once all that is
guaranteed is as good as it gets.

A head that greedy starts starts in every answer. For the others the rows end with their head: an answer may start it,
and then its reservation is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet.model.amounts import Amounts
from fleet.placement.greedy.worth import band_of
from fleet.placement.problem import GangClass, Lane, Passing, Problem, SpanRow
from fleet.placement.reservation.heads import Head
from fleet.placement.reservation.profile import Profile
from fleet.quota.usage import Usage

Charged = tuple[str | None, Amounts]  # an account, and what one gang asks for
MOST_BOUND_LANES = 6_000  # beyond that lanes are not told apart by reservations, and their room is in no row
_MOST_TERMS = 60_000  # of rows of quota
_MOST_TRIES = 2_000  # to find out how many gangs leave a reservation its room
_WHOLE = 1_000_000
_PASSED = 16  # reservations that are passed have bits above those of the reservations that bind
_HEAD = 32  # a class that is a head alone has a bit of its own, above these


class SpanRows:
    """The spans of a profile whose units are not among `started`. `waits`: these, as bits; `heads`: the number of each
    head's span."""

    def __init__(self, profile: Profile, started: frozenset[str], heads: Sequence[Head]) -> None:
        """`heads`: those among `started` start in every answer."""
        self._profile = profile
        self.heads = {span.holder.unit.id: number for number, span in enumerate(profile.spans)}
        self.waits = sum(1 << number for key, number in self.heads.items() if key not in started)
        self.chosen = {head.candidate.unit.id: number for number, head in enumerate(heads)}
        self._bands = {head.candidate.unit.id: band_of(head.candidate) for head in heads}
        self._started = started
        self._tries = _MOST_TRIES

    def bits(self, binding: int, passing: int, unit: str) -> int:
        """Of the spans that bind a unit, and of those that it passes, those that wait, and a bit of its own for a
        head."""
        number = self.chosen.get(unit)
        own = 0 if number is None else 1 << _HEAD + number
        return binding & self.waits | (passing & self.waits) << _PASSED | own

    def binding(self, bits: int) -> int:
        """Of `bits`, the spans, both those that bind and those that are passed."""
        return bits & (1 << _HEAD) - 1

    def rows(
        self,
        problem: Problem,
        behind: Sequence[Charged],
        bits: Sequence[int],
        known: tuple[Sequence[int], Sequence[int]],
        heads: Mapping[str, int],
    ) -> tuple[tuple[SpanRow, ...], tuple[Passing, ...]]:
        """All rows, and the reservations that an answer may give up. `behind` and `bits`: where the gangs of each class
        are charged how much each, and which spans bind them; `known`: an answer that no row forbids, (admitted,
        placed); `heads`: the classes of heads, by unit."""
        if not self.waits:
            return (), ()
        rows = self._quota(problem.classes, behind, bits, known[0], heads)
        passed: list[Passing] = []
        for number, span in enumerate(self._profile.spans):
            if self.waits & 1 << number:
                here = [index for index, lane in enumerate(problem.lanes) if lane.member == span.member]
                bound = tuple(index for index in here if problem.lanes[index].bound & 1 << number)
                passing = tuple(index for index in here if problem.lanes[index].bound & 1 << number + _PASSED)
                head = heads.get(span.holder.unit.id, -1)
                found = self._room(number, head, problem.lanes, (bound, passing), known[1], len(passed))
                rows += found
                if passing and found:
                    passed.append(Passing(span.holder.unit.name, passing, bound))
        return tuple(rows), tuple(passed)

    def starting(self, bands: Sequence[tuple[int, int]], heads: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
        """(band, class) of the heads that start in the known answer: from when on they come first."""
        found: list[tuple[int, int]] = []
        for key, index in heads.items():
            if key in self._started:
                first = next((number for number, band in enumerate(bands) if band >= self._bands[key]), len(bands))
                found.append((first, index))
        return tuple(found)

    def _room(
        self, number: int, head: int, lanes: Sequence[Lane], here: tuple[Sequence[int], Sequence[int]],
        placed: Sequence[int], passed: int,
    ) -> list[SpanRow]:  # fmt: skip
        """The rows of one span over the lanes in its member that it binds, and those that pass it."""
        span = self._profile.spans[number]
        shapes: dict[int, list[int]] = {}
        for index in (*here[0], *here[1]):
            shapes.setdefault(lanes[index].shape, []).append(index)
        spared = passed if here[1] else -1
        rows: list[SpanRow] = []
        joint: list[tuple[int, int]] = []
        name = f"{span.member} beside {span.holder.unit.name}"
        for shape, indices in shapes.items():
            most = self._most(number, shape, max(lanes[index].cap for index in indices))
            if most is None or most >= sum(lanes[index].cap for index in indices):
                continue
            known = sum(placed[index] for index in indices)
            terms = tuple((index, 1) for index in indices)
            rows.append(SpanRow(name, (), terms, head, max(most, known), spared))
            joint += ((index, _WHOLE // (most + 1)) for index in indices if most)
        if len({lanes[index].shape for index, _ in joint}) > 1:
            known = sum(amount * placed[index] for index, amount in joint)
            rows.append(SpanRow(f"{name}, in all", (), tuple(joint), head, max(_WHOLE - 1, known), spared))
        return rows

    def _most(self, number: int, shape: int, cap: int) -> int | None:
        """How many gangs of a shape leave the reservation its room, up to `cap`; None where that takes too long."""
        span = self._profile.spans[number]
        low, high, step = 0, cap + 1, 1  # that many do; that many do not, or are more than there can be
        while high - low > 1:
            middle = min(low + step, high - 1) if high > cap else (low + high) // 2
            self._tries -= 1
            if self._tries < 0:
                return None
            if span.spares_room(shape, middle):
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
    ) -> list[SpanRow]:
        usage = self._profile.usage
        if usage is None:
            return []
        terms: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
        rooms: dict[tuple[int, str, str], int | None] = {}
        count = 0
        for index, (account, request) in enumerate(behind):
            for number, span in enumerate(self._profile.spans):
                if account is None or not bits[index] & 1 << number:
                    continue
                for node in usage.path(account):
                    for resource, amount in request.items_:
                        key = (number, node, resource)
                        if key not in rooms:
                            rooms[key] = _tighter(span.quota_room(node, resource), usage, node, resource)
                        if rooms[key] is not None:
                            terms.setdefault(key, []).append((index, amount))
                            count += 1
            if count > _MOST_TERMS:
                return []
        rows: list[SpanRow] = []
        for key, row in terms.items():
            number, node, resource = key
            known = sum(amount * admitted[index] for index, amount in row)
            room = max(rooms[key] or 0, known)
            if sum(amount * classes[index].cap for index, amount in row) > room:
                span = self._profile.spans[number]
                head = heads.get(span.holder.unit.id, -1)
                rows.append(SpanRow(f"{node} {resource} beside {span.holder.unit.name}", tuple(row), (), head, room))
        return rows


def _tighter(room: int | None, usage: Usage, node: str, resource: str) -> int | None:
    """What a reservation leaves, where that is less than what there is: else the quota's own row says as much."""
    now = usage.room(node, resource)
    return room if room is not None and (now is None or room < now) else None
