"""The checker's rule that nobody leaves who need not: were one to stay, something that is claimed would have no room.

A victim is needless when all that is claimed has quota and room though it stays, and heads the quota that they wait
for beside it (check_awaited.py), as the checker shows by adding up and by packing it:
node by node, what comes now onto what is free now, then what is claimed onto what is free once the others have left,
each largest pods first onto the fullest nodes. What is not packed this way may have been needed: it is let pass.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from fleet.check.awaited import Awaited
from fleet.check.packer import Gang
from fleet.check.quota import Sums
from fleet.model.amounts import Amounts
from fleet.model.matching import domain_of, pool_takes
from fleet.model.member import Member, Pool
from fleet.model.unit import NodeClaim, Unit

_Pods = tuple[tuple[int, ...], int, NodeClaim]  # size of one, how many, which nodes


def needless(
    victims: Sequence[Unit],
    claimed: Sequence[Unit],
    members: Mapping[str, Nodes],
    sums: Sums | None,
    awaited: Awaited,
) -> list[Unit]:
    """The victims that could all stay. `claimed`: what claims room by this plan; `members`: those where room is
    claimed; `sums`: what is used once the victims are gone and all that starts or claims is charged; `awaited`: the
    quota that heads wait for."""
    found: list[Unit] = []
    stay: set[str] = set()
    for unit in victims:
        nodes = members.get(unit.member or "")
        stay.add(unit.id)
        if nodes is not None and not nodes.take_all(stay):
            stay.discard(unit.id)
            continue
        if not awaited.enough(stay, victims):
            stay.discard(unit.id)
            continue
        if sums is not None:
            sums.charge(unit)
            if not _all_have_quota(claimed, sums):
                sums.charge(unit, -1)
                stay.discard(unit.id)
                continue
        found.append(unit)
    return found


def _all_have_quota(claimed: Sequence[Unit], sums: Sums) -> bool:
    for unit in claimed:
        sums.charge(unit, -1)
        broken = sums.broken(unit)
        sums.charge(unit)
        if broken is not None:
            return False
    return True


class Nodes:
    """The nodes of one member. `names`: all resources that anybody asks for; `landing`: what comes there now; `going`:
    who leaves; `claimed`: what must have room afterwards."""

    def __init__(
        self,
        member: Member,
        names: Iterable[str],
        landing: Sequence[Gang],
        going: Sequence[Unit],
        claimed: Sequence[Gang],
    ) -> None:
        self._names = sorted(names, key=lambda name: ("/" not in name, name))
        self._pools: list[Pool] = []
        self._free: list[list[int]] = []
        for pool in member.pools:
            for amounts, count in pool.free:
                for _ in range(max(0, count)):
                    self._pools.append(pool)
                    self._free.append(list(self._vector(amounts)))
        self._usable: dict[tuple[NodeClaim, str, str], list[int]] = {}
        self._leaves = self._left_by(member, going)
        self._claimed = [(self._pods(gang), gang.topology) for gang in _largest_first(claimed)]
        self._need = [sum(size[i] * count for pods, _ in self._claimed for size, count, _ in pods)
                      for i in range(len(self._names))]  # fmt: skip
        self._lands = all(self._put(self._free, self._pods(gang), gang.topology) for gang in _largest_first(landing))

    def take_all(self, stay: Container[str]) -> bool:
        """Whether a packing is found for all that is claimed although these stay."""
        if not self._lands:
            return False
        free = [list(row) for row in self._free]
        for unit, rows in self._leaves.items():
            if unit not in stay:
                for row, holds in rows:
                    free[row] = [have + more for have, more in zip(free[row], holds, strict=True)]
        if any(sum(max(0, row[i]) for row in free) < need for i, need in enumerate(self._need) if need):
            return False
        return all(self._put(free, pods, topology) for pods, topology in self._claimed)

    def _left_by(self, member: Member, going: Sequence[Unit]) -> dict[str, list[tuple[int, tuple[int, ...]]]]:
        """By unit, the nodes that it leaves, and what it has there. A node that the inventory has no more, or that
        nobody knows, is one by itself."""
        rows: dict[str, int] = {}
        open_to: dict[tuple[int, tuple[int, ...]], list[int]] = {}
        numbers = {id(pool): number for number, pool in enumerate(member.pools)}
        for row, (pool, free) in enumerate(zip(self._pools, self._free, strict=True)):
            open_to.setdefault((numbers[id(pool)], tuple(free)), []).append(row)
        found: dict[str, list[tuple[int, tuple[int, ...]]]] = {unit.id: [] for unit in going}
        for unit in going:
            for seat in unit.seats:
                if not 0 <= seat.pool < len(member.pools):
                    continue
                if seat.node not in rows:
                    same = open_to.get((seat.pool, self._vector(seat.free)))
                    rows[seat.node] = same.pop() if same else self._new(member.pools[seat.pool])
                found[unit.id].append((rows[seat.node], self._vector(seat.holds)))
            seen = dict(unit.visible)
            for part in unit.components if not unit.seats else ():
                home = next((pool for pool in member.pools if pool_takes(pool, part.claim)), None)
                for _ in range(min(part.replicas, max(0, seen.get(part.name, 0))) if home is not None else 0):
                    found[unit.id].append((self._new(home), self._vector(part.requests)))
        return found

    def _new(self, pool: Pool | None) -> int:
        assert pool is not None
        self._pools.append(pool)
        self._free.append([0] * len(self._names))
        return len(self._free) - 1

    def _put(self, free: list[list[int]], pods: Sequence[_Pods], topology: str) -> bool:
        """Put all pods onto nodes of one value of the label, if one is given; where they do not fit, nothing of them
        is of use."""
        if not topology:
            return self._put_within(free, pods, topology, "")
        for domain in sorted({domain_of(pool, topology) for pool in self._pools} - {""}):
            tried = [list(row) for row in free]
            if self._put_within(tried, pods, topology, domain):
                free[:] = tried
                return True
        return False

    def _put_within(self, free: list[list[int]], pods: Sequence[_Pods], topology: str, domain: str) -> bool:
        for size, count, claim in pods:
            asked = [(index, amount) for index, amount in enumerate(size) if amount > 0]
            rows = (row for row in self._rows(claim, topology, domain))
            able = [row for row in rows if all(free[row][index] >= amount for index, amount in asked)]
            for row in sorted(able, key=free.__getitem__):
                if count <= 0:
                    break
                most = min((free[row][index] // amount for index, amount in asked), default=count)
                for index, amount in asked:
                    free[row][index] -= amount * min(count, most)
                count -= most
            if count > 0:
                return False
        return True

    def _rows(self, claim: NodeClaim, topology: str, domain: str) -> list[int]:
        key = (claim, topology, domain)
        if key not in self._usable:
            takes = {id(pool): pool_takes(pool, claim) and (not topology or domain_of(pool, topology) == domain)
                     for pool in self._pools}  # fmt: skip
            self._usable[key] = [row for row, pool in enumerate(self._pools) if takes[id(pool)]]
        return self._usable[key]

    def _pods(self, gang: Gang) -> list[_Pods]:
        pods = ((self._vector(requests), count, claim) for count, requests, claim in gang.parts if count > 0)
        return sorted(pods, key=lambda part: part[0], reverse=True)

    def _vector(self, amounts: Amounts) -> tuple[int, ...]:
        have = dict(amounts.items_)
        return tuple(have.get(name, 0) for name in self._names)


def _largest_first(gangs: Iterable[Gang]) -> list[Gang]:
    def size(gang: Gang) -> tuple[int, list[int]]:
        devices = [
            max((amount for name, amount in requests.items_ if "/" in name), default=0) for _, requests, _ in gang.parts
        ]
        return max(devices, default=0), sorted(devices, reverse=True)

    return sorted(gangs, key=size, reverse=True)
