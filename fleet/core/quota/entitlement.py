"""From a tree, a fleet and its units to promises, shares and tiers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Unit
from fleet.core.quota.fairshare import shares
from fleet.core.quota.guarantee import Guarantees, capacity, guarantees, with_potential
from fleet.core.quota.requests import Requests
from fleet.core.quota.tiers import Rank, RankedUnits, Ranks, add
from fleet.core.quota.tree import QuotaTree

Charged = tuple[str | None, Amounts, int]  # a leaf, what one unit is charged, and how many units


@dataclass(frozen=True, slots=True)
class Entitlement:
    """The rights of work: `shares` and promises by node, and the rank of each of `waiting`. `now`: epoch second."""

    promises: Guarantees
    shares: Mapping[str, Mapping[str, int]]
    waiting: Sequence[RankedUnits]
    ranks: Sequence[Rank]
    now: float
    _tree: QuotaTree
    _holding: Sequence[Unit]
    _running: dict[str, Tier] = field(default_factory=dict, init=False, repr=False, compare=False)  # once it was asked

    def tiers(self, leaves: Container[str | None] | None = None) -> dict[str, Tier]:
        """Of every unit in quota that holds room, by id, and of those that wait in `leaves` (None: in all)."""
        found = dict(self.running)
        for item, rank in zip(self.waiting, self.ranks, strict=True):
            if item.leaf is not None and (leaves is None or item.leaf in leaves):
                for tier, start, end in rank.ranges(len(item.units)):
                    found.update((unit.id, tier) for unit in item.units[start:end])
        return found

    def tier(self, leaf: str, request: Amounts, used: Mapping[str, int]) -> Tier:
        """Of one unit more of a leaf that uses so much."""
        return self._ranks.of(leaf, request, used)

    @property
    def running(self) -> dict[str, Tier]:
        """Of units that run or leave, by unit id; to be read only."""
        if not self._running:
            requests = Requests()
            inside = (unit for unit in self._holding if unit.leaf is not None and unit.leaf in self._tree.nodes)
            charged = ((unit, requests.of(unit)) for unit in inside)
            self._running.update(self._ranks.running(charged))
        return self._running

    @property
    def _ranks(self) -> Ranks:
        return Ranks(self.promises, self.shares, self.now)


def entitlement(
    tree: QuotaTree,
    members: Mapping[str, Member],
    holding: Sequence[Unit],
    waiting: Sequence[RankedUnits],
    later: Iterable[RankedUnits] = (),
    charged: Iterable[Charged] | None = None,
    *,
    now: float,
) -> Entitlement:
    """Return the entitlement of every leaf. `holding`: placed and evicting units; `charged`: the same units, counted,
    where the caller has counted them. `waiting`: units that may start. `later`: units that back off, which are demand
    all the same. `now`: an epoch second."""
    if charged is None:
        requests = Requests()
        charged = ((unit.leaf, requests.of(unit), 1) for unit in holding)
    total = capacity(members, holding)
    outside: dict[str, int] = {}
    of_gone_leaves: dict[str, int] = {}
    used: dict[str, dict[str, int]] = {}
    for leaf, request, times in charged:
        if leaf is None:
            add(outside, request, times)
        else:
            add(used.setdefault(leaf, {}) if leaf in tree.nodes else of_gone_leaves, request, times)
    promises = guarantees(tree, with_potential(total, members), outside)
    demand = {leaf: dict(amounts) for leaf, amounts in used.items()}
    for item in (*waiting, *later):
        if item.leaf is not None:
            add(demand.setdefault(item.leaf, {}), item.request, len(item.units))
    names = sorted({name for asked in demand.values() for name in asked})
    taken = Counter(outside)
    taken.update(of_gone_leaves)
    divided = {name: max(0, total[name] - taken[name]) for name in names if total.get(name, 0) > 0}
    fair = shares(tree, promises, divided, demand)
    ranks = Ranks(promises, fair, now).waiting(used, waiting)
    return Entitlement(promises, fair, waiting, ranks, now, tree, holding)
