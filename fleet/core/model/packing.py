"""A way to put pods onto nodes, looked for where simple rules find none.

Largest pods first, fullest node first finds a packing of equal pods whenever there is any, and of pods whose sizes
divide each other. For other sizes the rule may miss a packing: nodes of 7 and 8 take pods of 5, 4, 3 and 3 only when
the five goes to the eight. A search then has to use nodes up. The nodes are taken one after another, and each gets a
set of pods beside which no other pod fits, first the sets that leave the least of a scarce resource. Where the rest
does not fit the nodes that are left, another set is tried. The search remembers each failure by the pods that were left
to place. Steps are counted, and past the bound there is no answer. Before that bound the nodes are taken in other
orders, since an order that goes wrong early goes wrong for long.

Planner and checker both ask here, so that both find the same packing. Neither need trust the answer, which adding up
verifies easily. The answer follows from the question alone: no time, no chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from fleet.core.model.bounds import BOUNDS

Vector = tuple[int, ...]
Counts = tuple[int, ...]  # pods of each kind


@dataclass(frozen=True, slots=True)
class PackingProposal:
    """`counts`: the number of pods of each kind on each node, or None: there is no packing, or the search found none
    within its bounds. `bounds`: the names of those that ended it."""

    counts: list[Counts] | None
    bounds: frozenset[str] = frozenset()


def packing(
    pods: Sequence[tuple[Vector, int]],
    nodes: Sequence[tuple[Vector, Sequence[bool]]],
    most_steps: int = BOUNDS.packing_steps,
) -> PackingProposal:
    """A packing, if one is found. `pods`: size of one and number, by kind; `nodes`: the free amounts, and the kinds
    that may come there."""
    sizes = {"packing_nodes": len(nodes), "packing_kinds": len(pods), "packing_pods": sum(count for _, count in pods)}
    above = frozenset(name for name, size in sizes.items() if size > getattr(BOUNDS, name))
    if above or not nodes:
        return PackingProposal(None, above)
    search = _Search(pods, nodes)
    orders: tuple[Callable[[int], Vector], ...] = (
        lambda node: nodes[node][0],
        lambda node: tuple(-free for free in nodes[node][0]),
        lambda node: tuple(nodes[node][0][resource] for resource in search.scarcest),
    )
    for order in orders:
        found = search.run(sorted(range(len(nodes)), key=order), most_steps // len(orders))
        if found is not None or not search.cut:
            return PackingProposal(found)
    return PackingProposal(None, frozenset({"packing_steps"}))


class _Search:
    """`scarcest`: the resources that are asked for, the scarcest first. `cut`: the last run did not try all ways."""

    def __init__(self, pods: Sequence[tuple[Vector, int]], nodes: Sequence[tuple[Vector, Sequence[bool]]]) -> None:
        width = len(nodes[0][0])
        need = [sum(size[resource] * count for size, count in pods) for resource in range(width)]
        have = [sum(max(0, free[resource]) for free, _ in nodes) for resource in range(width)]
        asked = (resource for resource in range(width) if need[resource] > 0)
        self.scarcest = sorted(asked, key=lambda resource: Fraction(have[resource], need[resource]))
        self.cut = False
        self._asked = len(pods)
        kinds = (kind for kind, (_, count) in enumerate(pods) if count > 0)
        self._kinds = sorted(kinds, key=lambda kind: pods[kind][0], reverse=True)
        self._wanted = tuple(pods[kind][1] for kind in self._kinds)
        sizes = ([pods[kind][0][resource] for resource in self.scarcest] for kind in self._kinds)
        self._sizes = [[(index, amount) for index, amount in enumerate(size) if amount > 0] for size in sizes]
        self._free = [[free[resource] for resource in self.scarcest] for free, _ in nodes]
        self._room = [
            [
                max(0, min((free[index] // amount for index, amount in size), default=count)) if takes[kind] else 0
                for kind, size, count in zip(self._kinds, self._sizes, self._wanted, strict=True)
            ]
            for free, (_, takes) in zip(self._free, nodes, strict=True)
        ]
        self._steps = 0
        self._most_steps = 0

    def run(self, turn: Sequence[int], most_steps: int) -> list[Counts] | None:
        """Try with the nodes in this order."""
        self._steps, self._most_steps, self.cut = 0, most_steps, False
        free = [[0] * len(self.scarcest)]  # on this node and all after it
        room = [[0] * len(self._kinds)]  # there, for pods of one kind alone
        for node in reversed(turn):
            free.append([had + max(0, more) for had, more in zip(free[-1], self._free[node], strict=True)])
            room.append([had + more for had, more in zip(room[-1], self._room[node], strict=True)])
        free.reverse()
        room.reverse()
        used: dict[int, Counts] = {}
        failed: set[tuple[int, Counts]] = set()

        def descend(at: int, counts: Counts) -> bool:
            if not any(counts):
                return True
            if (at, counts) in failed or any(count > fit for count, fit in zip(counts, room[at], strict=True)):
                return False
            if any(need > have for need, have in zip(self._need(counts), free[at], strict=True)):
                return False
            for chosen in self._sets(turn[at], counts):
                if self._steps > most_steps:
                    self.cut = True
                    return False
                self._steps += 1
                if descend(at + 1, tuple([count - gone for count, gone in zip(counts, chosen, strict=True)])):
                    used[turn[at]] = chosen
                    return True
            failed.add((at, counts))
            return False

        if not descend(0, self._wanted):
            return None
        answer = [[0] * self._asked for _ in turn]
        for node, chosen in used.items():
            for kind, count in zip(self._kinds, chosen, strict=True):
                answer[node][kind] = count
        return [tuple(counts) for counts in answer]

    def _need(self, counts: Counts) -> list[int]:
        need = [0] * len(self.scarcest)
        for count, size in zip(counts, self._sizes, strict=True):
            for index, amount in size:
                need[index] += amount * count
        return need

    def _sets(self, node: int, pods: Counts) -> list[Counts]:
        """Sets of the pods left beside which no other pod fits the node; the set that leaves least comes first."""
        free, room = list(self._free[node]), self._room[node]
        able = [(kind, self._sizes[kind], count) for kind, count in enumerate(pods) if count and room[kind]]
        chosen = [0] * len(pods)
        sets: list[tuple[list[int], Counts]] = []

        def choose(index: int) -> None:
            self._steps += 1
            if index == len(able):
                others = (size for kind, size, count in able if chosen[kind] < count)
                if not any(all(free[i] >= amount for i, amount in size) for size in others):
                    sets.append((list(free), tuple(chosen)))
                return
            kind, size, most = able[index]
            for i, amount in size:
                most = min(most, free[i] // amount)
            least = most if index == len(able) - 1 else 0
            for count in range(most, least - 1, -1):
                if len(sets) >= BOUNDS.node_sets or self._steps > self._most_steps:
                    self.cut = True
                    break
                for i, amount in size:
                    free[i] -= amount * count
                chosen[kind] = count
                choose(index + 1)
                for i, amount in size:
                    free[i] += amount * count
            chosen[kind] = 0

        choose(0)
        sets.sort(key=lambda item: item[0])
        return [counts for _, counts in sets]
