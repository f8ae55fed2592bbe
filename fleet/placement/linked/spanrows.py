"""The reservations' side of the linked model, as rows over classes and lanes.

A reservation binds by leaf, tier, priority and walltime, so gangs beside different reservations are of different
classes and lanes. Quota beside a reservation is a row like any other. For room, a search finds how many gangs of one
shape leave the reserved gang its place; gangs of several shapes share that in proportion. This is not exact: decoding
drops what a row allows too much, and the filling up afterwards starts what it forbids too much.

Gangs that pass a reservation by right count in its rows, too. An answer may give a reservation up if such a gang starts
there: then no other gang that outlasts its start may.

A head that greedy starts, starts in every answer. The rows of another head are lifted if its unit starts: then its
reservation is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from fleet.placement.linked.classes import Key
from fleet.placement.linked.rows import Charged, quota_rows
from fleet.placement.problem import Passing, Problem, Row
from fleet.placement.reservation.profile import Profile
from fleet.placement.reservation.span import Span
from fleet.quota.usage import Usage

_MOST_TERMS = 60_000  # of rows of quota
_MOST_TRIES = 2_000  # to find how many gangs leave a reservation its room
_WHOLE = 1_000_000


class SpanRows:
    """Rows for the spans of a profile that are `waiting`, as bits. No row forbids the known answer of `problem`."""

    def __init__(
        self, profile: Profile, waiting: int, problem: Problem, heads: Mapping[str, int], left_out: list[str]
    ) -> None:
        """`heads`: the classes of heads, by unit; `left_out` gets the parts that have no rows."""
        spans = [(number, span) for number, span in enumerate(profile.spans) if waiting & 1 << number]
        self._spans = [(number, span, heads.get(span.holder.unit.id, -1)) for number, span in spans]
        self._usage = profile.usage
        self._problem = problem
        self._left_out = left_out
        self._tries = _MOST_TRIES

    def rows(self, keys: Sequence[Key], charged: Sequence[Charged]) -> tuple[tuple[Row, ...], tuple[Passing, ...]]:
        """All rows, and the reservations that an answer may give up. `keys` and `charged`: of each class."""
        lanes = self._problem.lanes
        rows = self._quota(keys, charged)
        passed: list[Passing] = []
        for number, span, head in self._spans:
            here = [(index, lane.beside) for index, lane in enumerate(lanes) if lane.member == span.member]
            bound = tuple(index for index, beside in here if beside.binding & 1 << number)
            passing = tuple(index for index, beside in here if beside.passing & 1 << number)
            found = self._room(span, head, (*bound, *passing), len(passed) if passing else -1)
            rows += found
            if passing and found:
                passed.append(Passing(span.holder.unit.name, passing, bound))
        if self._tries < 0:
            self._left_out.append("room beside some reservations")
        return tuple(rows), tuple(passed)

    def _room(self, span: Span, head: int, here: Sequence[int], passed: int) -> list[Row]:
        """The rows of one span over the lanes `here`, which are in its member: it binds them, or they pass it."""
        lanes, placed = self._problem.lanes, self._problem.hint[1]
        shapes: dict[int, list[int]] = {}
        for index in here:
            shapes.setdefault(lanes[index].shape, []).append(index)
        rows: list[Row] = []
        joint: list[tuple[int, int]] = []
        name = f"{span.member} beside {span.holder.unit.name}"
        for shape, indices in shapes.items():
            most = self._most(span, shape, max(lanes[index].cap for index in indices))
            if most is None or most >= sum(lanes[index].cap for index in indices):
                continue
            room = max(most, sum(placed[index] for index in indices))
            rows.append(Row(name, room, lanes=tuple((index, 1) for index in indices), head=head, passed=passed))
            joint += ((index, _WHOLE // (most + 1)) for index in indices if most)
        if len({lanes[index].shape for index, _ in joint}) > 1:
            room = max(_WHOLE - 1, sum(amount * placed[index] for index, amount in joint))
            rows.append(Row(f"{name}, in all", room, lanes=tuple(joint), head=head, passed=passed))
        return rows

    def _most(self, span: Span, shape: int, cap: int) -> int | None:
        """How many gangs of a shape leave the reservation its room, up to `cap`; None where the tries are used up."""
        low, high, step = 0, cap + 1, 1  # `low` gangs leave it; `high` gangs do not, or are more than there can be
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

    def _quota(self, keys: Sequence[Key], charged: Sequence[Charged]) -> list[Row]:
        usage, classes, known = self._usage, self._problem.classes, self._problem.hint[0]
        rows: list[Row] = []
        if usage is None:
            return rows
        for number, span, head in self._spans:
            bound = [(index, charged[index]) for index, key in enumerate(keys) if key.beside.binding & 1 << number]
            room, about = partial(_tighter, span, usage), f" beside {span.holder.unit.name}"
            rows += quota_rows(classes, bound, usage, room, known, about, head)
            if sum(len(row.classes) for row in rows) > _MOST_TERMS:
                self._left_out.append("quota beside reservations")
                return []
        return rows


def _tighter(span: Span, usage: Usage, node: str, resource: str) -> int | None:
    """The quota that a reservation leaves, where it is less than there is now: else quota's own row says as much."""
    room, now = span.quota_room(node, resource), usage.room(node, resource)
    return room if room is not None and (now is None or room < now) else None
