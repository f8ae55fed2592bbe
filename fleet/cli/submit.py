"""`fleet submit`: hand manifests to the hub without kubectl.

Objects are applied on the server (applying.py). One job may become a sweep or an array (fleet/submission/series.py). A
document that is refused does not stop the others.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption
from fleet.cli.series import AfterOption, ArrayOption, AtMostOption, SweepOption, UntilOption, goal_of, series_of

if TYPE_CHECKING:
    from fleet.cli.applying import Applier
    from fleet.cli.hub import HubClient
    from fleet.submission import Series

Body = dict[str, Any]

TAKEN_WITHIN_S = 10.0  # how long one command waits to say what has taken its jobs
TAKEN_EVERY_S = 0.1
GONE_WITHIN_S = 300.0  # how long a job that is replaced may take to leave
OVER = ("Succeeded", "Failed")
DELETING = "Deleting"
FEW = 20  # objects, of which each line waits to say what has taken it


class SubmitOutput(StrEnum):
    name = "name"
    json = "json"
    yaml = "yaml"


def submit(
    files: Annotated[
        list[Path], typer.Argument(help='YAML files or directories with jobs, policies, anything ("-": stdin).')
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the hub check everything, and store nothing.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Delete a job of the same name that is over, and run it again.")
    ] = False,
    sweep: SweepOption = None,
    array: ArrayOption = "",
    at_most: AtMostOption = None,
    after: AfterOption = None,
    until: UntilOption = "",
    output: Annotated[
        SubmitOutput | None, typer.Option("--output", "-o", help="Print the objects, or their names alone.")
    ] = None,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Apply manifests to the hub, as `kubectl apply` would.

    Of each job it says which queue has taken it. A document that is refused does not stop the others; the exit status
    is 1 then.
    """
    from fleet.cli.applying import Applier
    from fleet.cli.hub import connect
    from fleet.cli.manifests import documents_of

    series = series_of(sweep, array, at_most, after)
    goal = goal_of(until, series)
    bodies, faults = documents_of(files)
    _agree(bodies, namespace)
    if bodies:
        hub = connect(kubeconfig, data_dir, context)
        applier = Applier(hub, namespace or hub.namespace, dry_run=dry_run)
        bodies = expand(hub, bodies, series)
        told = _told(hub, _applied(applier, bodies, replace), quiet=dry_run or len(bodies) > FEW)
        try:
            faults += _printed(told, output)
        except KeyboardInterrupt:
            named = all(body["metadata"].get("name") for body in bodies)
            again = "submits the rest" if named else "generates other names, so look first: fleet jobs"
            print(f"\ncut short after the objects above; the same command {again}", file=sys.stderr)
            raise typer.Exit(130) from None
    for fault in faults:
        print(f"fleet: {fault}", file=sys.stderr)
    if goal is not None and bodies and not dry_run and not faults:
        from fleet.cli.sweep import follow, sweep_in

        follow(hub, *sweep_in(bodies, applier.namespace), goal)
    if faults:
        raise typer.Exit(1)


def expand(hub: HubClient, bodies: list[Body], series: Series) -> list[Body]:
    """The objects with what the options say of the jobs among them. Raises Failure."""
    from fleet.cli.declarations import know_kinds
    from fleet.kinds.lookup import interpreter_of
    from fleet.submission import RequestFault, expanded

    if any(interpreter_of(body["apiVersion"], body["kind"]) is None for body in bodies):
        know_kinds(bodies, hub)
    jobs = [body for body in bodies if interpreter_of(body["apiVersion"], body["kind"]) is not None]
    if series.many and len(jobs) != 1:
        raise Failure(f"a sweep or an array is made of one job, and there are {len(jobs)}")
    if series.after and not jobs:
        raise Failure("--after is about jobs, and there are none")
    result: list[Body] = []
    for body in bodies:
        if body not in jobs:
            result.append(body)
            continue
        if series.many and not body["metadata"].get("name"):
            body = {**body, "metadata": {**body["metadata"], "name": _name_of(body)}}
        try:
            result += expanded(body, series)
        except RequestFault as wrong:
            raise Failure(f"--{wrong.part}: {wrong.why}") from wrong
    return result


def _name_of(job: Body) -> str:
    """A name for a sweep whose job has only a prefix of one, as the hub would complete it."""
    import secrets

    prefix = str(job["metadata"].pop("generateName")).rstrip("-")
    return f"{prefix}-" + "".join(secrets.choice("bcdfghjklmnpqrstvwxz2456789") for _ in range(5))


def _applied(applier: Applier, bodies: Sequence[Body], replace: bool) -> Iterator[tuple[str, Body] | Failure]:
    """Each object with its line, or why it is refused."""
    from fleet.cli.applying import UnservedKind
    from fleet.cli.hub import HubRefusal

    for body in bodies:
        try:
            old = _over(applier, body) if replace else None
            if old is not None:
                line, stored = applier.would_replace(body)
                if not applier.dry_run:
                    _leave(applier, body, old)
                    stored = applier.apply(body)[1]
                yield line, stored
            else:
                yield applier.apply(body)
        except (UnservedKind, HubRefusal) as failure:
            yield failure


