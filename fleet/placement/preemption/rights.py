"""The right to evict: which unit may evict which other, by rank."""

from __future__ import annotations

from fleet.model.unit import Unit
from fleet.quota.tiers import Tier
from fleet.quota.tree import QuotaTree

POLICY = "preempt-policy"  # attribute of a leaf: LOWER, AnyPriority, Never; else equal or lower priority
LOWER = "PreemptLowerPriority"  # lower priority only, of the own leaf too


def may_evict(tree: QuotaTree, unit: Unit, tier: Tier, victim: Unit, victims: Tier) -> bool:
    """Whether the rank of one lets it evict the other; age is not asked here."""
    if unit.leaf is None or victim.leaf is None or not victim.preemptible:
        return False
    policy = policy_of(tree, unit.leaf)
    if policy == LOWER and victim.priority >= unit.priority:
        return False
    if unit.leaf == victim.leaf:
        return policy == LOWER
    if policy == "Never" or tier >= victims:
        return False
    return policy in (LOWER, "AnyPriority") or victim.priority <= unit.priority


def policy_of(tree: QuotaTree, leaf: str) -> str:
    """Whom jobs of the leaf may evict, as its attribute says; of a leaf that is gone, nobody."""
    node = tree.nodes.get(leaf)
    return node.attributes.get(POLICY, "") if node is not None else "Never"
