"""The checker's rules about the sizes of elastic units.

A unit starts, or runs on, with replicas between its least and what it asks for, in steps. Pods that it gets in addition
have room and quota beside all that starts. A unit that gives up pods gives them up in the order of its surplus.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleet.core.check.packer import Gang, first_unpackable
from fleet.core.check.quota import ChargeSums
from fleet.core.check.units import coming, gang_of, gangs_in, resources_of
from fleet.core.check.violation import Rule, Violation
from fleet.core.model.effort import Effort
from fleet.core.model.plan import Plan, SizeChange
from fleet.core.model.unit import Phase, Unit
from fleet.core.snapshot import Snapshot
from fleet.core.snapshot.surplus import resized, smaller


def as_started(unit: Unit, sizes: Iterable[tuple[str, int]]) -> Unit:
    """A waiting unit with the replicas that it starts with."""
    return replace(unit, components=resized(unit.components, dict(sizes)))


def start_unsound(unit: Unit, sizes: tuple[tuple[str, int], ...]) -> str:
    """What is wrong with the replicas that a unit starts with; "" where they are sound."""
    return _not_between(unit, dict(sizes)) if sizes else ""


def resizes_broken(
    snapshot: Snapshot, plan: Plan, starts: Mapping[str, str], started: Snapshot, sums: ChargeSums, effort: Effort
) -> Iterable[Violation]:
    """Every rule that a resize breaks. `started`: the snapshot in which units have the size that they start with;
    `sums`: the charges of all that runs and starts, which the growths of this plan are added to."""
    grown: dict[str, Unit] = {}
    changed: set[str] = set()
    for resize in plan.resizes:
        unit = snapshot.units.get(resize.unit)
        problem = "changes its size twice" if resize.unit in changed else _unsound(snapshot, unit, resize)
        changed.add(resize.unit)
        if problem or unit is None:
            yield Violation(Rule.SIZE_UNSOUND, resize.unit, f"{resize.unit} {problem}")
            continue
        sizes = dict(resize.sizes)
        if all(sizes.get(part.name, part.replicas) <= part.replicas for part in unit.components):
            continue
        larger = replace(unit, components=resized(unit.components, sizes))
        sums.charge(unit, -1)
        broken = sums.broken(larger)
        sums.charge(unit if broken is not None else larger)
        if broken is not None:
            yield Violation(Rule.SIZE_TOO_LARGE, unit.id, f"{unit.id} grows without quota: {broken.text}")
        else:
            grown[unit.id] = larger
    yield from _room(snapshot, grown, starts, started, effort)


def _room(
    snapshot: Snapshot, grown: Mapping[str, Unit], starts: Mapping[str, str], started: Snapshot, effort: Effort
) -> Iterable[Violation]:
    more: dict[str, list[Gang]] = {}
    for key, unit in grown.items():
        before = {part.name: part.replicas for part in snapshot.units[key].components}
        parts = (replace(part, replicas=part.replicas - before[part.name]) for part in unit.components)
        more.setdefault(unit.member or "", []).append(gang_of(replace(unit, components=tuple(parts), rules=())))
    if not more:
        return
    beside, names = gangs_in(started, starts), resources_of(snapshot)
    arriving = coming(snapshot, more)
    for name, gangs in sorted(more.items()):
        first = [*arriving.get(name, ()), *beside.get(name, ())]
        for key in first_unpackable(snapshot.members[name], first, gangs, names, effort):
            yield Violation(Rule.SIZE_TOO_LARGE, key, f"{key} grows into room that {name} does not have")


def _unsound(snapshot: Snapshot, unit: Unit | None, resize: SizeChange) -> str:
    if unit is None or unit.phase is not Phase.PLACED or unit.member != resize.member:
        return f"does not run in {resize.member}"
    member, sizes = snapshot.members.get(resize.member), unit.sizes
    if sizes is None or not sizes.settled or not unit.preemptible or member is None or not member.ready:
        return "may not change its size"
    target = dict(resize.sizes)
    if any(target.get(part.name, part.replicas) < part.replicas for part in unit.components):
        fewer = (smaller(unit, count).components for count in range(1, len(sizes.surplus) + 1))
        sound = snapshot.config.reclaim and resized(unit.components, target) in list(fewer)
        return "" if sound else "gives up pods that are not its surplus"
    return _not_between(unit, target)


def _not_between(unit: Unit, target: Mapping[str, int]) -> str:
    """What is wrong with replicas beyond those that a unit has."""
    if unit.sizes is None or not unit.preemptible:
        return "has one size"
    steps, most = dict(unit.sizes.steps), {part.name: part.replicas for part in unit.sizes.whole}
    has = {part.name: part.replicas for part in unit.components}
    for name, replicas in target.items():
        if name not in steps or name not in has or not has[name] < replicas <= most.get(name, 0):
            return f"has {replicas} {name}, which it does not ask for"
        if (replicas - has[name]) % max(1, steps[name]):
            return f"has {replicas} {name}, which is no whole number of steps"
    return "" if target else "changes nothing"
