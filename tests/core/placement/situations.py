"""The situation of a world, as a decision prepares it."""

from __future__ import annotations

from fleet.core.placement.greedy.situation import Situation, sort, with_claims, with_heads
from fleet.core.snapshot import Snapshot
from tests.builders import NOW


def situation_of(world: Snapshot, now: float = NOW) -> Situation:
    return with_heads(with_claims(sort(world, now)))