def _agree(bodies: Sequence[Body], namespace: str | None) -> None:
    """Raises Failure for a manifest that names another namespace than the user, as kubectl refuses it. Nothing is
    stored then."""
    for body in bodies:
        said = body["metadata"].get("namespace")
        if namespace and said and said != namespace:
            named = f"{body['kind']} {body['metadata'].get('name', '')}"
            raise Failure(f"{named} is of namespace {said}, and --namespace says {namespace}")


def _over(applier: Applier, body: Body) -> Body | None:
    """The job of this name, where it is over or on its way out; None else."""
    from fleet.kinds.lookup import word_of

    name = body["metadata"].get("name")
    namespace = body["metadata"].get("namespace") or applier.namespace
    job = applier.hub.find(f"/fleet/v1/jobs/{namespace}/{word_of(body)}/{name}") if name else None
    return job if job is not None and job.get("state") in (*OVER, DELETING) else None


def _leave(applier: Applier, body: Body, job: Body) -> None:
    """Delete the job, and return when it has left. Raises Failure."""
    hub, (_, path) = applier.hub, applier.addressed(body)
    if job["state"] != DELETING:  # else by a command that was cut short, or by somebody else
        hub.request("DELETE", path, missing=True)
    ends = time.monotonic() + GONE_WITHIN_S
    while (hub.find(path) or {}).get("metadata", {}).get("uid") == job.get("uid"):
        if time.monotonic() > ends:
            name = f"{body['kind'].lower()}/{body['metadata']['name']}"
            raise Failure(f"{name} is deleted, and has not left after {GONE_WITHIN_S:g} s")
        time.sleep(TAKEN_EVERY_S)


def _told(
    hub: HubClient, applied: Iterator[tuple[str, Body] | Failure], *, quiet: bool
) -> Iterator[tuple[str, Body] | Failure]:
    """Each line with the queue that has taken the job. `quiet`: each line at once, without it."""
    if quiet:
        yield from applied
        return
    done: list[tuple[str, Body] | Failure] = []
    try:
        done += applied
    except (Failure, KeyboardInterrupt):
        yield from done
        raise
    ends = time.monotonic() + TAKEN_WITHIN_S
    interrupted: KeyboardInterrupt | None = None
    for outcome in done:
        by = ""
        try:
            by = "" if isinstance(outcome, Failure) or interrupted else await_policy(hub, outcome[1], ends)
        except KeyboardInterrupt as ctrl_c:  # what was written is said all the same
            interrupted = ctrl_c
        yield outcome if isinstance(outcome, Failure) else (outcome[0] + by, outcome[1])
    if interrupted is not None:
        raise interrupted


def _printed(outcomes: Iterator[tuple[str, Body] | Failure], output: SubmitOutput | None) -> list[str]:
    """Print what was done; returns why objects were refused."""
    from fleet.cli.options import Output
    from fleet.cli.output import show_one

    faults: list[str] = []
    bodies: list[Body] = []
    for outcome in outcomes:
        if isinstance(outcome, Failure):
            faults.append(str(outcome))
            continue
        line, body = outcome
        bodies.append(body)
        if output in (None, SubmitOutput.name):
            print(line if output is None else line.partition(" ")[0], flush=True)
    if bodies and output in (SubmitOutput.json, SubmitOutput.yaml):
        listed = bodies[0] if len(bodies) == 1 else {"apiVersion": "v1", "kind": "List", "items": bodies}
        show_one(listed, Output(output))
    return faults


def await_policy(hub: HubClient, body: Body, ends: float) -> str:
    """The policy that has taken a job, for its line: waits for it, but not past `ends` (monotonic). "" for what is no
    job."""
    from fleet.cli.hub import HubRefusal
    from fleet.kinds.lookup import interpreter_of, word_of

    if interpreter_of(body["apiVersion"], body["kind"]) is None:
        return ""
    metadata = body["metadata"]
    path = f"/fleet/v1/jobs/{metadata['namespace']}/{word_of(body)}/{metadata['name']}"
    while True:
        try:
            job = hub.find(path) or {}
        except HubRefusal:  # a user who may create the object may not be allowed to look at it
            return ""
        if job.get("state") == DELETING:
            return "; it is being deleted: --replace waits for that, and runs it again"
        if job.get("state") in OVER:
            return f", finished ({job['state']}); --replace runs it again"
        if job.get("queue") or job.get("member"):
            return f", in queue {job['queue']}" if job["queue"] else f", in {job['member']}"
        if (job.get("reason") or {}).get("code") == "NoQueue":
            return ""  # a warning of the hub has said so
        if time.monotonic() >= ends:
            return f"; {job['reason']['text']}" if job.get("state") == "Unclaimed" else ""
        time.sleep(TAKEN_EVERY_S)
