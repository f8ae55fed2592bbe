"""Edits of a fleet, as values: acts of an administrator or a user, tried on a snapshot instead of on the fleet.

A drained member takes nothing new and gives up what it has: its jobs wait again, with their place in the queue. A lost
member is silent: its jobs may still run, so they stay where they are and keep their quota, until the member is back or
an administrator gives it up. Only jobs whose policy says so (`failover.cluster`) start elsewhere meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from fleet.core.foresee.nodes import ForwardNodes
from fleet.core.model.member import TAINT_CORDON, TAINT_DRAIN, Member, Pool, Taint
from fleet.core.model.unit import LEAST_PRIORITY, MOST_PRIORITY, Phase, Unit
from fleet.core.placement.explain.closest import nearest_resource
from fleet.core.quota.tree import QuotaNode, QuotaTree
from fleet.core.snapshot import MOST_NODES, Snapshot, SnapshotChanges

DRAINED = "it is drained"
LOST = "it does not answer"
AMOUNT_MOST = 2**63 - 1
REPLICAS_MOST = 100_000
_ALIKE = 0.7  # vision is meant for root/vision


class BadEdit(ValueError):
    """The edit does not fit the snapshot, or any snapshot; the text gives the cause. `field`: the field of the edit
    that is wrong, "" for the whole; `index`: the number of the edit, where there are several."""

    def __init__(self, text: str, field: str = "") -> None:
        super().__init__(text)
        self.field = field
        self.index = 0


@dataclass(frozen=True, slots=True)
class AddMember:
    """One more member. A member of that name must not be there yet."""

    member: Member


@dataclass(frozen=True, slots=True)
class CordonMember:
    """No new job starts in a member; or new ones do again, and its drain has ended."""

    member: str
    cordoned: bool = True


@dataclass(frozen=True, slots=True)
class DrainMember:
    """Nothing new comes to a member, and its jobs wait again."""

    member: str


@dataclass(frozen=True, slots=True)
class LoseMember:
    """`failover`: ids of the member's units that start elsewhere all the same; None: all."""

    member: str
    failover: frozenset[str] | None = frozenset()


@dataclass(frozen=True, slots=True)
class Scale:
    """`by` empty nodes more in pool number `pool` of a member; below zero: so many of its empty nodes fewer."""

    member: str
    pool: int
    by: int


@dataclass(frozen=True, slots=True)
class SetLimit:
    """`limit` "min" or "max" of a resource at a quota node, in base units; None: as if it were not set. A root whose
    min is its max, as a hub demands it, keeps it so: the edit sets both."""

    node: str
    limit: str
    resource: str
    amount: int | None


@dataclass(frozen=True, slots=True)
class ReplaceTree:
    """Another quota tree; None: no quota at all."""

    tree: QuotaTree | None


@dataclass(frozen=True, slots=True)
class Submit:
    """One more waiting unit."""

    unit: Unit


@dataclass(frozen=True, slots=True)
class Remove:
    """The unit is deleted, wherever it is."""

    unit: str


@dataclass(frozen=True, slots=True)
class Hold:
    """A waiting unit is held, or let go."""

    unit: str
    held: bool = True


@dataclass(frozen=True, slots=True)
class Prioritize:
    """Another priority for a waiting unit."""

    unit: str
    priority: int


@dataclass(frozen=True, slots=True)
class MoveTo:
    """A waiting unit goes to another leaf."""

    unit: str
    leaf: str


@dataclass(frozen=True, slots=True)
class Resize:
    """So many replicas of a component of a waiting unit, which keeps its place. `component`: its name."""

    unit: str
    component: str
    replicas: int


Edit = (
    AddMember
    | CordonMember
    | DrainMember
    | LoseMember
    | Scale
    | SetLimit
    | ReplaceTree
    | Submit
    | Remove
    | Hold
    | Prioritize
    | MoveTo
    | Resize
)


def edited(snapshot: Snapshot, edits: Iterable[Edit]) -> Snapshot:
    """The snapshot after the edits, one after the other. Raises BadEdit."""
    for index, edit in enumerate(edits):
        try:
            snapshot = snapshot.apply(_changes(snapshot, edit))
        except BadEdit as error:
            error.index = index
            raise
    return snapshot


