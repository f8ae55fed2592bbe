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
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption, Output, OutputOption

if TYPE_CHECKING:
    from fleet.cli.whatif_edits import Asked, Source

TIMES_S = 30.0  # that the runs forward may take
CHANGES_S = 30.0  # that the search may take for changes which start jobs that wait all the same

Texts = list[str] | None


def what_if(
    snapshot: Annotated[
        Path | None,
        typer.Argument(help='A snapshot or decision record as JSON ("-": stdin); else the hub is asked.'),
    ] = None,
    add_member: Annotated[
        Texts, typer.Option(metavar="MEMBER", help="Add a member: NAME=NODESxGPUS, or a file that describes it.")
    ] = None,
    drain: Annotated[
        Texts, typer.Option(metavar="MEMBER", help="Drain a member: its jobs wait again, and start elsewhere.")
    ] = None,
    lose: Annotated[
        Texts,
        typer.Option(
            metavar="MEMBER", help="Lose a member: its jobs stay there, but those whose policy has failover.cluster."
        ),
    ] = None,
    fail_over: Annotated[
        Texts, typer.Option(metavar="MEMBER", help="Lose a member, and start all its jobs elsewhere.")
    ] = None,
    scale: Annotated[
        Texts, typer.Option(metavar="MEMBER=N", help="Empty nodes more or fewer: MEMBER=+4, or MEMBER/POOL=-1.")
    ] = None,
    set_: Annotated[
        Texts,
        typer.Option(
            "--set",
            metavar="NODE.FIELD=VALUE",
            help="Edit the quota tree: root/a.max.nvidia.com/gpu=32; =none for no limit.",
        ),
    ] = None,
    tree: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Another quota tree: an ElasticQuotaTree, YAML or JSON.")
    ] = None,
    submit: Annotated[
        list[Path] | None, typer.Option(metavar="FILE", help="Submit the jobs of a YAML file, as kubectl takes it.")
    ] = None,
    remove: Annotated[Texts, typer.Option(metavar="JOB", help="Delete a job: NAME, or NAMESPACE/NAME.")] = None,
    hold: Annotated[Texts, typer.Option(metavar="JOB", help="Hold a waiting job.")] = None,
    release: Annotated[Texts, typer.Option(metavar="JOB", help="Release a job that is held.")] = None,
    priority: Annotated[Texts, typer.Option(metavar="JOB=N", help="Another priority for a waiting job: JOB=5.")] = None,
    move: Annotated[
        Texts, typer.Option(metavar="JOB=QUEUE", help="Another queue for a waiting job: JOB=root/b.")
    ] = None,
    namespace: NamespaceOption = None,
    runs_for: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="How long jobs without a walltime run: 90m, 12h. Without it they are taken not to end."
        ),
    ] = "",
    times: Annotated[bool, typer.Option(help="Run the queues forward, to say when jobs start.")] = True,
    solver: Annotated[
        bool, typer.Option("--solver", help="Ask the solver, as the hub does; else decisions are greedy.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the solver.")] = 0,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Show which jobs start, move, stop or wait after some edits.

    Nothing is changed. Edits may be given several times, and together. They are made in the order of the options here,
    whatever their order on the command line.
    """
    from fleet.cli import whatif_asked, whatif_edits, whatif_table
    from fleet.decide import BadSnapshot
    from fleet.foresee.edits import BadEdit
    from fleet.foresee.forward import by_walltime
    from fleet.foresee.whatif import what_if as compare
    from fleet.notation.edits import encode_comparison, encode_edits

    source = None if snapshot is None else whatif_edits.from_file(snapshot)
    if source is None:
        from fleet.cli.hub import connect

        hub = connect(kubeconfig, data_dir, context)
        namespace = namespace or hub.namespace
        source = whatif_edits.from_hub(hub)
    asked = whatif_edits.Asked(
        add_member or [], drain or [], lose or [], fail_over or [], scale or [], set_ or [], tree, submit or [],
        remove or [], hold or [], release or [], priority or [], move or [], namespace or "default",
    )  # fmt: skip
    otherwise = whatif_edits.seconds(runs_for, "--runs-for") if runs_for else None
    if source is None:
        if solver or runs_for or not times:
            raise Failure(f"--solver, --runs-for and --no-times {whatif_asked.NEEDS}")
        found = whatif_asked.answer(hub, asked)
    elif source.hub is not None and times and not (solver or runs_for):
        edits = _edits(asked, source)
        found = source.hub.request("POST", "/fleet/v1/what-if", {"edits": encode_edits(edits)}).body
    else:
        edits = _edits(asked, source)
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
        found = encode_comparison(compared, source.now)
    if output is Output.table:
        sys.stdout.writelines(line.rstrip() + "\n" for line in whatif_table.lines(found))
    else:
        from fleet.cli.output import show_one

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
