"""What several rules of the checker ask about units: whether one may start, its place in its queue, its pods, its tier.

Tiers are what fleet/quota says they are by definition. Which waiting units count as demand is worked out here, apart
from the planner: the units that could start and fit a member that is empty.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from fleet.check.packer import Gang, Packer
from fleet.model.amounts import Amounts
from fleet.model.bounds import BOUNDS
from fleet.model.gang import Key, gang_key
from fleet.model.matching import member_bars
from fleet.model.member import Member, Pool
from fleet.model.order import queue_order
from fleet.model.unit import Phase, Unit
from fleet.quota.entitlement import entitlement
from fleet.quota.requests import Requests
from fleet.quota.tiers import Alike, Tier
from fleet.quota.tree import stops
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot


def may_start(snapshot: Snapshot, unit: Unit, now: float, *, though_it_backs_off: bool = False) -> bool:
    """Whether a unit waits, and nothing about itself keeps it from starting."""
    if unit.phase is not Phase.WAITING or unit.held:
        return False
    sound = unit.pods > 0 and all(
        0 <= part.replicas <= BOUNDS.replicas and all(0 <= n <= BOUNDS.amount for _, n in part.requests.items_)
        for part in unit.components
    )
    leaf = unit.leaf is None or (snapshot.tree is not None and snapshot.tree.is_leaf(unit.leaf))
    backs_off = not though_it_backs_off and unit.backoff_until is not None and unit.backoff_until > now
    return sound and leaf and not backs_off


def may_go(snapshot: Snapshot, unit: Unit, name: str) -> bool:
    """Whether a member is ready, and neither it nor the unit's policy forbids the unit to go there."""
    member = snapshot.members.get(name)
    return member is not None and member.ready and not member_bars(unit, member)


def stops_leaf(snapshot: Snapshot, unit: Unit) -> bool:
    """Whether no unit behind it in its queue starts before it."""
    node = snapshot.tree.nodes.get(unit.leaf) if snapshot.tree is not None and unit.leaf is not None else None
    return node is not None and stops(node, unit)


def in_the_way(
    snapshot: Snapshot, leaves: Container[str | None], passed: Container[str], now: float
) -> dict[str, Unit]:
    """By leaf, of `leaves`: the first unit of a strict queue that stops it, may start and is not among `passed`."""
    if snapshot.tree is None:
        return {}
    strict = {path for path, node in snapshot.tree.nodes.items() if node.policy in ("Block", "Intelligent")}
    found: dict[str, Unit] = {}
    for alike in waiting_alike(snapshot) if strict else ():
        leaf, first = alike[0].leaf, alike[0]
        if leaf is None or leaf not in strict or leaf not in leaves:
            continue
        if not stops_leaf(snapshot, first) or not may_start(snapshot, first, now):
            continue
        ahead = next((unit for unit in alike if unit.id not in passed), None)
        if ahead is not None:
            found[leaf] = min(ahead, found.get(leaf, ahead), key=queue_order)
    return found


def waits_behind(unit: Unit, ahead: Mapping[str, Unit]) -> bool:
    """Whether one of `ahead`, by leaf, comes before a unit in its queue."""
    return unit.leaf is not None and unit.leaf in ahead and queue_order(unit) > queue_order(ahead[unit.leaf])


def waiting_alike(snapshot: Snapshot) -> Iterable[Sequence[Unit]]:
    """The waiting units of a snapshot; each sequence has those that differ in nothing but their turn, in its order."""
    yield from (lot.units for lot in snapshot.backlog.lots.values())
    yield from ((unit,) for unit in snapshot.backlog.odd.values())


def resources_of(snapshot: Snapshot) -> set[str]:
    """All resources that any unit asks for."""
    kinds = [alike[0] for alike in waiting_alike(snapshot)]
    kinds += [held.unit for held in snapshot.backlog.held.values()]
    return {name for unit in kinds for part in unit.components for name, _ in part.requests.items_}


def gang_of(unit: Unit, *, hidden: bool = False) -> Gang:
    """A unit's pods; `hidden`: only those that the inventory does not show yet."""
    seen = dict(unit.visible) if hidden else {}
    parts = ((max(0, c.replicas - max(0, seen.get(c.name, 0))), c.requests, c.claim) for c in unit.components)
    return Gang(unit.id, tuple(parts), unit.topology)


