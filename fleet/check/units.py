"""What several rules of the checker ask about units and members, written apart from the planner.

Tiers are what they are by definition (fleet/quota); which waiting units count as demand is worked out again here.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.check.packer import Gang, first_unpackable
from fleet.model.amounts import Amounts
from fleet.model.gang import Key, gang_key
from fleet.model.matching import member_bars
from fleet.model.member import Member, Pool
from fleet.model.order import queue_order
from fleet.model.unit import Phase, Unit
from fleet.quota.entitlement import Entitlement, entitlement
from fleet.quota.requests import Requests
from fleet.quota.tiers import Tier
from fleet.quota.tree import MAX_JOBS, stops
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot
from fleet.snapshot.backlog import Lot


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


def in_the_way(
    snapshot: Snapshot, leaves: Container[str | None], passed: Container[str], now: float
) -> dict[str, Unit]:
    """By leaf, of those given, the first that waits, could be asked and is not among `passed`, before whom nobody of
    its queue starts."""
    if snapshot.tree is None:
        return {}
    strict = {path for path, node in snapshot.tree.nodes.items() if node.policy in ("Block", "Intelligent")}
    found: dict[str, Unit] = {}
    backlog = snapshot.backlog
    runs = (*(lot.units for lot in backlog.lots.values()), *((unit,) for unit in backlog.odd.values()))
    for run in runs if strict else ():
        leaf = run[0].leaf
        if leaf not in strict or leaf not in leaves or not may_start(snapshot, run[0], now):
            continue
        first = next((unit for unit in run if unit.id not in passed), None) if stops_leaf(snapshot, run[0]) else None
        if leaf is not None and first is not None:
            found[leaf] = min(first, found.get(leaf, first), key=queue_order)
    return found


def counted(unit: Unit) -> dict[str, int]:
    """What a unit counts for in quota: its pods' requests added up, and one job, whatever they ask for by that name."""
    total: dict[str, int] = {}
    for component in unit.components:
        for name, amount in component.requests.items_:
            if name != "pods":
                total[name] = total.get(name, 0) + max(0, amount) * max(0, component.replicas)
    total[MAX_JOBS] = 1
    return total


def tiers_of(snapshot: Snapshot, now: float, about: Container[str] | None = None) -> Mapping[str, Tier]:
    """Of every unit in quota that holds room, by id, and of those `about` that may start (None: of all that may)."""
    if snapshot.tree is None:
        return {}
    entitled, waiting = entitled_in(snapshot, now)
    return entitled.running | tiers_among(entitled, waiting, about)


def entitled_in(snapshot: Snapshot, now: float) -> tuple[Entitlement, Sequence[Alike]]:
    """Promises and shares, and those who wait and could start. For a snapshot with a tree."""
    if snapshot.tree is None:
        raise ValueError("a snapshot without a tree promises nothing")
    waiting, later = _demand(snapshot, now)
    backlog = snapshot.backlog
    charged = [(held.unit.leaf, request_of(held.unit), held.count) for held in backlog.held.values()]
    holding = list(backlog.holding.values())
    return entitlement(snapshot.tree, snapshot.members, holding, waiting, later, charged, now=now), waiting


def tiers_among(entitled: Entitlement, waiting: Sequence[Alike], about: Container[str] | None) -> dict[str, Tier]:
    """As `tiers_of`, of those who wait alone."""
    found: dict[str, Tier] = {}
    for alike, rank in zip(waiting, entitled.ranks, strict=True):
        if alike.leaf is not None:
            for index, key in enumerate(alike.ids):
                if about is None or key in about:
                    found[key] = rank.tier(index)
    return found


def resources_of(snapshot: Snapshot) -> set[str]:
    """All that anybody asks for."""
    backlog = snapshot.backlog
    kinds = (*(lot.units[0] for lot in backlog.lots.values()), *(held.unit for held in backlog.held.values()))
    return {name for unit in (*kinds, *backlog.odd.values()) for c in unit.components for name, _ in c.requests.items_}


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
        for unit in snapshot.backlog.unseen.values()
        if unit.member == member and unit.id not in leaving
    ]


@dataclass(frozen=True, slots=True)
class Alike:
    """Waiting units that differ in nothing but their turn; see `Ranked` of fleet/quota/tiers.py."""

    leaf: str | None
    units: Sequence[Unit]
    ids: Sequence[str]
    request: Amounts
    block: bool = False


def _demand(snapshot: Snapshot, now: float) -> tuple[list[Alike], list[Alike]]:
    """Who waits and fits an empty member where it may go, and who would but for its back-off."""
    backlog = snapshot.backlog
    empty = {name: emptied(member) for name, member in snapshot.members.items()}
    fits: dict[tuple[Key, str, tuple[str, ...]], bool] = {}
    open_to: dict[object, tuple[str, ...]] = {}  # members by policy, which many units share
    requests = Requests()
    waiting: list[Alike] = []
    later: list[Alike] = []
    alone = (Lot(gang_key(unit.components), (unit,), (unit.id,)) for unit in backlog.odd.values())
    for lot in (*backlog.lots.values(), *alone):
        unit = lot.units[0]
        if not may_start(snapshot, unit, now, though_it_backs_off=True):
            continue
        request = requests.of(unit)
        if unit.backoff_until is not None and unit.backoff_until > now:
            later.append(Alike(unit.leaf, lot.units, lot.ids, request))
            continue
        policy = (unit.affinity_groups, unit.tolerations, unit.needs_kind, unit.excluded)
        names = open_to.get(policy)
        if names is None:
            bars = (name for name, member in snapshot.members.items() if not member_bars(unit, member))
            names = open_to[policy] = tuple(sorted(bars))
        key = (lot.gang, unit.topology, names)
        if key not in fits:
            gang = [gang_of(unit)]
            rooms = [empty[name] for name in names]
            known = any(pool.free for room in rooms if room is not None for pool in room.pools)
            fits[key] = bool(names) and (
                not known or any(room is None or not first_unpackable(room, [], gang) for room in rooms)
            )
        if fits[key]:
            waiting.append(Alike(unit.leaf, lot.units, lot.ids, request, stops_leaf(snapshot, unit)))
    return waiting, later
