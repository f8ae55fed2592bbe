"""The kinds that a member serves: each with its path, learnt from its discovery documents.

One aggregated document of /api and one of /apis, asked for again every few seconds with the ETag of the last, so that
a CRD installed later is picked up at the cost of an empty answer. Servers too old for that are read group by group.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass

from fleet.members.connection import BAD_ANSWERS, Connection, HttpAnswer, Unreachable, not_let_in
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows, text, texts

KINDS_MAX = 10_000  # of one member
_NAME = re.compile(r"[A-Za-z0-9.-]{0,253}")  # of a group, a version, a resource, a kind
AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One resource at one version."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    @property
    def collection(self) -> str:
        """Over all namespaces."""
        return f"{self.root}/{self.resource}"

    def path(self, namespace: str, name: str) -> str:
        where = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{self.root}{where}/{self.resource}/{name}"


class Catalogue:
    """The kinds of one member. Preferred versions come first, as the server orders them."""

    def __init__(self, served: Iterable[ServedResource] = ()) -> None:
        self.served = tuple(served)
        self._by_kind = {(s.api_version, s.kind): s for s in reversed(self.served)}
        self._by_resource: dict[tuple[str, str], ServedResource] = {}
        for one in self.served:
            self._by_resource.setdefault((one.group, one.resource), one)
        self.kinds = frozenset(f"{s.group}/{s.kind}" for s in self.served)

    def kind(self, api_version: str, kind: str) -> ServedResource | None:
        return self._by_kind.get((api_version, kind))

    def versions(self, api_version: str, kind: str) -> tuple[str, ...]:
        """The versions in which the kind of this group is served."""
        group = api_version.rpartition("/")[0]
        return tuple(s.api_version for s in self.served if (s.group, s.kind) == (group, kind))

    def resource(self, group: str, resource: str) -> ServedResource | None:
        return self._by_resource.get((group, resource))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Catalogue) and self.served == other.served

    __hash__ = None  # type: ignore[assignment]

    def enablements(self) -> list[Body]:
        """`status.apiEnablements` of a Cluster."""
        groups: dict[str, list[Body]] = {}
        for one in self.served:
            groups.setdefault(one.api_version, []).append({"name": one.resource, "kind": one.kind})
        return [{"groupVersion": gv, "resources": resources} for gv, resources in sorted(groups.items())]


class Discovery:
    """Keeps what was learnt between looks, so that an unchanged member answers 304."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._etags: dict[str, str] = {}
        self._parts: dict[str, tuple[ServedResource, ...]] = {}

    async def look(self) -> Catalogue:
        """Raises Unreachable."""
        await asyncio.gather(self._part("/api"), self._part("/apis"))
        served = (*self._parts["/api"], *self._parts["/apis"])
        if len(served) > KINDS_MAX:
            raise Unreachable(f"discovery: it serves more than {KINDS_MAX} kinds", BAD_ANSWERS)
        return Catalogue(served)

    async def _part(self, root: str) -> None:
        headers = {"accept": AGGREGATED}
        if root in self._parts and self._etags.get(root):
            headers["if-none-match"] = self._etags[root]
        answer = await self._connection.request("GET", root, headers=headers, even_lost=False)
        if answer.status == 304:
            return
        _need(answer, root)
        if answer.body.get("kind") == "APIGroupDiscoveryList":
            self._parts[root] = tuple(_aggregated(answer.body))
            self._etags[root] = answer.etag
        else:
            self._parts[root] = tuple(await self._by_group(root, answer.body))

    async def _by_group(self, root: str, body: Body) -> list[ServedResource]:
        if root == "/api":
            versions = [("", version) for version in texts(body.get("versions"))]
        else:
            versions = [
                (text(group.get("name")), text(version.get("version")))
                for group in rows(body.get("groups"))
                for version in rows(group.get("versions"))
            ]
        kinds: list[ServedResource] = []
        for group, version in versions:
            path = f"/apis/{group}/{version}" if group else f"/api/{version}"
            answer = await self._connection.request("GET", path, even_lost=False)
            if answer.status == 503:  # an aggregated API whose server is down hides only itself
                continue
            _need(answer, path)
            kinds += [
                served
                for r in rows(answer.body.get("resources"))
                for served in _served(group, version, r.get("name"), r.get("kind"), bool(r.get("namespaced")), r)
            ]
        return kinds


def _need(answer: HttpAnswer, path: str) -> None:
    if answer.status == 401:
        raise not_let_in(f"discovery: {path}", answer)
    if not answer.ok:
        raise Unreachable(f"discovery: {path}: {answer.message}")


def _aggregated(body: Body) -> Iterable[ServedResource]:
    for group in rows(body.get("items")):
        name = text(mapping(group.get("metadata")).get("name"))
        for version in rows(group.get("versions")):
            for resource in rows(version.get("resources")):
                kind, namespaced = (
                    mapping(resource.get("responseKind")).get("kind"),
                    resource.get("scope") == "Namespaced",
                )
                yield from _served(name, version.get("version"), resource.get("resource"), kind, namespaced, resource)


def _served(
    group: str, version: object, resource: object, kind: object, namespaced: bool, document: Body
) -> Iterable[ServedResource]:
    """One kind; none where a name is not one word of a path, as those of subresources."""
    named = [group, *map(text, (version, resource, kind))]
    if named[1] and named[2] and all(map(_NAME.fullmatch, named)):
        yield ServedResource(group, named[1], named[2], named[3], namespaced, frozenset(texts(document.get("verbs"))))
