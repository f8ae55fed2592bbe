"""`fleet submit`: hand manifests to the hub without kubectl, and so that kubectl may go on with what was submitted.

Objects are applied on the server under the name that kubectl uses there, with the manifest in the annotation that
`kubectl apply` compares with: a field that leaves a manifest leaves the object, whichever of them applied it before.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleet.cli.failure import Failure
from fleet.cli.manifests import documents
from fleet.cli.options import ContextOption, DataDirOption, KubeconfigOption, NamespaceOption

if TYPE_CHECKING:
    from fleet.amc.discovery import Resource
    from fleet.cli.hub import Hub

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
MANAGER = "kubectl"
HOW = f"?fieldManager={MANAGER}&force=true&fieldValidation=Strict"
FOLDED = (("kubectl-client-side-apply", "Update"), ("fleet-submit", "Apply"))  # the second: of older releases
FOLD_TRIES = 3
NOTED_MOST_BYTES = 200_000  # of a manifest that is noted in an annotation, which may have 256 KiB
TAKEN_WITHIN_S = 3.0  # how long one command waits to say what has taken its jobs
TAKEN_EVERY_S = 0.1
OVER = ("Succeeded", "Failed")


def submit(
    files: Annotated[list[Path], typer.Argument(help='YAML files with jobs, policies, anything ("-": stdin).')],
    namespace: NamespaceOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    data_dir: DataDirOption = None,
) -> None:
    """Apply manifests to the hub, as `kubectl apply` would.

    Of each job it says which queue has taken it.
    """
    from fleet.cli.declared import know_kinds
    from fleet.cli.hub import connect
    from fleet.kinds.lookup import interpreter_of

    bodies = [body for path in files for body in documents(path)]
    _agree(bodies, namespace)
    hub = connect(kubeconfig, data_dir, context)
    done: list[tuple[str, dict[str, Any]]] = []
    try:
        for one in apply(hub, bodies, namespace or hub.namespace):
            done.append(one)
    except Failure:
        print("".join(f"{line}\n" for line, _ in done), end="", flush=True)
        raise
    if any(interpreter_of(body["apiVersion"], body["kind"]) is None for _, body in done):
        know_kinds((), hub)
    ends = time.monotonic() + TAKEN_WITHIN_S
    for line, body in done:
        print(line + taken(hub, body, ends), flush=True)


def _agree(bodies: list[dict[str, Any]], namespace: str | None) -> None:
    """Raises Failure for a manifest that names another namespace than the user, as kubectl refuses it."""
    for body in bodies:
        said = body["metadata"].get("namespace")
        if namespace and said and said != namespace:
            raise Failure(
                f"{body['kind']} {body['metadata'].get('name', '')} is of namespace {said}, and --namespace says"
                f" {namespace}"
            )


def apply(hub: Hub, bodies: list[dict[str, Any]], namespace: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Apply each object; yields a line each, as kubectl prints them, and the stored object. Raises Failure at the first
    that is refused."""
    for resource, collection, body in _addressed(hub, bodies, namespace):
        if body["metadata"].get("name"):
            path = f"{collection}/{body['metadata']['name']}"
            _fold(hub, path)
            answer = hub.request("PATCH", f"{path}{HOW}", _noted(body), content_type=APPLY)
        else:
            answer = hub.request("POST", f"{collection}?fieldManager={MANAGER}-create&fieldValidation=Strict", body)
        how = "created" if answer.status == 201 else "applied"
        yield f"{resource.prefix}/{answer.body['metadata']['name']} {how}", answer.body


def dry_run(hub: Hub, bodies: list[dict[str, Any]], namespace: str) -> list[dict[str, Any]]:
    """The objects as the hub would store them, with all its checks and defaults; nothing is stored. Raises Failure."""
    found = []
    for _, collection, body in _addressed(hub, bodies, namespace):
        name = body["metadata"].get("name")
        method, path, content_type = ("PATCH", f"{collection}/{name}{HOW}&", APPLY) if name else (
            "POST", f"{collection}?fieldValidation=Strict&", "application/json"
        )  # fmt: skip
        found.append(hub.request(method, f"{path}dryRun=All", body, content_type=content_type).body)
    return found


