"""The domain that a decision has chosen for pods of a rule."""

from __future__ import annotations

from dataclasses import dataclass

from fleet.core.model.rule import PlacementRule


@dataclass(frozen=True, slots=True)
class ChosenDomain:
    """So many parts of a rule stand in this domain: the path of a place tree, which starts with a slash, or the value
    of a node label."""

    rule: PlacementRule
    domain: str
    parts: int = 1
