"""The rows of quota and of room in the linked model, and its lanes.

A row may allow too much, never too little, so that an answer's bound holds for every plan. For devices, room is counted
in slots of g = 1, 2, 4, 8: a pod of s devices lowers floor(free / g) of its node by at least floor(s / g). So each row
is a true limit for every size, and together they are exact where sizes divide each other. CPU, memory and the like get
one row of sums and one of whole pods.

Gangs that must lie within one rack count in these rows like all others, and in rows of each rack, with a variable for
each lane and rack. If these are too many, the racks have no rows, and decoding drops the excess. Nodes that could be
added are in no row: they are the last choice, and are filled after the answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, islice

from fleet.model.amounts import Amounts
from fleet.placement.candidates.eligibility import Eligibility
from fleet.placement.packing.room import MemberRoom, room_for
from fleet.placement.packing.space import Part, Shape, Vector, slots
from fleet.placement.problem import GangClass, Kind, Lane, Row, Spread, Terms
from fleet.placement.reservation.profile import Profile
from fleet.quota.usage import Usage

_SLOT_SIZES = (1, 2, 4, 8)
_MOST_SIZES = 12
MOST_DOMAIN_VARIABLES = 3_000  # lanes times racks
Charged = tuple[str | None, Amounts]  # an account, and the request of one gang


class KindCaps:
    """How many gangs of a kind could start at most if all else were away."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._lane: dict[tuple[int, str], int] = {}
        self._room: dict[tuple[int, int], int] = {}

    def lane(self, shape: int, member: str) -> int:
        key = (shape, member)
        if key not in self._lane:
            self._lane[key] = self._profile.rooms[member].most(self._profile.space.shapes[shape])
        return self._lane[key]

    def room(self, shape: int, eligibility: Eligibility) -> int:
        key = (shape, eligibility.number)
        if key not in self._room:
            self._room[key] = sum(self.lane(shape, choice.member) for choice in eligibility.choices)
        return self._room[key]

    def quota(self, account: str | None, request: Amounts) -> int:
        usage = self._profile.usage
        if usage is None or account is None:
            return 1 << 40
        most = 1 << 40
        for node in usage.path(account):
            for resource, amount in request.items_:
                room = usage.room(node, resource)
                if room is not None:
                    most = min(most, room // amount)
        return most


def quota_rows(
    classes: Sequence[GangClass], charged: Iterable[tuple[int, Charged]], usage: Usage,
    room: Callable[[str, str], int | None], known: Sequence[int] = (), about: str = "", head: int = -1,
) -> list[Row]:  # fmt: skip
    """A row for each node and resource of which the classes in `charged`, by number, could exceed the `room` (None: no
    limit). No row forbids the `known` answer."""
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
    rows: list[Row] = []
    for limit, row in terms.items():
        used = sum(amount * known[index] for index, amount in row) if known else 0
        most = max(rooms[limit] or 0, used)
        if sum(amount * classes[index].cap for index, amount in row) > most:
            rows.append(Row(f"{limit[0]} {limit[1]}{about}", most, classes=tuple(row), head=head))
    return rows


def lanes_of(
    classes: Iterable[GangClass], eligibilities: Mapping[int, Eligibility], caps: KindCaps
) -> tuple[Lane, ...]:
    """A lane for each kind of gangs and each member that could take one."""
    wanted: Counter[Kind] = Counter()
    for cls in classes:
        wanted[cls.kind] += cls.cap
    lanes: list[Lane] = []
    for (shape, number, beside), gangs in wanted.items():
        ranks = sorted({choice.order for choice in eligibilities[number].choices})
        prices = sorted({choice.after[0] for choice in eligibilities[number].choices})
        for choice in eligibilities[number].choices:
            cap = min(gangs, caps.lane(shape, choice.member))
            if cap > 0:
                cost = 1000 * ranks.index(choice.order) + min(999, prices.index(choice.after[0]))
                lanes.append(Lane(shape, number, choice.member, cap, cost, beside))
    return tuple(lanes)


def room_rows(
    lanes: Sequence[Lane], profile: Profile, left_out: list[str]
) -> tuple[tuple[Row, ...], tuple[Spread, ...]]:
    """Rows for every pool of every member and for its racks, pod variables for parts that may use several pools, and
    for gangs that may use several racks. `left_out` gets the parts without rows."""
    spreads: list[Spread] = []
    rows: list[Row] = []
    new = count()

    def spread(lane: int, replicas: int, places: int, cap: int) -> tuple[int, ...]:
        spreads.append(Spread(((lane, replicas),), tuple(islice(new, places)), cap))
        return spreads[-1].variables

    by_member: dict[str, list[int]] = {}
    for index, lane in enumerate(lanes):
        by_member.setdefault(lane.member, []).append(index)
    shapes = profile.space.shapes
    domains = {index: _domains(profile.rooms[lane.member], shapes[lane.shape]) for index, lane in enumerate(lanes)}
    modelled = sum(len(found) for found in domains.values()) <= MOST_DOMAIN_VARIABLES
    if not modelled:
        left_out.append("racks")
    for member in sorted(by_member):
        pools = _alike(profile.rooms[member])
        using = [_Use(counts) for _, counts in pools]
        racks: dict[tuple[int, str], _Use] = {}
        for index in by_member[member]:
            lane = lanes[index]
            for part in shapes[lane.shape]:
                usable = [number for number, (takes, _) in enumerate(pools) if takes[part.claim]]
                if len(usable) == 1:
                    using[usable[0]].lanes.append((index, part, part.replicas, lane.cap))
                else:
                    most = part.replicas * lane.cap
                    for variable, pool in zip(spread(index, part.replicas, len(usable), most), usable, strict=True):
                        using[pool].spreads.append((variable, part, 1, most))
            if not modelled or not domains[index]:
                continue
            variables = spread(index, 1, len(domains[index]), lane.cap)
            for variable, (name, counts) in zip(variables, domains[index], strict=True):
                for part in shapes[lane.shape]:
                    use = racks.setdefault((part.topology, name), _Use(counts))
                    use.spreads.append((variable, part, part.replicas, lane.cap))
        for number, use in enumerate(using):
            rows += _pool_rows(f"{member}/{number}", use, profile)
        for (_, name), use in sorted(racks.items()):
            rows += _pool_rows(f"{member}/{name}", use, profile)
    return tuple(rows), tuple(spreads)


class _Use:
    """The use of some nodes: (variable, part, pods of the part for one of the variable, cap)."""

    def __init__(self, counts: Mapping[Vector, int]) -> None:
        self.counts = counts
        self.lanes: list[tuple[int, Part, int, int]] = []
        self.spreads: list[tuple[int, Part, int, int]] = []


def _alike(room: MemberRoom) -> list[tuple[tuple[bool, ...], Mapping[Vector, int]]]:
    """Which claims take which nodes that are there; pools that differ in their racks only are one here."""
    found: dict[tuple[bool, ...], Counter[Vector]] = {}
    for pool in room.pools:
        if not pool.potential and pool.counts:
            found.setdefault(pool.takes, Counter()).update(pool.counts)
    return list(found.items())


def _domains(room: MemberRoom, shape: Shape) -> list[tuple[str, Mapping[Vector, int]]]:
    """The racks that could take one gang of a shape that must lie within one, with their nodes; none for others."""
    if not shape or not shape[0].topology:
        return []
    found: list[tuple[str, Mapping[Vector, int]]] = []
    for name, ground in room.grounds(shape):
        pools = [room.pools[index] for index in ground]
        if all(room_for(pools, part) >= part.replicas for part in shape):
            counts: Counter[Vector] = Counter()
            for pool in pools:
                counts.update(pool.counts)
            found.append((name, counts))
    return found


def _pool_rows(name: str, use: _Use, profile: Profile) -> list[Row]:
    counts = use.counts
    rows: list[Row] = []

    def row(what: str, amount_of: Mapping[Part, int], limit: int) -> None:
        lanes, spreads = (
            _summed((index, amount_of.get(part, 0) * pods) for index, part, pods, _ in group)
            for group in (use.lanes, use.spreads)
        )
        most = sum(amount_of.get(part, 0) * pods * cap for _, part, pods, cap in (*use.lanes, *use.spreads))
        if most > limit:
            rows.append(Row(f"{name} {what}", limit, lanes=lanes, pods=spreads))

    parts = {part for _, part, _, _ in (*use.lanes, *use.spreads)}
    for index, resource in enumerate(profile.space.resources):
        sizes = {part: dict(part.need).get(index, 0) for part in sorted(parts, key=lambda part: part.need)}
        free = {vector[index]: 0 for vector in counts}
        for vector, nodes in counts.items():
            free[vector[index]] += nodes
        if index < profile.space.devices:
            odd = sorted({size for size in sizes.values() if size > 0} - set(_SLOT_SIZES))
            for unit in (*_SLOT_SIZES, *odd[: _MOST_SIZES - len(_SLOT_SIZES)]):
                limit = sum(max(0, have) // unit * nodes for have, nodes in free.items())
                row(f"slots of {unit} {resource}", {part: size // unit for part, size in sizes.items()}, limit)
        else:
            row(resource, sizes, sum(max(0, have) * nodes for have, nodes in free.items()))
    for needs in sorted({part.need for part in parts if len(part.need) > 1}):
        limit = sum(slots(vector, needs) * nodes for vector, nodes in counts.items())
        row(f"pods of {needs}", {part: 1 for part in parts if part.need == needs}, limit)
    return rows


def _summed(terms: Iterable[tuple[int, int]]) -> Terms:
    total: Counter[int] = Counter()
    for index, amount in terms:
        if amount:
            total[index] += amount
    return tuple(total.items())
