"""Members modelled node by node, where an answer of the linked model did not pack.

The rows of rows.py allow too much where CPU or odd sizes are scattered over nodes: an answer may give a member more
gangs than its nodes take. A model of every node is exact, and far too slow for a large fleet. So the question is asked
again with nodes only of members where a gang found no place (of a small fleet with all: else the gang would only move
to the next member): a variable for each kind of pod and node, and a row for each node and resource. Where these are too
many, the coarse rows stay the only ones. Where a gang finds no place in a member that is modelled already, no more of
its kind may go there: packing is not as clever as the model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import replace

from fleet.placement.candidates.candidate import Candidate, service_order
from fleet.placement.packing.room import MemberRoom
from fleet.placement.packing.space import Part, Space, slots
from fleet.placement.problem import Lane, Problem, Row, Spread
from fleet.placement.reservation.profile import Profile

MOST_NODE_VARIABLES = 6_000
MOST_AT_ONCE = 1_000  # variables: a problem that has no more is modelled node by node everywhere as soon as anywhere
Pairs = Sequence[tuple[Candidate, str]]


def refined(
    problem: Problem, packed: Pairs, dropped: Pairs, precise: frozenset[str], profile: Profile
) -> tuple[Problem, frozenset[str]] | None:
    """The problem with the nodes of members where gangs were `dropped` beside the `packed` ones, and all members that
    it then models node by node; `precise` are modelled already. None without dropped gangs, or where the nodes are too
    many. `profile`: before anything is placed."""
    if not dropped:
        return None
    members = {member for _, member in dropped} - precise
    problem = _fewer(problem, packed, [pair for pair in _firsts(dropped) if pair[1] in precise])
    if members and not precise:
        everyone = frozenset(lane.member for lane in problem.lanes)
        everywhere = _modelled(problem, everyone, profile, min(MOST_AT_ONCE, MOST_NODE_VARIABLES))
        if everywhere is not None:
            return everywhere, everyone
    more = _modelled(problem, members, profile, MOST_NODE_VARIABLES)
    return None if more is None else (more, precise | members)


def askable(problem: Problem, profile: Profile) -> bool:
    """Whether all members of the problem together could be modelled node by node, should its answer not pack."""
    members = {lane.member for lane in problem.lanes}
    needs = {part.need for lane in problem.lanes for part in profile.space.shapes[lane.shape]}
    nodes = (sum(pool.counts.values()) for member in members for pool in profile.rooms[member].pools)
    return sum(nodes) * len(needs) <= MOST_NODE_VARIABLES


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
        if (key := (lane.shape, lane.eligibility, lane.member)) in kinds
        else lane
        for lane in problem.lanes
    )
    return replace(problem, lanes=tuple(lanes))


def _firsts(dropped: Pairs) -> list[tuple[Candidate, str]]:
    """The dropped gangs less those that a dropped gang ahead keeps back in a Block queue: their room is not known."""
    firsts: dict[str | None, tuple[int, int, float, str, str]] = {}
    for candidate, _ in dropped:
        if candidate.block:
            turn = service_order(candidate)
            firsts[candidate.unit.leaf] = min(turn, firsts.get(candidate.unit.leaf, turn))
    return [pair for pair in dropped if not pair[0].block or service_order(pair[0]) == firsts[pair[0].unit.leaf]]


def _nodes(
    member: str, room: MemberRoom, lanes: Sequence[Lane], space: Space, first: int
) -> tuple[list[Row], list[Spread]]:
    """Rows and spreads of one member. Pods alike are one kind, also of different gangs."""
    kinds: dict[tuple[tuple[tuple[int, int], ...], int], list[tuple[int, Part, int]]] = {}
    for index, lane in enumerate(lanes):
        if lane.member == member:
            for part in space.shapes[lane.shape]:
                if part.need:
                    kinds.setdefault((part.need, part.claim), []).append((index, part, lane.cap))
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
        Row(f"{member} node {node} {space.resources[resource]}", free, pods=tuple((v, a) for v, a, _ in terms))
        for (node, resource), terms in loads.items()
        if sum(a * cap for _, a, cap in terms) > (free := vectors[node][1][resource])
    ]
    return rows, spreads
