"""What several rules of the checker ask about units: whether one may start, its place in its queue, its pods."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from fleet.check.packer import Gang
from fleet.model.matching import member_bars
from fleet.model.order import queue_order
from fleet.model.unit import Phase, Unit
from fleet.quota.tree import stops
from fleet.snapshot import Snapshot


def may_start(snapshot: Snapshot, unit: Unit, now: float, *, though_it_backs_off: bool = False) -> bool:
    """Whether a unit waits, and nothing about itself keeps it from starting."""
    if unit.phase is not Phase.WAITING or unit.held:
        return False
    sound = unit.pods > 0 and all(
        0 <= part.replicas <= 1_000_000 and all(0 <= amount <= 1 << 62 for _, amount in part.requests.items_)
        for part in unit.components
    )
    leaf = unit.leaf is None or (snapshot.tree is not None and snapshot.tree.is_leaf(unit.leaf))
    backs_off = not though_it_backs_off and unit.backoff_until is not None and unit.backoff_until > now
    return sound and leaf and not backs_off


def may_go(snapshot: Snapshot, unit: Unit, name: str) -> bool:
    """Whether a member is ready, and neither it nor the unit's policy forbids the unit to go there."""
    member = snapshot.members.get(name)
    return member is not None and member.ready and not member_bars(unit, member)


def stops_leaf(snapshot: Snapshot, unit: Unit) -> bool:
    """Whether no unit behind it in its queue starts before it."""
    node = snapshot.tree.nodes.get(unit.leaf) if snapshot.tree is not None and unit.leaf is not None else None
    return node is not None and stops(node, unit)


def in_the_way(
    snapshot: Snapshot, leaves: Container[str | None], passed: Container[str], now: float
) -> dict[str, Unit]:
    """By leaf, of `leaves`: the first unit of a strict queue that stops it, may start and is not among `passed`."""
    if snapshot.tree is None:
        return {}
    strict = {path for path, node in snapshot.tree.nodes.items() if node.policy in ("Block", "Intelligent")}
    found: dict[str, Unit] = {}
    for alike in waiting_alike(snapshot) if strict else ():
        leaf, first = alike[0].leaf, alike[0]
        if leaf is None or leaf not in strict or leaf not in leaves:
            continue
        if not stops_leaf(snapshot, first) or not may_start(snapshot, first, now):
            continue
        ahead = next((unit for unit in alike if unit.id not in passed), None)
        if ahead is not None:
            found[leaf] = min(ahead, found.get(leaf, ahead), key=queue_order)
    return found


def waits_behind(unit: Unit, ahead: Mapping[str, Unit]) -> bool:
    """Whether one of `ahead`, by leaf, comes before a unit in its queue."""
    return unit.leaf is not None and unit.leaf in ahead and queue_order(unit) > queue_order(ahead[unit.leaf])


def waiting_alike(snapshot: Snapshot) -> Iterable[Sequence[Unit]]:
    """The waiting units of a snapshot; each sequence has those that differ in nothing but their turn, in its order."""
    yield from (lot.units for lot in snapshot.backlog.lots.values())
    yield from ((unit,) for unit in snapshot.backlog.odd.values())


def resources_of(snapshot: Snapshot) -> set[str]:
    """All resources that any unit asks for."""
    kinds = [alike[0] for alike in waiting_alike(snapshot)]
    kinds += [held.unit for held in snapshot.backlog.held.values()]
    return {name for unit in kinds for part in unit.components for name, _ in part.requests.items_}


def gang_of(unit: Unit, *, hidden: bool = False) -> Gang:
    """A unit's pods; `hidden`: only those that the inventory does not show yet."""
    seen = dict(unit.visible) if hidden else {}
    parts = ((max(0, c.replicas - max(0, seen.get(c.name, 0))), c.requests, c.claim) for c in unit.components)
    return Gang(unit.id, tuple(parts), unit.topology)


def gangs_in(snapshot: Snapshot, where: Mapping[str, str]) -> dict[str, list[Gang]]:
    """By member, the gangs of units that each have one in `where`."""
    found: dict[str, list[Gang]] = {}
    for key, member in where.items():
        found.setdefault(member, []).append(gang_of(snapshot.units[key]))
    return found


def coming(snapshot: Snapshot, members: Container[str | None], leaving: Container[str] = ()) -> dict[str, list[Gang]]:
    """By member, of `members`: pods on their way there, but those of units that are `leaving`."""
    found: dict[str, list[Gang]] = {}
    for unit in snapshot.backlog.unseen.values():
        if unit.member is not None and unit.member in members and unit.id not in leaving:
            found.setdefault(unit.member, []).append(gang_of(unit, hidden=True))
    return found
