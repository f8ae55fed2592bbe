"""Changes that might start a waiting unit: each change, the snapshot after it, and one step less.

A change is data. It is small enough to be read out to a person, and whole enough to be tried: `applied` gives the
snapshot that there would be, so whether it helps is asked of `decide` and never guessed. Amounts move in steps that a
person would type (a whole CPU, a GiB, one of anything else).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from fleet.core.model.amounts import Amounts
from fleet.core.model.matching import member_bars, repelled_by
from fleet.core.model.member import TAINT_CORDON, TAINT_DRAIN, Member, Pool
from fleet.core.model.reason import human
from fleet.core.model.unit import AffinityGroup, Toleration, Unit
from fleet.core.quota.limits import COUNTS, Limit, LimitKind, limit_on
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Snapshot, SnapshotChanges
from fleet.values.times import instant

_LIFTS_MOST = 8  # taints and the like that one member may have to be cleared of


class ChangeKind(StrEnum):
    """The kind of a change, in order of the people who can do it: nobody, the user, an administrator."""

    WAIT = "Wait"
    RELEASE = "Release"
    REPLICAS = "FewerReplicas"
    PRIORITY = "HigherPriority"
    MEMBER = "AnotherMember"
    QUOTA = "MoreQuota"
    NODES = "MoreNodes"


class Lift(StrEnum):
    """An obstacle between a unit and a member that can be lifted."""

    AFFINITY = "cluster affinity"
    TAINT = "taint"
    FAILED = "failed there"
    NOT_READY = "not ready"
    CORDON = "cordoned"


@dataclass(frozen=True, slots=True)
class BackoffEnd:
    """Its back-off ends at the epoch second `until`."""

    until: float


@dataclass(frozen=True, slots=True)
class UnitRelease:
    """A person lets the unit go: `what` is "held" or "suspended"."""

    what: str


@dataclass(frozen=True, slots=True)
class FewerReplicas:
    """`replicas` of a component instead of `of`."""

    component: int  # index
    name: str
    replicas: int
    of: int


@dataclass(frozen=True, slots=True)
class HigherPriority:
    """`priority` instead of `of`."""

    priority: int
    of: int


@dataclass(frozen=True, slots=True)
class AnotherMember:
    """The unit may go to `member`, once all of `lifts` are lifted."""

    member: str
    lifts: tuple[Lift, ...]


@dataclass(frozen=True, slots=True)
class Raise:
    """`limit` goes up by `by`, to `to`. `scaled`: of a `min` where the tree promises more than there is: the part of it
    that holds before and after, the whole promise then, and the whole room."""

    limit: Limit
    by: int
    to: int
    scaled: tuple[int, int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class MoreQuota:
    """All of `raises`, together. `follows`: the other limits that must grow for the tree to add up as admission
    wants."""

    raises: tuple[Raise, ...]
    follows: tuple[Raise, ...] = ()


@dataclass(frozen=True, slots=True)
class MoreNodes:
    """`nodes` empty nodes more, like those of the member's pool number `pool`, each with `each`."""

    member: str
    pool: int
    nodes: int
    each: Amounts


Change = BackoffEnd | UnitRelease | FewerReplicas | HigherPriority | AnotherMember | MoreQuota | MoreNodes

KINDS: Mapping[type, ChangeKind] = {
    BackoffEnd: ChangeKind.WAIT,
    UnitRelease: ChangeKind.RELEASE,
    FewerReplicas: ChangeKind.REPLICAS,
    HigherPriority: ChangeKind.PRIORITY,
    AnotherMember: ChangeKind.MEMBER,
    MoreQuota: ChangeKind.QUOTA,
    MoreNodes: ChangeKind.NODES,
}


def step(resource: str) -> int:
    """The smallest amount by which a limit is changed, in base units."""
    if resource == "cpu":
        return 1000
    return 1 << 30 if resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-") else 1


def applied(snapshot: Snapshot, unit: str, change: Change, now: float) -> tuple[Snapshot, float]:
    """The snapshot after the change, and the time at which it is: later for a BackoffEnd only."""
    job = snapshot.units[unit]
    match change:
        case BackoffEnd():
            return snapshot, max(now, change.until)
        case UnitRelease():
            job = replace(job, suspended=False)
            if job.release_helps:
                job = replace(job, held=False, held_why="")
        case FewerReplicas():
            parts = list(job.components)
            parts[change.component] = replace(parts[change.component], replicas=change.replicas)
            job = replace(job, components=tuple(parts))
        case HigherPriority():
            job = replace(job, priority=change.priority)
        case AnotherMember():
            return _opened(snapshot, job, change), now
        case MoreQuota():
            tree = raised_tree(snapshot.tree, change) if snapshot.tree is not None else None
            return snapshot.apply(SnapshotChanges(tree=tree, new_tree=True)), now
        case MoreNodes():
            return snapshot.apply(SnapshotChanges(put_members=(_grown(snapshot.members[change.member], change),))), now
    return snapshot.apply(SnapshotChanges(put_units=(job,))), now


