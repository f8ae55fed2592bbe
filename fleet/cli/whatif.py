"""`fleet what-if`: the jobs that would start, move, stop or wait after an edit, and when. Nothing is changed.

The decider itself answers (foresee/whatif.py): of a snapshot file here, of the hub's newest snapshot there, since the
hub knows how long its jobs have run. With a solver, or with assumed durations, the snapshot is fetched and asked here
too. A manifest to submit goes through the hub's own checks first (a dry run), and becomes a unit by the same steps as a
job does there.
"""

from __future__ import annotations

import sys
from typing import Any

from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption, Output, OutputOption
from fleet.cli.whatif_options import (
    AddMemberOption,
    CordonOption,
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
    UncordonOption,
)
from fleet.cli.when import duration


def what_if(
    snapshot: SnapshotArgument = None,
    add_member: AddMemberOption = None,
    scale: ScaleOption = None,
    tree: TreeOption = None,
    set_: LimitsOption = None,
    remove: RemoveOption = None,
    hold: HoldOption = None,
    release: ReleaseOption = None,
    priority: PriorityOption = None,
    move: MoveOption = None,
    cordon: CordonOption = None,
    uncordon: UncordonOption = None,
    drain: DrainOption = None,
    lose: LoseOption = None,
    fail_over: FailOverOption = None,
    submit: SubmitOption = None,
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
    from fleet.cli import optional, whatif_remote
    from fleet.cli.hub import connect

    otherwise = duration(runs_for, "--runs-for") if runs_for else None
    forward = solver or otherwise is not None or not times  # the hub draws durations itself, and asks no solver
    hub = connect(kubeconfig, data_dir, context) if snapshot is None else None
    where = namespace or (hub.namespace if hub is not None else "") or "default"
    choices = whatif_remote.WhatIfOptions(
        _all(add_member),
        _all(scale),
        tree,
        _all(set_),
        _all(remove),
        _all(hold),
        _all(release),
        _all(priority),
        _all(move),
        _all(cordon),
        _all(uncordon),
        _all(drain),
        _all(lose),
        _all(fail_over),
        _all(submit),
        where,
    )
    if hub is not None and not forward and not optional.hub_is_installed():
        result = whatif_remote.answer(hub, choices, f"are worked out here: {optional.INSTALL}")
    else:
        module = optional.hub_module("whatif_here", "what-if of a file, with --solver, --runs-for or --no-times")
        source = module.source(snapshot, hub)
        if source is not None and (forward or hub is None):
            result = module.compared(source, choices, times=times, otherwise=otherwise, solver=solver, seed=seed)
        elif forward or hub is None:
            raise Failure(f"--solver, --runs-for and --no-times {whatif_remote.NEEDS}")
        else:
            result = (
                whatif_remote.answer(hub, choices) if source is None else module.hub_comparison(hub, source, choices)
            )
    _show(result, output)


def _all(given: list[Any] | None) -> list[Any]:
    """The values of an option that may be given several times."""
    return given or []


def _show(result: Any, output: Output) -> None:
    from fleet.cli import whatif_table
    from fleet.cli.output import show_one

    if output is Output.table:
        sys.stdout.writelines(line.rstrip() + "\n" for line in whatif_table.lines(result))
    else:
        show_one(result, output)
