"""A job as somebody submits it: one manifest in JSON or YAML, whose kind and namespace say where it belongs.

Only what the way in needs is checked here; what the object means is checked by those who check it for every client.
"""

from __future__ import annotations

from dataclasses import dataclass

from api.http import Request
from api.negotiation import read_object
from api.served import find
from api.v1.context import wrong
from api.v1.targets import job_kinds, unsupported
from fleet.engine.kind import Kind
from fleet.engine.registry import Registry
from fleet.engine.status import bad_request
from fleet.ports import Body

DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Manifest:
    """`body` is as it is stored (an alias of its API group is resolved)."""

    kind: Kind
    namespace: str
    body: Body
    warnings: tuple[str, ...]


async def read_manifest(request: Request, registry: Registry, namespace: str | None, validation: str) -> Manifest:
    """The manifest in the body of `request`; `namespace` is where it goes when it names none. StatusError 400 for what
    cannot be read, 413, 415, and 422 with the field for what is no job."""
    body, strict = await read_object(request, field_validation=validation)
    if strict and validation == "Strict":
        raise bad_request("strict decoding error: " + ", ".join(strict[:20]))
    return manifest_of(body, registry, namespace, tuple(strict) if validation == "Warn" else ())


def manifest_of(body: Body, registry: Registry, namespace: str | None, warnings: tuple[str, ...] = ()) -> Manifest:
    """The same for what is read already. StatusError 422."""
    for field in ("apiVersion", "kind"):
        if not body.get(field):
            raise wrong(field, "Required value", "FieldValueRequired")
        if not isinstance(body[field], str):
            raise wrong(field, "Invalid value: must be text", "FieldValueTypeInvalid")
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        raise wrong("metadata", "Required value: an object with a name", "FieldValueRequired")
    api_version: str = body["apiVersion"]
    kind = next((kind for kind in job_kinds(registry) if kind.kind == body["kind"]), None)
    if kind is None:
        raise wrong("kind", unsupported(registry, body["kind"]), "FieldValueNotSupported")
    group, _, version = api_version.rpartition("/")
    served = find(registry, group, version, kind.resource)
    if served is None or served.kind.group_resource != kind.group_resource:
        text = f'Unsupported value: "{api_version[:100]}": supported values: "{kind.api_version}"'
        raise wrong("apiVersion", text, "FieldValueNotSupported")
    given = metadata.get("namespace")
    if given is not None and not isinstance(given, str):
        raise wrong("metadata.namespace", "Invalid value: must be text", "FieldValueTypeInvalid")
    if given and namespace and given != namespace:
        raise wrong("metadata.namespace", f'Invalid value: "{given[:63]}": the request says "{namespace}"')
    return Manifest(
        kind,
        given or namespace or DEFAULT_NAMESPACE,
        served.inward(body),
        warnings,
    )
