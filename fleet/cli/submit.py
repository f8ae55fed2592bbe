"""`fleet submit`: hand manifests to the hub without kubectl."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.failure import Failure
from fleet.cli.options import DataDirOption, KubeconfigOption

if TYPE_CHECKING:
    from fleet.amc.discovery import Resource
    from fleet.cli.hub import Hub

APPLY = "application/apply-patch+yaml"
HOW = "?fieldManager=fleet-submit&force=true&fieldValidation=Strict"


def submit(
    files: Annotated[list[Path], typer.Argument(help='YAML files with jobs, policies, anything ("-": stdin).')],
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="For objects that name none.")] = "default",
    kubeconfig: KubeconfigOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Apply manifests to the hub, as `kubectl apply` would."""
    from fleet.cli.hub import connect

    hub = connect(kubeconfig, data_dir)
    for line in apply(hub, [body for path in files for body in documents(path)], namespace):
        print(line)


def documents(path: Path) -> list[dict[str, Any]]:
    """The objects of one YAML file. Raises Failure."""
    import yaml

    from fleet.amc.kubeconfig import Loader

    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text()
        found = [document for document in yaml.load_all(text, Loader=Loader) if document is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        raise Failure(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    for number, document in enumerate(found, start=1):
        named = isinstance(document, dict) and (document.get("metadata") or {}).get("name")
        if not named or not document.get("apiVersion") or not document.get("kind"):
            raise Failure(f"{path}: document {number} is no object (apiVersion, kind and metadata.name are required)")
    return found


def apply(hub: Hub, bodies: list[dict[str, Any]], namespace: str) -> list[str]:
    """Apply each object; returns a line each, as kubectl prints them. Raises Failure at the first that is refused."""
    lines = []
    for resource, path, body in _addressed(hub, bodies, namespace):
        answer = hub.request("PATCH", f"{path}{HOW}", body, content_type=APPLY)
        name = body["metadata"]["name"]
        lines.append(f"{resource.prefix}/{name} {'created' if answer.status == 201 else 'applied'}")
    return lines


def dry_run(hub: Hub, bodies: list[dict[str, Any]], namespace: str) -> list[dict[str, Any]]:
    """The objects as the hub would store them, with all its checks and defaults; nothing is stored. Raises Failure."""
    return [
        hub.request("PATCH", f"{path}{HOW}&dryRun=All", body, content_type=APPLY).body
        for _, path, body in _addressed(hub, bodies, namespace)
    ]


def _addressed(
    hub: Hub, bodies: list[dict[str, Any]], namespace: str
) -> Iterator[tuple[Resource, str, dict[str, Any]]]:
    """Each object with its resource and its path."""
    from fleet.amc.discovery import discover

    known = {(resource.group, resource.kind): resource for resource in reversed(discover(hub.client))}
    for body in bodies:
        group = body["apiVersion"].rpartition("/")[0]
        resource = known.get((group, body["kind"]))
        if resource is None:
            raise Failure(f'the hub does not serve kind "{body["kind"]}" of {body["apiVersion"]}')
        version = body["apiVersion"].rpartition("/")[2]
        base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        where = f"/namespaces/{body['metadata'].get('namespace') or namespace}" if resource.namespaced else ""
        yield resource, f"{base}{where}/{resource.plural}/{body['metadata']['name']}", body
