"""What a fleet has to divide, and what every leaf asks for: from a tree and units to promises, shares and tiers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet.model.amounts import Amounts
from fleet.model.member import Member
from fleet.model.unit import Unit
from fleet.quota.fairshare import shares
from fleet.quota.guarantee import Guarantees, capacity, guarantees
from fleet.quota.tiers import Claimed, Ranked, Ranks, Tier
from fleet.quota.tree import MAX_JOBS, QuotaTree
from fleet.quota.usage import FIRM, request_of


@dataclass(frozen=True, slots=True)
class Entitlement:
    """Who may count on what: `shares` and promises by node, `tiers` by unit id."""

    promises: Guarantees
    shares: Mapping[str, Mapping[str, int]]
    tiers: Mapping[str, Tier]


def entitlement(
    tree: QuotaTree,
    members: Mapping[str, Member],
    holding: Sequence[Unit],
    waiting: Sequence[Ranked],
    later: Iterable[Ranked] = (),
) -> Entitlement:
    """`holding`: placed and evicting units. `waiting`: those that may start, in order. `later`: those that back off,
    which are demand all the same."""
    total = capacity(members, holding)
    promises = guarantees(tree, total)
    requests: dict[tuple[object, bool], Amounts] = {}
    charged: list[Claimed] = []
    outside: dict[str, int] = {}
    for unit in holding:
        key = (unit.components, unit.preemptible)
        request = requests.get(key)
        if request is None:
            request = requests[key] = request_of(unit)
        if unit.leaf is not None and unit.leaf in tree.nodes:
            charged.append(Claimed(unit, request))
        else:
            for name, amount in request.items_:
                outside[name] = outside.get(name, 0) + amount
    counts: dict[tuple[str, int], int] = {}  # by leaf and identity of the request, which many share
    kinds: dict[int, Amounts] = {}
    for item in (*charged, *waiting, *later):
        if item.unit.leaf is not None:
            number = id(item.request)
            kinds[number] = item.request
            asked = (item.unit.leaf, number)
            counts[asked] = counts.get(asked, 0) + 1
    demand: dict[str, dict[str, int]] = {}
    names: set[str] = set()
    for (leaf, number), times in counts.items():
        mine = demand.setdefault(leaf, {})
        for name, amount in kinds[number].items_:
            if name != MAX_JOBS and not name.startswith(FIRM):
                mine[name] = mine.get(name, 0) + amount * times
                names.add(name)
    divided = {name: max(0, total[name] - outside.get(name, 0)) for name in sorted(names) if total.get(name, 0) > 0}
    fair = shares(tree, promises, divided, demand)
    return Entitlement(promises, fair, Ranks(promises, fair).tiers(charged, waiting))
