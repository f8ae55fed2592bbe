"""The options of `fleet what-if`: edits, and the ways to compare the fleet with the edited one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Texts = list[str] | None

SnapshotArgument = Annotated[
    Path | None,
    typer.Argument(help='A snapshot or decision record as JSON ("-": stdin); else the hub is asked.'),
]
AddMemberOption = Annotated[
    Texts, typer.Option(metavar="MEMBER", help="Add a member: NAME=NODESxGPUS, or a file that describes it.")
]
DrainOption = Annotated[
    Texts, typer.Option(metavar="MEMBER", help="Drain a member: its jobs wait again, and start elsewhere.")
]
CordonOption = Annotated[
    Texts, typer.Option(metavar="MEMBER", help="Cordon a member: no new job starts there, and its jobs stay.")
]
UncordonOption = Annotated[
    Texts, typer.Option(metavar="MEMBER", help="Uncordon a member, and end its drain: new jobs start there again.")
]
LoseOption = Annotated[
    Texts,
    typer.Option(
        metavar="MEMBER", help="Lose a member: its jobs stay there, but those whose policy has failover.cluster."
    ),
]
FailOverOption = Annotated[
    Texts, typer.Option(metavar="MEMBER", help="Lose a member, and start all its jobs elsewhere.")
]
ScaleOption = Annotated[
    Texts, typer.Option(metavar="MEMBER=N", help="Empty nodes more or fewer: MEMBER=+4, or MEMBER/POOL=-1.")
]
LimitsOption = Annotated[
    Texts,
    typer.Option(
        "--set",
        metavar="NODE.FIELD=VALUE",
        help="Edit the quota tree: root/a.max.nvidia.com/gpu=32; =none for no limit.",
    ),
]
TreeOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Another quota tree: an ElasticQuotaTree, YAML or JSON.")
]
SubmitOption = Annotated[
    list[Path] | None, typer.Option(metavar="FILE", help="Submit the jobs of a YAML file, as kubectl takes it.")
]
RemoveOption = Annotated[Texts, typer.Option(metavar="JOB", help="Delete a job: NAME, or NAMESPACE/NAME.")]
HoldOption = Annotated[Texts, typer.Option(metavar="JOB", help="Hold a waiting job.")]
ReleaseOption = Annotated[Texts, typer.Option(metavar="JOB", help="Release a job that is held.")]
PriorityOption = Annotated[Texts, typer.Option(metavar="JOB=N", help="Another priority for a waiting job: JOB=5.")]
MoveOption = Annotated[Texts, typer.Option(metavar="JOB=QUEUE", help="Another queue for a waiting job: JOB=root/b.")]
RunsForOption = Annotated[
    str,
    typer.Option(
        metavar="TIME", help="How long jobs without a walltime run: 90m, 12h. Without it they are taken not to end."
    ),
]
TimesOption = Annotated[bool, typer.Option(help="Run the queues forward, to say when jobs start.")]
SolverOption = Annotated[
    bool, typer.Option("--solver", help="Ask the solver, as the hub does; else jobs start in order, with backfill.")
]
SeedOption = Annotated[int, typer.Option(help="Seed of the solver.")]