def less(change: Change, tree: QuotaTree | None = None) -> tuple[Change, ...]:
    """The change with one step less: one way for each amount in it. None where the change has no amount, and where a
    step less leaves things as they are."""
    match change:
        case FewerReplicas():
            return () if change.replicas + 1 >= change.of else (replace(change, replicas=change.replicas + 1),)
        case HigherPriority():
            return () if change.priority - 1 <= change.of else (replace(change, priority=change.priority - 1),)
        case MoreNodes():
            return () if change.nodes <= 1 else (replace(change, nodes=change.nodes - 1),)
        case MoreQuota() if tree is not None:
            changes: list[Change] = []
            for number, increase in enumerate(change.raises):
                by = increase.by - step(increase.limit.resource)
                rest = [replace(increase, by=by, to=increase.to - step(increase.limit.resource))] if by > 0 else []
                others = (*change.raises[:number], *rest, *change.raises[number + 1 :])
                if others:
                    changes.append(more_quota(tree, others))
            return tuple(changes)
        case _:
            return ()


def cost(change: Change, unit: Unit) -> float:
    """The size of a change, to put the smallest first: the amount that the change adds or gives up, as a share of the
    gang's own requests (of a resource, or of pods). The size is one half for each word of a policy that changes and for
    another priority, which take room from other units or from none. Waiting and letting go cost nothing."""
    match change:
        case BackoffEnd() | UnitRelease():
            return 0.0
        case HigherPriority():
            return 0.5
        case AnotherMember():
            return 0.5 * len(change.lifts)
        case FewerReplicas():
            return (change.of - change.replicas) / max(1, unit.pods)
        case MoreQuota():
            asked = unit.total
            names = ((increase.by, increase.limit.resource) for increase in change.raises)
            return sum(by / max(step(name), asked[name], 1) for by, name in names)
        case MoreNodes():
            devices = [name for name in unit.total if "/" in name] or list(unit.total)
            each = [change.each[name] * change.nodes / unit.total[name] for name in devices if unit.total[name] > 0]
            return max(each, default=float(change.nodes))


def text(change: Change) -> str:
    """One clause for people, such as "raise max of root/vision by 2 nvidia.com/gpu, to 10"."""
    match change:
        case BackoffEnd():
            return f"wait until {instant(change.until)}"
        case UnitRelease():
            return "release it" if change.what == "held" else "resume it"
        case FewerReplicas():
            return f"{change.replicas} instead of {change.of} replicas of {change.name}"
        case HigherPriority():
            return f"priority {change.priority} instead of {change.of}"
        case AnotherMember():
            return _member_text(change)
        case MoreQuota():
            clauses = [_raise_text(increase) for increase in change.raises]
            follows = [_raise_text(increase) for increase in change.follows]
            return " and ".join(clauses) + (f" (which takes: {'; '.join(follows)})" if follows else "")
        case MoreNodes():
            what = ", ".join(f"{human(n, name)} {name}" for name, n in change.each.items_ if name != "pods")
            return f"{change.nodes} more node{'s' if change.nodes != 1 else ''} of {what} in member {change.member}"


# Nobody is advised to tolerate these: who cordoned or drains the member does not want the job there.
OUT_OF_SERVICE = frozenset({TAINT_CORDON, TAINT_DRAIN, "node.kubernetes.io/unschedulable"})
_UNITS = {"cpu": "CPU"}
_OF_MEMBER = {Lift.NOT_READY: "ready again", Lift.CORDON: "uncordoned"}  # by itself, no word about the unit
_LIFTED = {
    Lift.AFFINITY: "add it to the policy's cluster affinity",
    Lift.TAINT: "tolerate its taint",
    Lift.FAILED: "although it failed there",
    Lift.NOT_READY: "when it is ready again",
    Lift.CORDON: "when it is uncordoned",
}


def _member_text(change: AnotherMember) -> str:
    if len(change.lifts) == 1 and change.lifts[0] in _OF_MEMBER:
        return f"member {change.member} {_OF_MEMBER[change.lifts[0]]}"
    return f"let it go to member {change.member}: {', '.join(_LIFTED[lift] for lift in change.lifts)}"


def _raise_text(increase: Raise) -> str:
    what, name = increase.limit.text, increase.limit.resource
    if name in COUNTS:
        return f"raise {what} by {increase.by} job{'s' if increase.by != 1 else ''}, to {increase.to}"
    said = f"raise {what} by {human(increase.by, name)} {_UNITS.get(name, name)}, to {human(increase.to, name)}"
    if increase.scaled is None:
        return said
    before, after, promised, there = (human(amount, name) for amount in increase.scaled)
    return f"{said} ({after} of which hold, {before} now: {promised} are promised in all, and {there} are there)"


