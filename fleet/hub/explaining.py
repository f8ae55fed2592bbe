"""The explanation of a job of a snapshot, worked out here."""

from __future__ import annotations

import time
from typing import Any

from fleet.cli.failure import Failure
from fleet.core.foresee.explanation import document, explain
from fleet.core.foresee.history import History, PastUnit
from fleet.core.model.unit import Phase
from fleet.core.placement.problem import Solver
from fleet.core.snapshot import Snapshot
from fleet.kinds import named_kind

LIMIT_S = 60.0


def of_snapshot(
    snapshot: Snapshot, name: str, *, now: float, seed: int, solver: Solver | None = None
) -> dict[str, Any]:
    """The explanation of a unit that is named by its id, its job ("namespace/name") or the job's name alone. The
    running jobs of the snapshot are all the history there is. `solver` tells which starts are certain. Raises Failure
    and BadSnapshot."""
    units = [unit for unit in snapshot.units.values() if name in (unit.id, unit.name, unit.name.rpartition("/")[2])]
    if not units:
        raise Failure(f'the snapshot has no job "{name}"')
    if len(units) > 1 and name not in snapshot.units:
        names = [unit.name if sum(unit.name == u.name for u in units) == 1 else f"the id {unit.id}" for unit in units]
        raise Failure(f'"{name}" names several jobs: {", ".join(sorted(names)[:5])}')
    unit = snapshot.units.get(name, units[0])
    if unit.phase is not Phase.WAITING:
        raise Failure(f"{unit.name} does not wait: it {unit.standing}")
    pasts = [PastUnit(u, u.enqueued_at, u.placed_at) for u in snapshot.units.values()]
    began = time.monotonic()
    answer = explain(
        snapshot,
        unit.id,
        History(pasts, now),
        now=now,
        seed=seed,
        limit_s=LIMIT_S,
        elapsed_s=lambda: time.monotonic() - began,
        solver=solver,
    )
    return document(answer, named_kind)