def _changes(snapshot: Snapshot, edit: Edit) -> SnapshotChanges:
    match edit:
        case AddMember():
            return _added(snapshot, edit.member)
        case CordonMember() | DrainMember():
            return _out_of_service(snapshot, edit)
        case LoseMember():
            return _lost(snapshot, edit)
        case Scale():
            return _rescaled(snapshot, edit)
        case SetLimit():
            _known(snapshot, edit.resource)
            return SnapshotChanges(tree=_limited(_tree(snapshot, "node"), edit), new_tree=True)
        case ReplaceTree():
            _sound(edit.tree)
            return SnapshotChanges(tree=edit.tree, new_tree=True)
        case Submit():
            return _submitted(snapshot, edit.unit)
        case Remove():
            return _removed(snapshot, _unit(snapshot, edit.unit))
        case Hold():
            unit = _waiting(snapshot, edit.unit)
            held = edit.held or (unit.held and not unit.release_helps)
            return SnapshotChanges(put_units=(replace(unit, held=held, suspended=False),))
        case Prioritize():
            return _prioritized(snapshot, edit)
        case MoveTo():
            return SnapshotChanges(put_units=(_moved(snapshot, edit),))
        case Resize():
            return SnapshotChanges(put_units=(_resized(_waiting(snapshot, edit.unit), edit),))


def _added(snapshot: Snapshot, member: Member) -> SnapshotChanges:
    if member.name in snapshot.members:
        raise BadEdit(f"member {member.name} is there already", "member.name")
    if not member.name:
        raise BadEdit("a member needs a name", "member.name")
    return SnapshotChanges(put_members=(member,))


def _out_of_service(snapshot: Snapshot, edit: CordonMember | DrainMember) -> SnapshotChanges:
    member = _member(snapshot, edit.member)
    if isinstance(edit, CordonMember):
        return SnapshotChanges(put_members=(_cordoned(member, edit.cordoned),))
    return _left(member, DRAINED, _placed_in(snapshot, edit.member))


def _cordoned(member: Member, cordoned: bool) -> Member:
    """As `fleet cordon` and `fleet uncordon` leave it."""
    open_to_jobs = tuple(taint for taint in member.taints if taint.key not in (TAINT_CORDON, TAINT_DRAIN))
    if not cordoned:
        return replace(member, taints=open_to_jobs)
    there = any(taint.key == TAINT_CORDON for taint in member.taints)
    return member if there else replace(member, taints=(*member.taints, Taint(TAINT_CORDON)))


def _left(member: Member, why: str, units: Iterable[Unit]) -> SnapshotChanges:
    """The changes after which the member takes nothing, and the units wait again."""
    waiting = tuple(_waiting_again(unit) for unit in units)
    return SnapshotChanges(put_units=waiting, put_members=(replace(member, ready=False, not_ready_reason=why),))


def _lost(snapshot: Snapshot, edit: LoseMember) -> SnapshotChanges:
    member = _member(snapshot, edit.member)
    for key in sorted(edit.failover or ()):
        _unit(snapshot, key, "failover")
    placed = _placed_in(snapshot, edit.member)
    return _left(member, LOST, (unit for unit in placed if edit.failover is None or unit.id in edit.failover))


def _rescaled(snapshot: Snapshot, edit: Scale) -> SnapshotChanges:
    member = _member(snapshot, edit.member)
    scaled = _scaled(member, edit)
    left = _without_room(snapshot, scaled) - _without_room(snapshot, member) if edit.by < 0 else set()
    if left:
        raise BadEdit(f"member {edit.member} needs these nodes for {', '.join(sorted(left)[:3])}", "by")
    return SnapshotChanges(put_members=(scaled,))


def _submitted(snapshot: Snapshot, unit: Unit) -> SnapshotChanges:
    if unit.id in snapshot.units:
        raise BadEdit(f"job {unit.name} is there already", "unit.id")
    if not unit.id:
        raise BadEdit("a job needs an id", "unit.id")
    if unit.phase is not Phase.WAITING:
        raise BadEdit("only what waits can be submitted", "unit.phase")
    return SnapshotChanges(put_units=(unit,))


