"""`fleet port-forward`: ports of this machine that lead into a pod of a job, by the hub's relay."""

from __future__ import annotations

from typing import Annotated

import typer

from fleet.cli.jobpods import PodOption, RankOption
from fleet.cli.options import ContextOption, DataDirOption, JobArgument, KubeconfigOption, NamespaceOption


def port_forward(
    job: JobArgument,
    ports: Annotated[
        list[str], typer.Argument(metavar="[LOCAL:]REMOTE...", help="Pairs of ports; :REMOTE takes any free one here.")
    ],
    rank: RankOption = None,
    pod: PodOption = None,
    address: Annotated[str, typer.Option("--address", help="Address of this machine to listen on.")] = "127.0.0.1",
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Forward local ports to a pod of a job.

    Goes on until Ctrl-C. Needs the right to create pods/portforward.
    """
    from functools import partial

    from fleet.amc.forward import forward, parse_ports
    from fleet.amc.streams import StreamTarget
    from fleet.cli.hub import connect
    from fleet.cli.jobpods import pod_of, refusals
    from fleet.cli.jobselection import job_of

    with refusals():
        pairs = [parse_ports(text) for text in ports]
        hub = connect(kubeconfig, data_dir, context)
        one = job_of(hub, namespace or hub.namespace, job)
        wanted = StreamTarget(one.namespace, pod_of(one, rank, pod).on_hub)
        forward(hub.client, wanted, pairs, address, partial(print, flush=True))
