"""The backlog: the units of a snapshot sorted into lots, and handed on from one snapshot to the next.

A *lot* is waiting units that differ in nothing but their turn, their user and their walltime, so that whatever holds
for one of them holds for all. The user and the walltime of a unit say whose cap counts, and which heads bind the unit.
A decision looks at lots and at the units that start; the number of units that wait behind costs next to nothing.
Sorting a hundred thousand units into lots takes longer than deciding about them, so a change touches only the lots that
it is about. The trade-off: each field that a decision reads of a waiting unit must be part of `lot_key`, or the unit
must be odd, or every step must ask each unit; a test names every field of Unit and on which side it stands.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fleet.core.model.gang import Key, gang_key
from fleet.core.model.order import queue_order
from fleet.core.model.unit import Phase, Unit
from fleet.core.quota.tree import QuotaTree
from fleet.core.quota.usage import account_of


@dataclass(frozen=True, slots=True, eq=False)
class Lot:
    """Waiting units alike, by turn; `ids` are theirs. `gang` is equal for all gangs of the same components."""

    gang: Key
    units: Sequence[Unit]
    ids: Sequence[str]


@dataclass(frozen=True, slots=True)
class HeldUnits:
    """`count` units that hold room and are alike in what they ask for and where they are charged; `unit` is one."""

    gang: Key
    account: str | None
    unit: Unit = field(compare=False)
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Backlog:
    """`lots` of those that wait; `odd`: waiting units that something singular holds for (backing off, with a claim, a
    head), by id; `holding`: placed and evicting units, by id; `holders`: the same, counted by what they are charged;
    `unseen`: those of them that have pods which the inventory does not show; `sized`: those of them that may have
    another size; `wrong`: contradictions, by unit."""

    tree: QuotaTree | None
    lots: Mapping[Key, Lot]
    odd: Mapping[str, Unit]
    holding: Mapping[str, Unit]
    holders: Mapping[Key, HeldUnits]
    unseen: Mapping[str, Unit]
    sized: Mapping[str, Unit]
    wrong: Mapping[str, tuple[tuple[str, str], ...]]

    @staticmethod
    def of(tree: QuotaTree | None, units: Mapping[str, Unit]) -> Backlog:
        waiting: dict[Key, list[Unit]] = {}
        odd: dict[str, Unit] = {}
        holding: dict[str, Unit] = {}
        wrong: dict[str, tuple[tuple[str, str], ...]] = {}
        for key, unit in units.items():
            if unit.id != key or (unit.phase is not Phase.WAITING and unit.member is None):
                wrong[key] = _contradictions(key, unit)
            if unit.phase is not Phase.WAITING:
                holding[key] = unit
            elif is_odd(unit):
                odd[key] = unit
            else:
                lot = lot_key(unit)
                found = waiting.get(lot)
                if found is None:
                    waiting[lot] = [unit]
                else:
                    found.append(unit)
        lots: dict[Key, Lot] = {}
        for lot, alike in waiting.items():
            alike.sort(key=queue_order)
            lots[lot] = Lot(lot[0], alike, [unit.id for unit in alike])
        held: dict[Key, HeldUnits] = {}
        for unit in holding.values():
            _count(held, tree, unit, 1)
        unseen = {key: unit for key, unit in holding.items() if _is_unseen(unit)}
        sized = {key: unit for key, unit in holding.items() if unit.sizes is not None}
        return Backlog(tree, lots, odd, holding, held, unseen, sized, wrong)

    def changed(
        self, tree: QuotaTree | None, before: Mapping[str, Unit], put: Iterable[Unit], removed: Iterable[str]
    ) -> Backlog:
        """The backlog after `removed` are gone and then `put` are there; `before` are the units that this one is of."""
        new: dict[str, Unit | None] = dict.fromkeys(removed)
        new.update((unit.id, unit) for unit in put)
        moves: dict[Key, tuple[list[Unit], list[Unit]]] = {}
        odd, holding, unseen, sized = dict(self.odd), dict(self.holding), dict(self.unseen), dict(self.sized)
        holders, wrong = dict(self.holders), dict(self.wrong)
        for key, unit in new.items():
            old = before.get(key)
            if old is unit:
                continue
            if old is not None:
                wrong.pop(key, None)
                if old.phase is not Phase.WAITING:
                    del holding[key]
                    unseen.pop(key, None)
                    sized.pop(key, None)
                    _count(holders, tree, old, -1)
                elif is_odd(old):
                    del odd[key]
                else:
                    moves.setdefault(lot_key(old), ([], []))[0].append(old)
            if unit is not None:
                if unit.phase is not Phase.WAITING:
                    if unit.member is None:
                        wrong[key] = _contradictions(key, unit)
                    holding[key] = unit
                    _index(unseen, unit, _is_unseen(unit))
                    _index(sized, unit, unit.sizes is not None)
                    _count(holders, tree, unit, 1)
                elif is_odd(unit):
                    odd[key] = unit
                else:
                    moves.setdefault(lot_key(unit), ([], []))[1].append(unit)
        lots = dict(self.lots)
        for lot, (leaving, coming) in moves.items():
            known = lots.get(lot)
            alike = _moved(known.units if known is not None else (), leaving, coming)
            if alike:
                lots[lot] = Lot(lot[0], alike, [unit.id for unit in alike])
            else:
                lots.pop(lot, None)
        return Backlog(tree, lots, odd, holding, holders, unseen, sized, wrong)


def is_odd(unit: Unit) -> bool:
    """Whether something holds for a waiting unit that holds for it alone."""
    return unit.backoff_until is not None or unit.claim is not None or unit.head is not None


def lot_key(unit: Unit) -> Key:
    """Equal for waiting units that differ in nothing but their turn, their user and their walltime."""
    return (
        gang_key(unit.components),
        unit.leaf,
        unit.priority,
        unit.preemptible,
        unit.rules,
        tuple([(group.name, group.members) for group in unit.affinity_groups]) if unit.affinity_groups else (),
        tuple([(t.key, t.operator, t.value, t.effect) for t in unit.tolerations]) if unit.tolerations else (),
        unit.needs_kind,
        unit.excluded,
        unit.avoid,
        unit.preferences,
        unit.sizes,
        (unit.held, unit.held_why, unit.after, unit.waits_turn, unit.release_helps, unit.suspended)
        if unit.held or unit.suspended
        else (),
    )


def _moved(units: Sequence[Unit], leaving: Sequence[Unit], coming: Sequence[Unit]) -> list[Unit]:
    """`units`, by turn, without `leaving` (the very objects) and with `coming`."""
    if 8 * (len(leaving) + len(coming)) > len(units):
        dropped = {id(unit) for unit in leaving}
        return sorted([*(unit for unit in units if id(unit) not in dropped), *coming], key=queue_order)
    rest = list(units)
    for unit in leaving:
        index = bisect_left(rest, queue_order(unit), key=queue_order)
        while rest[index] is not unit:
            index += 1
        del rest[index]
    for unit in coming:
        rest.insert(bisect_left(rest, queue_order(unit), key=queue_order), unit)
    return rest


def _count(holders: dict[Key, HeldUnits], tree: QuotaTree | None, unit: Unit, more: int) -> None:
    account, gang = unit.leaf if tree is None else account_of(tree, unit), gang_key(unit.components)
    key = (account, gang, unit.leaf, unit.preemptible, unit.rules)
    known = holders.get(key)
    count = more + (known.count if known is not None else 0)
    if count:
        holders[key] = HeldUnits(gang, account, unit, count)
    else:
        del holders[key]


def _index(units: dict[str, Unit], unit: Unit, belongs: bool) -> None:
    if belongs:
        units[unit.id] = unit


def _is_unseen(unit: Unit) -> bool:
    seen = dict(unit.visible)
    return any(part.replicas > max(0, seen.get(part.name, 0)) for part in unit.components)


def _contradictions(key: str, unit: Unit) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    if unit.id != key:
        found.append((f"units[{key}].id", f"is {unit.id!r}"))
    if unit.phase is not Phase.WAITING and unit.member is None:
        found.append((f"units[{key}].member", f"a unit that is {unit.phase} must name its member"))
    return tuple(found)
