"""The smallest change that would start a waiting unit: for each kind of change, the least of it that is enough.

Nothing here reasons about quota, order or room. A change is made to the snapshot, the snapshot is decided, and the unit
starts or does not. So every input of a decision counts, at the price of some dozens of decisions. These are greedy: the
solver's are slower, and the amounts would depend on its luck. The search halves the distance between an amount that
does not start the unit and an amount that does. The answer always starts the unit and one step less does not, also
where a larger amount once hurts. The numbers of reasons (short by so much) are only where the search begins.

The controllers decide with a solver, which may give the room to others. So each change that was found is tried once
more, with the solver; a change that fails there, or that was not tried for lack of time, starts the unit only likely.

A search is bounded by the decisions it may ask for, in all and for each kind, and by `enough`, which a caller with a
deadline answers. Kinds that were not finished within that are named, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

from fleet.core.decide import decide
from fleet.core.foresee.answer import NoChangeCause, StartAnswer
from fleet.core.foresee.certain import is_certain, preempted, starts
from fleet.core.foresee.change import (
    KINDS,
    AnotherMember,
    BackoffEnd,
    Change,
    ChangeKind,
    FewerReplicas,
    HigherPriority,
    Lift,
    MoreNodes,
    MoreQuota,
    Raise,
    UnitRelease,
    applied,
    cost,
    less,
    lifts_for,
    more_quota,
    step,
)
from fleet.core.foresee.more_nodes import least, pools_that_help
from fleet.core.foresee.more_quota import explained, limits_passed, missing, promised, raise_for, with_steps
from fleet.core.model.member import Member
from fleet.core.model.plan import Plan
from fleet.core.model.reason import OF_QUOTA, Code, Reason
from fleet.core.model.unit import MOST_PRIORITY, Component, Phase
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import Shape, Space
from fleet.core.placement.problem import Solver
from fleet.core.quota.limits import LIMITS, Limit, LimitEntry
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Snapshot

DECISIONS = 80
_OF_A_KIND = 24  # decisions
_ROUNDS = 8
_ROUNDS_MORE = 4
_MEMBERS = 6  # tried, of the members that the unit is kept from
_POOLS = 6
_COMPONENTS = 4
_NODES_MOST = 4096


def _of_limit(entry: LimitEntry) -> tuple[ChangeKind, ...]:
    """The changes that may help where such a limit refuses. Fewer pods are one job all the same; and `min` promises no
    more than the nodes that there are."""
    replicas = () if entry.counts else (ChangeKind.REPLICAS,)
    return (ChangeKind.QUOTA, *replicas, ChangeKind.PRIORITY, *((ChangeKind.NODES,) if entry.firm else ()))


_ASKED: Mapping[Code, tuple[ChangeKind, ...]] = {
    Code.HELD: (ChangeKind.RELEASE,),
    Code.SUSPENDED: (ChangeKind.RELEASE,),
    Code.BACK_OFF: (ChangeKind.WAIT,),
    **{entry.code: _of_limit(entry) for entry in LIMITS.values() if entry.stated is not None},
    Code.TOO_LARGE: (ChangeKind.REPLICAS, ChangeKind.MEMBER, ChangeKind.NODES),
    Code.LARGER_THAN_ANY_NODE: (ChangeKind.MEMBER, ChangeKind.NODES),
    Code.NO_NODE_MATCHES: (ChangeKind.MEMBER, ChangeKind.NODES),
    Code.UNKNOWN_RESOURCE: (ChangeKind.MEMBER, ChangeKind.NODES),
    Code.NO_MEMBER_ALLOWED: (ChangeKind.MEMBER,),
    Code.MEMBER_NOT_READY: (ChangeKind.MEMBER,),
    Code.NO_MEMBER_FITS: (
        ChangeKind.REPLICAS,
        ChangeKind.PRIORITY,
        ChangeKind.MEMBER,
        ChangeKind.QUOTA,
        ChangeKind.NODES,
    ),
    Code.LOST_TO_OTHERS: (
        ChangeKind.REPLICAS,
        ChangeKind.PRIORITY,
        ChangeKind.MEMBER,
        ChangeKind.QUOTA,
        ChangeKind.NODES,
    ),
    Code.COLLECTS: (ChangeKind.REPLICAS, ChangeKind.PRIORITY, ChangeKind.MEMBER, ChangeKind.QUOTA, ChangeKind.NODES),
    Code.BEHIND_HEAD: (ChangeKind.REPLICAS, ChangeKind.PRIORITY, ChangeKind.MEMBER, ChangeKind.QUOTA, ChangeKind.NODES),
    Code.BEHIND_IN_QUEUE: (
        ChangeKind.PRIORITY,
        ChangeKind.QUOTA,
        ChangeKind.REPLICAS,
        ChangeKind.MEMBER,
        ChangeKind.NODES,
    ),
    Code.NOT_ITS_TURN: (),  # whose turn it is stands in no snapshot: a search would find that nothing helps
    Code.AFTER: (),
    Code.NEVER_AFTER: (),
    Code.BAD_UNIT: (),
    Code.NO_LEAF: (),
    Code.NO_MEMBERS: (),
    Code.ROOM_CLAIMED: (),
    Code.PODS_LEAVE: (),
    Code.ADMISSION_CHECKS: (),
}
_EVERY = (ChangeKind.REPLICAS, ChangeKind.PRIORITY, ChangeKind.MEMBER, ChangeKind.QUOTA, ChangeKind.NODES)


def smallest(
    snapshot: Snapshot,
    unit: str,
    *,
    now: float,
    seed: int = 0,
    decisions: int = DECISIONS,
    plan: Plan | None = None,
    enough: Callable[[], bool] = lambda: False,
    solver: Solver | None = None,
) -> StartAnswer:
    """For the waiting unit with this id. `plan`: the greedy plan of the snapshot, if the caller has it. `solver` tells
    the certain starts from the likely ones; without it, only a start that depends on no solver is certain. Raises
    KeyError for a unit that is not in the snapshot or does not wait, and BadSnapshot as `decide` does."""
    if snapshot.units[unit].phase is not Phase.WAITING:
        raise KeyError(unit)
    search = _Search(snapshot, unit, now, seed, decisions, enough)
    answer = search.run(plan)
    certain = search.certain((None,) if answer.starts else answer.changes, solver)
    return replace(answer, certain=certain, decisions=search.decisions)


_Raises = dict[Limit, Raise]


class _SpentBudget(Exception):
    """No more decisions may be asked for."""


class _Search:
    def __init__(
        self, snapshot: Snapshot, unit: str, now: float, seed: int, decisions: int, enough: Callable[[], bool]
    ) -> None:
        self.snapshot = snapshot
        self.unit = snapshot.units[unit]
        self.now = now
        self.seed = seed
        self.enough = enough
        self.decisions = 0
        self.most = decisions
        self.until = decisions
        self.reason: Reason | None = None
        self.then: Reason | None = None
        self.reasons: dict[Change, Reason | None] = {}
        self.preempts: dict[Change, int] = {}
        self.met: dict[Change | None, Reason | None] = {}  # the obstacle after a change: see `_in_the_way`

    def run(self, plan: Plan | None) -> StartAnswer:
        if plan is None:
            plan = decide(self.snapshot, now=self.now, seed=self.seed, solver=None)
            self.decisions = 1
        self.reason = plan.reasons.get(self.unit.id)
        self.met[None] = self._in_the_way(plan)
        if self.reason is None or starts(plan, self.unit.id):
            return StartAnswer(True, self.reason, decisions=self.decisions)
        searches = {
            ChangeKind.WAIT: self.wait,
            ChangeKind.RELEASE: self.release,
            ChangeKind.QUOTA: self.quota,
            ChangeKind.REPLICAS: self.replicas,
            ChangeKind.PRIORITY: self.priority,
            ChangeKind.MEMBER: self.member,
            ChangeKind.NODES: self.nodes,
        }
        changes: list[Change] = []
        without: list[tuple[ChangeKind, NoChangeCause]] = []
        for kind in _ASKED.get(self.reason.code, _EVERY):
            self.until = min(self.most, self.decisions + _OF_A_KIND)
            try:
                change = searches[kind]()
            except _SpentBudget:
                without.append((kind, NoChangeCause.SPENT))
                continue
            if change is None:
                without.append((kind, NoChangeCause.NONE))
            else:
                changes.append(change)
        order = list(ChangeKind)
        changes.sort(key=lambda change: (cost(change, self.unit), order.index(KINDS[type(change)])))
        preempts = {change: self.preempts[change] for change in changes if self.preempts.get(change)}
        return StartAnswer(
            False, self.reason, tuple(changes), tuple(without), self.then, self.decisions, preempts=preempts
        )

    def certain(self, changes: Iterable[Change | None], solver: Solver | None) -> frozenset[Change | None]:
        """The changes after which the solver's plan starts the unit, as far as decisions and time allow to try them."""
        solutions: set[Change | None] = set()
        for change in changes:
            if self.decisions >= self.most or self.enough():
                break
            self.decisions += 1
            world, now = self.snapshot, self.now
            if change is not None:
                world, now = applied(world, self.unit.id, change, now)
            if is_certain(world, self.unit.id, now=now, seed=self.seed, solver=solver):
                solutions.add(change)
        return frozenset(solutions)

    def reason_after(self, change: Change) -> Reason | None:
        """The reason of the unit after the change; None: it starts. Raises _SpentBudget."""
        if change not in self.reasons:
            if self.decisions >= self.until or self.enough():
                raise _SpentBudget
            self.decisions += 1
            world, now = applied(self.snapshot, self.unit.id, change, self.now)
            plan = decide(world, now=now, seed=self.seed, solver=None)
            self.reasons[change] = None if starts(plan, self.unit.id) else plan.reasons[self.unit.id]
            self.preempts[change] = preempted(plan, self.unit.id)
            self.met[change] = self._in_the_way(plan)
        return self.reasons[change]

    def _in_the_way(self, plan: Plan) -> Reason | None:
        """The reason of the unit, or, where it waits for the first of its queue, the reason of that unit."""
        reason = plan.reasons.get(self.unit.id)
        if reason is not None and reason.code is Code.BEHIND_IN_QUEUE:
            first, units = reason.numbers.get("head"), self.snapshot.units
            ahead = (key for key, unit in units.items() if unit.leaf == self.unit.leaf and unit.name == first)
            return next((plan.reasons[key] for key in ahead if key in plan.reasons), reason)
        return reason

    def works(self, change: Change) -> bool:
        return self.reason_after(change) is None

    def _least(self, no: int, yes: int, of: Callable[[int], Change], hints: Iterable[int]) -> int:
        return least(no, yes, lambda number: self.works(of(number)), hints)

    def wait(self) -> Change | None:
        return self._let_go(BackoffEnd(self.unit.backoff_until or self.now))

    def release(self) -> Change | None:
        if not (self.unit.suspended or self.unit.release_helps):
            return None
        return self._let_go(UnitRelease("suspended" if self.unit.suspended else "held"))

    def _let_go(self, change: Change) -> Change | None:
        self.then = self.reason_after(change)
        return change if self.then is None else None

    def replicas(self) -> Change | None:
        """The change that gives up the fewest pods: of each component as many as may stay."""
        parts = sorted(enumerate(self.unit.components), key=lambda part: (-part[1].replicas, part[0]))
        short = self.reason.numbers.get("short") if self.reason and self.reason.code not in OF_QUOTA else None
        best: FewerReplicas | None = None
        for number, part in [(n, p) for n, p in parts if p.replicas > 1][:_COMPONENTS]:
            given_up = partial(_without_pods, number, part)
            most = part.replicas - 1 if best is None else min(part.replicas, best.of - best.replicas) - 1
            if most < 1 or not self.works(given_up(most)):
                continue
            hints = [short, short - 1] if isinstance(short, int) else []
            best = given_up(self._least(0, most, given_up, hints))
        return best

    def priority(self) -> Change | None:
        """Only where another's priority is reached or passed can the order change."""
        priority = self.unit.priority
        others = {unit.priority for unit in self.snapshot.units.values()}
        if self.snapshot.tree is not None:
            others |= {node.threshold for node in self.snapshot.tree.nodes.values()}
        steps = sorted({at for other in others for at in (other, other + 1) if priority < at <= MOST_PRIORITY})
        if not steps or not self.works(HigherPriority(steps[-1], priority)):
            return None
        number = self._least(-1, len(steps) - 1, lambda number: HigherPriority(steps[number], priority), [])
        return self._tight(HigherPriority(steps[number], priority))

    def member(self) -> Change | None:
        """The member that takes the fewest words to change, of those that may have room: first members that have it,
        then members that could grow, then members where work could be told to leave."""
        space = Space.of([self.unit])
        shape = space.shape_of(self.unit)
        options: list[tuple[int, int, int, str, tuple[Lift, ...]]] = []
        for name in sorted(self.snapshot.members):
            at = self.snapshot.members[name]
            lifts = lifts_for(self.unit, at)
            if lifts:
                far = self._how_far(at, shape, space)
                if far is not None:
                    options.append((far, len(lifts), at.price, name, lifts))
        options.sort()
        for _, _, _, name, lifts in options[:_MEMBERS]:
            change = AnotherMember(name, lifts)
            if self.works(change):
                return change
        if len(options) > _MEMBERS:
            raise _SpentBudget
        return None

    def _how_far(self, at: Member, shape: Shape, space: Space) -> int | None:
        """Whether a member has room for the unit (0), once it has grown (1), or once work has left (2)."""
        room = MemberRoom.of(at, space)
        if room.fit(shape, space.devices) is not None:
            return 0
        if room.fit(shape, space.devices, potential=True) is not None:
            return 1
        empty = MemberRoom.emptied(at, space) if self.snapshot.config.reclaim else None
        return 2 if empty is not None and empty.fit(shape, space.devices) is not None else None

    def quota(self) -> Change | None:
        tree, leaf = self.snapshot.tree, self.unit.leaf
        if tree is None or leaf is None or not tree.is_leaf(leaf):
            return None
        behind = self.reason is not None and self.reason.code is Code.BEHIND_IN_QUEUE
        limits = limits_passed(self.snapshot, self.unit, tree, leaf, behind=behind)
        promises = promised(self.snapshot, self.unit, tree, leaf)
        more = promised(self.snapshot, self.unit, tree, leaf, every=True, behind=behind)
        more = more if set(more) != set(promises) else ()
        met = _Raises()
        enough = self._met(tree, met, self.met[None], _ROUNDS)
        for raises in (limits, promises, more) if enough is None else ():
            enough = self._all(tree, raises)
            if enough is None and raises and raises is not limits:
                also = met | _by_limit(raises)
                start = more_quota(tree, tuple(also.values()))
                enough = start if self.works(start) else self._met(tree, also, self.met[start], _ROUNDS_MORE)
            if enough is not None:
                break
        for raises in (promises, more) if enough is None and limits else ():
            enough = enough or self._all(tree, (*limits, *raises) if raises else ())
        if enough is None:
            return None
        tight = self._tight(self._lowered(tree, enough))
        if not isinstance(tight, MoreQuota):
            return tight
        told = explained(self.snapshot, tree, tight)
        self.preempts[told] = self.preempts[tight]
        return told

    def _all(self, tree: QuotaTree, raises: tuple[Raise, ...]) -> MoreQuota | None:
        """All of these, if they are enough."""
        change = more_quota(tree, raises) if raises else None
        return change if change is not None and self.works(change) else None

    def _met(self, tree: QuotaTree, raises: _Raises, reason: Reason | None, rounds: int) -> MoreQuota | None:
        """On top of `raises`, raise each limit that is an obstacle by its shortage, until none is an obstacle."""
        for _ in range(rounds):
            if reason is None or reason.code not in OF_QUOTA:
                return None
            more = raise_for(self.snapshot, tree, reason, raises)
            if more is None:
                return None
            raises[more.limit] = more
            change = more_quota(tree, tuple(raises.values()))
            if self.reason_after(change) is None:
                return change
            reason = self.met[change]
        return None

    def _lowered(self, tree: QuotaTree, change: MoreQuota) -> MoreQuota:
        """Each raise as small as the others let it be, from the root down; needless raises fall away."""
        for increase in sorted(change.raises, key=_from_the_root):
            size = step(increase.limit.resource)
            without = with_steps(tree, change, increase, 0) if len(change.raises) > 1 else None
            if without is not None and self.works(without):
                change = without
                continue
            most = increase.by // size
            lowered = partial(with_steps, tree, change, increase)
            asked = -(-self.unit.total[increase.limit.resource] // size)
            short = missing(increase, self.met[without])
            hints = [most - 1, *((short, short - 1) if short else ()), asked, asked - 1]
            change = lowered(self._least(0, most, lowered, hints))
        return change

    def _tight(self, change: Change) -> Change:
        """The change, or a smaller one: as long as one step less is enough, too, a step is taken off."""
        for _ in range(_ROUNDS):
            smaller = next((c for c in less(change, self.snapshot.tree) if self.works(c)), None)
            if smaller is None:
                return change
            change = smaller
        raise _SpentBudget

    def nodes(self) -> Change | None:
        """Of the pools that may take the unit, the one that needs the fewest nodes more."""
        best: MoreNodes | None = None
        for least_of_all, change in pools_that_help(self.snapshot, self.unit, _POOLS):
            if best is not None:
                change = replace(change, nodes=best.nodes - 1)
                if change.nodes < least_of_all or not self.works(change):
                    continue
                most = change.nodes
            else:
                most = next(
                    (n for n in (least_of_all, self._nodes_for_all()) if self.works(replace(change, nodes=n))), 0
                )
                if not most:
                    continue
            of = partial(MoreNodes, change.member, change.pool, each=change.each)
            best = of(self._least(0, most, of, [least_of_all, least_of_all - 1]))
        return best

    def _nodes_for_all(self) -> int:
        """The number of pods that wait: with so many nodes each has one."""
        pods = sum(unit.pods for unit in self.snapshot.units.values() if unit.phase is Phase.WAITING)
        return min(_NODES_MOST, pods)


def _by_limit(raises: Iterable[Raise]) -> _Raises:
    return {increase.limit: increase for increase in raises}


def _from_the_root(increase: Raise) -> tuple[int, str, str]:
    return (increase.limit.node.count("/"), increase.limit.node, increase.limit.resource)


def _without_pods(number: int, part: Component, pods: int) -> FewerReplicas:
    return FewerReplicas(number, part.name, part.replicas - pods, part.replicas)


__all__ = ["DECISIONS", "least", "smallest"]
