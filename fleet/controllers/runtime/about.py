"""The job that a binding, or a failure, is of, by the names that it has in every line of the log."""

from __future__ import annotations

from fleet.bindings import binding as b
from fleet.bindings.unit import binding_of
from fleet.values.ports import Body, Key, Store
from fleet.values.untyped import text
from fleet.wellknown import QUEUE, WORK

_UNITS, _BINDINGS = (QUEUE, "queueunits"), (WORK, "resourcebindings")


def about(binding: Body) -> dict[str, str]:
    """namespace, kind, name and uid."""
    resource = b.resource_of(binding)
    return {key: text(resource.get(key)) for key in ("namespace", "kind", "name", "uid")}


def about_key(store: Store, key: Key) -> dict[str, str]:
    """The same of the job behind a key that fails: that of a binding or of a unit; of another object in a namespace its
    own namespace and name. Empty where the object is gone, or does not say it. Raises nothing."""
    at = (key.group, key.resource)
    if at not in (_UNITS, _BINDINGS):
        return {"namespace": key.namespace, "name": key.name} if key.namespace else {}
    try:
        found = store.peek(key)
        if found is not None and at == _UNITS:
            found = store.peek(binding_of(found))
        named = about(found.body) if found is not None else {}
    except Exception:  # what cannot be read is what the line is about
        return {}
    return {field: value for field, value in named.items() if value}
