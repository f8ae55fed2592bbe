"""The fair share of every node of a snapshot's quota tree."""

from __future__ import annotations

from collections.abc import Mapping

from fleet.core.quota.entitlement import entitlement
from fleet.core.quota.tiers import UnitGroup
from fleet.core.quota.tree import QuotaTree
from fleet.core.quota.usage import request_of
from fleet.core.snapshot.snapshot import Snapshot


def fair_shares(snapshot: Snapshot, tree: QuotaTree) -> Mapping[str, Mapping[str, int]]:
    """By path and resource, in base units. All jobs that run or want to are demand, also those that fit nowhere."""
    backlog = snapshot.backlog
    charged = [(held.unit.leaf, request_of(held.unit), held.count) for held in backlog.holders.values()]
    alike = [lot.units for lot in backlog.lots.values()] + [(unit,) for unit in backlog.odd.values()]
    wanting = [UnitGroup(units, request_of(units[0])) for units in alike if not units[0].held]
    holding = list(backlog.holding.values())
    return entitlement(tree, snapshot.members, holding, (), wanting, charged, now=0.0).shares
