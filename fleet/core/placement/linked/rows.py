"""The rows of quota and of room in the linked model, its lanes, and the rows of reservations.

A row of quota or room may allow too much, never too little: its bound holds for every plan. Room for devices is counted
in slots of g = 1, 2, 4, 8: a pod of s devices lowers floor(free / g) of its node by at least floor(s / g). So each row
is a true limit for every size, and together they are exact where sizes divide each other. CPU, memory and the like get
one row of sums and one of whole pods.

Gangs that must lie within one rack count in these rows like all others, and in rows of all racks of a member together
(domainrows.py), without a variable for a rack. Nodes that could be added are in no row: they are the last choice, and
the filling up uses them after the answer.

Gangs that outlast the starts of different reservations are of different classes and lanes. Quota beside a reservation
limits the gangs that it binds. For room, a search finds how many gangs of one shape leave the reserved gang its place;
gangs of several shapes share that in proportion. These rows are not exact: decoding drops the gangs that they allow too
much, and the filling up starts the gangs that they forbid too much. Gangs that pass the reservation by right count
there, too. An answer may give the reservation up if such a gang starts there: then no gang that it binds may. A head
that greedy starts, starts in every answer. The rows of another head are lifted if its unit starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count, islice

from fleet.core.model.amounts import Amounts
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.cause import Cause, left_out
from fleet.core.placement.candidates.eligibility import MemberChoice
from fleet.core.placement.linked.classes import Units
from fleet.core.placement.linked.domainrows import domain_rows
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import GangPart, Vector, slots
from fleet.core.placement.problem import GangClass, GangKind, Lane, LimitRow, PassableSpan, Problem, Spread, Terms
from fleet.core.placement.reservation.profile import Profile
from fleet.core.placement.reservation.span import Span
from fleet.core.quota.usage import Usage

_SLOT_SIZES = (1, 2, 4, 8)
Charged = tuple[str | None, Amounts]  # an account, and the request of one gang


def quota_rows(
    classes: Sequence[GangClass],
    charged: Iterable[tuple[int, Charged]],
    usage: Usage,
    room: Callable[[str, str], int | None],
    hint: Sequence[int] = (),
    about: str = "",
    head: int = -1,
) -> list[LimitRow]:
    """A row for each node and resource of which the classes in `charged`, by number, could exceed the `room` (None: no
    limit). No row forbids the `hint` answer."""
    terms: dict[tuple[str, str], list[tuple[int, int]]] = {}
    rooms: dict[tuple[str, str], int | None] = {}
    for index, (account, request) in charged:
        for node in usage.path(account) if account is not None else ():
            for resource, amount in request.items_:
                limit = (node, resource)
                if limit not in rooms:
                    rooms[limit] = room(node, resource)
                if rooms[limit] is not None:
                    terms.setdefault(limit, []).append((index, amount))
    rows: list[LimitRow] = []
    for limit, row in terms.items():
        used = sum(amount * hint[index] for index, amount in row) if hint else 0
        most = max(rooms[limit] or 0, used)
        if sum(amount * classes[index].cap for index, amount in row) > most:
            rows.append(LimitRow(f"{limit[0]} {limit[1]}{about}", most, classes=tuple(row), head=head))
    return rows


def lanes_of(classes: Sequence[GangClass], units: Sequence[Units], most: Callable[[int, str], int]) -> tuple[Lane, ...]:
    """A lane for each kind of gangs and each member that could take one. `most`: how many gangs of a shape it takes."""
    counts: Counter[GangKind] = Counter()
    choices_of: dict[GangKind, Sequence[MemberChoice]] = {}
    for cls, its in zip(classes, units, strict=True):
        counts[cls.kind] += cls.cap
        choices_of[cls.kind] = its.group.eligibility.choices
    lanes: list[Lane] = []
    for kind, gangs in counts.items():
        ranks = sorted({choice.order for choice in choices_of[kind]})
        prices = sorted({choice.after[0] for choice in choices_of[kind]})
        for choice in choices_of[kind]:
            cap = min(gangs, most(kind.shape, choice.member))
            if cap > 0:
                cost = 1000 * ranks.index(choice.order) + min(999, prices.index(choice.after[0]))
                lanes.append(Lane(kind, choice.member, cap, cost))
    return tuple(lanes)


def room_rows(
    lanes: Sequence[Lane], profile: Profile
) -> tuple[tuple[LimitRow, ...], tuple[Spread, ...], frozenset[str]]:
    """Rows for every pool of every member and for its racks; pod variables for parts that may use several pools; and
    the bounds that left out single rows."""
    spreads: list[Spread] = []
    rows: list[LimitRow] = []
    bounds: frozenset[str] = frozenset()
    new = count()

    def spread(lane: int, replicas: int, places: int, cap: int) -> tuple[int, ...]:
        spreads.append(Spread(((lane, replicas),), tuple(islice(new, places)), cap))
        return spreads[-1].variables

    by_member: dict[str, list[int]] = {}
    for index, lane in enumerate(lanes):
        by_member.setdefault(lane.member, []).append(index)
    shapes = profile.space.shapes
    for member in sorted(by_member):
        pools = _alike(profile.rooms[member])
        using = [_Use(counts) for _, counts in pools]
        for index in by_member[member]:
            lane = lanes[index]
            for part in shapes[lane.kind.shape]:
                usable = [number for number, (takes, _) in enumerate(pools) if takes[part.node_claim]]
                if len(usable) == 1:
                    using[usable[0]].lanes.append((index, part, part.replicas, lane.cap))
                else:
                    most = part.replicas * lane.cap
                    for variable, pool in zip(spread(index, part.replicas, len(usable), most), usable, strict=True):
                        using[pool].spreads.append((variable, part, 1, most))
        for number, use in enumerate(using):
            more, cut = _pool_rows(f"{member}/{number}", use, profile)
            rows += more
            bounds |= cut
        into = [(index, lanes[index]) for index in by_member[member]]
        more, cut = domain_rows(profile.rooms[member], into, profile.space)
        rows += more
        bounds |= cut
    return tuple(rows), tuple(spreads), bounds


class _Use:
    """The use of some nodes: (variable, part, pods of the part for one of the variable, cap)."""

    def __init__(self, counts: Mapping[Vector, int]) -> None:
        self.counts = counts
        self.lanes: list[tuple[int, GangPart, int, int]] = []
        self.spreads: list[tuple[int, GangPart, int, int]] = []


def _alike(room: MemberRoom) -> list[tuple[tuple[bool, ...], Mapping[Vector, int]]]:
    """The existing nodes, by the claims that they take. Pools that differ in their racks only are one here."""
    found: dict[tuple[bool, ...], Counter[Vector]] = {}
    for pool in room.pools:
        if not pool.potential and pool.counts:
            found.setdefault(pool.takes, Counter()).update(pool.counts)
    return list(found.items())


def _pool_rows(name: str, use: _Use, profile: Profile) -> tuple[list[LimitRow], frozenset[str]]:
    """The rows of some nodes, and the bound that left out some of them."""
    counts = use.counts
    rows: list[LimitRow] = []
    bounds: frozenset[str] = frozenset()

    def row(what: str, amount_of: Mapping[GangPart, int], limit: int) -> None:
        lanes, spreads = (
            _summed((index, amount_of.get(part, 0) * pods) for index, part, pods, _ in group)
            for group in (use.lanes, use.spreads)
        )
        most = sum(amount_of.get(part, 0) * pods * cap for _, part, pods, cap in (*use.lanes, *use.spreads))
        if most > limit:
            rows.append(LimitRow(f"{name} {what}", limit, lanes=lanes, pods=spreads))

    parts = {part for _, part, _, _ in (*use.lanes, *use.spreads)}
    for index, resource in enumerate(profile.space.resources):
        sizes = {part: dict(part.need).get(index, 0) for part in sorted(parts, key=lambda part: part.need)}
        free = {vector[index]: 0 for vector in counts}
        for vector, nodes in counts.items():
            free[vector[index]] += nodes
        if index < profile.space.devices:
            odd = sorted({size for size in sizes.values() if size > 0} - set(_SLOT_SIZES))
            counted = (*_SLOT_SIZES, *odd)[: BOUNDS.slot_sizes]
            if len(counted) < len(_SLOT_SIZES) + len(odd):
                bounds = frozenset({"slot_sizes"})
            for unit in counted:
                limit = sum(max(0, have) // unit * nodes for have, nodes in free.items())
                row(f"slots of {unit} {resource}", {part: size // unit for part, size in sizes.items()}, limit)
        else:
            row(resource, sizes, sum(max(0, have) * nodes for have, nodes in free.items()))
    for needs in sorted({part.need for part in parts if len(part.need) > 1}):
        limit = sum(slots(vector, needs) * nodes for vector, nodes in counts.items())
        row(f"pods of {needs}", {part: 1 for part in parts if part.need == needs}, limit)
    return rows, bounds


def _summed(terms: Iterable[tuple[int, int]]) -> Terms:
    total: Counter[int] = Counter()
    for index, amount in terms:
        if amount:
            total[index] += amount
    return tuple(total.items())


_WHOLE = 1_000_000


class SpanRows:
    """Rows for the spans of a profile that are `waiting`, as bits. No row forbids the known answer of `problem`."""

    def __init__(
        self, profile: Profile, waiting: int, problem: Problem, heads: Mapping[str, int], lacks: list[Cause]
    ) -> None:
        """`heads`: the classes of heads, by unit; `lacks` gets the parts that have no rows."""
        spans = [(number, span) for number, span in enumerate(profile.spans) if waiting & 1 << number]
        self._spans = [(number, span, heads.get(span.holder.unit.id, -1)) for number, span in spans]
        self._profile = profile
        self._usage = profile.usage
        self._problem = problem
        self._lacks = lacks
        self._tries = BOUNDS.span_tries

    def rows(
        self, units: Sequence[Units], charged: Sequence[Charged]
    ) -> tuple[tuple[LimitRow, ...], tuple[PassableSpan, ...]]:
        """All rows, and the reservations that an answer may give up. `units`, `charged`: of every class."""
        lanes = self._problem.lanes
        rows = self._quota(units, charged)
        passed: list[PassableSpan] = []
        for number, span, head in self._spans:
            here = [(index, lane.kind.beside) for index, lane in enumerate(lanes) if lane.member == span.member]
            bound = tuple(index for index, beside in here if beside.binding & 1 << number)
            lent = span.reservation.lent
            passing = tuple(index for index, beside in here if beside.passing & 1 << number and not lent)
            found = self._room(span, head, (*bound, *passing), len(passed) if passing else -1)
            rows += found
            passed += [PassableSpan(passing, bound)] if passing and found else []
        if self._tries < 0:
            self._lacks.append(left_out("span_tries"))
        return tuple(rows), tuple(passed)

    def _room(self, span: Span, head: int, here: Sequence[int], passed: int) -> list[LimitRow]:
        """The rows of one span over the lanes `here`, which are in its member and outlast its start."""
        lanes, placed = self._problem.lanes, self._problem.hint[1]
        shapes: dict[int, list[int]] = {}
        for index in here:
            shapes.setdefault(lanes[index].kind.shape, []).append(index)
        rows: list[LimitRow] = []
        joint: list[tuple[int, int]] = []
        name = f"{span.member} beside {span.holder.unit.name}"
        for shape, indices in shapes.items():
            most = self._most(span, shape, max(lanes[index].cap for index in indices))
            if most is None or most >= sum(lanes[index].cap for index in indices):
                continue
            room = max(most, sum(placed[index] for index in indices))
            rows.append(LimitRow(name, room, lanes=tuple((index, 1) for index in indices), head=head, passed=passed))
            joint += ((index, _WHOLE // (most + 1)) for index in indices if most)
        if len({lanes[index].kind.shape for index, _ in joint}) > 1:
            room = max(_WHOLE - 1, sum(amount * placed[index] for index, amount in joint))
            rows.append(LimitRow(f"{name}, in all", room, lanes=tuple(joint), head=head, passed=passed))
        return rows

    def _most(self, span: Span, shape: int, cap: int) -> int | None:
        """How many gangs of a shape, up to `cap`, leave the reservation its room; None where the tries are used up."""
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

    def _quota(self, units: Sequence[Units], charged: Sequence[Charged]) -> list[LimitRow]:
        usage, classes, hint = self._usage, self._problem.classes, self._problem.hint[0]
        rows: list[LimitRow] = []
        if usage is None:
            return rows
        bounds = [self._profile.bound(one.first) for one in units] if self._spans else []
        for number, span, head in self._spans:
            bound = [(index, charged[index]) for index, spans in enumerate(bounds) if spans & 1 << number]
            room, about = partial(_tighter, span, usage), f" beside {span.holder.unit.name}"
            rows += quota_rows(classes, bound, usage, room, hint, about, head)
            if sum(len(row.classes) for row in rows) > BOUNDS.span_terms:
                self._lacks.append(left_out("span_terms"))
                return []
        return rows


def _tighter(span: Span, usage: Usage, node: str, resource: str) -> int | None:
    """The quota that a reservation leaves, where it is less than the room now: else quota's own row is tighter."""
    room, now = span.quota_room(node, resource), usage.room(node, resource)
    return room if room is not None and (now is None or room < now) else None
