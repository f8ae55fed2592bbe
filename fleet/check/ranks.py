"""Who may count on what, as the checker's rules about heads ask it, written apart from the planner.

Tiers rank what runs before all that waits. A head is measured by what was before it in its queue instead: small jobs
of its leaf that came later use up nothing that it counts on.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set

from fleet.check.units import Alike, counted, entitled_in, gang_of, stops_leaf, tiers_among
from fleet.model.matching import pool_takes
from fleet.model.member import Member
from fleet.model.order import queue_order
from fleet.model.unit import Phase, Unit
from fleet.quota.entitlement import Entitlement
from fleet.quota.guarantee import LEND_LIMIT, capacity, guarantees, with_potential
from fleet.quota.tiers import Tier
from fleet.quota.tree import QuotaTree
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot


class Ranks:
    """Who may count on what, worked out when it is asked first: that costs what there is."""

    def __init__(self, snapshot: Snapshot, about: Set[str], now: float) -> None:
        self._snapshot = snapshot
        self._about = about
        self._now = now
        self._tiers: Mapping[str, Tier] | None = None
        self._found: tuple[Entitlement, Sequence[Alike]] | None = None
        self._mins: Mapping[str, Mapping[str, int]] | None = None

    def tier(self, unit: str) -> Tier:
        if self._tiers is None:
            found = self._entitled
            self._tiers = tiers_among(*found, self._about) if found is not None else {}
        return self._tiers.get(unit, Tier.SHARE)

    def counts_on(self, unit: Unit) -> Tier:
        """What a unit may count on beside what of its leaf is before it, by priority, then by time: of what runs or
        leaves, and of what waits and could start. Whose room is claimed already waits for nobody."""
        mine, found = self.tier(unit.id), self._entitled
        if mine <= Tier.CROSSING or found is None or unit.leaf is None:
            return mine
        entitled, waiting = found
        its_turn = queue_order(unit)
        line = [
            (other, 1)
            for other in self._snapshot.backlog.holding.values()
            if other.leaf == unit.leaf and queue_order(other) < its_turn
        ]
        for alike in waiting:
            first = alike.units[0]
            if alike.leaf == unit.leaf and first.claim is None and not never(self._snapshot.tree, first):
                line.append((first, bisect_left(alike.units, its_turn, key=queue_order)))
        used: dict[str, int] = {}
        for other, times in line:
            for name, amount in counted(other).items():
                used[name] = used.get(name, 0) + amount * times
        return entitled.tier(unit.leaf, request_of(unit), used)

    @property
    def _entitled(self) -> tuple[Entitlement, Sequence[Alike]] | None:
        if self._found is None and self._snapshot.tree is not None:
            self._found = entitled_in(self._snapshot, self._now)
        return self._found

    def passes(self, unit: Unit, head: Unit) -> bool:
        """Whether who starts goes before a head by right: in its own leaf a head is first; others pass it by tier, or
        as heads of a higher one, which is measured by what of their leaf came before them."""
        mine = min(self.tier(head.id), Tier.SHARE)
        if unit.leaf == head.leaf or mine is Tier.GUARANTEED:
            return False
        late = self._now - unit.enqueued_at >= self._snapshot.config.head_after_s
        return self.tier(unit.id) < mine or ((late or unit.head is not None) and self._came_within_min(unit))

    def _came_within_min(self, unit: Unit) -> bool:
        """Whether it is within what its leaf is promised beside what of the leaf runs and is before it by its turn."""
        limits = self._promises.get(unit.leaf or "", {})
        asked = {name: amount for name, amount in counted(unit).items() if name in self._named and amount}
        before = [
            counted(other)
            for other in self._snapshot.backlog.holding.values()
            if other.leaf == unit.leaf and queue_order(other) < queue_order(unit)
        ]
        return bool(asked) and all(
            amount + sum(other.get(name, 0) for other in before) <= limits.get(name, 0)
            for name, amount in asked.items()
        )

    @property
    def _promises(self) -> Mapping[str, Mapping[str, int]]:
        """What holds of every min now, by node."""
        if self._mins is None:
            tree, members = self._snapshot.tree, self._snapshot.members
            total = with_potential(capacity(members, self._snapshot.backlog.holding.values()), members)
            self._mins = guarantees(tree, total).min if tree is not None else {}
        return self._mins

    @property
    def _named(self) -> Set[str]:
        return {name for limits in self._promises.values() for name in limits}

    def takes_back(self, head: Unit, other: Unit, since: float, at: float) -> bool:
        """Whether a head counts on taking back, by then, the room of what runs since an epoch second. Only a guaranteed
        one does, and from a leaf to which nothing is promised: what is borrowed there stays borrowed."""
        config, tree = self._snapshot.config, self._snapshot.tree
        if not config.reclaim or tree is None or not other.preemptible or other.leaf is None or head.leaf is None:
            return False
        hidden = any(pods for pods, _, _ in gang_of(other, hidden=True).parts)
        old = other.phase is Phase.PLACED and other.placed_at is None and not hidden
        if (self._now if old else max(self._now, since + config.protection_s)) > at:
            return False
        node = tree.nodes.get(head.leaf)
        policy = node.attributes.get("preempt-policy", "") if node is not None else "Never"
        spares = {
            "Never": True, "AnyPriority": False, "PreemptLowerPriority": other.priority >= head.priority,
        }.get(policy, other.priority > head.priority)  # fmt: skip
        if spares or stops_leaf(self._snapshot, head):
            return False
        promised, theirs = (any(self._promises.get(leaf, {}).values()) for leaf in (head.leaf, other.leaf))
        if not promised or theirs:
            return False
        return self.tier(head.id) is Tier.GUARANTEED


def never(tree: QuotaTree | None, unit: Unit) -> bool:
    """Whether quota never allows it, or might not: what may not be preempted is bound by promises."""
    if tree is None or unit.leaf is None:
        return False
    promised = any(tree.nodes[node].attributes for node in tree.ancestors(unit.leaf))
    if not unit.preemptible or promised or above_max(tree, unit):
        return True
    return any(LEND_LIMIT in node.attributes for node in tree.nodes.values())  # what others keep is not for it


def above_max(tree: QuotaTree | None, unit: Unit) -> bool:
    """Whether it alone is above max."""
    if tree is None or unit.leaf is None:
        return False
    request = request_of(unit)
    return any(
        request[name] > limit for node in tree.ancestors(unit.leaf) for name, limit in tree.nodes[node].max.items()
    )


def too_large(unit: Unit, empty: Member) -> bool:
    """Whether it has more pods of a kind than nodes of the member take of these alone, when nothing runs there and all
    that could be added are there."""
    if any(not pool.allocatable.items_ for pool in empty.potential):
        return False
    for part in unit.components:
        asked = [(name, amount) for name, amount in part.requests.items_ if amount > 0]
        room = sum(
            min((max(vector[name], pool.allocatable[name]) // amount for name, amount in asked), default=0)
            * max(0, nodes)
            for pool in (*empty.pools, *empty.potential)
            if pool_takes(pool, part.claim)
            for vector, nodes in pool.free
        )
        if asked and room < part.replicas:
            return True
    return False
