"""The room side of the linked model: which lanes there are, how many gangs each could take, and what limits them.

For devices, room is counted in slots of g = 1, 2, 4, 8: placing a pod of s devices lowers floor(free / g) of its node
by at least floor(s / g), so each row is a true limit for every size, and together they are exact where sizes divide
each other. CPU, memory and the like get one row of sums and one of whole pods.

Gangs that must lie within one rack count in these rows like all others, and in rows of each rack beside each other:
a variable for each lane and rack that could take one. Where these would be too many, a lane is limited by what all
racks together would take of it alone, and decoding drops what was too much. Nodes that could be added are in no row:
they are the last choice, and are filled when the answer is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from fleet.model.amounts import Amounts
from fleet.placement.candidates.eligibility import Eligibility
from fleet.placement.packing.room import MemberRoom, room_for
from fleet.placement.packing.space import Part, Shape, Vector, slots
from fleet.placement.problem import Lane, RoomRow, Spread
from fleet.placement.reservation.profile import Profile

_SLOT_SIZES = (1, 2, 4, 8)
_MOST_SIZES = 12
MOST_DOMAIN_VARIABLES = 3_000  # lanes times racks
Kind = tuple[int, int, int]  # shape, eligibility, which heads bind


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


def lanes_of(wanted: Mapping[Kind, int], eligibilities: Mapping[int, Eligibility], caps: KindCaps) -> tuple[Lane, ...]:
    """A lane for each kind and member that could take one, with how many it could take at the most."""
    lanes: list[Lane] = []
    for (shape, number, bound), count in wanted.items():
        ranks = sorted({choice.order for choice in eligibilities[number].choices})
        prices = sorted({choice.after[0] for choice in eligibilities[number].choices})
        for choice in eligibilities[number].choices:
            cap = min(count, caps.lane(shape, choice.member))
            if cap > 0:
                cost = 1000 * ranks.index(choice.order) + min(999, prices.index(choice.after[0]))
                lanes.append(Lane(shape, number, choice.member, cap, cost, bound))
    return tuple(lanes)


def room_rows(lanes: Sequence[Lane], profile: Profile) -> tuple[tuple[RoomRow, ...], tuple[Spread, ...]]:
    """Rows for every pool of every member and for its racks, pool variables for parts that may use several pools, and
    for gangs that may use several racks."""
    spreads: list[Spread] = []
    rows: list[RoomRow] = []
    variables = 0
    by_member: dict[str, list[int]] = {}
    for index, lane in enumerate(lanes):
        by_member.setdefault(lane.member, []).append(index)
    shapes = profile.space.shapes
    domains = {index: _domains(profile.rooms[lane.member], shapes[lane.shape]) for index, lane in enumerate(lanes)}
    modelled = sum(len(found) for found in domains.values()) <= MOST_DOMAIN_VARIABLES
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
                    numbers = tuple(range(variables, variables + len(usable)))
                    variables += len(usable)
                    spreads.append(Spread(((index, part.replicas),), numbers, part.replicas * lane.cap))
                    for number, pool in zip(numbers, usable, strict=True):
                        using[pool].spreads.append((number, part, 1, part.replicas * lane.cap))
            if not modelled or not domains[index]:
                continue
            numbers = tuple(range(variables, variables + len(domains[index])))
            variables += len(numbers)
            spreads.append(Spread(((index, 1),), numbers, lane.cap))
            for variable, (name, counts) in zip(numbers, domains[index], strict=True):
                for part in shapes[lane.shape]:
                    use = racks.setdefault((part.topology, name), _Use(counts))
                    use.spreads.append((variable, part, part.replicas, lane.cap))
        for number, use in enumerate(using):
            rows += _pool_rows(f"{member}/{number}", use, profile)
        for (_, name), use in sorted(racks.items()):
            rows += _pool_rows(f"{member}/{name}", use, profile)
    return tuple(rows), tuple(spreads)


class _Use:
    """Who may put pods onto some nodes: (variable, part, pods of the part for one of it, cap)."""

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


def _pool_rows(name: str, use: _Use, profile: Profile) -> list[RoomRow]:
    counts = use.counts
    rows: list[RoomRow] = []

    def row(what: str, amount_of: Mapping[Part, int], limit: int) -> None:
        lanes, spreads = (
            _summed((index, amount_of.get(part, 0) * pods) for index, part, pods, _ in group)
            for group in (use.lanes, use.spreads)
        )
        most = sum(amount_of.get(part, 0) * pods * cap for _, part, pods, cap in (*use.lanes, *use.spreads))
        if most > limit:
            rows.append(RoomRow(f"{name} {what}", lanes, spreads, limit))

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


def _summed(terms: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    total: dict[int, int] = {}
    for index, amount in terms:
        if amount:
            total[index] = total.get(index, 0) + amount
    return tuple(total.items())
