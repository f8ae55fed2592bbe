"""A kind under the group and version it was asked for.

One stored object may be served under several group/versions (the aliases of DESIGN §5, versions of a CRD). Only
`apiVersion` differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from fleet.engine.kind import Kind
from fleet.engine.registry import Registry
from fleet.ports import Body


@dataclass(frozen=True, slots=True)
class Served:
    """`converted` is False when stored bytes can be sent as they are."""

    kind: Kind
    api_version: str
    converted: bool

    def outward(self, raw: bytes) -> bytes:
        """Stored bytes as this group/version shows them."""
        if not self.converted:
            return raw
        return orjson.dumps(self.shown(orjson.loads(raw)))

    def shown(self, body: Mapping[str, Any]) -> Body:
        """A stored body as this group/version shows it: a shallow copy where anything differs."""
        if not self.converted:
            return body if isinstance(body, dict) else dict(body)
        return {**body, "apiVersion": self.api_version}

    def inward(self, body: Body) -> Body:
        """The body that a client sent under this group/version, as it is stored."""
        if not self.converted:
            return body
        return {**body, "apiVersion": self.kind.api_version} if body.get("apiVersion") == self.api_version else body


def served_versions(kind: Kind) -> tuple[str, ...]:
    """Every group/version under which the kind is served, the storage version first."""
    prefix = f"{kind.group}/" if kind.group else ""
    own = [prefix + version for version in (kind.versions or (kind.version,))]
    return tuple(dict.fromkeys((kind.api_version, *own, *kind.aliases)))


def find(registry: Registry, group: str, version: str, resource: str) -> Served | None:
    """The kind behind group/version/resource, or None when it is not served so."""
    kind = registry.resource(group, resource)
    if kind is None:
        return None
    api_version = f"{group}/{version}" if group else version
    if api_version == kind.api_version:
        return Served(kind, api_version, False)
    if api_version in served_versions(kind):
        return Served(kind, api_version, True)
    return None
