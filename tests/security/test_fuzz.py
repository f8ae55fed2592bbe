"""No 500: valid objects of every kind with one thing wrong, on every way in, and whatever of it is stored is read.

`make test` asks 1,500 cases, the same each time; `make fuzz` asks 100,000 new ones (FLEET_FUZZ_CASES).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import orjson
import pytest
import yaml
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st

from api.engine.columns import cells
from api.engine.crd import kind_of
from api.engine.kind import Kind
from api.engine.status import CAUSES_MAX, MESSAGE_CHARACTERS_MAX, StatusError
from api.objects.crds import follow_crds
from api.objects.definitions import definitions
from api.store.memory import MemoryStore
from fleet.kinds import interpreter_for
from fleet.simulate.wall import WallClock
from fleet.values.ports import EXISTS, Delete, Key, Put
from fleet.values.quantity import BadQuantity
from tests.admission.conftest import THE_HUB
from tests.api.conftest import Hub, open_hub

from .fuzzing import MUTATIONS, encoded, mutated, plain, valid

CASES = int(os.environ.get("FLEET_FUZZ_CASES", "1500"))
SECONDS_MAX = 5.0  # of this process's time for one request of a few kilobytes; what hangs takes longer
NAMESPACE, NAME = "fuzz", "one"
MADE_BY_THE_HUB = ("resourcebindings", "queueunits")
ELSEWHERE = {"elasticquotatrees": "kube-system"}

SETTINGS = settings(
    max_examples=CASES,
    derandomize="FLEET_FUZZ_CASES" not in os.environ,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.generate, Phase.shrink),
    print_blob=True,
)
GADGET = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "gadgets", "kind": "Gadget", "singular": "gadget", "listKind": "GadgetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
                    {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1, "maximum": 9},
                                    "since": {"type": "string", "format": "date-time"},
                                    "word": {"type": "string", "pattern": "^(a+)+$", "maxLength": 40},
                                    "share": {"type": "number"},
                                    "on": {"type": "boolean"},
                                    "some": {
                                        "anyOf": [{"type": "integer"}, {"type": "string"}],
                                        "x-kubernetes-int-or-string": True,
                                    },
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "tags": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "set",
                                        "items": {"type": "string"},
                                    },
                                    "parts": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["name"],
                                        "items": {
                                            "type": "object",
                                            "required": ["name"],
                                            "properties": {
                                                "name": {"type": "string"},
                                                "weight": {"type": "integer", "default": 1},
                                                "why": {"type": "string", "nullable": True},
                                            },
                                        },
                                    },
                                    "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                                    "template": {"x-fleet-schema-from": "io.k8s.api.core.v1.PodTemplateSpec"},
                                },
                                "x-kubernetes-validations": [
                                    {
                                        "rule": "!has(self.parts) || self.parts.all(p, p.weight < 100)",
                                        "message": "too heavy",
                                    },
                                    {
                                        "rule": "!has(self.word) || self.word.matches('^a')",
                                        "messageExpression": "'no: ' + self.word",
                                    },
                                ],
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def namespace_of(kind: Kind) -> str:
    return ELSEWHERE.get(kind.resource, NAMESPACE)


class World:
    """A hub in this process, and a loop to ask it on."""

    def __init__(self, hub: Hub, loop: asyncio.Runner) -> None:
        self.hub, self.loop = hub, loop
        self.kinds: list[Kind] = sorted(hub.registry, key=lambda kind: (kind.group, kind.resource))

    def path(self, kind: Kind, name: str = "", subresource: str = "") -> str:
        start = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
        parts = [start, *(["namespaces", namespace_of(kind)] if kind.namespaced else []), kind.resource]
        return "/".join([*parts, *([name] if name else []), *([subresource] if subresource else [])])

    async def ask(
        self, method: str, path: str, body: bytes = b"", media: str = "application/json", accept: str = ""
    ) -> Any:
        """The parsed answer with its status under "http". The rules for every answer are asserted here."""
        path, _, query = path.partition("?")
        headers = [(b"authorization", b"Bearer admin-token"), (b"content-type", media.encode())]
        headers += [(b"accept", accept.encode())] if accept else []
        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "raw_path": path.encode(),
            "headers": headers,
            "query_string": query.encode(),
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
            "scheme": "https",
        }
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body}

        async def send(message: Any) -> None:
            sent.append(message)

        began = time.thread_time()
        await self.hub.app(scope, receive, send)
        assert time.thread_time() - began < SECONDS_MAX
        code = sent[0]["status"]
        answer = orjson.loads(b"".join(part.get("body", b"") for part in sent[1:]))
        assert code < 500, answer
        if code >= 400:
            assert answer["kind"] == "Status" and answer["code"] == code
            assert 3 < len(answer["message"]) <= MESSAGE_CHARACTERS_MAX + 50
            causes = answer.get("details", {}).get("causes", [])
            assert len(causes) <= CAUSES_MAX
            assert code != 422 or causes or "our request" in answer["message"]
        answer["http"] = code
        return answer

    async def make(self, kind: Kind, good: Any) -> Any:
        """The valid object, as whoever may create its kind does."""
        if kind.resource not in MADE_BY_THE_HUB:
            return await self.ask("POST", self.path(kind), encoded(good))
        try:
            made = await self.hub.objects.create(kind, namespace_of(kind), orjson.loads(encoded(good)), THE_HUB)
        except StatusError as error:
            return {"http": error.code}
        return {**made.body, "http": 201}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with asyncio.Runner() as loop:
        opened = open_hub(tmp_path_factory.mktemp("fuzz"), MemoryStore(WallClock()))
        hub = loop.run(opened.__aenter__())
        gadget = kind_of(GADGET, definitions())
        assert gadget is not None
        hub.registry.put(gadget)

        async def start() -> asyncio.Task[None]:
            body = {"metadata": {"name": NAMESPACE}}
            await hub.objects.create(hub.registry.need("", "namespaces"), "", body, hub.options())
            return asyncio.create_task(follow_crds(hub.store, hub.registry))

        follower = loop.run(start())
        yield World(hub, loop)
        assert not follower.done()
        follower.cancel()
        loop.run(opened.__aexit__(None, None, None))


@SETTINGS
@given(rng=st.randoms(use_true_random=False), mutation=st.sampled_from(sorted(MUTATIONS)))
def test_one_thing_wrong_is_never_a_500(world: World, rng: Random, mutation: str) -> None:
    kind = rng.choice(world.kinds)
    way = rng.choice(_WAYS if kind.builtin else [w for w in _WAYS if w != "strategic"])
    event(way)
    world.loop.run(_case(world, rng, kind, mutation, way))


def test_what_is_grown_is_valid(world: World) -> None:
    """Otherwise the mutations would be lost behind the first refusal."""
    taken = {kind.resource: 0 for kind in world.kinds}

    async def create(kind: Kind, seed: int) -> None:
        good = valid(Random(seed), kind, NAME, namespace_of(kind))
        taken[kind.resource] += (await world.make(kind, good))["http"] == 201
        await _clear(world, kind)

    for kind in world.kinds:
        if "create" not in kind.verbs:
            del taken[kind.resource]
            continue
        for seed in range(10):
            world.loop.run(create(kind, seed))
    assert min(taken.values()) >= 3, sorted((v, k) for k, v in taken.items())[:9]
    assert sum(taken.values()) > 7 * len(taken), taken


_MEDIA = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
_WAYS = ["create", "create", "create yaml", "update", "update yaml", "status", "below", "delete", "stored", *_MEDIA]


async def _case(world: World, rng: Random, kind: Kind, mutation: str, way: str) -> None:
    good = valid(rng, kind, NAME, namespace_of(kind))
    name = good["metadata"]["name"]
    path = world.path(kind, name)
    try:
        if way.startswith("create"):
            bad, _ = mutated(rng, good, mutation)
            await world.ask("POST", world.path(kind) + rng.choice(_CHECKS), *_form(rng, bad, way))
        elif way == "stored":
            await _put(world, kind, good, rng, mutation)
        else:
            made = await world.make(kind, good)
            if made["http"] != 201:
                event(f"refused: {kind.resource}")
            await _change(world, rng, kind, good, mutation, way, path)
        await _read(world, kind, path)
    finally:
        await _clear(world, kind)


_CHECKS = ["", "", "?fieldValidation=Strict", "?fieldValidation=Ignore", "?dryRun=All"]


def _form(rng: Random, body: Any, way: str) -> tuple[bytes, str]:
    """The body in the spelling that is asked for: YAML in blocks where it can be written so."""
    if not way.endswith("yaml"):
        return encoded(body), "application/json"
    try:
        return yaml.safe_dump(body, allow_unicode=True).encode(), "application/yaml"
    except (yaml.YAMLError, UnicodeError):
        return encoded(body), "application/yaml"


async def _change(world: World, rng: Random, kind: Kind, good: Any, mutation: str, way: str, path: str) -> None:
    bad, place = mutated(rng, good, mutation)
    match way:
        case "update" | "update yaml":
            await world.ask("PUT", path, *_form(rng, bad, way))
        case "status":
            given = {**good, "status": MUTATIONS[mutation](rng, {"conditions": [{"type": "Ready", "status": "True"}]})}
            await world.ask("PUT", path + "/status", encoded(given))
        case "below":
            await _below(world, rng, kind, mutation, path)
        case "delete":
            options = {
                "preconditions": {"uid": "a", "resourceVersion": "1"},
                "gracePeriodSeconds": 1,
                "propagationPolicy": "Background",
                "dryRun": ["All"],
                "orphanDependents": None,
            }
            await world.ask("DELETE", path, encoded(mutated(rng, options, mutation)[0]))
        case "json":
            value = bad
            for step in place:
                value = value[step]
            pointer = "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in place)
            operation = {"op": rng.choice(["add", "replace", "test"]), "path": pointer, "value": value}
            await world.ask("PATCH", path, encoded([operation]), _MEDIA[way])
        case "apply":
            await world.ask("PATCH", path + "?fieldManager=fuzz&force=true", encoded(bad), _MEDIA[way])
            await world.ask("PATCH", path + "?fieldManager=fuzz&force=true", encoded(good), _MEDIA[way])
        case _:
            await world.ask("PATCH", path, encoded(bad), _MEDIA[way])


_BODIES_BELOW: dict[str, Any] = {
    "scale": {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": NAME}, "spec": {"replicas": 1}},
    "binding": {"target": {"kind": "Node", "name": "n"}, "metadata": {"name": NAME}},
    "eviction": {"deleteOptions": {"gracePeriodSeconds": 0, "preconditions": {"uid": "a"}}},
    "token": {"spec": {"audiences": ["a"], "expirationSeconds": 3600}},
}


async def _below(world: World, rng: Random, kind: Kind, mutation: str, path: str) -> None:
    """A subresource, whether the kind has it or not."""
    name = rng.choice(sorted(_BODIES_BELOW))
    body, media = encoded(mutated(rng, _BODIES_BELOW[name], mutation)[0]), "application/json"
    method = "POST" if name != "scale" else rng.choice(["PUT", "PATCH"])
    await world.ask(method, f"{path}/{name}", body, media if method != "PATCH" else _MEDIA["merge"])


async def _put(world: World, kind: Kind, good: Any, rng: Random, mutation: str) -> None:
    """Objects stored before the checks existed: they can still be changed, and deleted by the steps after that."""
    made = await world.make(kind, good)
    if made["http"] != 201:
        return
    made.pop("http")
    made["status"] = made.get("status") or {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    aside = ("metadata", "apiVersion", "kind")
    bad = plain(mutated(rng, made, mutation, lambda path: path[0] not in aside)[0])
    key = Key(kind.group, kind.resource, namespace_of(kind) if kind.namespaced else "", made["metadata"]["name"])
    await world.hub.store.commit([Put(key, bad, EXISTS)])
    path = world.path(kind, key.name)
    await _read(world, kind, path)
    for body in ({"metadata": {"labels": {"a": "b"}}}, {"spec": {"a": None}}, {"metadata": {"finalizers": None}}):
        await world.ask("PATCH", path, encoded(body), _MEDIA["merge"])
    named = {key: good[key] for key in ("apiVersion", "kind", "metadata")}
    await world.ask("PATCH", path + "?fieldManager=other&force=true", encoded(named), _MEDIA["apply"])
    await world.ask("PUT", path, encoded(good))


async def _read(world: World, kind: Kind, path: str) -> None:
    """Whatever came of it, the kind is listed, printed and interpreted."""
    found = await world.ask("GET", world.path(kind))
    assert found["http"] == 200
    table = await world.ask("GET", world.path(kind), accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert table["http"] == 200
    assert len(table["rows"]) == len(found["items"])
    if kind.resource == "customresourcedefinitions" and found["items"]:
        await _use(world)
    interpreter = interpreter_for(kind)
    for body in found["items"]:
        cells(kind, body, 0.0)
        if interpreter is not None:
            interpreter.templates(body)
            interpreter.priority_class(body)
            interpreter.state(body.get("status"))
            interpreter.health(body)
            interpreter.dependencies(body)
            interpreter.suspended(body)
            interpreter.suspend(body, True)
            interpreter.stamp(body, {"a": "b"}, {"c": "d"})
            interpreter.merge_status(body.get("status"), body.get("status"))
            try:
                interpreter.components(body)
            except BadQuantity:
                pass


async def _use(world: World) -> None:
    """The kind that a CRD has become is described, and one of it is written."""
    await asyncio.sleep(0)
    made = world.hub.registry.resource("fuzz.example.com", "things")
    for _ in range(20):  # the follower's turn
        if made is None:
            await asyncio.sleep(0)
            made = world.hub.registry.resource("fuzz.example.com", "things")
    if made is not None:
        await world.ask("GET", f"/openapi/v3/apis/{made.api_version}")
        thing = {"metadata": {"name": NAME}, "spec": {"size": 1, "tags": ["a"]}}
        await world.ask("POST", world.path(made), encoded(thing))
        await world.ask("GET", world.path(made), accept="application/json;as=Table;v=v1;g=meta.k8s.io")
        await _clear(world, made)


async def _clear(world: World, kind: Kind) -> None:
    """Nothing is left for the next case, whatever holds it."""
    kept = {"default", "kube-system", NAMESPACE} if kind.resource == "namespaces" else set()
    page = await world.hub.store.list(kind.group, kind.resource)
    await world.hub.store.commit([Delete(s.key) for s in page.items if s.key.name not in kept])
    world.hub.app.authorizer.invalidate()
