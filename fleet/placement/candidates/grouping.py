"""From the lots of a snapshot to groups: everything that is known about a waiting unit before anything is placed.

A unit that cannot start whatever happens gets its reason here. All others come out as groups of units alike, in an
order that follows from what the snapshot says and not from how it came about: equal snapshots make equal plans (I8).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fleet.model.amounts import NOTHING, Amounts
from fleet.model.bounds import BOUNDS
from fleet.model.gang import Key, claim_key, gang_key
from fleet.model.order import queue_order
from fleet.model.reason import Code, Reason, instant
from fleet.model.unit import Component, Unit
from fleet.placement.candidates.candidate import Group
from fleet.placement.candidates.eligibility import Nevers, Policies
from fleet.placement.packing.room import Space
from fleet.quota.entitlement import Charged, Entitlement, entitlement
from fleet.quota.tiers import Alike, Ranked
from fleet.quota.tree import QuotaTree
from fleet.quota.usage import Usage, request_of
from fleet.snapshot import Snapshot
from fleet.snapshot.backlog import Lot


def defect(components: tuple[Component, ...]) -> tuple[str, str] | None:
    """What makes a gang impossible to decide about, as (field, problem), or None."""
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


def early(unit: Unit, bad: tuple[str, str] | None, tree: QuotaTree | None, now: float) -> Reason | None:
    """The reason that is known before anything is placed, or None. `bad`: the `defect` of its components."""
    if bad is not None:
        return Reason(Code.BAD_UNIT, {"field": bad[0], "problem": bad[1]})
    if unit.suspended:
        return Reason(Code.SUSPENDED)
    if unit.held and unit.waits_turn:
        return Reason(Code.NOT_ITS_TURN, {"why": unit.held_why})
    if unit.held:
        return Reason(Code.HELD, {"why": unit.held_why} if unit.held_why else {})
    if unit.backoff_until is not None and unit.backoff_until > now:
        numbers: dict[str, str | int] = {"until": instant(unit.backoff_until), "attempts": unit.attempts}
        return Reason(Code.BACK_OFF, numbers | ({"why": unit.failed_why} if unit.failed_why else {}))
    if unit.leaf is not None and (tree is None or not tree.is_leaf(unit.leaf)):
        return Reason(Code.NO_LEAF, {"leaf": unit.leaf, "tree": "none" if tree is None else tree.root})
    return None


@dataclass(slots=True)
class _Gang:
    """What follows from the components of a unit and whether it may be preempted."""

    components: tuple[Component, ...]
    defect: tuple[str, str] | None
    request: Amounts


@dataclass(frozen=True, slots=True)
class _Stopper:
    """Ranked as one that wants nothing and counts on nothing: it cannot start, but nobody behind it may count."""

    leaf: str | None
    units: Sequence[Unit]
    request: Amounts = NOTHING
    block: bool = True


class Grouping:
    """`groups` of those that may start, `reasons` of those that cannot whatever happens, and the `space` of both.
    `usage` and `entitled` are None without a tree."""

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self._snapshot = snapshot
        self._gangs: dict[tuple[Key, bool], _Gang] = {}
        self._shapes: dict[tuple[Key, str], int] = {}
        self.reasons: dict[str, Reason] = {}
        self._later: list[Alike] = []
        lots = self._sorted_out(now)
        held = [(item, self._gang(item.gang, item.unit)) for item in snapshot.backlog.held.values()]
        self.space = self._space(lots)
        self.nevers = Nevers(snapshot.members, self.space)
        policies = Policies(snapshot.members)
        self.groups = [self._group(lot, policies) for lot in lots]
        self.usage: Usage | None = None
        self.entitled: Entitlement | None = None
        if snapshot.tree is not None:
            charged = [(item.unit.leaf, gang.request, item.count) for item, gang in held]
            self.entitled = self._rank(snapshot.tree, charged, now)
            self.usage = Usage(snapshot.tree, self.entitled.promises)
            for item, gang in held:
                if item.account is not None:
                    self.usage.charge(item.account, gang.request, item.count)

    def _sorted_out(self, now: float) -> list[Lot]:
        """Lots of who may start as far as it alone can tell, in the order of their first; the others get reasons. Who
        backs off is demand all the same."""
        backlog, tree = self._snapshot.backlog, self._snapshot.tree
        alone = (Lot(gang_key(unit.components), (unit,), (unit.id,)) for unit in backlog.odd.values())
        able: list[Lot] = []
        for lot in (*backlog.lots.values(), *alone):
            unit = lot.units[0]
            gang = self._gang(lot.gang, unit)
            reason = early(unit, gang.defect, tree, now)
            if reason is None:
                able.append(lot)
                continue
            self.reasons.update(dict.fromkeys(lot.ids, reason))
            if reason.code is Code.BACK_OFF:
                self._later.append(Alike((unit,), gang.request))
        able.sort(key=lambda lot: queue_order(lot.units[0]))
        return able

    def _gang(self, key: Key, unit: Unit) -> _Gang:
        known = self._gangs.get((key, unit.preemptible))
        if known is None:
            known = _Gang(unit.components, defect(unit.components), request_of(unit))
            self._gangs[key, unit.preemptible] = known
        return known

    def _space(self, lots: Iterable[Lot]) -> Space:
        """Over what any gang asks for. Claims are numbered in an order of their own, so that the space of the next
        decision is this one again."""
        held = self._snapshot.backlog.held.values()
        gangs = [gang.components for gang in self._gangs.values() if gang.defect is None]
        gangs += [item.unit.components for item in held]
        claims = {claim_key(part.claim): part.claim for components in gangs for part in components}
        first = tuple(Component("", 0, NOTHING, claims[key]) for key in sorted(claims) if key)
        units = (*(lot.units[0] for lot in lots), *(item.unit for item in held))
        return Space([first, *gangs], {unit.topology for unit in units})

    def _group(self, lot: Lot, policies: Policies) -> Group:
        unit, tree = lot.units[0], self._snapshot.tree
        return Group(
            units=lot.units,
            ids=lot.ids,
            shape=self._shape(lot.gang, unit),
            eligibility=policies.of(unit),
            request=self._gang(lot.gang, unit).request,
            block=tree is not None and tree.stopped_by(unit),
            leaf=unit.leaf,
            priority=unit.priority,
            preemptible=unit.preemptible,
            by_user=tree is not None and unit.leaf is not None and tree.caps_users(unit.leaf),
        )

    def _shape(self, key: Key, unit: Unit) -> int:
        known = self._shapes.get((key, unit.topology))
        if known is None:
            known = self._shapes[key, unit.topology] = self.space.number(unit.components, unit.topology)
        return known

    def _rank(self, tree: QuotaTree, charged: Iterable[Charged], now: float) -> Entitlement:
        """Give every group its rank. Who fits nowhere stands on nobody's guarantee; behind one that nobody of its
        queue may start before, nobody counts on anything either."""
        waiting: list[Ranked] = []
        ranked: list[Group] = []
        for group in self.groups:
            if group.eligibility.allowed and not self.nevers.of(group.shape, group.eligibility):
                waiting.append(group)
                ranked.append(group)
            elif group.block:
                waiting.append(_Stopper(group.leaf, group.units[:1]))
                ranked.append(group)
        holding = list(self._snapshot.backlog.holding.values())
        found = entitlement(tree, self._snapshot.members, holding, waiting, self._later, charged, now=now)
        for group, rank in zip(ranked, found.ranks, strict=True):
            group.rank = rank
        return found