def _addressed(
    hub: Hub, bodies: list[dict[str, Any]], namespace: str
) -> Iterator[tuple[Resource, str, dict[str, Any]]]:
    """Each object with its resource and the path of its collection."""
    from fleet.amc.discovery import discover

    known = {(resource.group, resource.kind): resource for resource in reversed(discover(hub.client))}
    for body in bodies:
        group, _, version = body["apiVersion"].rpartition("/")
        resource = known.get((group, body["kind"]))
        if resource is None:
            raise Failure(f'the hub does not serve kind "{body["kind"]}" of {body["apiVersion"]}')
        base = f"/apis/{group}/{version}" if group else f"/api/{version}"
        where = f"/namespaces/{body['metadata'].get('namespace') or namespace}" if resource.namespaced else ""
        yield resource, f"{base}{where}/{resource.plural}", body


def _noted(body: dict[str, Any]) -> dict[str, Any]:
    """With itself in the annotation of `kubectl apply`."""
    from fleet.engine.dumps import LAST_APPLIED

    text = json.dumps(body, separators=(",", ":")) + "\n"
    if len(text.encode()) > NOTED_MOST_BYTES:
        return body
    annotations = {**(body["metadata"].get("annotations") or {}), LAST_APPLIED: text}
    return {**body, "metadata": {**body["metadata"], "annotations": annotations}}


def _fold(hub: Hub, path: str) -> None:
    """Make the fields that `kubectl apply` holds ours, so that fields that have left the manifest leave the object."""
    from fleet.cli.hub import Refused

    for attempt in range(1, FOLD_TRIES + 1):
        try:
            metadata = (hub.find(path) or {}).get("metadata") or {}
        except Refused:  # a user who may write the object may not be allowed to look at it
            return
        managed = folded(metadata.get("managedFields") or [])
        if managed is None:
            return
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "managedFields": managed}}
        try:
            hub.request("PATCH", path, patch, content_type=MERGE)
            return
        except Refused as refused:
            if refused.status != 409 or attempt == FOLD_TRIES:
                raise


def folded(managed: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """`managed` with what FOLDED hold in one entry of MANAGER; None when they hold nothing."""
    theirs = [e for e in managed if (e.get("manager"), e.get("operation")) in FOLDED and not e.get("subresource")]
    if not theirs:
        return None
    ours = [e for e in managed if (e.get("manager"), e.get("operation")) == (MANAGER, "Apply")]
    whole = {**theirs[0], "manager": MANAGER, "operation": "Apply"}
    for entry in (*theirs[1:], *ours):
        whole["fieldsV1"] = _union(whole.get("fieldsV1") or {}, entry.get("fieldsV1") or {})
    return [*(entry for entry in managed if entry not in theirs and entry not in ours), whole]


def _union(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {key: _union(one.get(key) or {}, other.get(key) or {}) for key in {**one, **other}}


def taken(hub: Hub, body: dict[str, Any], ends: float) -> str:
    """The policy that has taken a job, for its line: waits for it, but not past `ends` (monotonic). "" for what is no
    job."""
    from fleet.cli.hub import Refused
    from fleet.kinds.lookup import interpreter_of

    if interpreter_of(body["apiVersion"], body["kind"]) is None:
        return ""
    metadata = body["metadata"]
    path = f"/fleet/v1/jobs/{metadata['namespace']}/{body['kind']}/{metadata['name']}"
    while True:
        try:
            job = hub.find(path) or {}
        except Refused:  # a user who may create the object may not be allowed to look at it
            return ""
        if job.get("state") in OVER:
            return f", finished ({job['state']})"
        if job.get("queue") or job.get("member"):
            return f", in queue {job['queue']}" if job["queue"] else f", in {job['member']}"
        if time.monotonic() >= ends:
            return f"; {job['reason']['text']}" if job.get("state") == "Unclaimed" else ""
        time.sleep(TAKEN_EVERY_S)
