"""The nodes of one member, one by one, so that time can run in it: gangs are seated whole, and leave again.

A decision knows a member as a multiset of free vectors. A run of the future needs nodes: a gang that ends gives its
room back on its own nodes. Gangs go to the fullest nodes that still take them, largest pods first, as the planner packs
them. So the planner's placements find their room here, but for odd sizes in several resources, where a gang may have to
wait for the next one that leaves. Only the vectors that occur are looked through, never every node.

    nodes = Nodes(member, units)        # units: all of the snapshot; placed ones of this member are here
    nodes.seat(unit)                    # True: its pods that were not seen yet have nodes now; False: nothing changed
    nodes.member, nodes.seats(unit.id)  # the state that an inventory would show now
    nodes.changed                       # ids of units whose seats are others than before; the reader clears it
    nodes.release(unit)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from operator import itemgetter

from fleet.core.foresee.seating import GangSeats, Move, Pools
from fleet.core.model.amounts import Amounts
from fleet.core.model.matching import domain_of, pool_takes
from fleet.core.model.member import Member
from fleet.core.model.nesting import bundle_of
from fleet.core.model.refine import Vector
from fleet.core.model.unit import Component, NodeClaim, Phase, Seat, Unit

_Homes = dict[Vector, dict[str, None]]  # free vector -> nodes, last come first taken


class ForwardNodes:
    """Mutable. Nodes that no unit's pods name get names of their own. A resource that no unit asks for and no node has
    is unknown here: `units` should hold every gang that will be placed."""

    def __init__(self, member: Member, units: Iterable[Unit] = ()) -> None:
        units = tuple(units)
        names = {name for pool in member.pools for free, _ in pool.free for name in free}
        names.update(name for pool in member.pools for name in pool.allocatable)
        names.update(
            name for components in {unit.components for unit in units} for c in components for name in c.requests
        )
        self._names = tuple(sorted(names, key=lambda name: ("/" not in name, name)))  # comparing compares devices first
        self._index = {name: number for number, name in enumerate(self._names)}
        self._amounts: dict[Vector, Amounts] = {}
        self._base = member
        self._homes: list[_Homes] = [{} for _ in member.pools]
        self._sorted: list[list[Vector] | None] = [None] * len(member.pools)
        self._at: dict[str, tuple[int, Vector]] = {}  # node -> its pool, its free room
        self._on: dict[str, dict[str, Vector]] = {}  # node -> unit -> what it holds there
        self._held: dict[str, dict[str, Vector]] = {}  # unit -> node -> what it holds there
        self._takes: dict[NodeClaim, tuple[int, ...]] = {}
        self._needs: dict[tuple[Component, ...], tuple[tuple[int, Vector, NodeClaim, int], ...] | None] = {}
        self._loose: set[str] = set()  # units with pods that are seen, on nodes that nobody knows
        self._member: Member | None = None
        self._made = 0
        self.changed: set[str] = set()
        self._build(member, [u for u in units if u.member == member.name and u.phase is not Phase.WAITING])

    def _build(self, member: Member, sitting: Sequence[Unit]) -> None:
        spare = [{self._vector(free): n for free, n in pool.counts.items() if n > 0} for pool in member.pools]
        for unit in sitting:
            if any(pods > 0 for _, pods in unit.visible) and not unit.seats:
                self._loose.add(unit.id)
            for seat in unit.seats:
                free = self._vector(seat.free)
                if seat.node not in self._at and 0 <= seat.pool < len(spare) and spare[seat.pool].get(free, 0) > 0:
                    spare[seat.pool][free] -= 1
                    self._put(seat.node, seat.pool, free)
                holds = self._vector(seat.holds)
                self._on.setdefault(seat.node, {})[unit.id] = holds
                self._held.setdefault(unit.id, {})[seat.node] = holds
        for number, counts in enumerate(spare):
            for free, nodes in counts.items():
                for _ in range(nodes):
                    self._put(self._name(), number, free)

    def _name(self) -> str:
        self._made += 1
        return f"{self._base.name}/{self._made}"

    def _vector(self, amounts: Amounts) -> Vector:
        have = dict(amounts.items_)
        vector = tuple(have.get(name, 0) for name in self._names)
        self._amounts.setdefault(vector, amounts)
        return vector

    def _put(self, node: str, pool: int, free: Vector) -> None:
        homes = self._homes[pool]
        if free not in homes:
            homes[free] = {}
            self._sorted[pool] = None
        homes[free][node] = None
        self._at[node] = (pool, free)
        self._member = None

    def _move(self, node: str, free: Vector) -> None:
        pool, before = self._at[node]
        homes = self._homes[pool]
        del homes[before][node]
        if not homes[before]:
            del homes[before]
            self._sorted[pool] = None
        self._put(node, pool, free)
        self.changed.update(self._on.get(node, ()))

    def copy(self) -> ForwardNodes:
        """The same nodes, to try things on."""
        other = copy(self)
        other._homes = [{vector: dict(nodes) for vector, nodes in homes.items()} for homes in self._homes]
        other._sorted = list(self._sorted)
        other._at = dict(self._at)
        other._on = {node: dict(units) for node, units in self._on.items()}
        other._held = {unit: dict(nodes) for unit, nodes in self._held.items()}
        other._loose = set(self._loose)
        other.changed = set(self.changed)
        return other

    @property
    def member(self) -> Member:
        """The member as its inventory would show it now."""
        if self._member is None:
            pools = []
            for pool, homes in zip(self._base.pools, self._homes, strict=True):
                free = tuple((self._seen(vector), len(nodes)) for vector, nodes in homes.items())
                pools.append(pool if free == pool.free else replace(pool, free=free))
            self._base = self._member = replace(self._base, pools=tuple(pools))
        return self._member

    def _seen(self, vector: Vector) -> Amounts:
        amounts = self._amounts.get(vector)
        if amounts is None:
            amounts = self._amounts[vector] = Amounts.of(dict(zip(self._names, vector, strict=True)))
        return amounts

    def seats(self, unit: str) -> tuple[Seat, ...]:
        """The seats of the unit, for `Unit.seats`; empty when they are unknown."""
        held = self._held.get(unit, {})
        return tuple(
            Seat(node, self._at[node][0], self._seen(self._at[node][1]), self._seen(holds))
            for node, holds in sorted(held.items())
            if node in self._at
        )

    def vectors(self) -> Iterable[tuple[Amounts, int]]:
        """The free room, as (vector, nodes), over all pools."""
        for homes in self._homes:
            for vector, nodes in homes.items():
                yield self._seen(vector), len(nodes)

    def fits(self, unit: Unit) -> bool:
        """Whether a unit that waits would find its room. Nothing changes."""
        if not self._may_fit(unit):
            return False
        if len(unit.components) == 1 and not unit.confined:
            return True
        if not self.seat(unit):
            return False
        self._unseat(unit)
        return True

    def seat(self, unit: Unit) -> bool:
        """Give nodes to every pod of the unit that is not seen yet (see `Unit.visible`), or to none of them."""
        parts = self._parts(unit)
        if parts is None or not self._may_fit(unit):
            return False
        moves: list[Move] = []
        uses: list[Move] = []
        if unit.confined:
            seating = GangSeats(self, {place: (need, claim) for place, need, claim, _ in parts})
            coming_pods = {place: pods for place, _, _, pods in parts}
            coming = [replace(part, replicas=coming_pods.get(place, 0)) for place, part in enumerate(unit.components)]
            if not seating.seated(bundle_of(coming, unit.rules)):
                return False
            uses = seating.uses
        elif not all(self.fill(need, claim, pods, None, moves, uses) for _, need, claim, pods in parts):
            self.undo(moves)
            return False
        held = self._held.setdefault(unit.id, {})
        for node, holds in uses:
            sum_ = tuple(a + b for a, b in zip(held[node], holds, strict=True)) if node in held else holds
            held[node] = self._on.setdefault(node, {})[unit.id] = sum_
        self.changed.add(unit.id)
        return True

    def undo(self, moves: Sequence[Move]) -> None:
        """Give nodes back what was free on them, the last first."""
        for node, free in reversed(moves):
            self._move(node, free)

    def release(self, unit: Unit) -> None:
        """Remove the unit's pods. Each pod on an unknown node leaves a place of its own size."""
        self._unseat(unit)
        if unit.id not in self._loose:
            return
        self._loose.discard(unit.id)
        seen = dict(unit.visible)
        for component in unit.components:
            pods = min(component.replicas, max(0, seen.get(component.name, 0)))
            homes = self._pools(component.claim)
            for _ in range(pods if homes else 0):
                self._put(self._name(), homes[0], self._vector(component.requests))

    def _unseat(self, unit: Unit) -> None:
        for node, holds in self._held.pop(unit.id, {}).items():
            others = self._on.get(node, {})
            others.pop(unit.id, None)
            if not others:
                self._on.pop(node, None)
            if node in self._at:
                free = self._at[node][1]
                self._move(node, tuple(a + b for a, b in zip(free, holds, strict=True)))

    def _pools(self, claim: NodeClaim) -> tuple[int, ...]:
        found = self._takes.get(claim)
        if found is None:
            takes = (number for number, pool in enumerate(self._base.pools) if pool_takes(pool, claim))
            found = self._takes[claim] = tuple(takes)
        return found

    def _parts(self, unit: Unit) -> tuple[tuple[int, Vector, NodeClaim, int], ...] | None:
        """Tuples (place of the component, needs of one pod, claim, pods not seen yet), largest first; None when the
        unit asks for a resource that no node has."""
        if not unit.visible:
            found = self._needs.get(unit.components)
            if found is None and unit.components not in self._needs:
                found = self._needs[unit.components] = self._hidden(unit)
            return found
        return self._hidden(unit)

    def _hidden(self, unit: Unit) -> tuple[tuple[int, Vector, NodeClaim, int], ...] | None:
        seen = dict(unit.visible)
        parts: list[tuple[int, Vector, NodeClaim, int]] = []
        for place, part in enumerate(unit.components):
            pods = part.replicas - max(0, seen.get(part.name, 0))
            asked = {name: amount for name, amount in part.requests.items_ if amount > 0}
            if pods > 0 and any(name not in self._index for name in asked):
                return None
            if pods > 0:
                parts.append((place, tuple(asked.get(name, 0) for name in self._names), part.claim, pods))
        parts.sort(key=itemgetter(1), reverse=True)
        return tuple(parts)

    def _may_fit(self, unit: Unit) -> bool:
        """Whether each part alone finds room: with one part, where no rule confines it, whether the gang does."""
        parts = self._parts(unit)
        if parts is None:
            return False
        for _, need, claim, pods in parts:
            left = pods
            for pool in self._pools(claim):
                for vector, nodes in self._homes[pool].items():
                    left -= _slots(vector, need, pods) * len(nodes)
            if left > 0:
                return False
        return True

    def domains(self, level: str, within: Pools | None) -> Sequence[tuple[str, Pools]]:
        """The pools of each domain of a level, the domain with the least free room first."""
        domains: dict[str, list[int]] = {}
        for number, pool in enumerate(self._base.pools):
            domain = domain_of(pool, level)
            if domain and (within is None or number in within):
                domains.setdefault(domain, []).append(number)
        room = {
            domain: tuple(
                sum(vector[i] * len(nodes) for pool in pools for vector, nodes in self._homes[pool].items())
                for i in range(len(self._names))
            )
            for domain, pools in domains.items()
        }
        return [(name, frozenset(domains[name])) for name in sorted(domains, key=lambda one: (room[one], one))]

    def fill(
        self,
        need: Vector,
        claim: NodeClaim,
        pods: int,
        within: Pools | None,
        moves: list[Move],
        uses: list[Move],
    ) -> bool:
        """Put the pods onto the fullest nodes that take them. `moves` tells how to undo it."""
        pools = [pool for pool in self._pools(claim) if within is None or pool in within]
        homes: list[tuple[Vector, int]] = []
        for pool in pools:
            order = self._sorted[pool]
            if order is None:
                order = self._sorted[pool] = sorted(self._homes[pool])
            homes += [(vector, pool) for vector in order]
        if len(pools) > 1:
            homes.sort()
        for vector, pool in homes:
            each = _slots(vector, need, pods)
            while each and pods and vector in self._homes[pool]:
                node = next(reversed(self._homes[pool][vector]))
                count = min(each, pods)
                moves.append((node, vector))
                uses.append((node, tuple(amount * count for amount in need)))
                self._move(node, tuple(free - amount * count for free, amount in zip(vector, need, strict=True)))
                pods -= count
            if not pods:
                return True
        return False


def _slots(vector: Vector, need: Vector, most: int) -> int:
    for free, amount in zip(vector, need, strict=True):
        if amount:
            most = min(most, free // amount)
    return max(0, most)
