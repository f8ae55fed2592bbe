"""The tiers of units, as the checker's rule about victims asks for them: work that ranks as high does not leave.

Tiers are what fleet/quota says they are by definition. Which waiting units count as demand is worked out here, apart
from the planner: the units that could start and fit a member that is empty.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace

from fleet.check.packer import Packer
from fleet.check.units import gang_of, may_start, resources_of, stops_leaf, waiting_alike
from fleet.model.amounts import Amounts
from fleet.model.gang import Key, gang_key
from fleet.model.matching import member_bars
from fleet.model.member import Member, Pool
from fleet.model.unit import Unit
from fleet.quota.entitlement import entitlement
from fleet.quota.requests import Requests
from fleet.quota.tiers import Alike, Tier
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot


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
