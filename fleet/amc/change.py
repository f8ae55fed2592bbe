"""`kubectl amc apply` and `delete`: objects in members that are the members' own.

An object that the hub put there is refused: the hub would put it back as its job says, so the job is what to change.
What such an object has made itself, as a job its pods, may be deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import yaml

from fleet.amc.client import Client, NoAnswer, ServerAnswer
from fleet.amc.discovery import Resource, discover, resolve
from fleet.amc.get import HUB_LABEL, CommandRefusal, Query, at_once, of_members, proxy, resolve_all, silence

MANAGER = "kubectl-amc"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Body = dict[str, Any]
Said = tuple[list[str], list[str]]  # lines for stdout, and for stderr


@dataclass(frozen=True)
class ApplyOptions:
    """How to apply. `members` None: all."""

    members: Sequence[str] | None
    namespace: str
    dry_run: bool = False
    force: bool = False


def documents(texts: Sequence[tuple[str, bytes]]) -> list[Body]:
    """The objects of files: (name, content) each; several documents and Lists too. Raises CommandRefusal."""
    bodies: list[Body] = []
    for name, content in texts:
        try:
            loaded = list(yaml.load_all(content, Loader=_Loader))
        except (yaml.YAMLError, ValueError) as error:
            raise CommandRefusal(f"error: {name} is not YAML: {' '.join(str(error).split())}") from error
        for document in _flat(loaded):
            body = document if isinstance(document, dict) else {}
            metadata = body.get("metadata")
            named = metadata.get("name") if isinstance(metadata, dict) else None
            if not (body.get("apiVersion") and body.get("kind") and named):
                raise CommandRefusal(f"error: {name}: an object needs apiVersion, kind and metadata.name")
            bodies.append(body)
    if not bodies:
        raise CommandRefusal("error: no object is given")
    return bodies


def _flat(documents: Sequence[Any]) -> Iterator[Any]:
    for document in documents:
        if isinstance(document, dict) and isinstance(document.get("items"), list):
            yield from _flat(document["items"])
        elif document is not None:
            yield document


def read(files: Sequence[str], stdin: bytes | None) -> list[tuple[str, bytes]]:
    """The content of each file. `stdin`: of "-". Raises CommandRefusal."""
    try:
        return [(name, (stdin or b"") if name == "-" else Path(name).read_bytes()) for name in files]
    except OSError as error:
        raise CommandRefusal(f"error: cannot read {error.filename}: {error.strerror or error}") from error


def apply(client: Client, bodies: Sequence[Body], choices: ApplyOptions) -> Said:
    """Apply each object in each member, by server-side apply. Raises NoAnswer and CommandRefusal."""
    for body in bodies:
        if HUB_LABEL in (body["metadata"].get("labels") or {}):
            raise CommandRefusal(f"error: {_named(body)} has the label {HUB_LABEL}, which is the hub's to set")

    def one(member: str) -> Said:
        done: list[str] = []
        failed: list[str] = []
        try:
            known = discover(client, proxy(member))
            for body in bodies:
                try:
                    done.append(f"{_named(body)} {_applied(client, member, known, body, choices)}")
                except CommandRefusal as refused:
                    failed.append(f"cluster({member}): {refused}")
        except NoAnswer as error:
            failed.append(silence(member, error))
        return done, failed

    return _all(at_once(one, of_members(client, choices.members)))


def _applied(client: Client, member: str, known: list[Resource], body: Body, choices: ApplyOptions) -> str:
    group, _, version = str(body["apiVersion"]).rpartition("/")
    resource = next((one for one in known if (one.group, one.kind) == (group, body["kind"])), None) or resolve(
        str(body["kind"]).lower(), [one for one in known if one.group == group]
    )
    if resource is None:
        raise CommandRefusal(f'the server doesn\'t have a resource type "{body["kind"]}" in {body["apiVersion"]}')
    if resource.version != version:
        resource = Resource(group, version, resource.plural, resource.singular, resource.kind, resource.namespaced)
    namespace = str(body["metadata"].get("namespace") or choices.namespace)
    path = proxy(member) + resource.path(namespace, quote(str(body["metadata"]["name"]), safe=""))
    there = client.get(path)
    if there.ok and managed(there.body):
        raise CommandRefusal(f"{_named(body)} was put there by the hub: change it on the hub")
    if not there.ok and there.status != 404:
        raise CommandRefusal(_why(there))
    options = {"fieldManager": MANAGER, "fieldValidation": "Strict"}
    options |= {"force": "true"} if choices.force else {}
    options |= {"dryRun": "All"} if choices.dry_run else {}
    answer = client.request("PATCH", f"{path}?{urlencode(options)}", body, content_type="application/apply-patch+yaml")
    if not answer.ok:
        raise CommandRefusal(_why(answer))
    return f"serverside-applied in {member}{' (server dry run)' * choices.dry_run}"


def delete(client: Client, query: Query, *, dry_run: bool = False) -> Said:
    """Delete the objects that are named, or chosen by their labels. Raises NoAnswer and CommandRefusal."""
    members = of_members(client, query.members)
    resources = resolve_all(client, query.words, members)
    if not query.names and not query.selector:
        raise CommandRefusal("error: name the objects, or choose them by their labels with -l")

    def one(member: str) -> Said:
        done: list[str] = []
        failed: list[str] = []
        for resource in resources:
            try:
                for name in query.names or _chosen(client, member, resource, query):
                    try:
                        done.append(_deleted(client, member, resource, query.namespace, name, dry_run=dry_run))
                    except CommandRefusal as refused:
                        failed.append(f"cluster({member}): {refused}")
            except CommandRefusal as refused:
                failed.append(f"cluster({member}): {refused}")
            except NoAnswer as error:
                failed.append(silence(member, error))
                break
        return done, failed

    return _all(at_once(one, members))


def _chosen(client: Client, member: str, resource: Resource, query: Query) -> list[str]:
    path = f"{proxy(member)}{resource.path(query.namespace)}?{urlencode({'labelSelector': query.selector})}"
    answer = client.get(path, "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
    if not answer.ok:
        raise CommandRefusal(_why(answer))
    return [item["metadata"]["name"] for item in answer.body.get("items") or []]


def _deleted(
    client: Client, member: str, resource: Resource, namespace: str | None, name: str, *, dry_run: bool
) -> str:
    path = proxy(member) + resource.path(namespace, quote(name, safe=""))
    lookup = client.get(path)
    if not lookup.ok:
        missing = lookup.status == 404 and ((lookup.body or {}).get("details") or {}).get("name")
        raise CommandRefusal(f'{resource.group_resource} "{name}" not found' if missing else _why(lookup))
    if managed(lookup.body):
        raise CommandRefusal(f"{resource.prefix}/{name} was put there by the hub: delete it on the hub")
    options = {"dryRun": ["All"]} if dry_run else {}
    precondition = {"uid": lookup.body["metadata"]["uid"]}
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"}
    answer = client.request("DELETE", path, {**body, "preconditions": precondition, **options})
    if not answer.ok:
        raise CommandRefusal(_why(answer))
    return f'{resource.prefix} "{name}" deleted from {member}{" (server dry run)" * dry_run}'


def managed(body: Body) -> bool:
    """Whether the hub put the object there itself: it has the hub's label, and no controller has made it."""
    meta = body.get("metadata") or {}
    made = any(owner.get("controller") for owner in meta.get("ownerReferences") or [])
    return HUB_LABEL in (meta.get("labels") or {}) and not made


def _named(body: Body) -> str:
    group = str(body["apiVersion"]).rpartition("/")[0]
    return f"{str(body['kind']).lower()}{f'.{group}' if group else ''}/{body['metadata']['name']}"


def _why(answer: ServerAnswer) -> str:
    return " ".join(answer.message.split())


def _all(found: Sequence[Said]) -> Said:
    return [line for done, _ in found for line in done], [line for _, failed in found for line in failed]
