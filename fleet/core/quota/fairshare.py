"""Fair share: the amount that each node of the tree may count on when all want more than there is.

From the root down, in three steps:

1. Each child gets the amount that is due to it: its requests within its min, and the resources that go with them. A min
   that names GPUs alone promises no CPU, but its jobs need CPU beside their GPUs. So the part of the demand that is
   within min is due in the resources that the min does not name, too: else promised work would use up the leaf's share
   of them.
2. The rest is filled like water: every child rises at the same level of its dominant share (the largest part of the
   rest that it has of any one resource) divided by its weight, until its demand is met or a resource that it needs is
   used up (weighted max-min; DRF).
3. The rest that no child could use in its proportions is divided again, each resource by itself: a resource of which
   there is enough for all limits no share.

Demand is the sum of the requests of all work of a leaf, running or not, capped by max at every node on the way up, so
evicting work never changes a share. Filling is exact, in fractions; its result is rounded, to whole base units that add
up to the filled amount.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fleet.core.quota.guarantee import Guarantees
from fleet.core.quota.tree import QuotaTree
from fleet.values.untyped import digits

SHARED_WEIGHTS = ("quota.scheduling.koordinator.sh/shared-weight", "shared-weight")
LARGEST_WEIGHT = 10**9


@dataclass(frozen=True, slots=True)
class Claimant:
    """A node that shares: `demand` in all, `base` of it due before anything is divided, `weight` above zero."""

    demand: Mapping[str, int]
    base: Mapping[str, int]
    weight: Fraction = Fraction(1)


def fill(total: Mapping[str, int | Fraction], claimants: Sequence[Claimant]) -> list[dict[str, Fraction]]:
    """The part of `total` for each claimant, in order. Bases that together exceed the total shrink in proportion."""
    supply = {name: Fraction(amount) for name, amount in total.items()}
    got = _bases(supply, claimants)
    for name in supply:
        supply[name] -= sum((mine[name] for mine in got), Fraction(0))
    extra = [
        {
            name: claimant.demand.get(name, 0) - mine[name]
            for name in supply
            if claimant.demand.get(name, 0) > mine[name]
        }
        for claimant, mine in zip(claimants, got, strict=True)
    ]
    for mine, more in zip(got, _risen(supply, extra, [claimant.weight for claimant in claimants]), strict=True):
        for name, amount in more.items():
            mine[name] += amount
    return got


def _bases(total: Mapping[str, Fraction], claimants: Sequence[Claimant]) -> list[dict[str, Fraction]]:
    """The base of each claimant within its demand, shrunk to what there is."""
    got: list[dict[str, Fraction]] = [{} for _ in claimants]
    for name, amount in total.items():
        bases = [min(claimant.base.get(name, 0), claimant.demand.get(name, 0)) for claimant in claimants]
        due = sum(bases)
        scale = min(Fraction(1), amount / due) if due > 0 else Fraction(1)
        for mine, base in zip(got, bases, strict=True):
            mine[name] = scale * base
    return got


def _risen(
    whole: Mapping[str, Fraction], extra: Sequence[Mapping[str, Fraction]], weights: Sequence[Fraction]
) -> list[dict[str, Fraction]]:
    """The part of `whole` that each claimant gets, which asks for `extra`: all rise at one level, and stop where they
    have all or a resource is used up."""
    supply = dict(whole)
    # `full[i]`: the level at which claimant i, which rises evenly up to there, has all it asks for.
    full = {
        index: max(amount / whole[name] for name, amount in more.items()) / weights[index]
        for index, more in enumerate(extra)
        if more and all(whole[name] > 0 for name in more)
    }
    waiting = sorted(full, key=lambda index: (full[index], index))
    rate = {name: sum((extra[i][name] / full[i] for i in full if name in extra[i]), Fraction(0)) for name in supply}
    level = Fraction(0)
    active = set(full)
    reached: dict[int, Fraction] = {}
    for index in waiting:
        while index in active:
            dry = min((level + supply[name] / rate[name] for name in supply if rate[name] > 0), default=full[index])
            at = min(dry, full[index])
            for name in supply:
                supply[name] -= rate[name] * (at - level)
            level = at
            gone = {index} if at == full[index] else set()
            spent = {name for name in supply if supply[name] == 0 and rate[name] > 0}
            if spent:
                gone |= {other for other in active if not spent.isdisjoint(extra[other])}
            for other in gone:
                active.discard(other)
                reached[other] = min(level, full[other])
                for name, amount in extra[other].items():
                    rate[name] -= amount / full[other]
    return [
        {name: amount * reached[index] / full[index] for name, amount in more.items()} if index in reached else {}
        for index, more in enumerate(extra)
    ]


def rounded(parts: Sequence[Fraction]) -> list[int]:
    """Whole numbers that add up to the parts' sum, rounded down, each within one of its part: the largest rests are
    rounded up, the earlier of equal ones first."""
    whole = [part.numerator // part.denominator for part in parts]
    exact = sum(parts, Fraction(0))
    spare = exact.numerator // exact.denominator - sum(whole)
    for index in sorted(range(len(parts)), key=lambda i: (whole[i] - parts[i], i))[:spare]:
        whole[index] += 1
    return whole


def weight_of(attributes: Mapping[str, str], limit: Mapping[str, int], total: Mapping[str, int]) -> Fraction:
    """A node's weight among its siblings: the attribute, a whole number above zero; else its max, as the largest part
    of the total that it allows; else 1."""
    for name in SHARED_WEIGHTS:
        weight = digits(attributes.get(name), 20) or 0
        if 0 < weight <= LARGEST_WEIGHT:
            return Fraction(weight)
    parts = [Fraction(amount, total[name]) for name, amount in limit.items() if amount > 0 and total.get(name, 0) > 0]
    return max(parts, default=Fraction(1))


def shares(
    tree: QuotaTree, promises: Guarantees, total: Mapping[str, int], demand: Mapping[str, Mapping[str, int]]
) -> dict[str, dict[str, int]]:
    """The fair share of every node, by path, of every resource in `total`. `demand`: of leaves, in base units."""
    order = _top_down(tree)
    demands: dict[str, dict[str, int]] = {}
    due: dict[str, dict[str, int]] = {}
    for path in reversed(order):
        node = tree.nodes[path]
        sums = {name: max(0, demand.get(path, {}).get(name, 0)) for name in total}
        for child in node.children:
            for name, amount in demands.get(child, {}).items():
                sums[name] += amount
        kept = promises.reserves.get(path, {})
        demands[path] = {
            name: max(kept.get(name, 0), min(amount, max(0, node.max.get(name, amount))))
            for name, amount in sums.items()
        }
        below = [due[child] for child in node.children if child in due]
        due[path] = _due(promises.min.get(path, {}), demands[path], below)
    shares_by_path = {
        tree.root: {name: min(amount, total[name]) for name, amount in demands.get(tree.root, {}).items()}
    }
    for path in order:
        children = [child for child in tree.nodes[path].children if child in demands]
        share = shares_by_path[path]
        claimants = [
            Claimant(demands[child], due[child], weight_of(tree.nodes[child].attributes, tree.nodes[child].max, total))
            for child in children
        ]
        filled = fill(share, claimants)
        weights = [claimant.weight for claimant in claimants]
        shares_by_path.update((child, {}) for child in children)
        for name, amount in share.items():
            got = rounded([part[name] for part in filled])
            wants = [demands[child][name] for child in children]
            for child, part in zip(children, _topped_up(amount, wants, got, weights), strict=True):
                shares_by_path[child][name] = part
    return shares_by_path


def _due(promised: Mapping[str, int], demand: Mapping[str, int], below: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The amount that a node gets before anything is divided: its promise, and the resources that go with it. `below`:
    the amounts that its children get so; empty for a leaf."""
    if below:
        added = Counter[str]()
        for mine in below:
            added.update(mine)
        return {name: max(added[name], promised.get(name, 0)) for name in added.keys() | promised.keys()}
    asked = [(amount, demand[name]) for name, amount in promised.items() if demand.get(name, 0) > 0]
    part = min((Fraction(min(amount, all_of_it), all_of_it) for amount, all_of_it in asked), default=Fraction(0))
    return {name: int(amount * part) for name, amount in demand.items()} | dict(promised)


def _topped_up(total: int, wants: Sequence[int], got: Sequence[int], weights: Sequence[Fraction]) -> Sequence[int]:
    """`got` of one resource, and what is left of it divided among those that ask for more."""
    rest, lacking = total - sum(got), [want - have for want, have in zip(wants, got, strict=True)]
    if rest <= 0 or not any(lacking):
        return got
    if rest >= sum(lacking):
        return wants
    claimants = [Claimant({"": lack}, {}, weight) for lack, weight in zip(lacking, weights, strict=True)]
    more = rounded([part[""] for part in fill({"": rest}, claimants)])
    return [have + part for have, part in zip(got, more, strict=True)]


def _top_down(tree: QuotaTree) -> list[str]:
    order: list[str] = []
    pending = [tree.root] if tree.root in tree.nodes else []
    while pending:
        path = pending.pop()
        order.append(path)
        pending.extend(tree.nodes[path].children)
    return order
