"""The job that a binding is of, by the names that it has in every line of the log."""

from __future__ import annotations

from fleet.bindings import binding as b
from fleet.model.untyped import text
from fleet.ports import Body


def about(binding: Body) -> dict[str, str]:
    """namespace, kind, name and uid."""
    resource = b.resource_of(binding)
    return {key: text(resource.get(key)) for key in ("namespace", "kind", "name", "uid")}
