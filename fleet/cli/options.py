"""The options that many commands share, spelled once."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Output(StrEnum):
    table = "table"
    json = "json"
    yaml = "yaml"


class ListOutput(StrEnum):
    """Of a list that has more columns than fit."""

    table = "table"
    wide = "wide"
    json = "json"
    yaml = "yaml"

    @property
    def form(self) -> Output:
        return Output.table if self is ListOutput.wide else Output(self)


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print.")]
ListOutputOption = Annotated[
    ListOutput, typer.Option("--output", "-o", help="How to print; wide: a table with more columns.")
]
KubeconfigOption = Annotated[
    Path | None,
    typer.Option("--kubeconfig", help="The hub's kubeconfig (default: FLEET_KUBECONFIG, DATA-DIR's, KUBECONFIG)."),
]
ContextOption = Annotated[
    str | None, typer.Option("--context", help="Context of the kubeconfig (default: its current one).")
]
DataDirOption = Annotated[
    Path | None, typer.Option("--data-dir", help="The hub's data directory (default: FLEET_DATA_DIR, then ~/.fleet).")
]
DatabaseOption = Annotated[
    str | None,
    typer.Option("--database-url", envvar="FLEET_DATABASE_URL", help="PostgreSQL to use instead of the embedded one."),
]
NamespaceOption = Annotated[
    str | None, typer.Option("--namespace", "-n", help="Namespace (default: that of the context, else default).")
]
AllNamespacesOption = Annotated[bool, typer.Option("--all-namespaces", "-A", help="All namespaces.")]
SelectorOption = Annotated[
    str | None,
    typer.Option("--selector", "-l", metavar="SELECTOR", help="Only with these labels, such as team=a,stage!=test."),
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
        help="Guaranteed jobs of other leaves wait so long for an overdue head; 0: never (default: as the bound of a "
        "head, --head-after-seconds).",
    ),
]
ClaimOption = Annotated[
    float, typer.Option("--claim-seconds", min=1, help="How long a claim keeps freed room for its job.")
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
