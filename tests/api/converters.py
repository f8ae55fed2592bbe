"""A server of conversion webhooks for tests: what it answers follows from the path.

Version v1 of its kind has `spec.host` and `spec.port`, v2 has both in `spec.address`.
"""

from __future__ import annotations

import asyncio
import copy
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
GROUP = "versions.example.com"


@dataclass
class Converters:
    """The running server. `asked`: the path and the number of objects of each question, in order."""

    port: int
    ca: str
    asked: list[tuple[str, int]] = field(default_factory=list)

    def conversion(self, path: str) -> Body:
        """spec.conversion of a CRD that is converted at the path."""
        client = {"url": f"https://127.0.0.1:{self.port}/{path}", "caBundle": b64encode(self.ca.encode()).decode()}
        webhook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
        return {"strategy": "Webhook", "webhook": webhook}


def versions(*, storage: str = "v1") -> list[Body]:
    """spec.versions of the kind."""
    text = {"type": "string"}
    fields = {
        "v1": {"host": text, "port": {**text, "default": "80"}},
        "v2": {"address": text, "note": {**text, "default": "none"}},
    }
    return [
        {
            "name": name,
            "served": True,
            "storage": name == storage,
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": {"type": "object", "properties": properties}},
                }
            },
        }
        for name, properties in fields.items()
    ]


def hooked_crd(converters: Converters, path: str, *, storage: str = "v1") -> Body:
    """A CRD whose objects the webhook at the path converts; its kind has the name of the path."""
    plural = path.replace("-", "") + "s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"plural": plural, "kind": plural[:-1].capitalize()},
            "versions": versions(storage=storage),
            "conversion": converters.conversion(path),
        },
    }


def converted(body: Body, version: str) -> Body:
    """The object in the other version."""
    body = copy.deepcopy(body)
    body["apiVersion"], spec = version, body.setdefault("spec", {})
    if version.endswith("/v2"):
        spec["address"] = f"{spec.pop('host', '')}:{spec.pop('port', '')}"
    else:
        spec["host"], _, spec["port"] = spec.pop("address", "").partition(":")
    return body


def _first(change: Callable[[Body], Any]) -> Callable[[Body], Body]:
    """Converted well, and then the first object changed."""

    def answer(request: Body) -> Body:
        found = _good(request)
        change(found["convertedObjects"][0])
        return found

    return answer


def _good(request: Body) -> Body:
    wanted = request["desiredAPIVersion"]
    return {"result": {"status": "Success"}, "convertedObjects": [converted(b, wanted) for b in request["objects"]]}


def _failed(**result: str) -> Callable[[Body], Body]:
    return lambda request: {"result": {"status": "Failed", **result}}


def _strange(body: Body) -> None:
    body["metadata"] |= {"finalizers": ["x/y"], "generation": 77, "annotations": {"seen": "yes"}}
    body["spec"]["unknown"] = 1


RESPONSES: dict[str, Callable[[Body], Body]] = {
    "good": _good,
    "failed": _failed(message="no way"),
    "silent": _failed(),
    "none": lambda request: {"result": {"status": "Success"}, "convertedObjects": []},
    "twice": lambda request: {**_good(request), "convertedObjects": _good(request)["convertedObjects"] * 2},
    "same-version": lambda request: {**_good(request), "convertedObjects": request["objects"]},
    "other-kind": _first(lambda body: body.update(kind="Other")),
    "other-name": _first(lambda body: body["metadata"].update(name="other")),
    "other-uid": _first(lambda body: body["metadata"].update(uid="1-2-3")),
    "no-metadata": _first(lambda body: body.pop("metadata")),
    "list-labels": _first(lambda body: body["metadata"].update(labels=["a"])),
    "number-label": _first(lambda body: body["metadata"].update(labels={"a": 1})),
    "wrong-label": _first(lambda body: body["metadata"].update(labels={"a": "not a label!"})),
    "no-labels": _first(lambda body: body["metadata"].pop("labels", None)),
    "strange": _first(_strange),
    "other-answer": lambda request: {**_good(request), "uid": "another"},
}
BROKEN = ("garbage", "absent", "another-group", "broken", "slow")


async def _answer(converters: Converters, request: web.Request) -> web.StreamResponse:
    path = request.path.strip("/")
    review = orjson.loads(await request.read())
    converters.asked.append((path, len(review["request"]["objects"])))
    named = {"apiVersion": review["apiVersion"], "kind": review["kind"]}
    match path:
        case "garbage":
            return web.Response(body=b"SECRET that is no JSON", content_type="application/json")
        case "absent":
            return web.json_response(named)
        case "another-group":
            return web.json_response({"apiVersion": "example.com/v1", "kind": "ConversionReview", "response": {}})
        case "broken":
            return web.Response(status=500, text="SECRET of a broken server")
        case "slow":
            await asyncio.sleep(3600)
    response = {"uid": review["request"]["uid"], **RESPONSES[path](review["request"])}
    return web.json_response({**named, "response": response})


@asynccontextmanager
async def converter_server(pki: Pki) -> AsyncIterator[Converters]:
    converters = Converters(0, pki.ca.read_text())

    async def answer(request: web.Request) -> web.StreamResponse:
        return await _answer(converters, request)

    async with serving(answer, pki) as port:
        converters.port = port
        yield converters
