"""Jobs as somebody submits them: manifests in JSON or YAML, whose kind and namespace say where each belongs.

This file checks only the needs of the way in. The rules that check every client's object check its meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from api.engine.kind import Kind
from api.engine.registry import Registry
from api.engine.status import Cause, StatusError, bad_request
from api.wire.http import Request
from api.wire.negotiation import DOCUMENTS_MAX, read_objects
from api.wire.servedkind import find
from fleet.rest.context import wrong
from fleet.rest.targets import job_kinds, unsupported
from fleet.submission.dumps import as_written
from fleet.values.ports import Body

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Manifest:
    """`body` is as it is stored (an alias of its API group is resolved)."""

    kind: Kind
    namespace: str
    body: Body
    warnings: tuple[str, ...]


async def read_manifests(
    request: Request, registry: Registry, namespace: str | None, validation: str
) -> list[Manifest] | Manifest:
    """The manifest in the body of `request`, or those of a List or a YAML stream; `namespace` is where they go when
    they name none. StatusError 400 for what cannot be read, 413, 415, and 422 with the field for what is no job."""
    body, strict = await read_objects(request, field_validation=validation)
    if strict and validation == "Strict":
        raise bad_request("strict decoding error: " + ", ".join(strict[:20]))
    warnings = tuple(strict) if validation == "Warn" else ()
    if body.get("kind") != "List":
        return manifest_of(body, registry, namespace, warnings)
    items = body.get("items")
    if not isinstance(items, list) or not 0 < len(items) <= DOCUMENTS_MAX:
        raise wrong("items", f"must be a list of 1 to {DOCUMENTS_MAX} objects")
    manifests: list[Manifest] = []
    for number, item in enumerate(items):
        with inside(f"items[{number}]"):
            if not isinstance(item, dict):
                raise wrong("kind", "must be an object with apiVersion, kind, metadata and spec")
            manifests.append(manifest_of(item, registry, namespace, () if number else warnings))
    return manifests


@contextmanager
def inside(where: str) -> Iterator[None]:
    """Refusals of one manifest of several name it, in their text and in each field."""
    try:
        yield
    except StatusError as error:
        raise refusal_of(where, error) from error


def refusal_of(where: str, error: StatusError) -> StatusError:
    causes = [Cause(f"{where}.{cause.field}", cause.message, cause.reason) for cause in error.causes]
    return StatusError(
        error.code,
        error.reason,
        f"{where}: {error.message}",
        group=error.group,
        kind=error.kind,
        name=error.name,
        causes=causes,
        retry_after_s=error.retry_after_s,
    )


def manifest_of(body: Body, registry: Registry, namespace: str | None, warnings: tuple[str, ...] = ()) -> Manifest:
    """The same for what is read already. StatusError 422."""
    body = as_written(body)
    for field in ("apiVersion", "kind"):
        if not body.get(field):
            raise wrong(field, "Required value", "FieldValueRequired")
        if not isinstance(body[field], str):
            raise wrong(field, "Invalid value: must be text", "FieldValueTypeInvalid")
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        raise wrong("metadata", "Required value: an object with a name", "FieldValueRequired")
    api_version: str = body["apiVersion"]
    group, _, version = api_version.rpartition("/")
    named = [kind for kind in job_kinds(registry) if kind.kind == body["kind"]]
    if not named:
        raise wrong("kind", unsupported(registry, body["kind"]), "FieldValueNotSupported")
    kind = next((kind for kind in named if kind.group == group), named[0])
    served = find(registry, group, version, kind.resource)
    if served is None or served.kind.group_resource != kind.group_resource:
        text = f'Unsupported value: "{api_version[:100]}": supported values: "{kind.api_version}"'
        raise wrong("apiVersion", text, "FieldValueNotSupported")
    own_namespace = metadata.get("namespace")
    if own_namespace is not None and not isinstance(own_namespace, str):
        raise wrong("metadata.namespace", "Invalid value: must be text", "FieldValueTypeInvalid")
    if own_namespace and namespace and own_namespace != namespace:
        raise wrong("metadata.namespace", f'Invalid value: "{own_namespace[:63]}": the request says "{namespace}"')
    return Manifest(
        kind,
        own_namespace or namespace or DEFAULT_NAMESPACE,
        served.inward(body),
        warnings,
    )
