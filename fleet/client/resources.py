"""The kinds that a server says it serves: the aggregated form of discovery, read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


@dataclass(frozen=True)
class Resource:
    """One kind as a server serves it, at its preferred version."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()

    @property
    def group_resource(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def prefix(self) -> str:
        """The name that `-o name` puts before the slash: pytorchjob.kubeflow.org."""
        return f"{self.kind.lower()}.{self.group}" if self.group else self.kind.lower()

    def path(self, namespace: str | None, name: str = "") -> str:
        """`namespace=None`: all of them."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        where = f"/namespaces/{namespace}" if self.namespaced and namespace is not None else ""
        return f"{base}{where}/{self.plural}" + (f"/{name}" if name else "")


def aggregated(document: Mapping[str, Any]) -> Iterator[Resource]:
    """The kinds of an APIGroupDiscoveryList, each in its preferred version."""
    for group in document.get("items") or []:
        names: set[str] = set()
        for version in group.get("versions") or []:
            for entry in version.get("resources") or []:
                plural = entry.get("resource", "")
                if plural in names or not plural:
                    continue
                names.add(plural)
                yield Resource(
                    group=group.get("metadata", {}).get("name", ""),
                    version=version.get("version", ""),
                    plural=plural,
                    singular=entry.get("singularResource", ""),
                    kind=(entry.get("responseKind") or {}).get("kind", ""),
                    namespaced=entry.get("scope") == "Namespaced",
                    short_names=tuple(entry.get("shortNames") or ()),
                )
