"""A webhook server for tests: what it answers follows from the path, and it remembers what it was asked."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from tests.api.outgoing.server import serving
from tests.testbed.pki import Pki

Body = dict[str, Any]


@dataclass
class Hooks:
    """The running server. `asked`: the path and the request of each call, in order. `given`: what the path `given`
    answers, for the uid of a request."""

    port: int
    ca: str
    asked: list[tuple[str, Body]] = field(default_factory=list)
    given: Callable[[str], bytes] = lambda uid: b""

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self.port}/{path}"

    def calls(self, path: str) -> list[Body]:
        return [request for asked, request in self.asked if asked == path]

    def hook(self, path: str, name: str = "", **more: Any) -> Body:
        """A webhook of a configuration, for ConfigMaps whose label `case` is the name of the path."""
        return {
            "name": f"{name or path}.example.com",
            "clientConfig": {"url": self.url(path), "caBundle": b64encode(self.ca.encode()).decode()},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **more,
        }


def configuration(kind: str, name: str, *hooks: Body) -> Body:
    """A ValidatingWebhookConfiguration or MutatingWebhookConfiguration; `kind` is the first word of it."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(hooks),
    }


def _patch(*operations: Body) -> Body:
    return {"allowed": True, "patchType": "JSONPatch", "patch": b64encode(orjson.dumps(list(operations))).decode()}


def _denied(**status: Any) -> Callable[[Body], Body]:
    return lambda request: {"allowed": False, "status": status}


def _label(name: str) -> Callable[[Body], Body]:
    return lambda request: _patch({"op": "add", "path": f"/metadata/labels/{name}", "value": "set"})


def _counted(request: Body) -> Body:
    """Each call adds one."""
    data = request["object"].get("data") or {}
    return _patch({"op": "add", "path": "/data", "value": {**data, "calls": str(int(data.get("calls", 0)) + 1)}})


def _echo(request: Body) -> Body:
    """A denial that says what was asked, but for what no two servers share."""
    shown: Body = {
        key: request.get(key)
        for key in (
            "kind",
            "resource",
            "requestKind",
            "requestResource",
            "subResource",
            "name",
            "namespace",
            "operation",
            "dryRun",
        )
    }
    shown["options"] = {key: (request.get("options") or {}).get(key) for key in ("kind", "apiVersion", "dryRun")}
    shown["user"] = {key: request["userInfo"].get(key) for key in ("username", "groups")}
    shown["user"]["groups"] = sorted(set(shown["user"]["groups"] or ()) - {"system:authenticated"})
    for key in ("object", "oldObject"):
        shown[key] = sorted((request.get(key) or {}).get("data") or {})
    return {"allowed": False, "status": {"message": orjson.dumps(shown, option=orjson.OPT_SORT_KEYS).decode()}}


RESPONSES: dict[str, Callable[[Body], Body]] = {
    "allow": lambda request: {"allowed": True},
    "warn": lambda request: {"allowed": True, "warnings": ["mind the gap", "and the door"]},
    "annotate": lambda request: {"allowed": True, "auditAnnotations": {"seen": "yes"}},
    "deny": _denied(message="not today"),
    "deny-silent": _denied(),
    "deny-reason": _denied(reason="Forbidden"),
    "deny-code": _denied(code=403, message="you shall not", reason="Forbidden"),
    "deny-low-code": _denied(code=200, message="odd", status="Success"),
    "deny-labelled": lambda request: {
        "allowed": "one" not in request["object"]["metadata"]["labels"],
        "status": {"message": "it is changed"},
    },
    "label-one": _label("one"),
    "label-two": _label("two"),
    "counted": _counted,
    "echo": _echo,
    "no-change": lambda request: _patch({"op": "test", "path": "/kind", "value": "ConfigMap"}),
    "empty-patch": lambda request: _patch(),
    "bad-patch": lambda request: _patch({"op": "remove", "path": "/data/nothing"}),
    "wrong-data": lambda request: _patch({"op": "add", "path": "/data", "value": {"not a key!": "x"}}),
    "repaired": lambda request: _patch({"op": "add", "path": "/data", "value": {"good": "x"}}),
    "unknown-field": lambda request: _patch({"op": "add", "path": "/nothing", "value": "x"}),
    "patch-without-type": lambda request: {"allowed": True, "patch": b64encode(b"[]").decode()},
    "type-without-patch": lambda request: {"allowed": True, "patchType": "JSONPatch"},
    "undecodable": lambda request: {"allowed": True, "patchType": "JSONPatch", "patch": b64encode(b"SECRET").decode()},
    "other-uid": lambda request: {"allowed": True, "uid": "another"},
}


async def _answer(hooks: Hooks, request: web.Request) -> web.StreamResponse:
    path = request.path.strip("/")
    review = orjson.loads(await request.read())
    hooks.asked.append((path, review["request"]))
    match path:
        case "given":
            return web.Response(body=hooks.given(review["request"]["uid"]))
        case "garbage":
            return web.Response(body=b"SECRET that is no JSON")
        case "absent":
            return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"})
        case "broken":
            return web.Response(status=500, text="SECRET of a broken server")
        case "redirect":
            return web.Response(status=302, headers={"Location": hooks.url("allow")})
        case "huge":
            return web.Response(body=b"x" * (5 << 20))
        case "slow":
            await asyncio.sleep(3600)
    response = {"uid": review["request"]["uid"], **RESPONSES[path](review["request"])}
    return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})


@asynccontextmanager
async def hook_server(pki: Pki) -> AsyncIterator[Hooks]:
    hooks = Hooks(0, pki.ca.read_text())

    async def answer(request: web.Request) -> web.StreamResponse:
        return await _answer(hooks, request)

    async with serving(answer, pki) as port:
        hooks.port = port
        yield hooks