def more_quota(tree: QuotaTree, raises: tuple[Raise, ...]) -> MoreQuota:
    """The raises, and their consequences: min is at most max, parents promise at least the sum of their children, and a
    root whose min is its max stays so."""
    after = tree
    for increase in raises:
        after = increase.limit.raised(after, increase.to)
    follows: list[Raise] = []

    def grow(limit: Limit, to: int) -> None:
        nonlocal after
        follows.append(Raise(limit, to - (limit.stated(after) or 0), to))
        after = limit.raised(after, to)

    for increase in raises:
        for path in tree.ancestors(increase.limit.node) if not increase.limit.user else ():
            node, resource = after.nodes[path], increase.limit.resource
            least, most = Limit(LimitKind.MIN, path, resource), limit_on(path, resource)
            below = sum(after.nodes[child].min.get(resource, 0) for child in node.children)
            if increase.limit.entry.firm and path != increase.limit.node and node.min.get(resource, 0) < below:
                grow(least, below)
            promised = after.nodes[path].min.get(resource, 0)
            if increase.limit.entry.firm and resource in node.max and node.max[resource] < promised:
                grow(most, promised)
            before = tree.nodes[path]
            if path == tree.root and resource in before.min and before.min[resource] == before.max.get(resource):
                top = after.nodes[path]
                to = max(top.min[resource], top.max[resource])
                for limit, amount in ((least, top.min[resource]), (most, top.max[resource])):
                    if amount < to:
                        grow(limit, to)
    return MoreQuota(raises, tuple(follows))


def raised_tree(tree: QuotaTree, change: MoreQuota) -> QuotaTree:
    """The tree after the change."""
    for increase in (*change.raises, *change.follows):
        tree = increase.limit.raised(tree, increase.to)
    return tree


def lifts_for(unit: Unit, member: Member) -> tuple[Lift, ...] | None:
    """The obstacles to lift for the unit to go there; () for nothing; None when no lifting helps, or the member is
    drained or otherwise out of service."""
    lifts: set[Lift] = set() if member.ready else {Lift.NOT_READY}
    if repelled_by((taint for taint in member.taints if taint.key == TAINT_CORDON), unit.tolerations) is not None:
        lifts.add(Lift.CORDON)
        member = _uncordoned(member)
    if repelled_by((taint for taint in member.taints if taint.key in OUT_OF_SERVICE), unit.tolerations) is not None:
        return None
    for _ in range(_LIFTS_MOST):
        bar = _bar(unit, member)
        if bar is None:
            return tuple(sorted(lifts)) if not member_bars(unit, member) else None
        lifts.add(bar)
        unit = _lifted(unit, member, bar)
    return None


def _uncordoned(member: Member) -> Member:
    return replace(member, taints=tuple(taint for taint in member.taints if taint.key != TAINT_CORDON))


def _bar(unit: Unit, member: Member) -> Lift | None:
    """The first obstacle that keeps the unit out and can be lifted."""
    if unit.affinity_groups and not any(member.name in group.members for group in unit.affinity_groups):
        return Lift.AFFINITY
    if repelled_by(member.taints, unit.tolerations) is not None:
        return Lift.TAINT
    return Lift.FAILED if member.name in unit.excluded else None


def _lifted(unit: Unit, member: Member, bar: Lift) -> Unit:
    match bar:
        case Lift.AFFINITY:
            name = f"and-{member.name}"
            return replace(unit, affinity_groups=(*unit.affinity_groups, AffinityGroup(name, frozenset({member.name}))))
        case Lift.TAINT:
            taint = repelled_by(member.taints, unit.tolerations)
            if taint is None:
                return unit
            tolerating = Toleration(taint.key, "Equal", taint.value, taint.effect)
            return replace(unit, tolerations=(*unit.tolerations, tolerating))
        case Lift.FAILED:
            return replace(unit, excluded=unit.excluded - {member.name})
        case Lift.NOT_READY | Lift.CORDON:  # of the member
            return unit


def _opened(snapshot: Snapshot, unit: Unit, change: AnotherMember) -> Snapshot:
    before = snapshot.members[change.member]
    member = _uncordoned(before) if Lift.CORDON in change.lifts else before
    for _ in range(_LIFTS_MOST):
        bar = _bar(unit, member)
        if bar is None or bar not in change.lifts:
            break
        unit = _lifted(unit, member, bar)
    if Lift.NOT_READY in change.lifts:
        member = replace(member, ready=True, not_ready_reason="")
    return snapshot.apply(SnapshotChanges(put_units=(unit,), put_members=() if member is before else (member,)))


def empty_node(pool: Pool) -> Amounts:
    """The room of an empty node of this pool, as far as the inventory shows."""
    return Amounts.of(pool.most)


def _grown(member: Member, change: MoreNodes) -> Member:
    pool = member.pools[change.pool]
    free = pool.counts
    free[change.each] = free.get(change.each, 0) + change.nodes
    grown = replace(pool, free=tuple(free.items()))
    return replace(member, pools=(*member.pools[: change.pool], grown, *member.pools[change.pool + 1 :]))
