"""`fleet what-if` with the snapshot of a file or of the hub in this process: its edits, and the comparison."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.cli.failure import Failure
from fleet.cli.whatif_remote import BadOption, WhatIfOptions
from fleet.core.decide import BadSnapshot
from fleet.core.foresee.edits import BadEdit, Edit, edited
from fleet.core.foresee.forward import by_walltime
from fleet.core.foresee.whatif import what_if
from fleet.core.notation.edits import encode_comparison, encode_edits
from fleet.hub import whatif_edits
from fleet.hub.whatif_edits import Source
from fleet.kinds import named_kind

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

TIMES_S = 30.0  # that the runs forward may take
CHANGES_S = 30.0  # that the search may take for changes which start jobs that wait all the same


def source(snapshot: Path | None, hub: HubClient | None) -> Source | None:
    """The fleet to ask. None: the user may not read the hub's snapshot."""
    if snapshot is not None:
        return whatif_edits.from_file(snapshot)
    return whatif_edits.from_hub(hub) if hub is not None else None


def hub_comparison(hub: HubClient, source: Source, asked: WhatIfOptions) -> Any:
    """The comparison that the hub makes."""
    return hub.request("POST", "/fleet/v1/what-if", {"edits": encode_edits(_edits(asked, source))}).body


def compared(
    source: Source, choices: WhatIfOptions, *, times: bool, otherwise: float | None, solver: bool, seed: int
) -> Any:
    """The comparison that this process makes. `otherwise`: seconds that jobs without a walltime run. Raises Failure."""
    began = time.monotonic()
    try:
        comparison = what_if(
            source.snapshot,
            _edits(choices, source),
            now=source.now,
            seed=seed,
            solver=_solver() if solver else None,
            runs=(by_walltime(otherwise),) if times else (),
            enough_changes=lambda: time.monotonic() > began + CHANGES_S,
            enough=lambda: time.monotonic() > began + CHANGES_S + TIMES_S,
        )
    except (BadSnapshot, BadEdit) as error:
        raise Failure(f"{source.name}: {error}") from error
    return encode_comparison(comparison, source.now, named_kind)


def _edits(asked: WhatIfOptions, source: Source) -> list[Edit]:
    """Each is tried on its own first, so that a refusal names the option that it came from."""
    edits: list[Edit] = []
    world = source.snapshot
    for option, make in whatif_edits.makers(asked, source):
        try:
            for edit in make(world):
                world = edited(world, [edit])
                edits.append(edit)
        except (BadEdit, BadOption, BadSnapshot) as error:
            raise Failure(f"{option}: {error}") from error
    if not edits:
        raise Failure("nothing to try: give an edit such as --drain, --set or --submit (fleet what-if --help)")
    return edits


def _solver() -> Any:
    from fleet.core.solver.cpsat import CpSat

    return CpSat()