def _member(snapshot: Snapshot, name: str) -> Member:
    if name not in snapshot.members:
        raise BadEdit(
            f"there is no member {name}; there are: {', '.join(sorted(snapshot.members)) or 'none'}", "member"
        )
    return snapshot.members[name]


def _unit(snapshot: Snapshot, key: str, field: str = "unit") -> Unit:
    if key not in snapshot.units:
        raise BadEdit(f"there is no job {key}", field)
    return snapshot.units[key]


def _waiting(snapshot: Snapshot, key: str) -> Unit:
    unit = _unit(snapshot, key)
    if unit.phase is not Phase.WAITING:
        raise BadEdit(f"job {unit.name} does not wait: it {unit.standing}", "unit")
    return unit


def _placed_in(snapshot: Snapshot, member: str) -> list[Unit]:
    return [unit for unit in snapshot.units.values() if unit.member == member and unit.phase is Phase.PLACED]


def _prioritized(snapshot: Snapshot, edit: Prioritize) -> SnapshotChanges:
    if not LEAST_PRIORITY <= edit.priority <= MOST_PRIORITY:
        raise BadEdit(f"is not between {LEAST_PRIORITY} and {MOST_PRIORITY}", "priority")
    return SnapshotChanges(put_units=(replace(_waiting(snapshot, edit.unit), priority=edit.priority),))


def _moved(snapshot: Snapshot, edit: MoveTo) -> Unit:
    # Which queues there are below is not told: the asker may not see them.
    if _node(_tree(snapshot, "leaf"), edit.leaf, "leaf").children:
        raise BadEdit(f"{edit.leaf} is no leaf of the quota tree: jobs wait in leaves alone", "leaf")
    return replace(_waiting(snapshot, edit.unit), leaf=edit.leaf)


def _removed(snapshot: Snapshot, unit: Unit) -> SnapshotChanges:
    """The changes after which the unit is gone, and the room of its pods on nodes that are known is free. The units
    beside them see that room."""
    member = snapshot.members.get(unit.member or "")
    if member is None:
        return SnapshotChanges(removed_units=(unit.id,))
    nodes = ForwardNodes(member, [other for other in snapshot.units.values() if other.member == member.name])
    nodes.release(unit)
    beside = [snapshot.units[key] for key in sorted(nodes.changed - {unit.id}) if key in snapshot.units]
    moved = tuple(replace(other, seats=nodes.seats(other.id)) for other in beside)
    return SnapshotChanges(removed_units=(unit.id,), put_units=moved, put_members=(nodes.member,))


def _resized(unit: Unit, edit: Resize) -> Unit:
    names = [part.name for part in unit.components]
    if edit.component not in names:
        raise BadEdit(f"job {unit.name} has no {edit.component}; it has: {', '.join(names) or 'no pods'}", "component")
    if not 1 <= edit.replicas <= REPLICAS_MOST:
        raise BadEdit(f"is not between 1 and {REPLICAS_MOST}", "replicas")
    parts = list(unit.components)
    number = names.index(edit.component)
    parts[number] = replace(parts[number], replicas=edit.replicas)
    return replace(unit, components=tuple(parts))


def _waiting_again(unit: Unit) -> Unit:
    """The unit as after an eviction: it waits with its first time of enqueueing."""
    return replace(
        unit,
        phase=Phase.WAITING,
        member=None,
        placed_at=None,
        share_until=None,
        visible=(),
        seats=(),
        claim=None,
        attempts=unit.attempts + 1,
    )


