"""`fleet hold`, `release`, `suspend`, `resume`, `cancel` and `priority`: verbs on jobs, by name or by label.

The operations are those of the Python client, fleet/client/verbs.py. Each writes the field that kubectl would write
(docs/how-to/hold-hurry-or-stop-a-job.md), so that the hub's own checks, warnings and rights apply.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fleet.cli.jobselection import HubJob, JobsArgument, TargetsArgument, each
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption, SelectorOption


def hold(
    jobs: TargetsArgument = None,
    drain: Annotated[
        bool,
        typer.Option("--drain", help="Of a queue: evict its jobs that run, too. The jobs wait in the queue again."),
    ] = False,
    selector: SelectorOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Keep jobs from starting, or those of a queue.

    A job that runs goes on, and is held when it next waits. The queue is queue/NAME; it holds the queues below it.
    Jobs of it that run go on, unless --drain evicts them. Jobs that are not preemptible stay in any case.
    """
    from fleet.bindings.stopping import DRAIN, HOLD
    from fleet.cli.failure import Failure
    from fleet.cli.hub import connect
    from fleet.cli.queueverbs import PREFIXES, each_with_queues
    from fleet.client import verbs

    if drain and (selector or not all(name.startswith(PREFIXES) for name in jobs or ())):
        raise Failure("--drain is about queues: name them queue/NAME (fleet suspend stops jobs)")
    hub = connect(kubeconfig, data_dir, context)

    def one(job: HubJob) -> str:
        hub.run(verbs.hold(hub.session, job))
        return f"{job} held"

    each_with_queues(hub, namespace or hub.namespace, jobs or (), selector, one, DRAIN if drain else HOLD)


def release(
    jobs: TargetsArgument = None,
    selector: SelectorOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Let held jobs start again, or a queue.

    The queue is queue/NAME.
    """
    from fleet.bindings.stopping import NONE
    from fleet.cli.hub import connect
    from fleet.cli.queueverbs import each_with_queues
    from fleet.client import verbs

    hub = connect(kubeconfig, data_dir, context)

    def one(job: HubJob) -> str:
        hub.run(verbs.release(hub.session, job))
        return f"{job} released"

    each_with_queues(hub, namespace or hub.namespace, jobs or (), selector, one, NONE)


def suspend(
    jobs: JobsArgument = None,
    selector: SelectorOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Stop jobs, and keep them to resume.

    The jobs leave their member and give their quota back.
    """
    from fleet.cli.hub import connect
    from fleet.client import verbs

    hub = connect(kubeconfig, data_dir, context)

    def one(job: HubJob) -> str:
        hub.run(verbs.suspend(hub.session, job))
        return f"{job} suspended"

    each(hub, namespace or hub.namespace, jobs or (), selector, one)


def resume(
    jobs: JobsArgument = None,
    selector: SelectorOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Queue suspended jobs again, with their old place."""
    from fleet.cli.hub import connect
    from fleet.client import verbs

    hub = connect(kubeconfig, data_dir, context)

    def one(job: HubJob) -> str:
        hub.run(verbs.resume(hub.session, job))
        return f"{job} resumed"

    each(hub, namespace or hub.namespace, jobs or (), selector, one)


def cancel(
    jobs: JobsArgument = None,
    selector: SelectorOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Stop jobs for good and delete them, also in their member."""
    from fleet.cli.hub import connect
    from fleet.client import verbs

    hub = connect(kubeconfig, data_dir, context)

    def one(job: HubJob) -> str:
        hub.run(verbs.cancel(hub.session, job))
        return f"{job} cancelled"

    each(hub, namespace or hub.namespace, jobs or (), selector, one)


def priority(
    value: Annotated[int, typer.Argument(metavar="PRIORITY", help="The number; higher goes first.")],
    jobs: JobsArgument = None,
    selector: SelectorOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Change the priority of waiting jobs.

    Needs the right to patch QueueUnits (role queue-admin): whoever has it decides who goes first. A PriorityClass in
    the pod templates of a job is its user's own way.
    """
    from fleet.cli.hub import connect
    from fleet.client import verbs

    hub = connect(kubeconfig, data_dir, context)

    def one(job: HubJob) -> str:
        hub.run(verbs.priority(hub.session, job, value))
        return f"{job} has priority {value}"

    each(hub, namespace or hub.namespace, jobs or (), selector, one)
