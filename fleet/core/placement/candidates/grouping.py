"""From the lots of a snapshot to groups: everything that is known about a waiting unit before anything is placed.

A unit that cannot start whatever happens gets its reason here. All other units come out as groups of units alike. Their
order follows from the content of the snapshot and not from its history: equal snapshots make equal plans (I8).
"""

from __future__ import annotations

from collections.abc import Iterable

from fleet.core.model.amounts import NOTHING
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.gang import Key, gang_key, node_claim_key
from fleet.core.model.nesting import flaws
from fleet.core.model.order import queue_order
from fleet.core.model.reason import Code, Reason
from fleet.core.model.rule import Rules
from fleet.core.model.unit import Component, Unit
from fleet.core.placement.candidates.candidate import Group
from fleet.core.placement.candidates.eligibility import Nevers, Policies
from fleet.core.placement.packing.space import Space
from fleet.core.quota.entitlement import Charged, Entitlement, entitlement
from fleet.core.quota.requests import Requests
from fleet.core.quota.tiers import RankedUnits, UnitGroup
from fleet.core.quota.tree import QuotaTree
from fleet.core.quota.usage import Usage, start_of
from fleet.core.snapshot import Snapshot
from fleet.core.snapshot.backlog import Lot
from fleet.values.times import instant


def defect(components: tuple[Component, ...]) -> tuple[str, str] | None:
    """The defect that makes a gang impossible to decide about, as (field, problem), or None."""
    if not components:
        return ("components", "a gang needs at least one component")
    for index, component in enumerate(components):
        where = f"components[{index}]"
        if component.replicas < 0:
            return (f"{where}.replicas", f"{component.replicas} is below zero")
        if component.replicas > BOUNDS.replicas:
            return (f"{where}.replicas", f"{component.replicas} is above {BOUNDS.replicas}")
        for name, amount in component.requests.items_:
            if not 0 <= amount <= BOUNDS.amount:
                return (f"{where}.requests[{name}]", f"{amount} is not between 0 and 2^62")
    if not any(component.replicas for component in components):
        return ("components", "a gang needs at least one pod")
    return None


def _bad_rule(unit: Unit) -> tuple[str, str] | None:
    """The first rule that contradicts itself at a size that the unit may start with, as (field, problem)."""
    for components in (unit.components, *((unit.sizes.whole,) if unit.sizes is not None and unit.sizes.whole else ())):
        for at, field, problem in flaws(unit.rules, components):
            return f"rules[{at}].{field}", problem
    return None


def early(unit: Unit, tree: QuotaTree | None, now: float) -> Reason | None:
    """The reason that is known before anything is placed, or None."""
    if unit.suspended:  # first, since a job may be stopped by having no pods
        return Reason(Code.SUSPENDED)
    bad = defect(unit.components) or (_bad_rule(unit) if unit.rules else None)
    if bad is not None:
        return Reason(Code.BAD_UNIT, {"field": bad[0], "problem": bad[1]})
    if unit.held:
        return _of_hold(unit)
    if unit.backoff_until is not None and unit.backoff_until > now:
        numbers: dict[str, str | int] = {"until": instant(unit.backoff_until), "attempts": unit.attempts}
        return Reason(Code.BACK_OFF, numbers | ({"why": unit.failed_why} if unit.failed_why else {}))
    if unit.leaf is not None and (tree is None or not tree.is_leaf(unit.leaf)):
        return Reason(Code.NO_LEAF, {"leaf": unit.leaf, "tree": "none" if tree is None else tree.root})
    return None


def _of_hold(unit: Unit) -> Reason:
    if unit.after and unit.release_helps:
        return Reason(Code.AFTER, {"jobs": unit.held_why})
    if unit.after:
        return Reason(Code.NEVER_AFTER, {"why": unit.held_why})
    if unit.waits_turn:
        return Reason(Code.NOT_ITS_TURN, {"why": unit.held_why})
    other_way = {} if unit.release_helps else {"release": "no"}
    return Reason(Code.HELD, {"why": unit.held_why, **other_way} if unit.held_why else {})


