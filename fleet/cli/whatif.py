"""`fleet what-if`: the jobs that would start, move, stop or wait after an edit, and when. Nothing is changed.

The decider itself answers (foresee/whatif.py): of a snapshot file here, of the hub's newest snapshot there, since the
hub knows how long its jobs have run. With a solver, or with assumed durations, the snapshot is fetched and asked here
too. A manifest to submit goes through the hub's own checks first (a dry run), and becomes a unit by the same steps as a
job does there.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption, Output, OutputOption
from fleet.cli.whatif_options import (
    AddMemberOption,
    DrainOption,
    FailOverOption,
    HoldOption,
    LimitsOption,
    LoseOption,
    MoveOption,
    PriorityOption,
    ReleaseOption,
    RemoveOption,
    RunsForOption,
    ScaleOption,
    SeedOption,
    SnapshotArgument,
    SolverOption,
    SubmitOption,
    TimesOption,
    TreeOption,
)
from fleet.cli.when import duration

if TYPE_CHECKING:
    from fleet.cli.hub import Hub
    from fleet.cli.whatif_edits import Asked, Source

TIMES_S = 30.0  # that the runs forward may take
CHANGES_S = 30.0  # that the search may take for changes which start jobs that wait all the same


def what_if(
    snapshot: SnapshotArgument = None,
    add_member: AddMemberOption = None,
    drain: DrainOption = None,
    lose: LoseOption = None,
    fail_over: FailOverOption = None,
    scale: ScaleOption = None,
    set_: LimitsOption = None,
    tree: TreeOption = None,
    submit: SubmitOption = None,
    remove: RemoveOption = None,
    hold: HoldOption = None,
    release: ReleaseOption = None,
    priority: PriorityOption = None,
    move: MoveOption = None,
    namespace: NamespaceOption = None,
    runs_for: RunsForOption = "",
    times: TimesOption = True,
    solver: SolverOption = False,
    seed: SeedOption = 0,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show which jobs start, move, stop or wait after some edits.

    Nothing is changed. Edits may be given several times, and together. Their order is that of the options here,
    whatever their order on the command line.
    """
    from fleet.cli import whatif_asked, whatif_edits

    source, hub = _source(snapshot, kubeconfig, data_dir, context)
    where = namespace or (hub.namespace if hub is not None else "") or "default"
    asked = whatif_edits.Asked(
        add_member or [], drain or [], lose or [], fail_over or [], scale or [], set_ or [], tree, submit or [],
        remove or [], hold or [], release or [], priority or [], move or [], where,
    )  # fmt: skip
    otherwise = duration(runs_for, "--runs-for") if runs_for else None
    here = solver or otherwise is not None or not times  # the hub draws durations itself, and asks no solver
    if source is None:
        if here or hub is None:
            raise Failure(f"--solver, --runs-for and --no-times {whatif_asked.NEEDS}")
        found = whatif_asked.answer(hub, asked)
    elif source.hub is not None and not here:
        found = _answered(source.hub, _edits(asked, source))
    else:
        found = _compared(source, _edits(asked, source), times, otherwise, solver, seed)
    _show(found, output)


def _source(
    snapshot: Path | None, kubeconfig: Path | None, data_dir: Path | None, context: str | None
) -> tuple[Source | None, Hub | None]:
    """The fleet to ask, and the hub where no file is given. No fleet: the user may not read the hub's snapshot."""
    from fleet.cli import whatif_edits

    if snapshot is not None:
        return whatif_edits.from_file(snapshot), None
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)
    return whatif_edits.from_hub(hub), hub


def _answered(hub: Hub, edits: list[Any]) -> Any:
    """The comparison that the hub makes."""
    from fleet.notation.edits import encode_edits

    return hub.request("POST", "/fleet/v1/what-if", {"edits": encode_edits(edits)}).body


def _compared(source: Source, edits: list[Any], times: bool, otherwise: float | None, solver: bool, seed: int) -> Any:
    """The comparison that this process makes. `otherwise`: seconds that jobs without a walltime run. Raises Failure."""
    from fleet.decide import BadSnapshot
    from fleet.foresee.edits import BadEdit
    from fleet.foresee.forward import by_walltime
    from fleet.foresee.whatif import what_if as compare
    from fleet.notation.edits import encode_comparison

    began = time.monotonic()
    try:
        compared = compare(
            source.snapshot,
            edits,
            now=source.now,
            seed=seed,
            solver=_solver() if solver else None,
            runs=(by_walltime(otherwise),) if times else (),
            enough_changes=lambda: time.monotonic() > began + CHANGES_S,
            enough=lambda: time.monotonic() > began + CHANGES_S + TIMES_S,
        )
    except (BadSnapshot, BadEdit) as error:
        raise Failure(f"{source.name}: {error}") from error
    return encode_comparison(compared, source.now)


def _show(found: Any, output: Output) -> None:
    from fleet.cli import whatif_table
    from fleet.cli.output import show_one

    if output is Output.table:
        sys.stdout.writelines(line.rstrip() + "\n" for line in whatif_table.lines(found))
    else:
        show_one(found, output)


def _edits(asked: Asked, source: Source) -> list[Any]:
    """Each is tried on its own first, so that a refusal names the option that it came from."""
    from fleet.decide import BadSnapshot
    from fleet.foresee.edits import BadEdit, edited

    edits: list[Any] = []
    world = source.snapshot
    for option, make in asked.makers(source):
        try:
            for edit in make(world):
                world = edited(world, [edit])
                edits.append(edit)
        except (BadEdit, BadSnapshot) as error:
            raise Failure(f"{option}: {error}") from error
    if not edits:
        raise Failure("nothing to try: give an edit such as --drain, --set or --submit (fleet what-if --help)")
    return edits


def _solver() -> Any:
    from fleet.solver.cpsat import CpSat

    return CpSat()
