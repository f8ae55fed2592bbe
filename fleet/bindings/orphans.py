"""Which jobs run in a member though the hub does not know it: after a restored backup, from the records of such copies.

A job that waits must not start beside such a copy of itself. So its unit is held until people adopt or remove the copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import orjson

from fleet.bindings import binding as b
from fleet.kinds import word_of
from fleet.values.ports import Body, Key, Store
from fleet.values.untyped import mapping, rows, text
from fleet.wellknown import SYSTEM_NAMESPACE, UNKNOWN_COPIES

COPIES = "copies"  # the field of a record that names them
WAY_OUT = "see `fleet orphans`"

Named = tuple[str, str, str]  # kind, namespace, name


def is_record(key: Key) -> bool:
    """Whether it is a record of unknown copies: a ConfigMap of the hub's own."""
    place = (key.group, key.resource, key.namespace)
    return place == ("", "configmaps", SYSTEM_NAMESPACE) and key.name.startswith(UNKNOWN_COPIES)


def entries(record: Body) -> list[Body]:
    """The copies that a record names, as far as they read."""
    try:
        return rows(orjson.loads(text(mapping(record.get("data")).get(COPIES)) or "[]"))
    except orjson.JSONDecodeError:
        return []


def lost_copies(store: Store) -> dict[Named, str]:
    """The member of each unknown copy."""
    return {
        (text(entry.get("kind")), text(entry.get("namespace")), text(entry.get("name"))): (
            stored.key.name.removeprefix(UNKNOWN_COPIES)
        )
        for stored in store.scan("", "configmaps", namespace=SYSTEM_NAMESPACE)
        if is_record(stored.key)
        for entry in entries(stored.body)
    }


def newer_copy(binding: Body, copies: Iterable[tuple[str, Body]]) -> str:
    """The member that has a copy of a later placement than the hub knows of; "" without one."""
    attempt = b.attempt(binding)
    return next((member for member, body in copies if b.attempt_of_copy(body) > attempt and not b.deleting(body)), "")


def why_held(binding: Body, copies: Iterable[tuple[str, Body]], lost: Mapping[Named, str]) -> str:
    """Why the job of a waiting binding must not start; "" when it may."""
    resource = b.resource_of(binding)
    name = (word_of(resource), text(resource.get("namespace")), text(resource.get("name")))
    member = newer_copy(binding, copies) or lost.get(name, "")
    return f"a copy of it that a restored backup does not know is in {member}: {WAY_OUT}" if member else ""
