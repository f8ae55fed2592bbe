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
    got: list[dict[str, Fraction]] = []
    left = {name: Fraction(amount) for name, amount in total.items()}
    for name in left:
        due = sum(min(c.base.get(name, 0), c.demand.get(name, 0)) for c in claimants)
        scale = min(Fraction(1), left[name] / due) if due > 0 else Fraction(1)
        for index, claimant in enumerate(claimants):
            if index == len(got):
                got.append({})
            got[index][name] = scale * min(claimant.base.get(name, 0), claimant.demand.get(name, 0))
    if not left:
        return [{} for _ in claimants]
    for name in left:
        left[name] -= sum((mine[name] for mine in got), Fraction(0))
    whole = dict(left)
    extra = [
        {name: claimant.demand.get(name, 0) - mine[name] for name in left if claimant.demand.get(name, 0) > mine[name]}
        for claimant, mine in zip(claimants, got, strict=True)
    ]
    # `full[i]`: the level at which claimant i, which rises evenly up to there, has all it asks for.
    full = {
        index: max(amount / whole[name] for name, amount in more.items()) / claimants[index].weight
        for index, more in enumerate(extra)
        if more and all(whole[name] > 0 for name in more)
    }
    waiting = sorted(full, key=lambda index: (full[index], index))
    rate = {name: sum((extra[i][name] / full[i] for i in full if name in extra[i]), Fraction(0)) for name in left}
    level = Fraction(0)
    active = set(full)
    reached: dict[int, Fraction] = {}
    for index in waiting:
        while index in active:
            dry = min((level + left[name] / rate[name] for name in left if rate[name] > 0), default=full[index])
            at = min(dry, full[index])
            for name in left:
                left[name] -= rate[name] * (at - level)
            level = at
            gone = {index} if at == full[index] else set()
            spent = {name for name in left if left[name] == 0 and rate[name] > 0}
            if spent:
                gone |= {other for other in active if not spent.isdisjoint(extra[other])}
            for other in gone:
                active.discard(other)
                reached[other] = min(level, full[other])
                for name, amount in extra[other].items():
                    rate[name] -= amount / full[other]
    for index, high in reached.items():
        for name, amount in extra[index].items():
            got[index][name] += amount * high / full[index]
    return got


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
    wanted: dict[str, dict[str, int]] = {}
    due: dict[str, dict[str, int]] = {}
    for path in reversed(order):
        node = tree.nodes[path]
        asked = {name: max(0, demand.get(path, {}).get(name, 0)) for name in total}
        for child in node.children:
            for name, amount in wanted.get(child, {}).items():
                asked[name] += amount
        kept = promises.kept.get(path, {})
        wanted[path] = {
            name: max(kept.get(name, 0), min(amount, max(0, node.max.get(name, amount))))
            for name, amount in asked.items()
        }
        below = [due[child] for child in node.children if child in due]
        due[path] = _due(promises.min.get(path, {}), wanted[path], below)
    found = {tree.root: {name: min(amount, total[name]) for name, amount in wanted.get(tree.root, {}).items()}}
    for path in order:
        children = [child for child in tree.nodes[path].children if child in wanted]
        mine = found[path]
        claimants = [
            Claimant(wanted[child], due[child], weight_of(tree.nodes[child].attributes, tree.nodes[child].max, total))
            for child in children
        ]
        filled = fill(mine, claimants)
        weights = [claimant.weight for claimant in claimants]
        found.update((child, {}) for child in children)
        for name, amount in mine.items():
            got = rounded([part[name] for part in filled])
            wants = [wanted[child][name] for child in children]
            for child, part in zip(children, _topped_up(amount, wants, got, weights), strict=True):
                found[child][name] = part
    return found


def _due(promised: Mapping[str, int], wanted: Mapping[str, int], below: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The amount that a node gets before anything is divided: its promise, and the resources that go with it. `below`:
    the amounts that its children get so; empty for a leaf."""
    if below:
        added = Counter[str]()
        for mine in below:
            added.update(mine)
        return {name: max(added[name], promised.get(name, 0)) for name in added.keys() | promised.keys()}
    asked = [(amount, wanted[name]) for name, amount in promised.items() if wanted.get(name, 0) > 0]
    part = min((Fraction(min(amount, all_of_it), all_of_it) for amount, all_of_it in asked), default=Fraction(0))
    return {name: int(amount * part) for name, amount in wanted.items()} | dict(promised)


def _topped_up(total: int, asked: Sequence[int], got: Sequence[int], weights: Sequence[Fraction]) -> Sequence[int]:
    """`got` of one resource, and what is left of it divided among those that ask for more."""
    left, lacking = total - sum(got), [want - have for want, have in zip(asked, got, strict=True)]
    if left <= 0 or not any(lacking):
        return got
    if left >= sum(lacking):
        return asked
    claimants = [Claimant({"": lack}, {}, weight) for lack, weight in zip(lacking, weights, strict=True)]
    more = rounded([part[""] for part in fill({"": left}, claimants)])
    return [have + part for have, part in zip(got, more, strict=True)]


def _top_down(tree: QuotaTree) -> list[str]:
    order: list[str] = []
    pending = [tree.root] if tree.root in tree.nodes else []
    while pending:
        path = pending.pop()
        order.append(path)
        pending.extend(tree.nodes[path].children)
    return order
