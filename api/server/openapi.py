"""The OpenAPI documents of the hub: kubectl's `explain`, `apply` and `create` read them before they send anything.

Version 3 is an index and one document a group and version; version 2 is one document. Each is JSON or protobuf.
Documents are made when they are first asked for and kept until the registry changes; of version 3 only the groups
that changed are made anew. Clients keep a document by the hash in its address.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import orjson

from api.engine.kind import Kind
from api.engine.registry import Registry
from api.objects.apart import apart
from api.objects.definitions import definitions
from api.server.openapi_schema import GVK, Components, parameter
from api.slices import unhurried
from api.wire.http import JSON, Request, Response, Send, send_body
from api.wire.protobuf.openapi import encode
from api.wire.servedkind import served_kinds

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
_INFO = {"title": "Fleet", "version": "v1"}
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"
_WRITE_OPTIONS = {
    "dryRun": "All: do everything but store the result.",
    "fieldManager": "Who writes, for managedFields.",
    "fieldValidation": "Strict refuses unknown and duplicate fields, Warn warns of them, Ignore drops them.",
}
_YEAR_S = 31536000
# By version; clients ask for it with an "@" before "v1.0", too.
_PROTOBUF = {version: f"application/com.github.proto-openapi.spec.v{version}.v1.0+protobuf" for version in (2, 3)}


class PermanentResponse(Response):
    """An answer that never changes under its address."""

    __slots__ = ()

    async def send(self, send: Send) -> None:
        headers = [
            (b"content-type", self.content_type.encode("latin-1")),
            (b"content-length", b"%d" % len(self.body)),
            (b"cache-control", b"public, immutable, max-age=%d" % _YEAR_S),
            *self.headers,
        ]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send_body(send, self.body)


class OpenApi:
    """All documents for what the registry holds now."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation = -1
        self._groups: dict[str, tuple[Kind, ...]] = {}
        self._v3: dict[str, tuple[tuple[Kind, ...], bytes, str]] = {}
        self._packed: dict[str, tuple[str, bytes]] = {}  # documents of version 3 in protobuf, with their hash
        self._v2: dict[bool, bytes] = {}  # by whether it is protobuf
        self._index = b""

    async def v3_index(self) -> bytes:
        self._refresh()
        async for group_version in unhurried(() if self._index else self._groups):
            self.v3(group_version)  # which is kept: all of them together take a third of a second
        self._refresh()
        if not self._index:
            paths = {}
            for group_version in sorted(self._groups):
                found = self.v3(group_version)
                assert found is not None
                paths[group_version] = {"serverRelativeURL": f"/openapi/v3/{group_version}?hash={found[1]}"}
            self._index = orjson.dumps({"paths": paths})
        return self._index

    def v3(self, group_version: str) -> tuple[bytes, str] | None:
        """(document, hash) of "api/v1" or "apis/GROUP/VERSION"; None when nothing is served there."""
        self._refresh()
        kinds = self._groups.get(group_version)
        if kinds is None:
            return None
        known = self._v3.get(group_version)
        if known is None or known[0] != kinds:
            document = orjson.dumps(_document(3, {group_version: kinds}))
            digest = hashlib.sha256(document).hexdigest().upper()[:64]
            known = self._v3[group_version] = (kinds, document, digest)
        return known[1], known[2]

    def v3_protobuf(self, group_version: str) -> bytes | None:
        """The document in protobuf."""
        found = self.v3(group_version)
        if found is None:
            return None
        known = self._packed.get(group_version)
        if known is None or known[0] != found[1]:
            known = self._packed[group_version] = (found[1], encode(orjson.loads(found[0])))
        return known[1]

    async def v2(self, packed: bool) -> bytes:
        """The document of version 2, in protobuf where `packed`. Another thread makes it: that takes some 70 ms."""
        self._refresh()
        known, generation = self._v2.get(packed), self._generation
        if known is None:
            known = await apart(_second, self._groups, packed)
            if generation == self._generation:
                self._v2[packed] = known
        return known

    async def answer(self, path: str, request: Request) -> Response | None:
        """The answer to GET /openapi/`path`; None for a path that is not there."""
        if path == "v3":
            return Response(await self.v3_index())
        if path.startswith("v3/"):
            found = self.v3(path.removeprefix("v3/"))
            if found is None:
                return None
            document, digest = found
            headers = ((b"etag", f'"{digest}"'.encode()), (b"vary", b"accept"))
            form = JSON
            if _wants_protobuf(request, 3):
                document, form = self.v3_protobuf(path.removeprefix("v3/")) or b"", _PROTOBUF[3]
            answer = PermanentResponse if request.query.get("hash") == digest else Response
            return answer(document, content_type=form, headers=headers)
        if path == "v2":
            packed = _wants_protobuf(request, 2)
            return Response(await self.v2(packed), content_type=_PROTOBUF[2] if packed else JSON)
        return None

    def _refresh(self) -> None:
        if self._generation == self._registry.generation:
            return
        groups: dict[str, list[Kind]] = {}
        for kind in self._registry:
            for api_version, served in served_kinds(kind).items():
                groups.setdefault(_path(api_version), []).append(served)
        self._groups = {gv: tuple(sorted(kinds, key=lambda k: k.resource)) for gv, kinds in groups.items()}
        self._v3 = {gv: known for gv, known in self._v3.items() if gv in groups}
        self._packed = {gv: known for gv, known in self._packed.items() if gv in groups}
        self._v2.clear()
        self._index = b""
        self._generation = self._registry.generation


