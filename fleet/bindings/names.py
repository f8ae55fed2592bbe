"""The name of the binding of an object: NAME-KIND as Karmada has it, and with the group for the second of two kinds of
one name.

The first of two such objects with one name gets NAME-KIND, the second NAME-KIND-GROUP. A binding keeps the name that it
was made with, so the store says which of the names an object's binding has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

from fleet.bindings import binding as b
from fleet.values.names import SUBDOMAIN_MAX
from fleet.values.ports import Body, Key, StoredObject
from fleet.values.untyped import text
from fleet.wellknown import SYSTEM_NAMESPACE, UNIT_SUFFIX, WORK, binding_name

DIGEST_CHARACTERS = 10


def group_of(binding: Body) -> str:
    """The group of the object that it places."""
    return text(b.resource_of(binding).get("apiVersion")).rpartition("/")[0]


def names(group: str, kind: str, name: str) -> Iterator[str]:
    """The names that the binding of an object may have, the wanted one first."""
    plain = binding_name(kind, name)
    yield plain
    grouped = f"{plain}-{group}".lower()
    if group and len(grouped) + len(UNIT_SUFFIX) <= SUBDOMAIN_MAX:
        yield grouped
    digest = hashlib.sha256(f"{group}/{kind}/{name}".encode()).hexdigest()[:DIGEST_CHARACTERS]
    yield f"{plain[: SUBDOMAIN_MAX - len(UNIT_SUFFIX) - len(digest) - 1].rstrip('.-')}-{digest}"


def key_of(peek: Callable[[Key], StoredObject | None], group: str, kind: str, namespace: str, name: str) -> Key:
    """The key of the binding that the object has; of the one that it would get, where it has none."""
    free: Key | None = None
    key = None
    for candidate in names(group, kind, name):
        key = Key(WORK, "resourcebindings", namespace or SYSTEM_NAMESPACE, candidate)
        there = peek(key)
        if there is None:
            free = free or key
        elif _places(there.body, group, kind, name):
            return key
    assert key is not None
    return free or key


def binding_of(
    peek: Callable[[Key], StoredObject | None], group: str, kind: str, namespace: str, name: str
) -> StoredObject | None:
    """The binding of an object of this name, which may be of one before it; None where it has none."""
    found = peek(key_of(peek, group, kind, namespace, name))
    return found if found is not None and _places(found.body, group, kind, name) else None


def _places(binding: Body, group: str, kind: str, name: str) -> bool:
    resource = b.resource_of(binding)
    return (group_of(binding), resource.get("kind"), resource.get("name")) == (group, kind, name)
