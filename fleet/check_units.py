"""What several rules of the checker ask about units and members, written apart from the planner.

Tiers are what they are by definition (fleet/quota); which waiting units count as demand is worked out again here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fleet.model.amounts import Amounts
from fleet.model.matching import member_bars
from fleet.model.member import Member, Pool
from fleet.model.unit import Component, Phase, Unit
from fleet.packer import Gang, first_unpackable
from fleet.quota.entitlement import Entitlement, entitlement
from fleet.quota.tiers import Claimed, Tier
from fleet.quota.tree import MAX_JOBS, stops
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot


def may_start(snapshot: Snapshot, unit: Unit, now: float, *, though_it_backs_off: bool = False) -> bool:
    """Whether it waits, and nothing about itself keeps it from starting."""
    if unit.phase is not Phase.WAITING or unit.held:
        return False
    sound = unit.pods > 0 and all(
        0 <= part.replicas <= 1_000_000 and all(0 <= amount <= 1 << 62 for _, amount in part.requests.items_)
        for part in unit.components
    )
    leaf = unit.leaf is None or (snapshot.tree is not None and snapshot.tree.is_leaf(unit.leaf))
    backs_off = not though_it_backs_off and unit.backoff_until is not None and unit.backoff_until > now
    return sound and leaf and not backs_off


def stops_leaf(snapshot: Snapshot, unit: Unit) -> bool:
    """Whether nobody of its leaf starts before it."""
    node = snapshot.tree.nodes.get(unit.leaf) if snapshot.tree is not None and unit.leaf is not None else None
    return node is not None and stops(node, unit)


def counted(unit: Unit) -> dict[str, int]:
    """What a unit counts for in quota: its pods' requests added up, and one job."""
    total = {MAX_JOBS: 1}
    for component in unit.components:
        for name, amount in component.requests.items_:
            if name != "pods":
                total[name] = total.get(name, 0) + max(0, amount) * max(0, component.replicas)
    return total


def tiers_of(snapshot: Snapshot, now: float) -> Mapping[str, Tier]:
    """Of every unit in quota that may start or holds room, by id."""
    return _entitled(snapshot, now).tiers if snapshot.tree is not None else {}


def emptied(member: Member) -> Member | None:
    """The member with nothing running; None when its inventory does not say what its nodes have."""
    pools: list[Pool] = []
    for pool in member.pools:
        if not pool.allocatable.items_ and any(nodes > 0 for _, nodes in pool.free):
            return None
        whole = dict(pool.allocatable.items_)
        for vector, nodes in pool.free:
            if nodes > 0:
                whole |= {name: max(amount, whole.get(name, 0)) for name, amount in vector.items_}
        nodes = sum(max(0, count) for _, count in pool.free)
        pools.append(replace(pool, free=((type(pool.allocatable).of(whole), nodes),) if nodes else ()))
    return replace(member, pools=tuple(pools))


def gang_of(unit: Unit, *, hidden: bool = False) -> Gang:
    """Its pods; `hidden`: those that the inventory does not show yet."""
    seen = dict(unit.visible) if hidden else {}
    parts = ((max(0, c.replicas - max(0, seen.get(c.name, 0))), c.requests, c.claim) for c in unit.components)
    return Gang(unit.id, tuple(parts), unit.topology)


def coming_to(snapshot: Snapshot, member: str, leaving: set[str]) -> list[Gang]:
    """What is on its way to the member, but for units that are `leaving`."""
    return [
        gang_of(unit, hidden=True)
        for unit in snapshot.units.values()
        if unit.phase is not Phase.WAITING and unit.member == member and unit.id not in leaving
    ]


def _entitled(snapshot: Snapshot, now: float) -> Entitlement:
    assert snapshot.tree is not None
    empty = {name: emptied(member) for name, member in snapshot.members.items()}
    fits: dict[tuple[tuple[Component, ...], str, tuple[str, ...]], bool] = {}
    open_to: dict[object, tuple[str, ...]] = {}  # members by policy, which many units share
    requests: dict[tuple[tuple[Component, ...], bool], Amounts] = {}
    waiting: list[Claimed] = []
    later: list[Claimed] = []
    queue = [unit for unit in snapshot.units.values() if unit.phase is Phase.WAITING]
    queue.sort(key=lambda u: (-u.priority, u.enqueued_at, u.name, u.id))
    for unit in queue:
        if not may_start(snapshot, unit, now, though_it_backs_off=True):
            continue
        alike = (unit.components, unit.preemptible)
        if alike not in requests:
            requests[alike] = request_of(unit)
        if unit.backoff_until is not None and unit.backoff_until > now:
            later.append(Claimed(unit, requests[alike]))
            continue
        policy = (unit.affinity_groups, unit.tolerations, unit.needs_kind, unit.excluded)
        names = open_to.get(policy)
        if names is None:
            bars = (name for name, member in snapshot.members.items() if not member_bars(unit, member))
            names = open_to[policy] = tuple(sorted(bars))
        key = (unit.components, unit.topology, names)
        if key not in fits:
            gang = [gang_of(unit)]
            rooms = [empty[name] for name in names]
            known = any(pool.free for room in rooms if room is not None for pool in room.pools)
            fits[key] = bool(names) and (
                not known or any(room is None or not first_unpackable(room, [], gang) for room in rooms)
            )
        if fits[key]:
            waiting.append(Claimed(unit, requests[alike], stops_leaf(snapshot, unit)))
    holding = [unit for unit in snapshot.units.values() if unit.phase is not Phase.WAITING]
    return entitlement(snapshot.tree, snapshot.members, holding, waiting, later)
