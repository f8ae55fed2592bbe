"""The refusals of writes of every kind, beside the engine's rules and admission."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api.engine.bounds import check_stored
from api.engine.kind import Kind
from api.engine.status import Cause, StatusError, forbidden, invalid, not_found
from api.engine.write import PreparedWrite
from fleet.values.ports import Body, Key, Store


class LastFinalizer(StatusError):
    """A change removed the last finalizer of an object that is being deleted, and is now to be removed, not written."""

    def __init__(self, kind: Kind, body: Body) -> None:
        name = body["metadata"]["name"]
        super().__init__(
            409,
            "Conflict",
            f'{kind.group_resource} "{name}" has no finalizers left and must be removed by itself',
            group=kind.group,
            kind=kind.resource,
            name=name,
        )
        self.body = body


async def need_namespace(store: Store, kind: Kind, namespace: str, body: Body) -> None:
    """StatusError 404 or 403 where the namespace of a new object is missing or going."""
    if not kind.namespaced:
        return
    key = Key("", "namespaces", "", namespace)
    stored = store.peek(key) or await store.get(key)
    if stored is None:
        raise not_found("", "namespaces", namespace)
    if stored.body["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        error = forbidden(kind.group, kind.resource, name_in(body), why)
        error.causes = (
            Cause("metadata.namespace", f"namespace {namespace} is being terminated", "NamespaceTerminating"),
        )
        raise error


def refuse(kind: Kind, name: str, causes: Sequence[Cause]) -> None:
    """StatusError 422 where a rule found something."""
    if causes:
        raise invalid(kind.group, kind.kind, name, causes)


def fitting(kind: Kind, prepared: PreparedWrite) -> PreparedWrite:
    """A client's object, if it is small enough to be stored. An object that controllers write by `change` may be
    larger."""
    check_stored(kind.group, kind.kind, name_in(prepared.body), prepared.body)
    return prepared


def name_in(body: Any) -> str:
    """The name that a body gives, before anything is known of its shape."""
    metadata = body.get("metadata") if isinstance(body, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
