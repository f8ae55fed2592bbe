"""The kinds that are known now: built-in ones from files, custom ones from CRD objects, one table for all.

One registry serves one process. The registry changes only through `put` and `drop`, on the event loop's thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from api.engine.kind import Kind


class Registry:
    """Finds kinds by (group, version, resource), by (group, kind) and by alias group.

    `generation` grows with every change; discovery and OpenAPI documents are cached against it.
    """

    def __init__(self, kinds: Iterable[Kind] = ()) -> None:
        self._by_resource: dict[tuple[str, str], Kind] = {}
        self._by_kind: dict[tuple[str, str], Kind] = {}
        self._alias_groups: dict[str, str] = {}
        self.generation = 0
        for kind in kinds:
            self.put(kind)

    def put(self, kind: Kind) -> None:
        """Add the kind, or replace the one of the same group and resource."""
        self._by_resource[kind.group, kind.resource] = kind
        self._by_kind[kind.group, kind.kind] = kind
        for alias in kind.aliases:
            self._alias_groups[alias.rsplit("/", 1)[0]] = kind.group
        self.generation += 1

    def drop(self, group: str, resource: str) -> None:
        kind = self._by_resource.pop((group, resource), None)
        if kind is not None:
            self._by_kind.pop((kind.group, kind.kind), None)
            self.generation += 1

    def resource(self, group: str, resource: str) -> Kind | None:
        """By plural name; an alias group finds the kind it stands for."""
        return self._by_resource.get((self._alias_groups.get(group, group), resource))

    def kind(self, group: str, kind: str) -> Kind | None:
        return self._by_kind.get((self._alias_groups.get(group, group), kind))

    def kind_of(self, api_version: str, kind: str) -> Kind | None:
        """By an object's `apiVersion` and `kind`."""
        group = api_version.rsplit("/", 1)[0] if "/" in api_version else ""
        return self.kind(group, kind)

    def need(self, group: str, resource: str) -> Kind:
        """For kinds that Fleet itself brings: a missing one is a bug."""
        kind = self.resource(group, resource)
        if kind is None:
            raise LookupError(f"no kind {resource}.{group}")
        return kind

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_resource.values())
