"""What-if comparisons, and units that run."""

from __future__ import annotations

from typing import Any

from fleet.core.foresee.edits import Edit
from fleet.core.foresee.whatif import Comparison, what_if
from fleet.core.snapshot import Snapshot
from tests.builders import NOW, UnitBuilder, unit


def running(name: str, *, hours: float = 1.0, pods: int = 1) -> UnitBuilder:
    """In member x for ten minutes, on whole nodes; its walltime is `hours`."""
    made = unit(name).gpus(8, pods=pods).runs_in("x", visible=0)
    return made.having(placed_at=NOW - 600, walltime_s=hours * 3600)


def asked(world: Snapshot, *edits: Edit, **how: Any) -> Comparison:
    return what_if(world, edits, now=NOW, seed=1, **how)
