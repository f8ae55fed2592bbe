"""Discovery: the documents by which clients learn the served kinds, in all the forms they ask for.

kubectl reads the aggregated form (one request for everything), older clients and `auth can-i` the plain lists. All are
made from the registry and kept until it changes.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from api.engine.crd import preference
from api.engine.kind import Kind
from api.engine.registry import Registry
from api.wire.http import JSON, Response
from api.wire.negotiation import AnswerForm
from api.wire.servedkind import served_kinds

# The order in which a kube-apiserver lists its groups, all others behind them. Clients take the first group for a name
# that several groups have.
_FIRST = (
    "",
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
)
_PLACES = {group: place for place, group in enumerate(_FIRST)}
_STATUS_VERBS = ("get", "patch", "update")


@dataclass(frozen=True, slots=True)
class VirtualResource:
    """Something served that is not stored: a review, or a subresource of a stored kind ("pods/log")."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    kind_group: str | None = None  # where the kind's own group differs
    kind_version: str | None = None

    @property
    def singular(self) -> str:
        return "" if "/" in self.resource else self.kind.lower()


@dataclass(frozen=True, slots=True)
class _Entry:
    """One APIResource of one group/version."""

    name: str
    singular: str
    namespaced: bool
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage: str = ""  # the hash by which clients see that the stored form has changed


def _place(group: str) -> tuple[int, str]:
    return _PLACES.get(group, len(_FIRST)), group


def _split(group_version: str) -> tuple[str, str]:
    group, _, version = group_version.rpartition("/")
    return group, version


