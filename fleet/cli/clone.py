"""`fleet clone`: a job once more, under a new name and with changes."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

from fleet.cli.chosen import job_of
from fleet.cli.failure import Failure
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption

NAME_MOST = 57  # characters of the old name in a generated one


def clone(
    job: Annotated[str, typer.Argument(help="NAME, or KIND/NAME when several kinds have a job of that name.")],
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
    """
    from fleet.amc import yamlout
    from fleet.cli.hub import connect
    from fleet.engine.dumps import as_written

    hub = connect(kubeconfig, data_dir, context)
    old = job_of(hub, namespace or hub.namespace, job)
    body = as_written(hub.request("GET", old.path).body)
    metadata = body["metadata"]
    if name:
        metadata["name"] = name
    else:
        metadata.pop("name")
        metadata["generateName"] = f"{old.name[:NAME_MOST]}-"
    for text in changes or ():
        _set(body, text)
    if dry_run:
        sys.stdout.write(yamlout.as_yaml(body))
        return
    made = hub.request("POST", old.path.rpartition("/")[0], body).body
    print(f"{old.kind.lower()}/{made['metadata']['name']} created, as {old}")


def _set(body: dict[str, Any], text: str) -> None:
    """Raises Failure, which names the step that is not there."""
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
