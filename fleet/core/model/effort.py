"""The steps that the searches of one decision take, counted and bounded.

Each search for a packing is bounded by itself. Users choose how many gangs need one, so all searches of a decision have
a bound together, and each kind of gang has a share of it. Steps are counted and not timed, so that the same question
ends at the same step on any machine. A gang whose kind has no steps left finds no room, which is safe: it waits.
"""

from __future__ import annotations

from collections.abc import Hashable

from fleet.core.model.bounds import BOUNDS


class Effort:
    """The steps so far. `reached`: the names of the bounds that ended a search."""

    def __init__(self, reached: set[str] | None = None) -> None:
        self.reached: set[str] = set() if reached is None else reached
        self._spent: dict[Hashable, int] = {}
        self._total = 0

    def steps_left(self, kind: Hashable) -> int:
        """The steps that a search for gangs of this kind may take now; 0 where none are left."""
        return max(0, min(BOUNDS.gang_steps - self._spent.get(kind, 0), BOUNDS.search_steps - self._total))

    def spend(self, kind: Hashable, steps: int) -> None:
        """Count the steps of a search, and note a bound that they reach."""
        self._spent[kind] = self._spent.get(kind, 0) + steps
        self._total += steps
        if self._spent[kind] >= BOUNDS.gang_steps:
            self.reached.add("gang_steps")
        if self._total >= BOUNDS.search_steps:
            self.reached.add("search_steps")

    def costly(self) -> dict[Hashable, int]:
        """The kinds to decide without next time, with their steps: each that had no steps left; and where all steps
        together were used up, the costliest others, until the rest took at most half of them."""
        ranked = sorted(self._spent.items(), key=lambda item: -item[1])
        rest, costly = self._total, dict[Hashable, int]()
        for kind, steps in ranked:
            over = self._total >= BOUNDS.search_steps and 2 * rest > BOUNDS.search_steps
            if steps < BOUNDS.gang_steps and not over:
                break
            costly[kind] = steps
            rest -= steps
        return costly
