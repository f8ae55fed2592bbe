"""`fleet run`: a job from an image, a command and amounts; made, and followed where that is asked for."""

from __future__ import annotations

import sys
import time as clock
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fleet.cli import run_options as o
from fleet.cli.creating import created, kind_and_name, post, stop_words, sweep_of
from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption
from fleet.cli.series import (
    AfterOption,
    ArrayOption,
    AtMostOption,
    SweepOption,
    UntilOption,
    goal_of,
    series_of,
)
from fleet.wellknown import LABEL_SWEEP

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient
    from fleet.cli.series import Goal
    from fleet.submission import Request, Series

Body = dict[str, Any]
LOOK_EVERY_S = 0.1


def run(
    command: o.CommandArgument = None,
    image: o.ImageOption = "",
    name: o.NameOption = "",
    kind: o.KindOption = "",
    workers: o.WorkersOption = None,
    gpus: o.GpusOption = None,
    cpu: o.CpuOption = "",
    memory: o.MemoryOption = "",
    resource: o.ResourceOption = None,
    env: o.EnvOption = None,
    secret: o.SecretOption = None,
    mount: o.MountOption = None,
    node_selector: o.NodeSelectorOption = None,
    time: o.TimeOption = "",
    queue: o.QueueOption = "",
    priority: o.PriorityOption = "",
    topology: o.TopologyOption = "",
    preferred_topology: o.PreferredTopologyOption = "",
    label: o.LabelOption = None,
    annotation: o.AnnotationOption = None,
    template: o.TemplateOption = None,
    set_: o.SetOption = None,
    code: o.CodeOption = None,
    notebook: o.NotebookOption = False,
    shell: o.ShellOption = False,
    idle: o.IdleOption = "1h",
    sweep: SweepOption = None,
    array: ArrayOption = "",
    at_most: AtMostOption = None,
    after: AfterOption = None,
    until: UntilOption = "",
    dry_run: o.DryRunOption = None,
    output: o.PrintedOption = None,
    wait: o.WaitOption = False,
    follow: o.FollowOption = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Run a command as a job of some workers.

    The job is a PyTorchJob unless said: its workers find each other as torchrun expects. --gpus, --cpu and --memory are
    amounts of each worker. Without --name the job gets a name after its command.
    """
    request, series = o.request_of(**locals()), series_of(sweep, array, at_most, after)
    goal = goal_of(until, series)
    hub = CommandTarget(kubeconfig, data_dir, context, namespace)
    if template == "":
        _show_templates(hub)
        return
    if follow and series.many:
        raise Failure("--logs follows one job: of a sweep or an array, --wait waits for all")
    bodies = _built(_with_code(_with_template(request, template, set_ or [], hub), code), series)
    if dry_run is not None:
        server = dry_run is o.DryRun.server
        print_as([post(hub, body, "&dryRun=All") for body in bodies] if server else bodies, output or o.PrintForm.yaml)
        return
    jobs, earlier = created(hub, bodies)
    try:
        _tell(hub.connect(), jobs, earlier, request, output)
        _followed(hub, jobs, goal, wait, follow)
    except KeyboardInterrupt:
        goes = f"{kind_and_name(jobs[0])} goes" if len(jobs) == 1 else f"{len(jobs)} jobs go"
        print(
            f"\n{goes} on; {stop_words(bodies[-len(jobs) :])} stops {'it' if len(jobs) == 1 else 'them'}",
            file=sys.stderr,
        )
        raise typer.Exit(130) from None


run.command_class = o.RunCommand  # type: ignore[attr-defined]  # for main.py


class CommandTarget:
    """The hub that the options name, and the namespace; asked for when it is needed."""

    def __init__(
        self, kubeconfig: Path | None, data_dir: Path | None, context: str | None, namespace: str | None
    ) -> None:
        self.kubeconfig, self.data_dir, self.context = kubeconfig, data_dir, context
        self._namespace = namespace
        self._hub: HubClient | None = None

    def connect(self) -> HubClient:
        from fleet.cli.hub import connect

        if self._hub is None:
            self._hub = connect(self.kubeconfig, self.data_dir, self.context)
        return self._hub

    def namespace(self) -> str:
        return self._namespace or self.connect().namespace


# -- the manifests


def _show_templates(hub: CommandTarget) -> None:
    from fleet.cli.run_templates import show

    show(hub.connect(), hub.namespace())


def _with_template(request: Request, name: str | None, changes: list[str], hub: CommandTarget) -> Request:
    from fleet.cli.clone import put
    from fleet.cli.run_templates import manifest_of

    if name is None:
        if changes:
            raise Failure(f"--set {changes[0]}: changes a field of a template, and --template names none")
        return request
    body = manifest_of(hub.connect(), hub.namespace(), name)
    for text in changes:
        put(body, text)
    return replace(request, template=body)


def _with_code(request: Request, directory: Path | None) -> Request:
    from fleet.cli.code import pack
    from fleet.submission import CodeArchive

    if directory is None:
        return request
    packed = pack(directory)
    print(packed, file=sys.stderr)
    return replace(request, code=CodeArchive(packed.archive))


def _built(request: Request, series: Series) -> list[Body]:
    from fleet.submission import RequestFault, build, expanded

    try:
        *before, job = build(request)
        return [*before, *expanded(job, series)]
    except RequestFault as wrong:
        option = "COMMAND" if wrong.part == "command" else f"--{wrong.part}"
        raise Failure(f"{option} {wrong.why}") from wrong


def print_as(bodies: list[Body], form: o.PrintForm) -> None:
    """As kubectl prints objects: without managedFields."""
    from fleet.amc import yamlout

    for body in bodies:
        body["metadata"].pop("managedFields", None)
    if form is o.PrintForm.name:
        print(*(kind_and_name(body) for body in bodies), sep="\n")
    elif form is o.PrintForm.json:
        listed = {"apiVersion": "v1", "kind": "List", "items": bodies}
        sys.stdout.write(yamlout.as_json(bodies[0] if len(bodies) == 1 else listed))
    else:
        sys.stdout.write("---\n".join(yamlout.as_yaml(body) for body in bodies))


def _tell(hub: HubClient, jobs: list[Body], earlier: set[str], request: Request, output: o.PrintForm | None) -> None:
    """Print the jobs, why one waits, and what to do next."""
    from fleet.cli.submit import TAKEN_WITHIN_S, await_policy

    if output is not None:
        print_as(jobs, output)
        return
    ends = clock.monotonic() + TAKEN_WITHIN_S
    for job in jobs:
        done = "was there" if job["metadata"]["name"] in earlier else "created"
        print(f"{kind_and_name(job)} {done}{await_policy(hub, job, ends)}", flush=True)
    waits = _waits(hub, jobs[0], ends) if len(jobs) == 1 else ""
    if waits:
        print(f"  waits: {waits}", file=sys.stderr)
    steps = _steps(jobs[0], request)
    width = max(map(len, steps))
    print(*(f"  {step:<{width}}  # {what}" for step, what in steps.items()), sep="\n", file=sys.stderr)


def _waits(hub: HubClient, job: Body, ends: float) -> str:
    """The reason why a job in a queue does not start; "" when it starts, or when there is none until `ends`."""
    from fleet.cli.hub import HubRefusal

    metadata = job["metadata"]
    path = f"/fleet/v1/jobs/{metadata['namespace']}/{job['kind']}/{metadata['name']}"
    while True:
        try:
            found = hub.find(path) or {}
        except HubRefusal:  # a user who may create the job may not be allowed to look at it
            return ""
        reason = (found.get("reason") or {}).get("text") or ""
        if found.get("state") != "Queued" or reason or clock.monotonic() >= ends:
            return reason if found.get("state") == "Queued" else ""
        clock.sleep(LOOK_EVERY_S)


def _steps(job: Body, request: Request) -> dict[str, str]:
    """What to do with the job: commands, and their use."""
    from fleet.submission import InteractiveKind
    from fleet.submission.interactive import PORT

    namespace_option = f" -n {request.namespace}" if request.namespace else ""
    sweep = sweep_of(job)
    if sweep:
        return {
            f"fleet sweep {sweep}{namespace_option}": "its jobs, and how they stand",
            f"fleet cancel -l {LABEL_SWEEP}={sweep}{namespace_option}": "stop them",
        }
    name = f"{job['metadata']['name']}{namespace_option}"
    steps = {
        f"fleet logs {name} -f": "its log",
        f"fleet explain {name}": "why it waits",
        f"fleet cancel {name}": "stop it",
    }
    if request.interactive is InteractiveKind.SHELL:
        return {f"fleet attach -i -t {name}": "the shell, once it runs", **steps}
    if request.interactive is InteractiveKind.NOTEBOOK:
        return {f"fleet port-forward {name} {PORT}": "the server, once it runs; its log has the address", **steps}
    return steps


def _followed(hub: CommandTarget, jobs: list[Body], goal: Goal | None, wait: bool, logs: bool) -> None:
    """Wait until one of the jobs reaches the goal, or for the end of all, with the log of the one where asked for. The
    exit status is 1 when one fails."""
    from fleet.cli import joblog
    from fleet.cli.sweep import follow, sweep_in
    from fleet.cli.wait import WaitGoal
    from fleet.cli.wait import wait as wait_for

    names = [kind_and_name(job) for job in jobs]
    options: dict[str, Any] = {
        "namespace": jobs[0]["metadata"]["namespace"],
        "kubeconfig": hub.kubeconfig,
        "context": hub.context,
        "data_dir": hub.data_dir,
    }
    if goal is not None:
        follow(hub.connect(), *sweep_in(jobs, hub.namespace()), goal)
        return
    if logs:
        with suppress(typer.Exit):  # of a job that failed at once: its log says why
            wait_for(names, until=WaitGoal.started, **options)
        try:
            joblog.logs(names[0], follow=True, **options)
        except Failure as failure:  # the exit status is the job's, not its log's
            print(f"fleet: {failure}", file=sys.stderr)
        except typer.Exit:
            pass
    if wait or logs:
        wait_for(names, until=WaitGoal.finished, **options)