def _scaled(member: Member, edit: Scale) -> Member:
    if not 0 <= edit.pool < len(member.pools):
        raise BadEdit(f"member {member.name} has no pool {edit.pool}; it has {len(member.pools)}, from 0", "pool")
    pool = member.pools[edit.pool]
    empty = pool.allocatable
    if not empty.items_:
        raise BadEdit(f"of pool {edit.pool} of member {member.name} it is not known what an empty node has", "pool")
    free = pool.counts
    spare = free.get(empty, 0)
    if spare + edit.by < 0:
        raise BadEdit(f"pool {edit.pool} of member {member.name} has {spare} empty nodes, not {-edit.by}", "by")
    if edit.by > MOST_NODES:
        raise BadEdit(f"a member has at most {MOST_NODES} nodes", "by")
    free[empty] = spare + edit.by
    scaled: Pool = replace(pool, free=tuple((vector, nodes) for vector, nodes in free.items() if nodes > 0))
    return replace(member, pools=(*member.pools[: edit.pool], scaled, *member.pools[edit.pool + 1 :]))


def _without_room(snapshot: Snapshot, member: Member) -> set[str]:
    """Jobs placed in the member whose pods are not seen there yet and would find no nodes, by name."""
    units = _placed_in(snapshot, member.name)
    nodes = ForwardNodes(member, units)
    return {unit.name for unit in sorted(units, key=lambda unit: unit.id) if not nodes.seat(unit)}


def _sound(tree: QuotaTree | None) -> None:
    for path, node in tree.nodes.items() if tree is not None else ():
        for limit, amounts in (("min", node.min), ("max", node.max)):
            wrong = [name for name, amount in amounts.items() if not 0 <= amount <= AMOUNT_MOST]
            if wrong:
                raise BadEdit(f"{limit} of {wrong[0]} at {path} is not between 0 and {AMOUNT_MOST}", "tree")


def _known(snapshot: Snapshot, resource: str) -> None:
    """Refuse a resource that no node has, no limit names and no unit asks for, where another has nearly its name."""
    names = {name for member in snapshot.members.values() for pool in member.pools for name in pool.most}
    for node in snapshot.tree.nodes.values() if snapshot.tree is not None else ():
        names |= {*node.min, *node.max}
    meant = nearest_resource(resource, names) if resource not in names else ""
    if meant and not any(part.requests[resource] for unit in snapshot.units.values() for part in unit.components):
        raise BadEdit(f"nothing in the fleet has or asks for {resource}; did you mean {meant}?", "resource")


def _tree(snapshot: Snapshot, field: str) -> QuotaTree:
    if snapshot.tree is None:
        raise BadEdit("there is no quota tree", field)
    return snapshot.tree


def _node(tree: QuotaTree, path: str, field: str) -> QuotaNode:
    if path not in tree.nodes:
        near = get_close_matches(path, tree.nodes, n=1, cutoff=_ALIKE)
        others = f"did you mean {near[0]}?" if near else f"it has: {', '.join(sorted(tree.nodes)[:20])}"
        raise BadEdit(f"the quota tree has no node {path}; {others}", field)
    return tree.nodes[path]


def _with(amounts: Mapping[str, int], edit: SetLimit) -> dict[str, int]:
    others = {name: amount for name, amount in amounts.items() if name != edit.resource}
    return others if edit.amount is None else {**others, edit.resource: edit.amount}


def _limited(tree: QuotaTree, edit: SetLimit) -> QuotaTree:
    node = _node(tree, edit.node, "node")
    if edit.limit not in ("min", "max"):
        raise BadEdit(f"{edit.limit} is neither min nor max", "limit")
    if not edit.resource:
        raise BadEdit("a limit needs a resource", "resource")
    if edit.amount is not None and not 0 <= edit.amount <= AMOUNT_MOST:
        raise BadEdit(f"{edit.limit} must not be {'negative' if edit.amount < 0 else f'above {AMOUNT_MOST}'}", "amount")
    both = node.parent is None and node.min == node.max and bool(node.min)
    least = _with(node.min, edit) if both or edit.limit == "min" else node.min
    most = _with(node.max, edit) if both or edit.limit == "max" else node.max
    after = replace(node, min=least, max=most)
    limit = after.max.get(edit.resource)
    if limit is not None and after.min.get(edit.resource, 0) > limit:
        raise BadEdit(f"min of {edit.resource} at {edit.node} would be above its max", "amount")
    return QuotaTree(tree.root, {**tree.nodes, edit.node: after})
