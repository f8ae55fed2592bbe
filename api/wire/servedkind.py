"""A kind under the group and version it was asked for.

One stored object may be served under several group/versions: its kind's aliases (DESIGN §5), where only `apiVersion`
differs, and the versions of a CRD, which api/objects/versions.py shows. Events are an exception: events.k8s.io gives
other names to some fields of the same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import orjson

from api.engine.kind import Column, Kind
from api.engine.registry import Registry
from fleet.values.ports import Body, StoredObject

_EVENTS = ("events.k8s.io", "events")
_STORED_EVENTS = ("", "events")
_EVENT_FIELDS = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}


class JoinedColumns(Protocol):
    """Columns of a kind whose cells no object of it holds."""

    @property
    def columns(self) -> Sequence[Column]: ...

    def cells(self, kind: Kind, items: Sequence[StoredObject]) -> Iterable[Sequence[Any]]:
        """Of each object, in order."""
        ...


@dataclass(frozen=True, slots=True)
class ServedKind:
    """`converted` is False when stored bytes can be sent as they are. `renamed`: the names of top-level fields under
    this group/version, and the names under which they are stored, where these differ. `joined`: columns after those of
    the kind."""

    kind: Kind
    api_version: str
    converted: bool
    renamed: Mapping[str, str] | None = None
    joined: JoinedColumns | None = None

    def outward(self, raw: bytes) -> bytes:
        """Stored bytes as this group/version shows them."""
        if not self.converted:
            return raw
        return orjson.dumps(self.in_version(orjson.loads(raw)))

    def in_version(self, body: Mapping[str, Any]) -> Body:
        """A stored body as this group/version shows it: a shallow copy where anything differs."""
        if not self.converted:
            return body if isinstance(body, dict) else dict(body)
        if self.renamed:
            names = {stored: name for name, stored in self.renamed.items()}
            body = {names.get(key, key): value for key, value in body.items()}
        return {**body, "apiVersion": self.api_version}

    def inward(self, body: Body) -> Body:
        """The body that a client sent under this group/version, as it is stored."""
        if not self.converted:
            return body
        if self.renamed:
            body = {self.stored_name(key): value for key, value in body.items()}
        return {**body, "apiVersion": self.kind.api_version} if body.get("apiVersion") == self.api_version else body

    def stored_name(self, name: str) -> str:
        """The name under which a top-level field is stored."""
        return self.renamed.get(name, name) if self.renamed else name

    def inward_patch(self, operations: Any) -> Any:
        """A JSON patch that a client sent under this group/version, for the object as it is stored."""
        if not self.renamed or not isinstance(operations, list):
            return operations
        return [self._inward_operation(one) if isinstance(one, dict) else one for one in operations]

    def _inward_operation(self, operation: Body) -> Body:
        out = dict(operation)
        for place in ("path", "from"):
            steps = out[place].split("/") if isinstance(out.get(place), str) else []
            if len(steps) > 1:
                out[place] = "/".join(["", self.stored_name(steps[1]), *steps[2:]])
        return out


def served_kinds(kind: Kind) -> dict[str, Kind]:
    """Every group/version under which the kind is served, the preferred one first, and the kind as it is there."""
    if kind.family is None:
        found = {kind.api_version: kind}
    else:
        names = (f"{kind.group}/{version}" for version in kind.versions)
        found = {name: kind.family.kinds[name] for name in names}
    return found | dict.fromkeys(kind.aliases, kind)


def find(registry: Registry, group: str, version: str, resource: str) -> ServedKind | None:
    """The kind behind group/version/resource, or None when it is not served so."""
    kind = registry.resource(group, resource)
    if kind is None:
        return None
    if (group, resource) == _EVENTS and version == kind.version:
        return ServedKind(registry.need(*_STORED_EVENTS), kind.api_version, True, _EVENT_FIELDS)
    api_version = f"{group}/{version}" if group else version
    if api_version == kind.api_version and kind.family is None:
        return ServedKind(kind, api_version, False)
    found = served_kinds(kind).get(api_version)
    return None if found is None else ServedKind(found, api_version, found.api_version != api_version)
