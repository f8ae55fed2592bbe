"""The tiers of work, which fleet/core/quota/tiers.py finds."""

from __future__ import annotations

from enum import IntEnum


class Tier(IntEnum):
    """The smaller tier is served first. Work outside quota has no promise and does not borrow, so it is SHARE."""

    GUARANTEED = 0
    SHARE = 1
    CROSSING = 2
    BORROWED = 3

    @property
    def word(self) -> str:
        """Its name in the numbers of a stored reason, and in REST."""
        return self.name.capitalize()

    @classmethod
    def of_word(cls, word: object) -> Tier | None:
        """The tier with this word; None for anything else."""
        return next((tier for tier in cls if tier.word == word), None)
