"""The exact packing of one gang whose parts differ: asked for where largest-first has failed.

Equal pods need no search: filling nodes one after another finds room whenever there is any. Filling may fail for pods
of two sizes: with 6 and 8 free, pods of 5, 3, 3, 3 fit when the five goes to the eight, and not when it goes to the
six. Here nodes are taken one after another, fullest first. A table has, for each number of pods placed of every part
but the most numerous, the largest number of pods of that part that can be placed beside them. The table is exact, since
the room on later nodes does not depend on the use of earlier ones. The size of the table is bounded, and past the bound
the search gives up and says so.

Planner and checker both ask here; the checker adds the answer up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fleet.core.model.bounds import BOUNDS

Vector = tuple[int, ...]
Need = tuple[tuple[int, int], ...]  # the request of one pod, as (index of resource, amount)
UNBOUNDED = 1 << 40  # slots for a pod that asks for nothing


class RefineOutcome(StrEnum):
    PACKED = "Packed"
    IMPOSSIBLE = "Impossible"  # there is no packing
    GAVE_UP = "GaveUp"  # the bound was reached first


@dataclass(frozen=True, slots=True)
class Home:
    """`nodes` nodes alike. `takes`: which parts of the gang may use them."""

    vector: Vector
    nodes: int
    takes: tuple[bool, ...]


@dataclass(frozen=True, slots=True)
class RefinedPacking:
    """`uses`: (index of home, pods of each part) for every node that is used; empty unless packed. `effort`: the steps
    that were taken, those among the ways to use one node included."""

    outcome: RefineOutcome
    uses: tuple[tuple[int, tuple[int, ...]], ...] = ()
    effort: int = 0


def slots(vector: Vector, need: Need) -> int:
    """How many pods with this need one node with this free vector takes."""
    fit = UNBOUNDED
    for index, amount in need:
        count = vector[index] // amount
        if count < fit:
            fit = count
    return fit if fit > 0 else 0


State = tuple[int, ...]  # pods placed of every part but the last
_Step = tuple[State, State, int]  # the state before; this node's pods of the parts in it, and of the last one


def refine(
    parts: Sequence[tuple[Need, int]],
    homes: Sequence[Home],
    most_steps: int = BOUNDS.refining_steps,
    most_effort: int = BOUNDS.gang_steps,
) -> RefinedPacking:
    """Whether all pods of `parts`, (need, replicas) each, fit `homes`, which are tried in their order. `most_effort`:
    of the steps as `RefinedPacking` counts them."""
    order = sorted(range(len(parts)), key=lambda index: (parts[index][1], index))
    needs = [parts[index][0] for index in order]
    counts = [parts[index][1] for index in order]
    room = [
        [slots(home.vector, need) if home.takes[index] else 0 for index, need in zip(order, needs, strict=True)]
        for home in homes
    ]
    ahead = [[0] * len(parts)]  # pods of each part alone that this home and all after it take
    for home, each in zip(reversed(homes), reversed(room), strict=True):
        ahead.append([had + more * home.nodes for had, more in zip(ahead[-1], each, strict=True)])
    ahead.reverse()
    if any(have < want for have, want in zip(ahead[0], counts, strict=True)):
        return RefinedPacking(RefineOutcome.IMPOSSIBLE)
    goal, pods = tuple(counts[:-1]), sum(counts)
    reached: dict[State, int] = {(0,) * len(goal): 0}
    layers: list[tuple[int, dict[State, _Step]]] = []
    steps = effort = 0
    for number, home in enumerate(homes):
        patterns, tried = _patterns(home.vector, needs, room[number], counts, most_effort - effort)
        effort += tried
        if patterns is None:
            return RefinedPacking(RefineOutcome.GAVE_UP, effort=effort)
        if len(patterns) == 1 and not any(patterns[0][0]) and not patterns[0][1]:
            continue
        for used in range(1, min(home.nodes, pods) + 1):
            steps += len(reached) * len(patterns)
            effort += len(reached) * len(patterns)
            if steps > most_steps or effort > most_effort:
                return RefinedPacking(RefineOutcome.GAVE_UP, effort=effort)
            rest = [
                more + each * (home.nodes - used) for more, each in zip(ahead[number + 1], room[number], strict=True)
            ]
            better: dict[State, int] = {}
            layer: dict[State, _Step] = {}
            for state, count in reached.items():
                for took, last in patterns:
                    after = tuple(a + b for a, b in zip(state, took, strict=True))
                    total = min(counts[-1], count + last)
                    if (
                        total <= better.get(after, -1)
                        or total + rest[-1] < counts[-1]
                        or any(
                            not want - more <= has <= want for has, want, more in zip(after, counts, rest, strict=False)
                        )
                    ):
                        continue
                    better[after] = total
                    layer[after] = (state, took, total - count)
            if better == reached:
                break  # another node of this kind changes nothing
            reached = better
            layers.append((number, layer))
            if reached.get(goal) == counts[-1]:
                return RefinedPacking(RefineOutcome.PACKED, _uses(layers, goal, order), effort)
            if not reached:
                return RefinedPacking(RefineOutcome.IMPOSSIBLE, effort=effort)
    return RefinedPacking(RefineOutcome.IMPOSSIBLE, effort=effort)


def _patterns(
    vector: Vector, needs: Sequence[Need], room: Sequence[int], counts: Sequence[int], most: int
) -> tuple[list[tuple[State, int]] | None, int]:
    """The ways to use one node, and the steps that it took to list them: pods of every part but the last, and the most
    of the last beside them. None: there are too many, or it takes more than `most` steps."""
    patterns: list[tuple[State, int]] = []
    open_: list[tuple[State, Vector]] = [((), vector)]
    steps = 0
    while open_:
        took, vacant = open_.pop()
        steps += 1
        if steps > most:
            return None, steps
        part = len(took)
        if part == len(needs) - 1:
            patterns.append((took, min(counts[part], slots(vacant, needs[part])) if room[part] else 0))
            if len(patterns) > BOUNDS.patterns:
                return None, steps
            continue
        for pods in range(min(room[part], counts[part], slots(vacant, needs[part])) + 1):
            rest = list(vacant)
            for index, amount in needs[part]:
                rest[index] -= amount * pods
            open_.append(((*took, pods), tuple(rest)))
    return patterns, steps


def _uses(
    layers: Sequence[tuple[int, dict[State, _Step]]], goal: State, order: Sequence[int]
) -> tuple[tuple[int, tuple[int, ...]], ...]:
    uses: list[tuple[int, tuple[int, ...]]] = []
    state = goal
    for number, layer in reversed(layers):
        state, took, last = layer[state]
        if any(took) or last:
            pods = [0] * len(order)
            for index, count in zip(order, (*took, last), strict=True):
                pods[index] = count
            uses.append((number, tuple(pods)))
    return tuple(reversed(uses))
