"""`fleet exec` and `fleet attach`: a command in a pod of a job, or the process that runs there, by the hub's relays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli.jobpods import ContainerOption, PodOption, RankOption
from fleet.cli.options import ContextOption, DataDirOption, JobArgument, KubeconfigOption, NamespaceOption

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient

StdinOption = Annotated[bool, typer.Option("--stdin", "-i", help="Pass stdin on.")]
TtyOption = Annotated[bool, typer.Option("--tty", "-t", help="With a terminal; needs -i.")]


def execute(
    job: JobArgument,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command and its words.")],
    rank: RankOption = None,
    pod: PodOption = None,
    container: ContainerOption = None,
    stdin: StdinOption = False,
    tty: TtyOption = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Run a command in a pod of a job.

    The exit status is that of the command. Needs the right to create pods/exec.
    """
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)
    _run("exec", hub, namespace or hub.namespace, job, (rank, pod, container), (stdin, tty), command)


def attach(
    job: JobArgument,
    rank: RankOption = None,
    pod: PodOption = None,
    container: ContainerOption = None,
    stdin: StdinOption = False,
    tty: TtyOption = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Connect to the process of a pod of a job.

    Shows what it writes from now on; with -i it reads what is typed. Ctrl-C leaves it running. Needs the right to
    create pods/attach.
    """
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)
    _run("attach", hub, namespace or hub.namespace, job, (rank, pod, container), (stdin, tty), [])


def _run(
    verb: str,
    hub: HubClient,
    namespace: str,
    name: str,
    where: tuple[int | None, str | None, str | None],
    streams: tuple[bool, bool],
    words: list[str],
) -> None:
    from fleet.amc.streams import StreamTarget, session
    from fleet.cli.jobpods import pod_of, refusals
    from fleet.cli.jobselection import job_of

    rank, pod, container = where
    job = job_of(hub, namespace, name)
    chosen = pod_of(job, rank, pod)
    wanted = StreamTarget(job.namespace, chosen.on_hub, container or "", *streams)
    with refusals():
        status = session(hub.client, verb, wanted, words)
    raise typer.Exit(status)
