"""The greedy answer: gangs in order, each to the best member that takes it whole. There is always one.

Order is tier, then priority, then time of enqueueing, then name. Room and quota only shrink during a pass, so what
was refused once is not asked again for any gang alike: a pass costs what starts, and a glance at what waits. In a queue
with policy Block the first gang that cannot start stops its leaf; otherwise the next one is tried.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from fleet.placement.candidate import Candidate
from fleet.placement.ground import Ground


@dataclass(slots=True)
class Pass:
    """What one pass did: placements in order, and for each stopped leaf the unit that stopped it."""

    placed: list[tuple[Candidate, str]] = field(default_factory=list)
    stopped: dict[str, str] = field(default_factory=dict)


def place(ground: Ground, candidates: Sequence[Candidate], barred: Container[str] = ()) -> Pass:
    """Serve `candidates`, which are in order. Changes `ground`. `barred`: units that may not start in this plan."""
    done = Pass()
    no_room: set[tuple[int, int]] = set()
    no_quota: set[tuple[str, int, bool]] = set()
    for candidate in candidates:
        unit = candidate.unit
        leaf = unit.leaf
        if leaf is not None and leaf in done.stopped:
            continue
        kind = (candidate.shape, candidate.eligibility.number)
        charge = (leaf or "", candidate.shape, unit.preemptible)
        if unit.id not in barred and kind not in no_room and charge not in no_quota:
            if not ground.admits(candidate):
                no_quota.add(charge)
            else:
                best = ground.best(candidate.shape, candidate.eligibility)
                if best is not None:
                    ground.take(candidate, *best)
                    done.placed.append((candidate, best[0]))
                    continue
                no_room.add(kind)
        if candidate.block and leaf is not None:
            done.stopped[leaf] = unit.id
    return done
