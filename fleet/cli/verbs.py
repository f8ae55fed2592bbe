"""`fleet hold`, `release`, `suspend`, `resume`, `cancel` and `priority`: verbs on jobs, by name or by label.

Each writes the field that kubectl would write (docs/how-to/hold-hurry-or-stop-a-job.md), so that the hub's own checks,
warnings and rights apply.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fleet.cli.chosen import CannotBe, Job, JobsArgument, each
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption, SelectorOption
from fleet.wellknown import ANNOTATION_HOLD, binding_name, unit_name

MERGE = "application/merge-patch+json"
UNITS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/queueunits/{name}"


def hold(
    jobs: JobsArgument = None,
    selector: SelectorOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Keep jobs from starting.

    A job that runs goes on, and is held when it next waits.
    """
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)

    def one(job: Job) -> str:
        _patch(job, {"metadata": {"annotations": {ANNOTATION_HOLD: "true"}}})
        return f"{job} held"

    each(hub, namespace or hub.namespace, jobs or (), selector, one)


def release(
    jobs: JobsArgument = None,
    selector: SelectorOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Let held jobs start again."""
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)

    def one(job: Job) -> str:
        _patch(job, {"metadata": {"annotations": {ANNOTATION_HOLD: None}}})
        unit = hub.find(_unit(job))
        if unit is not None and (unit.get("spec") or {}).get("active") is False:
            hub.request("PATCH", _unit(job), {"spec": {"active": True}}, content_type=MERGE)
        return f"{job} released"

    each(hub, namespace or hub.namespace, jobs or (), selector, one)


def suspend(
    jobs: JobsArgument = None,
    selector: SelectorOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Stop jobs, and keep them to resume.

    They leave their member and give their quota back.
    """
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)
    each(hub, namespace or hub.namespace, jobs or (), selector, lambda job: _suspended(job, True))


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

    hub = connect(kubeconfig, data_dir, context)
    each(hub, namespace or hub.namespace, jobs or (), selector, lambda job: _suspended(job, False))


def cancel(
    jobs: JobsArgument = None,
    selector: SelectorOption = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Stop jobs for good and delete them, here and in their member."""
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir, context)

    def one(job: Job) -> str:
        hub.request("DELETE", job.path)
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

    hub = connect(kubeconfig, data_dir, context)

    def one(job: Job) -> str:
        if hub.find(_unit(job)) is None:
            raise CannotBe(f"{job} waits in no queue")
        hub.request("PATCH", _unit(job), {"spec": {"priority": value}}, content_type=MERGE)
        return f"{job} has priority {value}"

    each(hub, namespace or hub.namespace, jobs or (), selector, one)


def _suspended(job: Job, suspended: bool) -> str:
    from fleet.cli.declared import know_kinds
    from fleet.kinds.lookup import interpreter_of

    reader = interpreter_of(job.api_version, job.kind)
    if reader is None:
        know_kinds((), job.hub)
        reader = interpreter_of(job.api_version, job.kind)
    if reader is None or not reader.suspend_field:
        raise CannotBe(f"{job} cannot be suspended: its kind has no field for that; fleet hold keeps it from starting")
    _patch(job, reader.suspend({}, suspended))
    return f"{job} {'suspended' if suspended else 'resumed'}"


def _patch(job: Job, patch: dict[str, Any]) -> None:
    job.hub.request("PATCH", job.path, patch, content_type=MERGE)


def _unit(job: Job) -> str:
    return UNITS.format(namespace=job.namespace, name=unit_name(binding_name(job.kind, job.name)))
