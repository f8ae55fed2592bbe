"""The checker: refuses every plan that breaks a rule. Written from the rules, apart from the planner.

It shares with the planner only what words mean (which taint a toleration covers, what a unit requests) and none of its
arithmetic: quota is added up again from the units, and every gang is packed again onto the members' node vectors, by a
packer of its own. That packer is exact for pods of sizes that divide each other in one resource; beyond that it tries
largest-first, the plan's own order, and for few pods a bounded search, and refuses what it cannot pack. So a plan that
passes is good; a plan that is refused may, rarely, have been good too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fleet.backlog import Key, gang_key
from fleet.check_heads import heads
from fleet.check_reclaim import reclaims
from fleet.check_units import counted
from fleet.check_users import users
from fleet.model.matching import member_bars
from fleet.model.unit import Phase, Unit
from fleet.packer import Gang, first_unpackable
from fleet.plan import Plan
from fleet.quota.guarantee import Guarantees, capacity, guarantees, with_potential
from fleet.quota.tree import QuotaTree, stops
from fleet.snapshot import Snapshot
from fleet.violation import Rule, Violation

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


def _line(tree: QuotaTree, leaf: str) -> list[str]:
    """The nodes at which work of `leaf` counts."""
    while leaf not in tree.nodes and leaf:
        leaf = leaf.rpartition("/")[0]
    line: list[str] = []
    at: str | None = leaf
    while at is not None and at in tree.nodes and at not in line:
        line.append(at)
        at = tree.nodes[at].parent
    return line


def _quota(snapshot: Snapshot, placed: Mapping[str, str]) -> Iterable[Violation]:
    """I3: nothing that the plan starts raises usage above max, max-jobs included, at any node from leaf to root."""
    tree = snapshot.tree
    if tree is None:
        return
    used: dict[tuple[str, str], int] = {}
    firm: dict[tuple[str, str], int] = {}
    total = capacity(snapshot.members, snapshot.backlog.holding.values())
    promises = guarantees(tree, with_potential(total, snapshot.members))
    for held in snapshot.backlog.held.values():
        unit = held.unit
        if unit.leaf is not None:
            for node in _line(tree, unit.leaf):
                for name, amount in counted(unit).items():
                    used[node, name] = used.get((node, name), 0) + amount * held.count
                    if not unit.preemptible:
                        firm[node, name] = firm.get((node, name), 0) + amount * held.count
    known: dict[Key, dict[str, int]] = {}
    lines: dict[str, list[str]] = {}
    for key in placed:
        unit = snapshot.units[key]
        if unit.leaf is None or unit.phase is not Phase.WAITING:
            continue
        gang = gang_key(unit.components)
        if gang not in known:
            known[gang] = counted(unit)
        if unit.leaf not in lines:
            lines[unit.leaf] = _line(tree, unit.leaf)
        amounts, line = known[gang], lines[unit.leaf]
        limits = ((node, name, limit) for node in line for name, limit in tree.nodes[node].max.items())
        for node, name, limit in limits:
            if amounts.get(name) and used.get((node, name), 0) + amounts[name] > limit:
                yield Violation(Rule.MAX, key, f"{unit.name} raises {name} of {node} above {limit}")
                break
        else:
            broken = _promises_broken(tree, promises, used, firm, unit, amounts, line)
            if broken is not None:
                yield broken
                continue
            for node in line:
                for name, amount in amounts.items():
                    used[node, name] = used.get((node, name), 0) + amount
                    if not unit.preemptible:
                        firm[node, name] = firm.get((node, name), 0) + amount


def _promises_broken(
    tree: QuotaTree,
    promises: Guarantees,
    used: Mapping[tuple[str, str], int],
    firm: Mapping[tuple[str, str], int],
    unit: Unit,
    amounts: Mapping[str, int],
    line: Sequence[str],
) -> Violation | None:
    """Work that may not be preempted stays within min at every node; nobody uses what another does not lend."""
    if not unit.preemptible:
        for node in line:
            for name in sorted(promises.resources & set(amounts)):
                limit = promises.min[node].get(name, 0)
                if amounts[name] and firm.get((node, name), 0) + amounts[name] > limit:
                    text = f"{unit.name} may not be preempted and raises {name} of {node} above min {limit}"
                    return Violation(Rule.MIN, unit.id, text)
    if promises.kept:
        for node in line:
            for name, limit in tree.nodes[node].max.items():
                before = _taken(tree, promises, used, node, name, ())
                after = _taken(tree, promises, used, node, name, line, amounts.get(name, 0))
                if after > max(before, limit):
                    text = f"{unit.name} uses {name} that others below {node} do not lend"
                    return Violation(Rule.LENT, unit.id, text)
    return None


def _taken(
    tree: QuotaTree,
    promises: Guarantees,
    used: Mapping[tuple[str, str], int],
    node: str,
    name: str,
    line: Sequence[str],
    more: int = 0,
) -> int:
    """What is used or kept below a node, with `more` charged along `line`."""
    children = tree.nodes[node].children
    own = used.get((node, name), 0) - sum(used.get((child, name), 0) for child in children)
    if node == (line[0] if line else None):
        own += more
    inner = own + sum(_taken(tree, promises, used, child, name, line, more) for child in children)
    return max(promises.kept.get(node, {}).get(name, 0), inner)


def _block_order(snapshot: Snapshot, placed: Mapping[str, str], now: float) -> Iterable[Violation]:
    """Nobody starts before one ahead in its queue that stops it and could be asked (not held, not backing off)."""
    if snapshot.tree is None:
        return
    strict = {path: node for path, node in snapshot.tree.nodes.items() if node.policy in ("Block", "Intelligent")}
    if not strict:
        return
    started = [unit for unit in map(snapshot.units.__getitem__, placed) if unit.leaf in strict]
    queues: dict[str, list[Sequence[Unit]]] = {unit.leaf: [] for unit in started if unit.leaf is not None}
    for run in (*(lot.units for lot in snapshot.backlog.lots.values()), *((u,) for u in snapshot.backlog.odd.values())):
        first = run[0]
        asked = not first.held and not (first.backoff_until or 0) > now and _sound(first)
        if first.leaf in queues and asked and stops(strict[first.leaf], first):
            queues[first.leaf].append(run)
    ahead: dict[str, tuple[tuple[int, float, str, str], Unit]] = {}
    for leaf, runs in queues.items():
        left = (next((unit for unit in run if unit.id not in placed), None) for run in runs)  # runs are in order
        waits = [(_turn(unit), unit) for unit in left if unit is not None]
        if waits:
            ahead[leaf] = min(waits, key=lambda item: item[0])
    for unit in sorted(started, key=lambda unit: (unit.leaf or "", _turn(unit))):
        if unit.leaf in ahead and unit.phase is Phase.WAITING and _turn(unit) > ahead[unit.leaf][0]:
            text = f"{unit.name} starts before {ahead[unit.leaf][1].name} in {unit.leaf}"
            yield Violation(Rule.BLOCK_ORDER, unit.id, text)


def _turn(unit: Unit) -> tuple[int, float, str, str]:
    return (-unit.priority, unit.enqueued_at, unit.name, unit.id)


def _sound(unit: Unit) -> bool:
    """Whether it is a gang at all; one that is not (no pods, amounts below zero) holds nobody up."""
    return unit.pods > 0 and all(
        0 <= component.replicas <= 1_000_000 and all(0 <= amount <= 1 << 62 for _, amount in component.requests.items_)
        for component in unit.components
    )


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
