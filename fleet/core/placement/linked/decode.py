"""An answer of the linked model as units and members again; single nodes in the model where an answer did not pack.

The oldest units of each class start, in the members that the answer counts. Where rows allowed too much, the order of
packing decides which units find no place. A search for the best order would take too long, so decoding tries a few.
Gangs are packed one after another, each onto the fullest nodes that take it, and a placed gang stays where it is. Where
gangs find no place, a bounded search looks for a packing of all gangs of the member, or else of one more after another,
in service order. Members with reservations are not packed anew: a reservation answers for one gang at a time.

The rows of rows.py allow too much where CPU or odd sizes are scattered over nodes. A model of every node is exact, and
far too slow for a large fleet. So the question is asked again with the nodes of members where a gang found no place: a
variable for each kind of pod and node, and a row for each node and resource. Of a small fleet the question has all
nodes, else the gang would only move to the next member. Where the variables are too many, the coarse rows stay the only
ones. Where a gang finds no place in a member that is modelled already, no more of its kind may go there: the packing
finds less than the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from fleet.core.model.bounds import BOUNDS
from fleet.core.model.order import queue_order
from fleet.core.model.plan import Answer
from fleet.core.placement.candidates.candidate import Candidate, Group, service_order
from fleet.core.placement.greedy.greedy import Band, band_of, weight
from fleet.core.placement.greedy.situation import Pairs
from fleet.core.placement.linked.model import LinkedProblem
from fleet.core.placement.packing.layout import packed_anew
from fleet.core.placement.packing.room import MemberRoom
from fleet.core.placement.packing.space import GangPart, Space, slots
from fleet.core.placement.problem import GangKind, Lane, LimitRow, Problem, Spread
from fleet.core.placement.reservation.profile import Profile


def sound(problem: Problem, answer: Answer) -> bool:
    """Whether an answer belongs to a problem: whether its lengths are right, and no class starts more than it has."""
    if len(answer.admitted) != len(problem.classes) or len(answer.placed) != len(problem.lanes):
        return False
    return all(0 <= n <= c.count for n, c in zip(answer.admitted, problem.classes, strict=True)) and all(
        n >= 0 for n in answer.placed
    )


@dataclass(frozen=True, slots=True)
class AnswerPacking:
    """The units and members of an answer: those `packed` into the profile, and those that find no place in the member
    that the answer means for them. `bounds`: those that ended the search for a better packing."""

    profile: Profile
    packed: Pairs
    dropped: Pairs
    bounds: frozenset[str] = frozenset()


def decode(
    linked: LinkedProblem, answer: Answer, groups: Sequence[Group], fresh: Callable[[], Profile]
) -> AnswerPacking:
    """Units and members for the counts of an answer, packed onto a `fresh()` profile.

    The oldest units of a class start. The largest gangs are packed first, or the most important band. The next
    try begins with the gangs without a place, so that no gang of a better tier stays out for one of a worse. A gang
    that never packs, or breaks a limit, stays out, and with it all units behind it in a Block queue."""
    pairs = _named(linked, answer, fresh())
    packing = best = _packed(pairs, groups, fresh)
    bounds = packing.bounds
    if packing.dropped and len(pairs) <= BOUNDS.packed_again:
        other = _packed(sorted(pairs, key=lambda pair: band_of(pair[0])), groups, fresh)
        bounds |= other.bounds
        best = min(packing, other, key=lambda tried: _lost(tried, linked.bands))
    hurry: dict[str, int] = {}
    turns = min(BOUNDS.packings, BOUNDS.packed_again // max(1, len(pairs)))
    for turn in range(1, 1 + turns):
        if not packing.dropped:
            return replace(packing, bounds=bounds)
        blocked = {candidate.unit.leaf for candidate, _ in packing.dropped if candidate.block}
        late = {candidate.unit.id for candidate, _ in packing.dropped}
        late |= {candidate.unit.id for candidate, _ in pairs if candidate.block and candidate.unit.leaf in blocked}
        hurry.update(dict.fromkeys(late, turn))
        packing = _packed(sorted(pairs, key=lambda pair: -hurry.get(pair[0].unit.id, 0)), groups, fresh)
        bounds |= packing.bounds
        best = min(best, packing, key=lambda tried: _lost(tried, linked.bands))
    if best.dropped:
        bounds |= {"packings" if turns == BOUNDS.packings else "packed_again"}
    return replace(best, bounds=bounds)


def _lost(packing: AnswerPacking, bands: Iterable[Band]) -> tuple[int, ...]:
    """The devices of the pods that find no place, by band."""
    space = packing.profile.space
    lost: Counter[Band] = Counter()
    for candidate, _ in packing.dropped:
        lost[band_of(candidate)] += weight(space.shapes[candidate.shape], 0, space)
    return tuple(lost[band] for band in bands)


def _packed(pairs: Pairs, groups: Sequence[Group], fresh: Callable[[], Profile]) -> AnswerPacking:
    """One try, in the order of `pairs`, but heads first, since the start of a head ends its reservation. A unit that
    stays out because a unit ahead of it in its queue has no room counts as a unit without room."""
    skip: set[str] = set()
    short: set[str] = set()  # units that had no room in some round, and the units behind them
    heads = {span.holder.unit.id for span in fresh().spans}
    pairs = sorted(pairs, key=lambda pair: pair[0].unit.id not in heads) if heads else pairs
    for _ in range(BOUNDS.decodes):
        profile = fresh()
        packed: Pairs = []
        dropped: Pairs = []
        for candidate, member in pairs:
            bound = profile.bound(candidate)
            if candidate.unit.id in skip or not profile.admits(candidate, bound):
                if candidate.unit.id in short:
                    dropped.append((candidate, member))
                continue
            fit = profile.fit(candidate.shape, member, bound)
            if fit is None:
                dropped.append((candidate, member))
            else:
                profile.start(candidate, member, fit)
                packed.append((candidate, member))
        early = out_of_order(groups, packed)
        if not early:
            return AnswerPacking(profile, packed, dropped)
        skip |= early
        if dropped:
            short.update(early, (candidate.unit.id for candidate, _ in dropped))
    return AnswerPacking(fresh(), [], pairs, frozenset({"decodes"}))


def _named(linked: LinkedProblem, answer: Answer, profile: Profile) -> Pairs:
    """The counts as units and members, in the order to pack them."""
    admitted: dict[GangKind, list[Candidate]] = {}
    for cls, units, count in zip(linked.problem.classes, linked.units, answer.admitted, strict=True):
        if count:
            admitted.setdefault(cls.kind, []).extend(units.oldest(count))
    homes: dict[GangKind, list[tuple[int, str, int]]] = {}
    for lane, count in zip(linked.problem.lanes, answer.placed, strict=True):
        if count:
            homes.setdefault(lane.kind, []).append((lane.cost, lane.member, count))
    pairs: Pairs = []
    for kind, group in admitted.items():
        group.sort(key=service_order)
        names = [member for _, member, count in sorted(homes.get(kind, [])) for _ in range(min(count, len(group)))]
        pairs += zip(group, names, strict=False)
    space = profile.space
    pairs.sort(key=lambda pair: service_order(pair[0]))
    pairs.sort(key=lambda pair: tuple(space.size(part.need) for part in space.shapes[pair[0].shape]), reverse=True)
    return pairs


def out_of_order(groups: Iterable[Group], placed: Pairs) -> set[str]:
    """The units of Block queues that are placed although a unit ahead of them is not."""
    started = {candidate.unit.id for candidate, _ in placed}
    stops: dict[str, tuple[int, float, str, str]] = {}
    for group in groups:
        if group.block and group.leaf is not None:
            index = group.next(0, len(group.units), started)
            if index < len(group.units):
                first = queue_order(group.units[index])
                stops[group.leaf] = min(first, stops.get(group.leaf, first))
    return {c.unit.id for c, _ in placed if c.unit.leaf in stops and queue_order(c.unit) > stops[c.unit.leaf]}


def repacked(packing: AnswerPacking, free: Mapping[str, MemberRoom], groups: Sequence[Group]) -> AnswerPacking:
    """The packing after members are packed anew; with the same gangs where no more of them found a place. `free`: the
    rooms before the packing."""
    profile, packed, dropped = packing.profile, packing.packed, packing.dropped
    after = profile.copy()
    tries, bounds = BOUNDS.members_anew, packing.bounds
    pairs: Pairs = []
    for member in sorted({member for _, member in dropped} - {span.member for span in profile.spans}):
        present = [candidate for candidate, where in packed if where == member]
        out = sorted((candidate for candidate, where in dropped if where == member), key=service_order)
        for some in ([out] if len(out) > 1 else []) + [[candidate] for candidate in out]:
            if tries == 0:
                bounds |= {"members_anew"}
                break
            tries -= 1
            shapes = [profile.space.shapes[candidate.shape] for candidate in (*present, *some)]
            room = packed_anew(free[member], shapes, profile.space)
            if room is None:
                continue
            new = _admitted(after, some, member, room)
            present += new
            pairs += ((candidate, member) for candidate in new)
            if len(new) == len(out):
                break
    placed = {candidate.unit.id for candidate, _ in pairs}
    if not pairs or out_of_order(groups, [*packed, *pairs]):
        return replace(packing, bounds=bounds)
    dropped = [pair for pair in dropped if pair[0].unit.id not in placed]
    return AnswerPacking(after, [*packed, *pairs], dropped, bounds)


def _admitted(profile: Profile, some: Sequence[Candidate], member: str, room: MemberRoom) -> list[Candidate]:
    """Start the gangs of `some` for which quota still has room."""
    new: list[Candidate] = []
    for candidate in some:
        if profile.admits(candidate, profile.bound(candidate)):
            profile.start_anew(candidate, member, room)
            new.append(candidate)
    return new


def refined(
    problem: Problem, packed: Pairs, dropped: Pairs, precise: frozenset[str], profile: Profile
) -> tuple[Problem, frozenset[str]] | None:
    """The problem with the nodes of members where gangs were `dropped` beside the `packed` ones, and all members that
    have rows for their nodes then; `precise` have them already. None without dropped gangs, or where the nodes are too
    many. `profile`: before anything is placed."""
    if not dropped:
        return None
    members = {member for _, member in dropped} - precise
    problem = _fewer(problem, packed, [pair for pair in _firsts(dropped) if pair[1] in precise])
    if members and not precise:
        everyone = frozenset(lane.member for lane in problem.lanes)
        everywhere = _modelled(problem, everyone, profile, min(BOUNDS.small_node_variables, BOUNDS.node_variables))
        if everywhere is not None:
            return everywhere, everyone
    more = _modelled(problem, members, profile, BOUNDS.node_variables)
    return None if more is None else (more, precise | members)


def askable(problem: Problem, profile: Profile) -> bool:
    """Whether all members of the problem together could be modelled node by node, should its answer not pack."""
    members = {lane.member for lane in problem.lanes}
    needs = {part.need for lane in problem.lanes for part in profile.space.shapes[lane.kind.shape]}
    nodes = (sum(pool.counts.values()) for member in members for pool in profile.rooms[member].pools)
    return sum(nodes) * len(needs) <= BOUNDS.node_variables


def _modelled(problem: Problem, members: Set[str], profile: Profile, most: int) -> Problem | None:
    """The problem with these members modelled node by node; None when it has more than `most` variables for nodes."""
    variables = sum(len(spread.variables) for spread in problem.spreads)
    first = 1 + max((number for spread in problem.spreads for number in spread.variables), default=-1)
    rooms, spreads = list(problem.rooms), list(problem.spreads)
    for member in sorted(members):
        rows, more = _nodes(member, profile.rooms[member], problem.lanes, profile.space, first)
        count = sum(len(spread.variables) for spread in more)
        variables, first = variables + count, first + count
        if variables > most:
            return None
        rooms += rows
        spreads += more
    return replace(problem, rooms=tuple(rooms), spreads=tuple(spreads), nodes=True)


def _fewer(problem: Problem, packed: Pairs, dropped: Pairs) -> Problem:
    """The problem in which a member whose nodes are modelled takes no more gangs of a `dropped` kind than it packed."""
    kinds = {(candidate.shape, candidate.eligibility.number, member) for candidate, member in dropped}
    if not kinds:
        return problem
    have = Counter((candidate.shape, candidate.eligibility.number, member) for candidate, member in packed)
    lanes = (
        replace(lane, cap=min(lane.cap, have[key]))
        if (key := (lane.kind.shape, lane.kind.eligibility, lane.member)) in kinds
        else lane
        for lane in problem.lanes
    )
    return replace(problem, lanes=tuple(lanes))


def _firsts(dropped: Pairs) -> list[tuple[Candidate, str]]:
    """The dropped gangs, of a Block queue only the first: the room of the gangs behind it is not known."""
    firsts: dict[str | None, tuple[int, int, float, str, str]] = {}
    for candidate, _ in dropped:
        if candidate.block:
            turn = service_order(candidate)
            firsts[candidate.unit.leaf] = min(turn, firsts.get(candidate.unit.leaf, turn))
    return [pair for pair in dropped if not pair[0].block or service_order(pair[0]) == firsts[pair[0].unit.leaf]]


def _nodes(
    member: str, room: MemberRoom, lanes: Sequence[Lane], space: Space, first: int
) -> tuple[list[LimitRow], list[Spread]]:
    """Rows and spreads of one member. Pods alike are one kind, also of different gangs."""
    kinds: dict[tuple[tuple[tuple[int, int], ...], int], list[tuple[int, GangPart, int]]] = {}
    for index, lane in enumerate(lanes):
        if lane.member == member:
            for part in space.shapes[lane.kind.shape]:
                if part.need:
                    kinds.setdefault((part.need, part.node_claim), []).append((index, part, lane.cap))
    vectors = [
        (pool.takes, vector)
        for pool in room.pools
        if not pool.potential
        for vector in sorted(pool.counts)
        for _ in range(pool.counts[vector])
    ]
    loads: dict[tuple[int, int], list[tuple[int, int, int]]] = {}  # node, resource -> (variable, amount, its cap)
    spreads: list[Spread] = []
    for (need, claim), users in sorted(kinds.items()):
        most = sum(part.replicas * cap for _, part, cap in users)
        numbers: list[int] = []
        for node, (takes, vector) in enumerate(vectors):
            fit = min(most, slots(vector, need)) if takes[claim] else 0
            if fit > 0:
                numbers.append(first)
                for resource, amount in need:
                    loads.setdefault((node, resource), []).append((first, amount, most))
                first += 1
        spreads.append(Spread(tuple((index, part.replicas) for index, part, _ in users), tuple(numbers), most))
    rows = [
        LimitRow(f"{member} node {node} {space.resources[resource]}", free, pods=tuple((v, a) for v, a, _ in terms))
        for (node, resource), terms in loads.items()
        if sum(a * cap for _, a, cap in terms) > (free := vectors[node][1][resource])
    ]
    return rows, spreads
