"""The quota that could be missing for a waiting unit: the limits to raise, and by how much at the most.

A search begins with these limits (smallest.py): raised so far, a limit keeps no unit out any more. The search finds the
needed part, by deciding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from fleet.core.foresee.change import MoreQuota, Raise, more_quota, raised_tree, step
from fleet.core.model.reason import Reason
from fleet.core.model.unit import Phase, Unit
from fleet.core.quota.guarantee import capacity, guarantees, with_potential
from fleet.core.quota.limits import COUNTS, Limit, LimitKind, limit_of, limit_on
from fleet.core.quota.tree import QuotaTree
from fleet.core.quota.usage import request_of
from fleet.core.snapshot import Snapshot

_AMOUNT_MOST = 1 << 62


def limits_passed(snapshot: Snapshot, unit: Unit, tree: QuotaTree, leaf: str, *, behind: bool) -> tuple[Raise, ...]:
    """Every limit above the unit but `min` raised as far as all charges there could need: of the resources that the
    unit asks for, and for its user. `behind`: the unit waits for others of its leaf, so the resources of the others
    count, too."""
    total: dict[str, int] = {}
    names, users = set(request_of(unit)), {unit.user}
    for other in snapshot.units.values():
        request = request_of(other)
        for name, amount in request.items_:
            total[name] = total.get(name, 0) + amount
        if behind and other.leaf == leaf and other.phase is Phase.WAITING:
            names.update(request)
            users.add(other.user)
    raises: list[Raise] = []
    for path in tree.ancestors(leaf):
        for user in ("", *sorted(users - {""})):
            for name in sorted(names):
                limit = limit_on(path, name, user)
                now = limit.stated(tree) if not limit.entry.firm else None
                by = _whole(max(0, total.get(name, 0) - now), name) if now is not None else 0
                if now is not None and by > 0:
                    raises.append(Raise(limit, by, now + by))
    return tuple(raises)


def promised(
    snapshot: Snapshot, unit: Unit, tree: QuotaTree, leaf: str, *, every: bool = False, behind: bool = False
) -> tuple[Raise, ...]:
    """The `min` of the unit's leaf, raised over all that runs or waits in the leaf, so that the unit is within it. The
    resources are those of the unit that the tree promises anywhere, or, with `every`, all of the unit's; `behind`:
    those of the units that wait in the leaf, too."""
    promised_names = {name for node in tree.nodes.values() for name in node.min if name not in COUNTS}
    resources = dict.fromkeys(name for name in unit.total if name != "pods")
    total: dict[str, int] = {}
    for other in snapshot.units.values():
        if other.leaf == leaf:
            for name, amount in other.total.items_:
                total[name] = total.get(name, 0) + amount
                if behind and other.phase is Phase.WAITING and name != "pods":
                    resources[name] = None
    devices = [name for name in resources if "/" in name]
    names = (
        list(resources)
        if every
        else [name for name in resources if name in promised_names] or devices or list(resources)
    )
    raises: list[Raise] = []
    for name in _promisable(tree, names):
        now = tree.nodes[leaf].min.get(name, 0)
        by = _whole(max(0, total.get(name, 0) - now), name)
        if by > 0:
            raises.append(Raise(Limit(LimitKind.MIN, leaf, name), by, now + by))
    return tuple(raises)


def _promisable(tree: QuotaTree, names: list[str]) -> list[str]:
    """Those of the names of resources that a node below the root may be promised. A root whose min is its max, as a
    hub demands it, promises nothing that it does not name."""
    root = tree.nodes[tree.root]
    return [name for name in names if name in root.min] if root.min and root.min == root.max else names


def raise_for(snapshot: Snapshot, tree: QuotaTree, reason: Reason, raised: Mapping[Limit, Raise]) -> Raise | None:
    """The raise that meets a refusal, on top of what is raised there already; None where there is none."""
    limit, short = limit_of(reason), reason.numbers.get("short")
    if limit is None or limit.node not in tree.nodes or not isinstance(short, int):
        return None
    now = limit.stated(tree)
    if now is None:
        return None
    before = raised.get(limit)
    more = max(1, short) + (before.by if before is not None else 0)
    if limit.entry.firm:
        after = raised_tree(tree, more_quota(tree, tuple(raised.values())))
        enough = _promise_for(snapshot, after, limit.node, limit.resource, short)
        if enough is None:
            return None
        more = max(more, enough - now)
    by = _whole(more, limit.resource)
    return Raise(limit, by, now + by)


def missing(increase: Raise, reason: Reason | None) -> int:
    """The number of steps by which the limit of this raise is short, if that is the unit's obstacle without it; else
    0."""
    limit = limit_of(reason) if reason is not None else None
    short = reason.numbers.get("short") if reason is not None else None
    if limit is None or not isinstance(short, int) or limit != increase.limit:
        return 0
    return -(-short // step(limit.resource))


def _promise_for(snapshot: Snapshot, tree: QuotaTree, node: str, resource: str, short: int) -> int | None:
    """The `min` of a node that holds `short` more than the tree's promise there. The promises to its children count,
    set or not; and where all promises are scaled down, more of it is needed. None where nothing suffices."""
    promises = guarantees(tree, {name: _AMOUNT_MOST for at in tree.nodes.values() for name in at.min}).min
    promise, all_of_it = (promises.get(at, {}).get(resource, 0) for at in (node, tree.root))
    there = _there(snapshot)
    capacity_there = there.get(resource, 0)
    if all_of_it + short <= capacity_there:
        return promise + short
    holds = guarantees(tree, there).min.get(node, {}).get(resource, 0) + short
    if holds >= capacity_there:
        return None
    return promise + max(short, -(-(holds * all_of_it - promise * capacity_there) // (capacity_there - holds)))


def _there(snapshot: Snapshot) -> Mapping[str, int]:
    """The measure of promises."""
    return with_potential(capacity(snapshot.members, snapshot.backlog.holding.values()), snapshot.members)


def explained(snapshot: Snapshot, tree: QuotaTree, change: MoreQuota) -> MoreQuota:
    """The change, and for each `min` in it that is scaled down the part that holds."""
    there = _there(snapshot)
    before, after = guarantees(tree, there), guarantees(raised_tree(tree, change), there)
    raises: list[Raise] = []
    for increase in change.raises:
        name = increase.limit.resource
        if increase.limit.entry.firm and name in after.short:
            held, holds = (found.min.get(increase.limit.node, {}).get(name, 0) for found in (before, after))
            left, all_of_it = after.short[name]
            increase = replace(increase, scaled=(held, holds, all_of_it, left))
        raises.append(increase)
    return replace(change, raises=tuple(raises))


def with_steps(tree: QuotaTree, change: MoreQuota, increase: Raise, steps: int) -> MoreQuota:
    """The change where one of its raises is so many steps, or is absent for 0."""
    by = steps * step(increase.limit.resource)
    at = change.raises.index(increase)
    smaller = (replace(increase, by=by, to=increase.to - increase.by + by),) if steps else ()
    return more_quota(tree, (*change.raises[:at], *smaller, *change.raises[at + 1 :]))


def _whole(amount: int, resource: str) -> int:
    """The amount, rounded up to whole steps."""
    return min(_AMOUNT_MOST, -(-amount // step(resource)) * step(resource))