class Discovery:
    """Discovery documents for a registry and the virtual resources beside it."""

    def __init__(self, registry: Registry, virtual: Sequence[VirtualResource]) -> None:
        self._registry = registry
        self._virtual = tuple(virtual)
        self._generation = -1
        self._groups: dict[str, dict[str, list[_Entry]]] = {}
        self._cache: dict[tuple[str, ...], bytes] = {}

    def _fresh(self) -> Mapping[str, dict[str, list[_Entry]]]:
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._groups = self._collect()
            self._cache.clear()
        return self._groups

    def paths(self) -> list[str]:
        """The document of the root: the paths that lead to the others."""
        paths = {
            "/api",
            "/api/v1",
            "/apis",
            "/healthz",
            "/livez",
            "/metrics",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        }
        for kind in self._registry:
            if kind.group:
                paths |= {f"/apis/{kind.group}", f"/apis/{kind.api_version}"}
        return sorted(paths)

    def _collect(self) -> dict[str, dict[str, list[_Entry]]]:
        groups: dict[str, dict[str, list[_Entry]]] = {"": {"v1": []}}
        for kind in self._registry:
            for group_version, served in served_kinds(kind).items():
                group, version = _split(group_version)
                groups.setdefault(group, {}).setdefault(version, []).extend(_entries(served, group, version))
        for item in self._virtual:
            parent = item.resource.split("/", 1)[0]
            if parent != item.resource and self._registry.resource(item.group, parent) is None:
                continue
            entry = _Entry(
                item.resource,
                item.singular,
                item.namespaced,
                item.group if item.kind_group is None else item.kind_group,
                item.kind_version or item.version,
                item.kind,
                item.verbs,
            )
            groups.setdefault(item.group, {}).setdefault(item.version, []).append(entry)
        for versions in groups.values():
            for entries in versions.values():
                entries.sort(key=lambda e: e.name)
        return {
            group: {version: groups[group][version] for version in sorted(groups[group], key=preference)}
            for group in sorted(groups, key=_place)
        }

    def served(self) -> list[tuple[str, str]]:
        """Every group and version, in order."""
        return [(group, version) for group, versions in self._fresh().items() for version in versions]

    def versions(self, group: str) -> tuple[str, ...]:
        return tuple(self._fresh().get(group, {}))

    def api(self, form: AnswerForm, host: str) -> Response:
        """GET /api"""
        if form.form == "APIGroupDiscoveryList":
            return self._aggregated(form, core=True)
        body = {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": host}],
        }
        return Response(orjson.dumps(body), headers=_VARY)

    def apis(self, form: AnswerForm) -> Response:
        """GET /apis"""
        if form.form == "APIGroupDiscoveryList":
            return self._aggregated(form, core=False)
        groups = [_group(name, tuple(versions)) for name, versions in self._fresh().items() if name]
        return Response(orjson.dumps({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}), headers=_VARY)

    def group(self, group: str) -> Response | None:
        """GET /apis/GROUP; None for a group that is not served."""
        versions = self.versions(group)
        if not group or not versions:
            return None
        return Response(orjson.dumps({"kind": "APIGroup", "apiVersion": "v1", **_group(group, versions)}))

    def resources(self, group: str, version: str) -> Response | None:
        """GET /api/v1 and /apis/GROUP/VERSION; None for one that is not served."""
        entries = self._fresh().get(group, {}).get(version)
        if entries is None:
            return None
        key = ("resources", group, version)
        body = self._cache.get(key)
        if body is None:
            group_version = f"{group}/{version}" if group else version
            items = [_resource(entry, group, version) for entry in entries]
            body = orjson.dumps(
                {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": items}
            )
            self._cache[key] = body
        return Response(body)

    def _aggregated(self, form: AnswerForm, *, core: bool) -> Response:
        groups = self._fresh()
        key = ("aggregated", form.version, "core" if core else "")
        body = self._cache.get(key)
        if body is None:
            items = [_aggregate(name, versions) for name, versions in groups.items() if (name == "") == core]
            body = orjson.dumps(
                {
                    "kind": "APIGroupDiscoveryList",
                    "apiVersion": f"apidiscovery.k8s.io/{form.version}",
                    "metadata": {},
                    "items": items,
                }
            )
            self._cache[key] = body
        content_type = f"{JSON};g=apidiscovery.k8s.io;v={form.version};as=APIGroupDiscoveryList"
        return Response(body, content_type=content_type, headers=_VARY)


_VARY = ((b"vary", b"Accept"),)


def _entries(kind: Kind, group: str, version: str) -> list[_Entry]:
    entries = [
        _Entry(
            kind.resource,
            kind.singular,
            kind.namespaced,
            group,
            version,
            kind.kind,
            tuple(sorted(kind.verbs)),
            kind.short_names,
            kind.categories,
            _storage_hash(kind),
        )
    ]
    if kind.status:
        entries.append(_Entry(f"{kind.resource}/status", "", kind.namespaced, group, version, kind.kind, _STATUS_VERBS))
    if kind.scale is not None:
        entries.append(
            _Entry(f"{kind.resource}/scale", "", kind.namespaced, "autoscaling", "v1", "Scale", _STATUS_VERBS)
        )
    return entries


def _group(name: str, versions: Sequence[str]) -> dict[str, Any]:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resource(entry: _Entry, group: str, version: str) -> dict[str, Any]:
    item: dict[str, Any] = {
        "name": entry.name,
        "singularName": entry.singular,
        "namespaced": entry.namespaced,
        "kind": entry.kind,
        "verbs": entry.verbs,
    }
    if (entry.group, entry.version) != (group, version):
        item["group"], item["version"] = entry.group, entry.version
    if entry.short_names:
        item["shortNames"] = entry.short_names
    if entry.categories:
        item["categories"] = entry.categories
    if entry.storage:
        item["storageVersionHash"] = entry.storage
    return item


def _storage_hash(kind: Kind) -> str:
    """Eight bytes of the digest of storage version and kind, as a kube-apiserver makes it."""
    storage = kind.family.storage if kind.family is not None else f"{kind.group}/{kind.version}"
    return b64encode(sha256(f"{storage}/{kind.kind}".encode()).digest()[:8]).decode()


def _aggregate(name: str, versions: Mapping[str, Sequence[_Entry]]) -> dict[str, Any]:
    listing = []
    for version, entries in versions.items():
        resources: dict[str, dict[str, Any]] = {}
        for entry in entries:
            parent, _, sub = entry.name.partition("/")
            kind = {"group": entry.group, "version": entry.version, "kind": entry.kind}
            if sub:
                owner = resources.setdefault(parent, {"resource": parent})
                owner.setdefault("subresources", []).append(
                    {"subresource": sub, "responseKind": kind, "verbs": entry.verbs}
                )
                continue
            item = {
                "resource": entry.name,
                "responseKind": kind,
                "scope": "Namespaced" if entry.namespaced else "Cluster",
                "singularResource": entry.singular,
                "verbs": entry.verbs,
            }
            if entry.short_names:
                item["shortNames"] = entry.short_names
            if entry.categories:
                item["categories"] = entry.categories
            resources.setdefault(parent, {}).update(item)
        listing.append({"version": version, "resources": list(resources.values()), "freshness": "Current"})
    metadata: dict[str, Any] = {"creationTimestamp": None}
    if name:
        metadata["name"] = name
    return {"metadata": metadata, "versions": listing}
