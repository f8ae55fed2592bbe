"""The steps that the searches of one decision take, counted and bounded.

Each search for a packing is bounded by itself. Users choose how many gangs need one, so all searches of a decision have
a bound together, and each kind of gang has a share of it. Steps are counted and not timed, so that the same question
ends at the same step on any machine. A gang whose kind has no steps left finds no room, which is safe: it waits.

This is the one value that all steps of a decision change. It has the bounds of packing, too: each step asks for
packings and layouts thousands of times, nearly all are asked for within another search that drops them, and answers are
kept and shared. So a bound that came back with each of them would be handed on by all code that packs. All other
searches return the bounds that ended them with their result, and `decide` joins them (`Certificate.bounds`).
"""

from __future__ import annotations

from collections.abc import Hashable

from fleet.core.model.bounds import BOUNDS


class Effort:
    """The steps so far, and the bounds that ended a search for a packing."""

    def __init__(self) -> None:
        self._bounds: set[str] = set()
        self._spent: dict[Hashable, int] = {}
        self._total = 0

    @property
    def bounds(self) -> frozenset[str]:
        """The names of the bounds that ended a search for a packing so far."""
        return frozenset(self._bounds)

    def note(self, *bounds: str) -> None:
        """Note bounds that ended a search for a packing."""
        self._bounds.update(bounds)

    def steps_left(self, kind: Hashable) -> int:
        """The steps that a search for gangs of this kind may take now; 0 where none are left."""
        return max(0, min(BOUNDS.gang_steps - self._spent.get(kind, 0), BOUNDS.search_steps - self._total))

    def spend(self, kind: Hashable, steps: int) -> None:
        """Count the steps of a search, and note a bound that they reach."""
        self._spent[kind] = self._spent.get(kind, 0) + steps
        self._total += steps
        if self._spent[kind] >= BOUNDS.gang_steps:
            self.note("gang_steps")
        if self._total >= BOUNDS.search_steps:
            self.note("search_steps")

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
