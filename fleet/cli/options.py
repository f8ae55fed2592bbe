"""The options that many commands share, spelled once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fleet.cli import completers
from fleet.cli.colors import Color


class Output(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"


class ListOutput(StrEnum):
    """Of a list that has more columns than fit. name: the words alone that other commands take."""

    table = "table"
    wide = "wide"
    json = "json"
    yaml = "yaml"
    name = "name"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print.")]
ListOutputOption = Annotated[
    ListOutput, typer.Option("--output", "-o", help="How to print; wide: more columns; name: for other commands.")
]
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Print each line again when it changes.")]
ColorOption = Annotated[
    Color, typer.Option("--color", help="Colours of states; auto: on a terminal, unless NO_COLOR is set.")
]
SinceOption = Annotated[
    str | None, typer.Option(metavar="TIME", help="Only those since then: 90m, 2d, or an RFC 3339 time.")
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="The hub's kubeconfig (default: FLEET_KUBECONFIG, KUBECONFIG, DATA-DIR's)."),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context", help="Context of the kubeconfig (default: its current one).", autocompletion=completers.contexts
    ),
]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", help="The hub's data directory (default: FLEET_DATA_DIR, then ~/.fleet).")
]
DatabaseOption = Annotated[
    str | None,
    typer.Option("--database-url", envvar="FLEET_DATABASE_URL", help="PostgreSQL to use instead of the embedded one."),
]
HistoryDatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--history-database-url",
        envvar="FLEET_HISTORY_DATABASE_URL",
        help="PostgreSQL that keeps the history of jobs (default: the hub's own).",
    ),
]
FinishedJobOption = Annotated[
    float,
    typer.Option(
        "--finished-job-ttl-seconds",
        min=0,
        help="Finished jobs that name no time to live are deleted so long after their end; 0: never.",
    ),
]
HistoryDaysOption = Annotated[
    int, typer.Option("--history-days", min=0, help="Days that the history keeps jobs, by whole months; 0: for ever.")
]
UsageDaysOption = Annotated[
    int, typer.Option("--usage-days", min=0, help="Likewise usage by the minute of queues and members.")
]
FINISHED_JOB_TTL_S, HISTORY_DAYS = 7 * 86_400.0, 400
NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        "-n",
        help="Namespace (default: that of the context, else default).",
        autocompletion=completers.namespaces,
    ),
]
AllNamespacesOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
JOB = typer.Argument(
    help="NAME, or KIND[.GROUP]/NAME when several kinds have a job of that name.", autocompletion=completers.jobs
)
JobArgument = Annotated[str, JOB]
MemberArgument = Annotated[str, typer.Argument(help="The member.", autocompletion=completers.members)]
MembersArgument = Annotated[
    list[str], typer.Argument(metavar="MEMBER", help="The members.", autocompletion=completers.members)
]
QueueOption = Annotated[
    str | None,
    typer.Option(help="Only this queue, by its path, and those below it.", autocompletion=completers.queues),
]
SelectorOption = Annotated[
    str | None,
    typer.Option(
        "--selector", "--label", "-l", metavar="SELECTOR", help="Only with these labels, such as team=a,stage!=test."
    ),
]
ReclaimOption = Annotated[
    bool,
    typer.Option(
        "--reclaim/--no-reclaim", help="Whether jobs within their guarantee or share may evict what others borrowed."
    ),
]
PlaceholderOption = Annotated[
    str,
    typer.Option(
        envvar="FLEET_PLACEHOLDER_IMAGE",
        metavar="IMAGE",
        help="Image of the pods that hold room in members; any image that the members can pull, such as pause.",
    ),
]
ProtectionOption = Annotated[
    float, typer.Option("--protection-seconds", min=0, help="No job is evicted for others so soon after its start.")
]
HeadOption = Annotated[
    float,
    typer.Option(
        "--head-after-seconds", min=0, help="A job that waits longer gets a reservation that collects room; 0: never."
    ),
]
GuaranteeDelayOption = Annotated[
    float | None,
    typer.Option(
        "--guarantee-delay-seconds",
        min=0,
        help="Jobs within the min of other queues wait so long for a job that has waited too long; 0: never (default: "
        "as --head-after-seconds).",
    ),
]
ClaimOption = Annotated[
    float, typer.Option("--claim-seconds", min=1, help="How long freed room is kept for the job that it was freed for.")
]
MetricsOption = Annotated[
    str | None,
    typer.Option(
        "--metrics-listen",
        help="HOST:PORT to serve the controllers' metrics on, with the hub's TLS and tokens (default: nowhere).",
    ),
]
OutgoingOption = Annotated[
    list[str] | None,
    typer.Option(
        "--outgoing-allow",
        metavar="CIDR|HOST[:PORT]",
        help="A network or host that the hub's own requests may reach besides public addresses; may be repeated.",
    ),
]
NodesOption = Annotated[int, typer.Option(min=1, max=5000, help="Nodes of each simulated member.")]
GpusOption = Annotated[int, typer.Option(min=0, max=64, help="GPUs of each of these nodes.")]
