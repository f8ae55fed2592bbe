"""The checker: refuses every plan that breaks a rule of safety. Written from the rules, apart from the planner.

Checker and planner share the meaning of words (which taint a toleration covers, what a unit requests) and no
arithmetic. The checker adds quota up again from the units. A packer of its own packs every gang again onto the members'
node vectors. The packer is exact for pods of sizes that divide each other in one resource. For other pods it tries a
few orders and the proposals of bounded searches, and refuses gangs that it cannot pack. So a plan that passes is good.
A refused plan may, rarely, have been good too.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace

from fleet.core.check.claims import claims_of, evictions, going, quota_broken, room_broken
from fleet.core.check.packer import first_unpackable
from fleet.core.check.quota import ChargeSums
from fleet.core.check.sizes import as_started, resizes_broken, start_unsound
from fleet.core.check.units import coming, gangs_in, in_the_way, may_go, may_start, resources_of, waits_behind
from fleet.core.check.violation import Rule, Violation
from fleet.core.model.effort import Effort
from fleet.core.model.matching import member_bars
from fleet.core.model.order import queue_order
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Phase, Unit
from fleet.core.snapshot import Snapshot, SnapshotChanges
from fleet.core.snapshot.surplus import at_least


def check(snapshot: Snapshot, plan: Plan, *, now: float) -> tuple[Violation, ...]:
    """Every rule that the plan breaks; empty for a plan that may be committed. Of several units that only together
    break a limit, the units later in the plan are named."""
    effort = Effort()
    starts, violations = _starts(snapshot, plan, now)
    started = _started(snapshot, plan, starts)
    sums = ChargeSums(snapshot)
    charged: dict[str, str] = {}
    for key, member in starts.items():
        broken = sums.start(started.units[key])
        if broken is not None:
            violations.append(broken)
        else:
            charged[key] = member
    violations += _block_order(snapshot, starts, now)
    violations += _room(started, starts, effort)
    violations += resizes_broken(snapshot, plan, starts, started, sums, effort)
    violations += _claims(snapshot, plan, charged, sums, now, effort)
    violations += _heads(snapshot, plan, starts, now)
    violations += _reasons(snapshot, plan)
    return tuple(replace(violation, bounds=effort.bounds) for violation in violations)


def _started(snapshot: Snapshot, plan: Plan, starts: Container[str]) -> Snapshot:
    """The snapshot in which units have the size that they start with."""
    sized = {placement.unit: placement.sizes for placement in plan.placements if placement.sizes}
    units = tuple(as_started(snapshot.units[key], sizes) for key, sizes in sized.items() if key in starts)
    return snapshot.apply(SnapshotChanges(put_units=units)) if units else snapshot


def _claims(
    actual: Snapshot, plan: Plan, starts: Mapping[str, str], sums: ChargeSums, now: float, effort: Effort
) -> Iterable[Violation]:
    """The rules about claims and victims, in the fleet without the surplus of elastic units, which gives way to all.
    `sums`: of the actual snapshot, with what starts."""
    snapshot = at_least(actual, now)
    claims, unsound = claims_of(snapshot, plan, starts, now)
    victims, kept = evictions(snapshot, plan, {claim.unit for claim in plan.claims}, now)
    yield from (*unsound, *kept)
    if claims.members:
        leaving = going(snapshot, victims, now)
        yield from room_broken(snapshot, claims, leaving, effort)
        if snapshot is not actual:
            sums = ChargeSums(snapshot)
            for key in starts:
                sums.charge(snapshot.units[key])
        yield from quota_broken(snapshot, claims, leaving, sums)


def _starts(snapshot: Snapshot, plan: Plan, now: float) -> tuple[dict[str, str], list[Violation]]:
    """The waiting units that the plan starts, with their members, and the rules that a unit breaks by itself."""
    starts: dict[str, str] = {}
    violations: list[Violation] = []
    for placement in plan.placements:
        unit = snapshot.units.get(placement.unit)
        if unit is None:
            violations.append(Violation(Rule.UNKNOWN_UNIT, placement.unit, f"no unit {placement.unit}"))
        elif placement.unit in starts:
            violations.append(Violation(Rule.TWICE, unit.id, f"{unit.name} is placed twice"))
        elif placement.member not in snapshot.members:
            violations.append(Violation(Rule.UNKNOWN_MEMBER, unit.id, f"no member {placement.member}"))
        elif unit.phase is not Phase.WAITING:
            violations.append(Violation(Rule.NOT_WAITING, unit.id, f"{unit.name} is {unit.phase} already"))
        else:
            starts[placement.unit] = placement.member
            problem = start_unsound(unit, placement.sizes)
            violations += [Violation(Rule.SIZE_UNSOUND, unit.id, f"{unit.name} {problem}")] if problem else []
            violations += _alone(snapshot, unit, placement.member, now)
    return starts, violations


def _alone(snapshot: Snapshot, unit: Unit, name: str, now: float) -> Iterable[Violation]:
    """The rules that the start of a unit breaks whatever else starts."""
    if unit.held:
        yield Violation(Rule.HELD, unit.id, f"{unit.name} is held")
    if unit.backoff_until is not None and unit.backoff_until > now:
        yield Violation(Rule.BACK_OFF, unit.id, f"{unit.name} still backs off")
    if unit.leaf is not None and not (snapshot.tree is not None and snapshot.tree.is_leaf(unit.leaf)):
        yield Violation(Rule.NO_LEAF, unit.id, f"{unit.leaf} is no leaf")
    member = snapshot.members[name]
    if not member.ready:
        yield Violation(Rule.NOT_READY, unit.id, f"member {name} is not ready")
    barred = member_bars(unit, member)
    if barred:
        yield Violation(Rule.POLICY, unit.id, f"{unit.name} may not go to {name}: {barred}")


def _block_order(snapshot: Snapshot, starts: Mapping[str, str], now: float) -> Iterable[Violation]:
    """No unit starts before a unit ahead of it that stops its queue and may start."""
    queued = [unit for unit in map(snapshot.units.__getitem__, starts) if unit.leaf is not None]
    ahead = in_the_way(snapshot, {unit.leaf for unit in queued}, starts, now)
    for unit in sorted(queued, key=lambda unit: (unit.leaf or "", queue_order(unit))) if ahead else ():
        if waits_behind(unit, ahead):
            text = f"{unit.name} starts before {ahead[unit.leaf or ''].name} in {unit.leaf}"
            yield Violation(Rule.BLOCK_ORDER, unit.id, text)


def _room(snapshot: Snapshot, starts: Mapping[str, str], effort: Effort) -> Iterable[Violation]:
    """Each gang is packed whole onto the node vectors of its one member, beside the pods on their way there."""
    by_member = gangs_in(snapshot, starts)
    names = resources_of(snapshot) if starts else set()
    arriving = coming(snapshot, by_member)
    for name, gangs in sorted(by_member.items()):
        for key in first_unpackable(snapshot.members[name], arriving.get(name, []), gangs, names, effort):
            yield Violation(Rule.ROOM, key, f"{snapshot.units[key].name} does not fit {name} whole")


def _heads(snapshot: Snapshot, plan: Plan, starts: Container[str], now: float) -> Iterable[Violation]:
    """Every head is a waiting unit that may start, and the only head of its leaf. The planner alone decides which unit
    becomes a head, and which units start beside a head."""
    firsts: dict[str | None, str] = {}
    for head in plan.heads:
        unit, where = snapshot.units.get(head.unit), head.nomination.member
        problem = ""
        if unit is None or not may_start(snapshot, unit, now):
            problem = "is a head, but could not start"
        elif where and not may_go(snapshot, unit, where):
            problem = f"collects room in {where}, where it may not go"
        elif head.unit in starts:
            problem = "is a head, but starts"
        elif unit.leaf in firsts:
            problem = f"is a head beside {firsts[unit.leaf]} of the same leaf"
        else:
            firsts[unit.leaf] = head.unit
        if problem:
            yield Violation(Rule.HEAD_UNSOUND, head.unit, f"{head.unit} {problem}")


def _reasons(snapshot: Snapshot, plan: Plan) -> Iterable[Violation]:
    """Exactly one reason for every unit that waits on, and for no other."""
    waits = set(snapshot.units)
    waits.difference_update(snapshot.backlog.holding, [placement.unit for placement in plan.placements])
    if waits == plan.reasons.keys():
        return
    for key in sorted(waits - plan.reasons.keys()):
        yield Violation(Rule.REASON_MISSING, "", f"{key} waits without a reason")
    for key in sorted(plan.reasons.keys() - waits):
        yield Violation(Rule.REASON_EXTRA, "", f"{key} has a reason but does not wait")
