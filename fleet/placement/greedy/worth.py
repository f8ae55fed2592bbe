"""What an outcome is worth: by tier and priority, the size of what starts, more if it has waited long."""

from __future__ import annotations

from bisect import bisect_right

from fleet.model.unit import Unit
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.greedy.settle import Outcome
from fleet.placement.greedy.situation import Situation
from fleet.placement.packing.space import Shape, Space

AGES_S = (600.0, 3600.0, 6 * 3600.0)  # age buckets: a gang's weight grows when it has waited this long
_MOST_DEVICES = 1024
Band = tuple[int, int]  # tier, minus priority: smaller is served first


def band_of(candidate: Candidate) -> Band:
    return (int(candidate.tier), -candidate.unit.priority)


def age_bucket(unit: Unit, now: float) -> int:
    """How many of the thresholds it has waited past; a clock that went backwards makes it young."""
    return bisect_right(AGES_S, now - unit.enqueued_at)


def weight(shape: Shape, age: int, space: Space) -> int:
    """The value of starting a gang, within its band: its devices, more if it has waited long. What one pod asks
    for by the thousand (GPU memory in bytes, shares of a core) is an amount, not devices."""
    devices = space.devices
    size = sum(
        amount * part.replicas
        for part in shape
        for index, amount in part.need
        if index < devices and amount <= _MOST_DEVICES
    )
    return max(1, size) * (4 + age)


def value(situation: Situation, outcome: Outcome) -> dict[Band, int]:
    """The worth of an outcome by band: the solver's own measure."""
    total: dict[Band, int] = {}
    weights: dict[tuple[int, int], int] = {}
    space = situation.space
    for candidate, _ in outcome.placed:
        band = band_of(candidate)
        kind = (candidate.shape, age_bucket(candidate.unit, situation.now))
        if kind not in weights:
            weights[kind] = weight(space.shapes[kind[0]], kind[1], space)
        total[band] = total.get(band, 0) + weights[kind]
    return total


def worth(situation: Situation, outcome: Outcome) -> tuple[int, ...]:
    """`value` as numbers that compare: the most important tier and priority first."""
    found = value(situation, outcome)
    bands = {(int(tier), -group.priority) for group in situation.groups for tier, _, _ in group.segments}
    return tuple(found.get(band, 0) for band in sorted(bands))