def gangs_in(snapshot: Snapshot, where: Mapping[str, str]) -> dict[str, list[Gang]]:
    """By member, the gangs of units that each have one in `where`."""
    found: dict[str, list[Gang]] = {}
    for key, member in where.items():
        found.setdefault(member, []).append(gang_of(snapshot.units[key]))
    return found


def coming(snapshot: Snapshot, members: Container[str | None], leaving: Container[str] = ()) -> dict[str, list[Gang]]:
    """By member, of `members`: pods on their way there, but those of units that are `leaving`."""
    found: dict[str, list[Gang]] = {}
    for unit in snapshot.backlog.unseen.values():
        if unit.member is not None and unit.member in members and unit.id not in leaving:
            found.setdefault(unit.member, []).append(gang_of(unit, hidden=True))
    return found


def tiers_of(snapshot: Snapshot, now: float, leaves: Container[str | None] | None = None) -> Mapping[str, Tier]:
    """Of every unit in quota that holds room, by id, and of those that may start in `leaves` (None: in all)."""
    if snapshot.tree is None:
        return {}
    waiting, later = _demand(snapshot, now)
    charged = [(held.unit.leaf, request_of(held.unit), held.count) for held in snapshot.backlog.held.values()]
    holding = list(snapshot.backlog.holding.values())
    return entitlement(snapshot.tree, snapshot.members, holding, waiting, later, charged, now=now).tiers(leaves)


def _demand(snapshot: Snapshot, now: float) -> tuple[list[Alike], list[Alike]]:
    """Units that wait and fit an empty member where they may go, and those that would but for their back-off."""
    fits, requests = _Fits(snapshot), Requests()
    waiting: list[Alike] = []
    later: list[Alike] = []
    for units in waiting_alike(snapshot):
        unit = units[0]
        if may_start(snapshot, unit, now, though_it_backs_off=True):
            alike = Alike(units, requests.of(unit), stops_leaf(snapshot, unit))
            if not may_start(snapshot, unit, now):
                later.append(alike)
            elif fits.somewhere(unit):
                waiting.append(alike)
    return waiting, later


class _Fits:
    """Whether gangs fit members in which nothing runs. A member that does not say what its nodes have takes all."""

    def __init__(self, snapshot: Snapshot) -> None:
        names = resources_of(snapshot)
        empty = {name: _emptied(member) for name, member in snapshot.members.items()}
        self._members = snapshot.members
        self._packers = {name: Packer(member, names) if member is not None else None for name, member in empty.items()}
        self._nodes = {name for name, member in empty.items() if member and any(pool.free for pool in member.pools)}
        self._open_to: dict[object, tuple[str, ...]] = {}  # members by policy, which many units share
        self._known: dict[tuple[Key, str, tuple[str, ...]], bool] = {}

    def somewhere(self, unit: Unit) -> bool:
        policy = (unit.affinity_groups, unit.tolerations, unit.needs_kind, unit.excluded)
        names = self._open_to.get(policy)
        if names is None:
            names = tuple(sorted(name for name, member in self._members.items() if not member_bars(unit, member)))
            self._open_to[policy] = names
        key = (gang_key(unit.components), unit.topology, names)
        if key not in self._known:
            nothing_known = self._nodes.isdisjoint(names)
            self._known[key] = bool(names) and (nothing_known or any(self._takes(name, unit) for name in names))
        return self._known[key]

    def _takes(self, name: str, unit: Unit) -> bool:
        packer = self._packers[name]
        return packer is None or packer.takes(gang_of(unit))


def _emptied(member: Member) -> Member | None:
    """The member with nothing running; None when its inventory does not say what its nodes have."""
    pools: list[Pool] = []
    for pool in member.pools:
        nodes = sum(max(0, count) for _, count in pool.free)
        if nodes and not pool.allocatable.items_:
            return None
        pools.append(replace(pool, free=((Amounts.of(pool.most), nodes),) if nodes else ()))
    return replace(member, pools=tuple(pools))