def _second(groups: dict[str, tuple[Kind, ...]], packed: bool) -> bytes:
    document = _document(2, groups)
    return encode(document) if packed else orjson.dumps(document)


def _wants_protobuf(request: Request, version: int) -> bool:
    """Does the client name this form before JSON?"""
    accept = request.header(b"accept")
    form = f"proto-openapi.spec.v{version}"
    return form in accept and accept.find(form) < (accept + JSON).find(JSON)


def _path(api_version: str) -> str:
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


def _document(version: int, groups: dict[str, tuple[Kind, ...]]) -> dict[str, Any]:
    components = Components(version)
    paths: dict[str, Any] = {}
    for name in ("DeleteOptions", "Status", "ObjectMeta"):
        components.add(definitions().resolve(_META + name))
    for group_version, kinds in sorted(groups.items()):
        api_version = group_version.split("/", 1)[1]
        for kind in kinds:
            name, list_name = components.add_kind(kind, api_version)
            paths.update(_paths(version, kind, group_version, api_version, name, list_name))
    if version == 3:
        return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": components.schemas}}
    return {"swagger": "2.0", "info": _INFO, "paths": paths, "definitions": components.schemas}


def _paths(version: int, kind: Kind, group_version: str, api_version: str, name: str, list_name: str) -> dict[str, Any]:
    """The paths of one kind: its collection and its objects, and those of its subresources."""
    group, _, number = api_version.rpartition("/")
    make = _Operations(version, {"group": group, "kind": kind.kind, "version": number}, kind.builtin)
    where = "namespaces/{namespace}/" if kind.namespaced else ""
    base = f"/{group_version}/{where}{kind.resource}"
    in_path = [parameter(version, "namespace", "path", required=True)] if kind.namespaced else []
    object_parameters = [*in_path, parameter(version, "name", "path", required=True)]
    paths: dict[str, Any] = {
        base: {
            "get": make.operation("list", list_name),
            "post": make.operation("post", name, body=name),
            **({"parameters": in_path} if in_path else {}),
        },
        f"{base}/{{name}}": {
            "get": make.operation("get", name),
            "put": make.operation("put", name, body=name),
            "patch": make.operation("patch", name, body="object"),
            "delete": make.operation("delete", _META + "Status", body=_META + "DeleteOptions"),
            "parameters": object_parameters,
        },
    }
    if kind.status:
        paths[f"{base}/{{name}}/status"] = {
            "get": make.operation("get", name),
            "put": make.operation("put", name, body=name),
            "patch": make.operation("patch", name, body="object"),
            "parameters": object_parameters,
        }
    return paths


class _Operations:
    """Makes the operations of one kind."""

    def __init__(self, version: int, gvk: dict[str, str], builtin: bool) -> None:
        self._version = version
        self._gvk = gvk
        self._patches = (*_PATCHES, _STRATEGIC) if builtin else _PATCHES
        self._prefix = "#/components/schemas/" if version == 3 else "#/definitions/"

    def operation(self, action: str, returns: str, body: str = "") -> dict[str, Any]:
        parameters = []
        if action in ("post", "put", "patch"):
            parameters = [parameter(self._version, n, "query", description=d) for n, d in _WRITE_OPTIONS.items()]
        if action == "patch":
            parameters.append(parameter(self._version, "force", "query", "boolean"))
        operation: dict[str, Any] = {
            "responses": {"200": self._content({"$ref": self._prefix + returns}, [JSON], "OK")},
            "x-kubernetes-action": action,
            GVK: self._gvk,
        }
        if body:
            schema = {"type": "object"} if body == "object" else {"$ref": self._prefix + body}
            consumed = self._patches if action == "patch" else (JSON, "application/yaml")
            if self._version == 3:
                operation["requestBody"] = self._content(schema, consumed, "")
            else:
                operation["consumes"] = list(consumed)
                parameters.append({"name": "body", "in": "body", "schema": schema, "required": True})
        if self._version == 2:
            operation["produces"] = [JSON]
        return operation | ({"parameters": parameters} if parameters else {})

    def _content(self, schema: dict[str, Any], types: Iterable[str], description: str) -> dict[str, Any]:
        if self._version == 2:
            return {"description": description, "schema": schema}
        content: dict[str, Any] = {"content": {media_type: {"schema": schema} for media_type in types}}
        return {"description": description, **content} if description else content
