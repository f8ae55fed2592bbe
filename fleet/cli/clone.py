"""`fleet clone`: a job once more, under a new name and with changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.failure import Failure
from fleet.cli.jobselection import job_of
from fleet.cli.options import ContextOption, DataDirOption, JobArgument, KubeconfigOption, NamespaceOption

if TYPE_CHECKING:
    from fleet.cli.hub import HubClient
    from fleet.cli.jobselection import HubJob

NAME_MOST = 57  # characters of the old name in a generated one


def clone(
    job: JobArgument,
    name: Annotated[str | None, typer.Argument(help="Name of the new job (default: one is made from the old).")] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="PATH=VALUE", help="spec.pytorchReplicaSpecs.Worker.replicas=4; may be repeated."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the new job, and submit nothing.")] = False,
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Submit a job once more under a new name, with changes.

    A value is read as JSON where that is possible, else as text. The step of a list is a number: containers.0.image=I.
    Code that fleet run sent along is copied for the new job.
    """
    from fleet.cli.creating import created
    from fleet.cli.run import CommandTarget, print_as
    from fleet.cli.run_options import PrintForm, random_end
    from fleet.submission.cloning import code_map, with_own_code
    from fleet.submission.dumps import as_written

    where = CommandTarget(kubeconfig, data_dir, context, namespace)
    hub = where.connect()
    old = job_of(hub, where.namespace(), job)
    body = as_written(hub.request("GET", old.path).body)
    metadata, has_code = body["metadata"], code_map(body)
    if name or has_code:
        metadata["name"] = name or f"{old.name[:NAME_MOST]}-{random_end()}"
    else:
        metadata.pop("name")
        metadata["generateName"] = f"{old.name[:NAME_MOST]}-"
    for text in changes or ():
        put(body, text)
    code = [with_own_code(body, _code(hub, old, has_code))] if has_code else []
    if dry_run:
        print_as([*code, body], PrintForm.yaml)
        return
    made = created(where, [*code, body])[0][0] if code else hub.request("POST", old.path.rpartition("/")[0], body).body
    print(f"{old.kind.lower()}/{made['metadata']['name']} created, as {old}")


def _code(hub: HubClient, job: HubJob, name: str) -> dict[str, Any]:
    """The ConfigMap with the code of the job. Raises Failure."""
    found = hub.find(f"/api/v1/namespaces/{job.namespace}/configmaps/{name}")
    if found is None:
        raise Failure(f"{job}: its code has gone (configmap/{name}): fleet run --code sends it again")
    return found


def put(body: dict[str, Any], text: str) -> None:
    """Change one field, as --set says it. Raises Failure, which names the step that is not there."""
    path, equals, value = text.partition("=")
    steps = path.split(".")
    if not equals or not all(steps):
        raise Failure(f"--set {text}: is not of the form spec.a.b=VALUE")
    place: Any = body
    for number, step in enumerate(steps):
        here = ".".join(steps[:number]) or "the job"
        if isinstance(place, list):
            if not step.isdigit() or int(step) >= len(place):
                raise Failure(f"--set {text}: {here} is a list of {len(place)}: {step} is no number of an item")
        elif not isinstance(place, dict):
            raise Failure(f"--set {text}: {here} has no fields")
        at: Any = int(step) if isinstance(place, list) else step
        if number == len(steps) - 1:
            place[at] = _value(value)
        else:
            place = place.setdefault(at, {}) if isinstance(place, dict) else place[at]


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
