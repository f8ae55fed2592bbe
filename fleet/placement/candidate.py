"""A waiting unit as the planner sees it, and the order in which units and candidates are served."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.model.amounts import Amounts
from fleet.model.unit import Unit
from fleet.placement.eligibility import Eligibility
from fleet.quota.tiers import Tier


@dataclass(slots=True, eq=False)
class Candidate:
    """A waiting unit that may start now, as far as it alone can tell."""

    unit: Unit
    shape: int
    eligibility: Eligibility
    request: Amounts
    block: bool  # its queue starts strictly in order
    tier: Tier = Tier.SHARE

    @property
    def leaf(self) -> str | None:
        return self.unit.leaf

    @property
    def units(self) -> tuple[Unit]:
        return (self.unit,)


def order(unit: Unit) -> tuple[int, float, str, str]:
    """The order in which units are served."""
    return (-unit.priority, unit.enqueued_at, unit.name, unit.id)


def standing(candidate: Candidate) -> tuple[int, int, float, str, str]:
    """The order in which candidates are served: what they may count on first."""
    return (candidate.tier, *order(candidate.unit))
