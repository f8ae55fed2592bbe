"""The promises of `min`: to which leaf, how much is left when members are lost, and which part is never lent.

A promise to a child is a promise of its parents, so a node promises at least the sum of its children. When the fleet
has less than the root promises, every promise of that resource shrinks in the same proportion, rounded down. So no leaf
is promised room that is not there, and no node more than its parent has. A resource that no `min` of the tree names is
promised to no leaf and bound by no `min`. A resource that some `min` names is zero where it is missing, for work that
may not be preempted. Other work is measured in the resources that the `min` of its leaf names, or that are promised to
others: so a `min` of GPUs holds beside a root that says how much CPU there is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fleet.core.model.member import Member
from fleet.core.model.unit import Phase, Unit
from fleet.core.quota.attributes import amounts, json_object
from fleet.core.quota.limits import COUNTS
from fleet.core.quota.tree import QuotaTree
from fleet.values.quantity import BadQuantity

LEND_LIMIT = "alibabacloud.com/lendlimit"


@dataclass(frozen=True, slots=True)
class Guarantees:
    """Per node: `min` as it holds now, and `reserves` of it that no other leaf may use even while it lies idle.
    `short` has (left, promised) for each resource of which less is left than the tree promises. `measured`: the
    resources in which the work of a leaf must be within its min to be guaranteed. `fleet`: the capacity for the tree,
    of the resources of which something is reserved. The root lends and reserves at most so much together, whatever its
    max."""

    min: Mapping[str, Mapping[str, int]]
    reserves: Mapping[str, Mapping[str, int]]
    short: Mapping[str, tuple[int, int]]
    measured: Mapping[str, frozenset[str]]
    fleet: Mapping[str, int]

    @property
    def resources(self) -> frozenset[str]:
        """The resources that some `min` of the tree names."""
        return frozenset(name for amounts in self.min.values() for name in amounts)


def lend_limit(attributes: Mapping[str, str]) -> dict[str, int]:
    """The most that a node lends of its `min`, by resource, in base units; a resource that it does not name is lent
    whole. The attribute is a JSON object of quantities. Raises BadQuantity, which begins with the attribute."""
    return amounts(json_object(attributes, LEND_LIMIT, '{"nvidia.com/gpu": 4}'), LEND_LIMIT)


def capacity(members: Mapping[str, Member], units: Iterable[Unit]) -> dict[str, int]:
    """The present capacity of the fleet: allocatable of all nodes of ready members (where an inventory does not say,
    the free amounts and those of our pods), and the charges in the others, since charged work keeps its place."""
    total: dict[str, int] = {}
    free: dict[str, dict[str, int]] = {}
    silent: set[str] = set()
    for member in members.values():
        if not member.ready:
            continue
        amounts = free.setdefault(member.name, {})
        for pool in member.pools:
            if not pool.allocatable.items_ and any(nodes > 0 for _, nodes in pool.free):
                silent.add(member.name)
            whole = {name: amount for name, amount in pool.allocatable.items_ if amount > 0}
            count = 0
            for vector, nodes in pool.free:
                if nodes > 0:
                    count += nodes
                    for name, amount in vector.items_:
                        more = amount - whole.get(name, 0)
                        if more > 0:
                            amounts[name] = amounts.get(name, 0) + more * nodes
            for name, amount in whole.items():
                amounts[name] = amounts.get(name, 0) + amount * count
    for unit in units:
        if unit.phase is Phase.WAITING or unit.member is None:
            continue
        away = unit.member not in free
        seen = dict(unit.visible)
        amounts = total if away else free[unit.member]
        if not away and unit.member not in silent:
            continue
        for component in unit.components:
            pods = component.replicas if away else min(component.replicas, max(0, seen.get(component.name, 0)))
            for name, amount in component.requests.items_:
                amounts[name] = amounts.get(name, 0) + max(0, amount) * max(0, pods)
    for amounts in free.values():
        for name, amount in amounts.items():
            total[name] = total.get(name, 0) + amount
    return total


def with_potential(total: Mapping[str, int], members: Mapping[str, Member]) -> Mapping[str, int]:
    """`total`, and what the autoscalers of ready members could add: a promise may count on it, or in a fleet that
    grows from nothing it would be worth nothing. Only existing room is shared out beyond promises."""
    more = [pool for member in members.values() if member.ready for pool in member.potential]
    if not more:
        return total
    found = dict(total)
    for pool in more:
        for vector, nodes in pool.free:
            for name, amount in vector.items_:
                found[name] = found.get(name, 0) + max(0, amount) * max(0, nodes)
    return found


def guarantees(tree: QuotaTree, total: Mapping[str, int], outside: Mapping[str, int] | None = None) -> Guarantees:
    """The promises of a tree in a fleet that has `total`, of which work outside quota uses `outside`."""
    promised: dict[str, dict[str, int]] = {}
    for path in _bottom_up(tree):
        node = tree.nodes[path]
        own = {name: amount for name, amount in node.min.items() if name not in COUNTS and amount >= 0}
        below: dict[str, int] = {}
        for child in node.children:
            for name, amount in promised.get(child, {}).items():
                below[name] = below.get(name, 0) + amount
        promised[path] = {name: max(own.get(name, 0), below.get(name, 0)) for name in sorted({*own, *below})}
    root = promised.get(tree.root, {})
    short = {name: (total.get(name, 0), amount) for name, amount in root.items() if amount > total.get(name, 0)}
    promises = {
        path: {name: _left(amount, name, short) for name, amount in given.items()} for path, given in promised.items()
    }
    reserves: dict[str, dict[str, int]] = {}
    for path, node in tree.nodes.items():
        try:
            limits = lend_limit(node.attributes)
        except BadQuantity:
            continue  # refused where trees are admitted; an older one lends everything
        reserve = {name: promises.get(path, {}).get(name, 0) - limit for name, limit in limits.items()}
        if any(amount > 0 for amount in reserve.values()):
            reserves[path] = {name: amount for name, amount in reserve.items() if amount > 0}
    keeping = sorted({name for reserve in reserves.values() for name in reserve})
    fleet = {name: max(0, total.get(name, 0) - (outside or {}).get(name, 0)) for name in keeping}
    return Guarantees(promises, reserves, short, _measured(tree, promises), fleet)


def _measured(tree: QuotaTree, promised: Mapping[str, Mapping[str, int]]) -> dict[str, frozenset[str]]:
    """By node, the resources that its own min names, and those that are promised to others: by nodes that are not on
    the way from it to the root. The root of a tree names all that the fleet has, and promises it to no leaf."""
    naming = Counter(name for mine in promised.values() for name in mine)
    found: dict[str, frozenset[str]] = {}
    for path, mine in promised.items():
        line = Counter(name for node in tree.ancestors(path) for name in promised.get(node, {}))
        found[path] = frozenset({*mine, *(name for name in naming if naming[name] > line[name])})
    return found


def _left(amount: int, name: str, short: Mapping[str, tuple[int, int]]) -> int:
    if name not in short:
        return amount
    left, promised = short[name]
    return amount * left // promised


def _bottom_up(tree: QuotaTree) -> list[str]:
    order, pending = [], [tree.root] if tree.root in tree.nodes else []
    seen: set[str] = set()
    while pending:
        path = pending.pop()
        if path not in seen and path in tree.nodes:
            seen.add(path)
            order.append(path)
            pending.extend(tree.nodes[path].children)
    return order[::-1]