class Grouping:
    """`groups` of the units that may start, `reasons` of the units that cannot whatever happens, and the `space` of
    both. `usage` and `entitled` are None without a tree."""

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self._snapshot = snapshot
        self._gangs: dict[Key, tuple[Component, ...]] = {}  # each distinct gang of the snapshot without a defect
        self._requests = Requests()
        self._shapes: dict[tuple[Key, Rules], int] = {}
        self.reasons: dict[str, Reason] = {}
        self._later: list[UnitGroup] = []
        lots = self._sorted_out(now)
        holders = snapshot.backlog.holders.values()
        self.space = self._space(lots)
        self.nevers = Nevers(snapshot.members, self.space)
        policies = Policies(snapshot.members)
        self.groups = [self._group(lot, policies) for lot in lots]
        self.usage: Usage | None = None
        self.entitled: Entitlement | None = None
        if snapshot.tree is not None:
            charged = [(item, self._requests.of(item.unit)) for item in holders]
            of_leaves = [(item.unit.leaf, request, item.count) for item, request in charged]
            self.entitled = self._rank(snapshot.tree, of_leaves, now)
            self.usage = Usage(snapshot.tree, self.entitled.promises)
            for item, request in charged:
                if item.account is not None:
                    self.usage.charge(item.account, request, item.count)

    def _sorted_out(self, now: float) -> list[Lot]:
        """Lots of the units that may start as far as each alone can tell, in the order of their first units. All other
        units get reasons. A unit that backs off is demand all the same."""
        backlog = self._snapshot.backlog
        alone = (Lot(gang_key(unit.components), (unit,), (unit.id,)) for unit in backlog.odd.values())
        able: list[Lot] = []
        for lot in (*backlog.lots.values(), *alone):
            unit = lot.units[0]
            reason = early(unit, self._snapshot.tree, now)
            if reason is None or reason.code is not Code.BAD_UNIT:
                self._gangs[lot.gang] = unit.components
            if reason is None:
                able.append(lot)
                continue
            self.reasons.update(dict.fromkeys(lot.ids, reason))
            if reason.code is Code.BACK_OFF:
                self._later.append(UnitGroup((unit,), self._requests.of(unit)))
        able.sort(key=lambda lot: queue_order(lot.units[0]))
        return able

    def _space(self, lots: Iterable[Lot]) -> Space:
        """The space of all that any gang asks for. Claims are numbered in an order of their own, so that the next
        decision has this space again."""
        held = self._snapshot.backlog.holders.values()
        gangs = [*self._gangs.values(), *(item.unit.components for item in held)]
        claims = {node_claim_key(part.claim): part.claim for components in gangs for part in components}
        first = tuple(Component("", 0, NOTHING, claims[key]) for key in sorted(claims) if key)
        units = (*(lot.units[0] for lot in lots), *(item.unit for item in held))
        return Space([first, *gangs], {unit.rules for unit in units}, self._snapshot.members.values())

    def _group(self, lot: Lot, policies: Policies) -> Group:
        unit, tree = lot.units[0], self._snapshot.tree
        alike = (lot.gang, unit.rules)
        if alike not in self._shapes:
            self._shapes[alike] = self.space.number(unit.components, unit.rules)
        return Group(
            units=lot.units,
            ids=lot.ids,
            shape=self._shapes[alike],
            eligibility=policies.of(unit),
            request=start_of(unit, tree, self._requests.of(unit)),
            block=tree is not None and tree.stopped_by(unit),
            leaf=unit.leaf,
            priority=unit.priority,
            preemptible=unit.preemptible,
            by_user=tree is not None and unit.leaf is not None and tree.caps_users(unit.leaf),
        )

    def _rank(self, tree: QuotaTree, charged: Iterable[Charged], now: float) -> Entitlement:
        """Give every group its rank. A group that fits nowhere counts on nothing. Behind such a group that stops its
        queue, no group counts on anything either."""
        waiting: list[RankedUnits] = []
        ranked: list[Group] = []
        for group in self.groups:
            fits = bool(group.eligibility.allowed) and not self.nevers.of(group.shape, group.eligibility)
            if fits or group.block:
                waiting.append(group if fits else UnitGroup(group.units[:1], NOTHING, block=True))
                ranked.append(group)
        holding = list(self._snapshot.backlog.holding.values())
        found = entitlement(tree, self._snapshot.members, holding, waiting, self._later, charged, now=now)
        for group, rank in zip(ranked, found.ranks, strict=True):
            group.rank = rank
        return found
