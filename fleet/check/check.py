"""The checker: refuses every plan that breaks a rule. Written from the rules, apart from the planner.

It shares with the planner only what words mean (which taint a toleration covers, what a unit requests) and none of its
arithmetic: quota is added up again from the units, and every gang is packed again onto the members' node vectors, by a
packer of its own. That packer is exact for pods of sizes that divide each other in one resource; beyond that it tries
largest-first, the plan's own order, and for few pods a bounded search, and refuses what it cannot pack. So a plan that
passes is good; a plan that is refused may, rarely, have been good too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fleet.check.heads import heads
from fleet.check.packer import Gang, first_unpackable
from fleet.check.quota import Sums
from fleet.check.reclaim import reclaims
from fleet.check.units import in_the_way
from fleet.check.users import users
from fleet.check.violation import Rule, Violation
from fleet.model.matching import member_bars
from fleet.model.order import queue_order
from fleet.model.plan import Plan
from fleet.model.unit import Phase, Unit
from fleet.snapshot import Snapshot

__all__ = ["Rule", "Violation", "check"]


def check(snapshot: Snapshot, plan: Plan, *, now: float) -> tuple[Violation, ...]:
    """Every rule that the plan breaks; empty for a plan that may be committed. Of several units that only together
    break a limit, those later in the plan are named."""
    found: list[Violation] = []
    placed: dict[str, str] = {}
    for placement in plan.placements:
        unit = snapshot.units.get(placement.unit)
        if unit is None:
            found.append(Violation(Rule.UNKNOWN_UNIT, placement.unit, f"no unit {placement.unit}"))
        elif placement.unit in placed:
            found.append(Violation(Rule.TWICE, unit.id, f"{unit.name} is placed twice"))
        elif placement.member not in snapshot.members:
            found.append(Violation(Rule.UNKNOWN_MEMBER, unit.id, f"no member {placement.member}"))
        else:
            placed[placement.unit] = placement.member
            found += _one(snapshot, unit, placement.member, now)
    found += _quota(snapshot, placed)
    found += users(snapshot, placed)
    found += _block_order(snapshot, placed, now)
    found += _room(snapshot, placed)
    found += reclaims(snapshot, plan, placed, now)
    found += heads(snapshot, plan, placed, now)
    found += _reasons(snapshot, plan)
    return tuple(found)


def _one(snapshot: Snapshot, unit: Unit, name: str, now: float) -> Iterable[Violation]:
    """What a unit may not do whoever else is placed."""
    if unit.phase is not Phase.WAITING:
        yield Violation(Rule.NOT_WAITING, unit.id, f"{unit.name} is {unit.phase} already")
    if unit.held:
        yield Violation(Rule.HELD, unit.id, f"{unit.name} is held")
    if unit.backoff_until is not None and unit.backoff_until > now:
        yield Violation(Rule.BACK_OFF, unit.id, f"{unit.name} still backs off")
    if unit.leaf is not None:
        node = snapshot.tree.nodes.get(unit.leaf) if snapshot.tree is not None else None
        if node is None or node.children:
            yield Violation(Rule.NO_LEAF, unit.id, f"{unit.leaf} is no leaf")
    member = snapshot.members[name]
    if not member.ready:
        yield Violation(Rule.NOT_READY, unit.id, f"member {name} is not ready")
    barred = member_bars(unit, member)
    if barred:
        yield Violation(Rule.POLICY, unit.id, f"{unit.name} may not go to {name}: {barred}")


def _quota(snapshot: Snapshot, placed: Mapping[str, str]) -> Iterable[Violation]:
    """I3: nothing that the plan starts raises usage above max, max-jobs included, at any node from leaf to root; what
    may not be preempted stays within min, and nobody uses what another does not lend."""
    if snapshot.tree is None or not placed:
        return
    sums = Sums(snapshot, snapshot.tree)
    for key in placed:
        unit = snapshot.units[key]
        if unit.leaf is None or unit.phase is not Phase.WAITING:
            continue
        broken = sums.broken(unit)
        if broken is not None:
            yield broken
        else:
            sums.charge(unit)


def _block_order(snapshot: Snapshot, placed: Mapping[str, str], now: float) -> Iterable[Violation]:
    """Nobody starts before one ahead in its queue that stops it and could be asked (not held, not backing off)."""
    started = [unit for unit in map(snapshot.units.__getitem__, placed) if unit.leaf is not None]
    ahead = in_the_way(snapshot, {unit.leaf for unit in started}, placed, now)
    for unit in sorted(started, key=lambda unit: (unit.leaf or "", queue_order(unit))) if ahead else ():
        if unit.leaf in ahead and unit.phase is Phase.WAITING and queue_order(unit) > queue_order(ahead[unit.leaf]):
            text = f"{unit.name} starts before {ahead[unit.leaf].name} in {unit.leaf}"
            yield Violation(Rule.BLOCK_ORDER, unit.id, text)


def _room(snapshot: Snapshot, placed: Mapping[str, str]) -> Iterable[Violation]:
    """I1: each gang is packed whole onto the node vectors of its one member, beside what is coming there already."""
    by_member: dict[str, list[Gang]] = {}
    for key, name in placed.items():
        unit = snapshot.units[key]
        parts = tuple((max(0, c.replicas), c.requests, c.claim) for c in unit.components)
        by_member.setdefault(name, []).append(Gang(key, parts, unit.topology))
    if not by_member:
        return
    coming: dict[str, list[Gang]] = {}
    backlog = snapshot.backlog
    for unit in backlog.unseen.values():
        if unit.member in by_member:
            seen = dict(unit.visible)
            parts = tuple(
                (max(0, c.replicas - max(0, seen.get(c.name, 0))), c.requests, c.claim) for c in unit.components
            )
            coming.setdefault(unit.member, []).append(Gang(unit.id, parts, unit.topology))
    kinds = (*(lot.units[0] for lot in backlog.lots.values()), *(held.unit for held in backlog.held.values()))
    asking = (*kinds, *backlog.odd.values())
    names = {name for unit in asking for part in unit.components for name, _ in part.requests.items_}
    for name in sorted(by_member):
        beside = coming.get(name, [])
        for key in first_unpackable(snapshot.members[name], beside, by_member[name], names, thorough=True):
            unit = snapshot.units[key]
            yield Violation(Rule.ROOM, key, f"{unit.name} does not fit {name} whole")


def _reasons(snapshot: Snapshot, plan: Plan) -> Iterable[Violation]:
    """I9: exactly one reason for every unit that waits on, and for nobody else."""
    started = {placement.unit for placement in plan.placements}
    reasons, units, holding = plan.reasons.keys(), snapshot.units.keys(), snapshot.backlog.holding.keys()
    waiting = len(units) - len(holding) - len((units & started) - holding)
    if len(reasons) == waiting and reasons <= units and reasons.isdisjoint(started) and holding.isdisjoint(reasons):
        return
    for key, unit in snapshot.units.items():
        waits = unit.phase is Phase.WAITING and key not in started
        if waits and key not in plan.reasons:
            yield Violation(Rule.REASON_MISSING, "", f"{unit.name} waits without a reason")
        elif not waits and key in plan.reasons:
            yield Violation(Rule.REASON_EXTRA, "", f"{unit.name} has a reason but does not wait")
    for key in plan.reasons:
        if key not in snapshot.units:
            yield Violation(Rule.REASON_EXTRA, "", f"a reason for {key}, which is no unit")
