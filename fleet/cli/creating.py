"""The objects of `fleet run` and `fleet clone`, created one by one, so that a command cut short may be given again.

A command that was killed leaves some of its objects. The same command with the same name finds them, and makes the
others: an object that has every field of the manifest is taken for that of the first try.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from fleet.wellknown import LABEL_SWEEP

if TYPE_CHECKING:
    from fleet.cli.run import CommandTarget

Body = dict[str, Any]
MERGE = "application/merge-patch+json"
CONFLICT = 409


def collection(body: Body, namespace: str) -> str:
    """The path where objects of this kind are created."""
    base = "api" if "/" not in body["apiVersion"] else "apis"
    there = body["metadata"].get("namespace") or namespace
    return f"/{base}/{body['apiVersion']}/namespaces/{there}/{body['kind'].lower()}s"


def post(hub: CommandTarget, body: Body, more: str = "") -> Body:
    """The object as the hub stores it. Raises HubRefusal."""
    path = f"{collection(body, hub.namespace())}?fieldManager=fleet-run&fieldValidation=Strict{more}"
    made: Body = hub.connect().request("POST", path, body).body
    return made


def created(hub: CommandTarget, bodies: list[Body]) -> tuple[list[Body], set[str]]:
    """The jobs as the hub stored them, and the names of those that an earlier try made. Their code comes first, since
    they would wait for it, and then belongs to them: the hub deletes the ConfigMap with the last. Raises HubRefusal
    where all are there already."""
    from fleet.cli.hub import HubRefusal

    code = [body for body in bodies if body["kind"] == "ConfigMap"]
    jobs = bodies[len(code) :]
    stored_jobs: list[Body] = []
    earlier: set[str] = set()
    fresh = False
    refusal: HubRefusal | None = None
    try:
        for body in code:
            fresh = _stored(hub, body)[1] or fresh
        for job in jobs:
            try:
                stored_jobs.append(post(hub, job))
            except HubRefusal as refused:
                there = _earlier(hub, job, refused)
                refusal = refused
                stored_jobs.append(there)
                earlier.add(there["metadata"]["name"])
    except KeyboardInterrupt:
        _cut_short(stored_jobs, jobs)
    finally:
        _give(hub, code, stored_jobs, fresh=fresh)
    if refusal is not None and len(earlier) == len(jobs):
        raise HubRefusal(f"{refusal}, as this command makes it: fleet explain tells how a job stands", refusal.status)
    return stored_jobs, earlier


def _stored(hub: CommandTarget, body: Body) -> tuple[Body, bool]:
    """The object, and whether this command made it. Raises HubRefusal for another object of its name."""
    from fleet.cli.hub import HubRefusal

    try:
        return post(hub, body), True
    except HubRefusal as refused:
        return _earlier(hub, body, refused), False


def _earlier(hub: CommandTarget, body: Body, refused: Any) -> Body:
    """The object of an earlier try, for which this create was refused. Raises `refused` where there is none."""
    from fleet.cli.hub import HubRefusal

    if refused.status != CONFLICT:
        raise refused
    try:
        there = hub.connect().find(f"{collection(body, hub.namespace())}/{body['metadata']['name']}")
    except HubRefusal:  # a user who may create objects may not be allowed to look at them
        raise refused from None
    if there is None or "deletionTimestamp" in there["metadata"] or not within(body, there):
        raise refused
    return there


def within(manifest: Any, stored: Any) -> bool:
    """Whether the stored object has each field of the manifest, with the same value. The hub only adds defaults."""
    if isinstance(manifest, dict):
        return isinstance(stored, dict) and all(k in stored and within(v, stored[k]) for k, v in manifest.items())
    if isinstance(manifest, list):
        return isinstance(stored, list) and len(manifest) == len(stored) and all(map(within, manifest, stored))
    return bool(manifest == stored)


def _give(hub: CommandTarget, code: list[Body], jobs: list[Body], *, fresh: bool) -> None:
    """Make the code belong to the jobs. Code that this command made, and that no job needs, is deleted."""
    owners = [
        {
            "apiVersion": one["apiVersion"],
            "kind": one["kind"],
            "name": one["metadata"]["name"],
            "uid": one["metadata"]["uid"],
        }
        for one in jobs
    ]
    for body in code:
        path = f"{collection(body, hub.namespace())}/{body['metadata']['name']}"
        if owners:
            hub.connect().request("PATCH", path, {"metadata": {"ownerReferences": owners}}, content_type=MERGE)
        elif fresh:
            hub.connect().request("DELETE", path, missing=True)


def kind_and_name(body: Body) -> str:
    return f"{body['kind'].lower()}/{body['metadata']['name']}"


def stop_words(jobs: Sequence[Body]) -> str:
    """The command that stops these jobs, of the manifests as they were asked for."""
    metadata, sweep = jobs[0]["metadata"], sweep_of(jobs[0])
    there = f" -n {metadata['namespace']}" if metadata.get("namespace") else ""
    return f"fleet cancel {f'-l {LABEL_SWEEP}={sweep}' if sweep else metadata['name']}{there}"


def sweep_of(job: Body) -> str:
    return str((job["metadata"].get("labels") or {}).get(LABEL_SWEEP) or "")


def _cut_short(made: list[Body], jobs: list[Body]) -> NoReturn:
    """Say what was created when Ctrl-C came, and end."""
    for line in _said(made, jobs):
        print(line, file=sys.stderr)
    raise typer.Exit(130)


def _said(created: list[Body], jobs: list[Body]) -> Iterator[str]:
    asked = (
        f"; whether {kind_and_name(jobs[len(created)])} was is not known: fleet jobs tells"
        if len(created) < len(jobs)
        else ""
    )
    yield f"\n{len(created)} of {len(jobs)} jobs created{asked}"
    yield f"{stop_words(jobs)} stops what was created"
    name = sweep_of(jobs[0]) or jobs[0]["metadata"]["name"]
    yield f"the same command with --name {name} makes what is missing"
