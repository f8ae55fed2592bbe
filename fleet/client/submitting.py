"""Writing objects: created once however often the connection breaks, applied, deleted."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from fleet.client.errors import AlreadyExists, Ambiguous, BadManifest, Forbidden, Invalid
from fleet.client.jobs import JOBS
from fleet.client.manifests import Body, Manifests, objects
from fleet.client.resources import AGGREGATED, Resource, aggregated
from fleet.client.steps import APPLY, Request, Session, Steps, asked, got, with_query
from fleet.client.tables import Record, Rows

MANAGER = "fleet-python"
NAME_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"  # those that Kubernetes takes for generateName
NAME_MOST = 63


@dataclass(frozen=True, repr=False, kw_only=True)
class Object(Record):
    """An object as the hub stores it; `raw` is all of it. `is_job`: whether the hub places it."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    is_job: bool = False

    def __repr__(self) -> str:
        return f"<{self.kind.lower()} {self.namespace}{'/' if self.namespace else ''}{self.name}>"


class Submission(Rows[Object]):
    """What `submit` and `apply` have written, in order. A submission of one job goes wherever a job does."""

    @property
    def jobs(self) -> list[Object]:
        return [one for one in self if one.is_job]

    @property
    def job(self) -> Object:
        """The one job. Raises Ambiguous for none and for several."""
        if len(self.jobs) != 1:
            raise Ambiguous(f"{len(self.jobs)} jobs were submitted: name one of .jobs")
        return self.jobs[0]

    @property
    def namespace(self) -> str:
        return self.job.namespace

    @property
    def api_version(self) -> str:
        return self.job.api_version

    @property
    def kind(self) -> str:
        return self.job.kind

    @property
    def name(self) -> str:
        return self.job.name


def submit(
    session: Session, manifests: Manifests, *, namespace: str | None = None, dry_run: bool = False
) -> Steps[Submission]:
    """Create the objects of a manifest: a mapping, several of them, or the path of a YAML or JSON file. `namespace`:
    for those that name none. `dry_run`: all checks of the hub, and nothing is stored. An object that exists already is
    AlreadyExists; a submission whose connection broke is found again, and made once."""
    made: list[Object] = []
    for body, resource, path in (yield from _addressed(session, manifests, namespace)):
        stored = yield from _created(session, path, _with_name(body), dry_run)
        made.append((yield from _object(session, stored, resource)))
    return Submission(made)


def apply(
    session: Session, manifests: Manifests, *, namespace: str | None = None, dry_run: bool = False, force: bool = True
) -> Steps[Submission]:
    """Create the objects, or change those that exist, by server-side apply. `force`: take fields that other managers
    hold."""
    results: list[Object] = []
    for body, resource, path in (yield from _addressed(session, manifests, namespace)):
        name = body["metadata"].get("name")
        if not name:
            raise BadManifest("apply needs metadata.name; submit takes generateName")
        query = {
            "fieldManager": MANAGER,
            "force": str(force).lower(),
            "fieldValidation": "Strict",
            "dryRun": "All" if dry_run else None,
        }
        answer = yield from asked(session, Request("PATCH", with_query(f"{path}/{name}", query), body, APPLY))
        results.append((yield from _object(session, answer.body, resource)))
    return Submission(results)


def delete(session: Session, manifests: Manifests, *, namespace: str | None = None) -> Steps[int]:
    """Delete the objects of a manifest; the number of those that were there."""
    count = 0
    for body, _, path in (yield from _addressed(session, manifests, namespace)):
        if not body["metadata"].get("name"):
            raise BadManifest("delete needs metadata.name")
        options = {"propagationPolicy": "Background"}
        request = Request("DELETE", f"{path}/{body['metadata']['name']}", options, repeatable=False)
        count += (yield from asked(session, request, missing=True)).ok
    return count


def _created(session: Session, path: str, body: Body, dry_run: bool) -> Steps[Body]:
    """A create that may be sent twice: its field manager is its own, so an object of this name that has the manager is
    what an earlier try made."""
    manager = f"{MANAGER}-{secrets.token_hex(4)}"
    query = {"fieldManager": manager, "fieldValidation": "Strict", "dryRun": "All" if dry_run else None}
    try:
        answer = yield from asked(session, Request("POST", with_query(path, query), body))
    except AlreadyExists as exists:
        try:
            found = yield from got(session, f"{path}/{body['metadata']['name']}", missing=True)
        except Forbidden:
            raise exists from None
        if manager not in _managers(found or {}):
            raise
        return dict(found)
    return dict(answer.body)


def _managers(body: Body) -> set[str]:
    return {str(entry.get("manager")) for entry in body.get("metadata", {}).get("managedFields") or []}


def _with_name(body: Body) -> Body:
    """The body with the name that the server would have generated: a second try must name the same object."""
    metadata = body["metadata"]
    if metadata.get("name"):
        return body
    return {**body, "metadata": {**metadata, "name": suffixed(str(metadata["generateName"]))}}


def suffixed(beginning: str) -> str:
    """A name as Kubernetes generates it."""
    suffix = "".join(secrets.choice(NAME_CHARACTERS) for _ in range(5))
    return beginning[: NAME_MOST - len(suffix)] + suffix


def _addressed(
    session: Session, manifests: Manifests, namespace: str | None
) -> Steps[list[tuple[Body, Resource, str]]]:
    """Each object, its resource and the path of its collection. All are known before the first is written."""
    targets: list[tuple[Body, Resource, str]] = []
    for body in objects(manifests):
        resource = yield from resource_of(session, str(body["apiVersion"]), str(body["kind"]))
        said = body["metadata"].get("namespace")
        if namespace and said and said != namespace and resource.namespaced:
            raise BadManifest(
                f"{body['kind']} {body['metadata'].get('name', '')} is of namespace {said}, not {namespace}"
            )
        targets.append((body, resource, resource.path(said or namespace or session.namespace)))
    return targets


def resource_of(session: Session, api_version: str, kind: str) -> Steps[Resource]:
    """What the hub calls objects of this kind; it is asked again about a kind that it did not serve before."""
    group, _, version = api_version.rpartition("/")
    for fresh in (False, True):
        if fresh or not session.resources:
            session.resources = list((yield from _discovered(session)))
        for resource in session.resources:
            if (resource.group, resource.kind) == (group, kind):
                return replace(resource, version=version)
    raise BadManifest(f'the hub does not serve kind "{kind}" of {api_version}')


def _discovered(session: Session) -> Steps[Iterator[Resource]]:
    found: list[Resource] = []
    for root in ("/api", "/apis"):
        answer = yield from asked(session, Request("GET", root, accept=AGGREGATED))
        found += aggregated(answer.body)
    return iter(found)


def _object(session: Session, body: Body, resource: Resource) -> Steps[Object]:
    metadata = body["metadata"]
    return Object(
        api_version=body["apiVersion"],
        kind=body["kind"],
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        is_job=(yield from _is_job_kind(session, resource)),
        raw=body,
    )


def _is_job_kind(session: Session, resource: Resource) -> Steps[bool]:
    """Whether the hub lists objects of this kind as jobs; asked once for a kind."""
    word = resource.group_resource
    if word not in session.job_kinds:
        is_job: Any = bool(resource.group)
        if is_job:
            try:
                yield from got(session, JOBS, kind=word, namespace=session.namespace, limit="1")
            except Invalid:
                is_job = False
            except Forbidden:  # a kind of job that the user may create and not list
                is_job = True
        session.job_kinds[word] = is_job
    return session.job_kinds[word]
