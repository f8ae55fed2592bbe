"""`fleet join`: make a cluster a member."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import DataDirOption


def join(
    name: Annotated[str, typer.Argument(help="The name of the member from now on.")],
    kubeconfig: Annotated[Path, typer.Option("--kubeconfig", help="The member's kubeconfig.")],
    context: Annotated[str | None, typer.Option(help="Context of it (default: its current one).")] = None,
    label: Annotated[list[str] | None, typer.Option(help="KEY=VALUE, for policies; may be repeated.")] = None,
    provider: Annotated[str, typer.Option(help="Provider, for policies.")] = "",
    region: Annotated[str, typer.Option(help="Region, for policies.")] = "",
    zone: Annotated[str, typer.Option(help="Zone, for policies.")] = "",
    timeout: Annotated[float, typer.Option(help="Seconds to wait until it is ready.")] = 30.0,
    hub_kubeconfig: Annotated[
        Path | None, typer.Option(help="The hub's kubeconfig (default: FLEET_KUBECONFIG, DATA-DIR's, KUBECONFIG).")
    ] = None,
    hub_context: Annotated[str | None, typer.Option(help="Context of that (default: its current one).")] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Join a cluster as a member.

    With the credentials of a kubeconfig. Joining again changes credentials, address, labels or place.
    """
    from fleet.cli import joining
    from fleet.cli.hub import connect

    labels = dict(_label(text) for text in label or ())
    hub = connect(hub_kubeconfig, data_dir, hub_context)
    joining.join(hub, joining.Member(name, kubeconfig, context, provider, region, zone, labels))
    joining.wait_ready(hub, [name], timeout)
    print(f"{name} joined")


def _label(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise Failure(f"--label {text}: not KEY=VALUE")
    return key, value
