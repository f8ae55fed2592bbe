"""`fleet join`: make a cluster a member."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import DataDirOption
from fleet.cli.when import timeout_option


def join(
    name: Annotated[str, typer.Argument(help="The name of the member from now on.")],
    kubeconfig: Annotated[Path, typer.Option("--kubeconfig", help="The member's kubeconfig.")],
    context: Annotated[str | None, typer.Option(help="Context of it (default: its current one).")] = None,
    label: Annotated[list[str] | None, typer.Option(help="KEY=VALUE, for policies; may be repeated.")] = None,
    provider: Annotated[str, typer.Option(help="Provider, for policies.")] = "",
    region: Annotated[str, typer.Option(help="Region, for policies.")] = "",
    zone: Annotated[str, typer.Option(help="Zone, for policies.")] = "",
    enable_reservation: Annotated[
        bool | None,
        typer.Option(
            "--enable-reservation/--no-enable-reservation",
            help="Hold the room of a gang in the member before it starts (from Kubernetes 1.28 on).",
            show_default=False,
        ),
    ] = None,
    agent: Annotated[
        bool, typer.Option("--agent", help="The hub cannot reach it: print the manifest of an agent to run there.")
    ] = False,
    hub_url: Annotated[
        str | None,
        typer.Option(help="With --agent: the hub's URL as the member reaches it (default: of the hub's kubeconfig)."),
    ] = None,
    image: Annotated[str, typer.Option(help="With --agent: the image of Fleet, as the member pulls it.")] = "fleet",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="With --agent: write the manifest to this file.")
    ] = None,
    timeout: Annotated[float, timeout_option("until it is ready", "30s")] = 30.0,
    hub_kubeconfig: Annotated[
        Path | None, typer.Option(help="The hub's kubeconfig (default: FLEET_KUBECONFIG, DATA-DIR's, KUBECONFIG).")
    ] = None,
    hub_context: Annotated[str | None, typer.Option(help="Context of that (default: its current one).")] = None,
    data_dir: DataDirOption = None,
) -> None:
    """Join a cluster as a member.

    With the credentials of a kubeconfig. Joining again changes what is given: credentials, address, labels, place,
    whether room is held. With --agent a member behind a firewall joins: apply the printed manifest there. Each such
    join makes a new token for the agent.
    """
    from fleet.cli import joining
    from fleet.cli.hub import connect

    labels = dict(_label(text) for text in label or ())
    hub = connect(hub_kubeconfig, data_dir, hub_context)
    member = joining.MemberFacts(name, kubeconfig, context, provider, region, zone, labels, enable_reservation)
    if agent:
        from fleet.cli.agents import hand_out

        hand_out(hub, member, hub_url or hub.client.access.server, image, output)
        return
    if hub_url or output:
        raise Failure("--hub-url and --output belong to --agent")
    joining.join(hub, member)
    joining.wait_ready(hub, [name], timeout)
    print(f"{name} joined")


def _label(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise Failure(f"--label {text}: not KEY=VALUE")
    return key, value
