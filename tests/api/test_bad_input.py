"""What is wrong gets the Status that a kube-apiserver would give, and nothing stored changes (I10)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import httpx
import pytest

from tests.api.conftest import Hub
from tests.api.streams import config_map

MAPS = "/api/v1/namespaces/default/configmaps"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
JSON = "application/json"
MERGE = "application/merge-patch+json"
GOOD = config_map("a")


def text(body: Any) -> bytes:
    return json.dumps(body).encode()


# (what, method, path, content type, body, code, reason)
CASES: list[tuple[str, str, str, str, bytes, int, str]] = [
    ("broken JSON", "POST", MAPS, JSON, b'{"kind":', 400, "BadRequest"),
    ("empty body", "POST", MAPS, JSON, b"", 400, "BadRequest"),
    ("a list", "POST", MAPS, JSON, b"[]", 400, "BadRequest"),
    ("a number", "POST", MAPS, JSON, b"1", 400, "BadRequest"),
    ("not a number", "POST", MAPS, JSON, b'{"a": NaN}', 400, "BadRequest"),
    ("not UTF-8", "POST", MAPS, JSON, b'{"a":"\xff"}', 400, "BadRequest"),
    ("broken YAML", "POST", MAPS, "application/yaml", b"a: [b", 400, "BadRequest"),
    ("two YAML documents", "POST", MAPS, "application/yaml", b"a: b\n---\nc: d", 400, "BadRequest"),
    ("a YAML tag", "POST", MAPS, "application/yaml", b"!!python/object:os.system {}", 400, "BadRequest"),
    ("broken protobuf", "POST", MAPS, "application/vnd.kubernetes.protobuf", b"k8s\x00\xff\xff", 400, "BadRequest"),
    ("no protobuf magic", "POST", MAPS, "application/vnd.kubernetes.protobuf", b"{}", 400, "BadRequest"),
    ("unknown body type", "POST", MAPS, "text/csv", text(GOOD), 415, "UnsupportedMediaType"),
    ("wrong kind", "POST", MAPS, JSON, text({**GOOD, "kind": "Secret"}), 400, "BadRequest"),
    ("wrong version", "POST", MAPS, JSON, text({**GOOD, "apiVersion": "v2"}), 400, "BadRequest"),
    ("metadata is text", "POST", MAPS, JSON, text({**GOOD, "metadata": "a"}), 400, "BadRequest"),
    (
        "other namespace",
        "POST",
        MAPS,
        JSON,
        text({**GOOD, "metadata": {"name": "a", "namespace": "b"}}),
        400,
        "BadRequest",
    ),
    ("no name", "POST", MAPS, JSON, text({**GOOD, "metadata": {}}), 422, "Invalid"),
    ("bad name", "POST", MAPS, JSON, text(config_map("A_b")), 422, "Invalid"),
    ("bad label", "POST", MAPS, JSON, text(config_map("a", {"x": "a b"})), 422, "Invalid"),
    ("name mismatch", "PUT", f"{MAPS}/kept", JSON, text(config_map("other")), 400, "BadRequest"),
    ("no such object", "PUT", f"{MAPS}/none", JSON, text(config_map("none", None)), 404, "NotFound"),
    ("exists", "POST", MAPS, JSON, text(config_map("kept")), 409, "AlreadyExists"),
    ("no such namespace", "POST", "/api/v1/namespaces/none/configmaps", JSON, text(GOOD), 404, "NotFound"),
    (
        "unknown field",
        "POST",
        f"{MAPS}?fieldValidation=Strict",
        JSON,
        text({**GOOD, "spec": {"x": 1}}),
        400,
        "BadRequest",
    ),
    (
        "field twice",
        "POST",
        f"{MAPS}?fieldValidation=Strict",
        JSON,
        text(GOOD)[:-1] + b',"data":{}}',
        400,
        "BadRequest",
    ),
    ("dry run of what", "POST", f"{MAPS}?dryRun=Some", JSON, text(GOOD), 422, "Invalid"),
    ("validation how", "POST", f"{MAPS}?fieldValidation=Hard", JSON, text(GOOD), 422, "Invalid"),
    ("long manager", "POST", f"{MAPS}?fieldManager={'m' * 129}", JSON, text(GOOD), 422, "Invalid"),
    ("patch type", "PATCH", f"{MAPS}/kept", JSON, b"{}", 415, "UnsupportedMediaType"),
    (
        "SMP of custom",
        "PATCH",
        f"{JOBS}/x",
        "application/strategic-merge-patch+json",
        b"{}",
        415,
        "UnsupportedMediaType",
    ),
    ("patch not an object", "PATCH", f"{MAPS}/kept", MERGE, b"[]", 400, "BadRequest"),
    ("patch of nothing", "PATCH", f"{MAPS}/none", MERGE, b"{}", 404, "NotFound"),
    ("patch the name", "PATCH", f"{MAPS}/kept", MERGE, b'{"metadata":{"name":"b"}}', 400, "BadRequest"),
    ("JSON patch form", "PATCH", f"{MAPS}/kept", "application/json-patch+json", b"{}", 400, "BadRequest"),
    ("apply without manager", "PATCH", f"{MAPS}/kept", "application/apply-patch+yaml", text(GOOD), 422, "Invalid"),
    ("force without apply", "PATCH", f"{MAPS}/kept?force=true", MERGE, b"{}", 422, "Invalid"),
    (
        "stale revision",
        "PUT",
        f"{MAPS}/kept",
        JSON,
        text({**GOOD, "metadata": {"name": "kept", "resourceVersion": "1"}}),
        409,
        "Conflict",
    ),
    ("delete nothing", "DELETE", f"{MAPS}/none", JSON, b"", 404, "NotFound"),
    ("delete another uid", "DELETE", f"{MAPS}/kept", JSON, b'{"preconditions":{"uid":"x"}}', 409, "Conflict"),
    ("delete options", "DELETE", f"{MAPS}/kept", JSON, b'{"kind":"Pod"}', 400, "BadRequest"),
    ("unknown path", "GET", "/nothing", JSON, b"", 404, "NotFound"),
    ("unknown group", "GET", "/apis/none/v1/things", JSON, b"", 404, "NotFound"),
    ("unknown version", "GET", "/api/v2/pods", JSON, b"", 404, "NotFound"),
    ("unknown kind", "POST", "/api/v1/namespaces/default/things", JSON, text(GOOD), 404, "NotFound"),
    ("unknown subresource", "GET", f"{MAPS}/kept/thing", JSON, b"", 404, "NotFound"),
    ("no status here", "PUT", f"{MAPS}/kept/status", JSON, text(GOOD), 404, "NotFound"),
    ("post to a name", "POST", f"{MAPS}/kept", JSON, text(GOOD), 405, "MethodNotAllowed"),
    ("put to a collection", "PUT", MAPS, JSON, text(GOOD), 405, "MethodNotAllowed"),
    (
        "get of a review",
        "GET",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        JSON,
        b"",
        405,
        "MethodNotAllowed",
    ),
    ("post to discovery", "POST", "/apis", JSON, b"{}", 405, "MethodNotAllowed"),
    ("cluster kind in a namespace", "GET", "/api/v1/namespaces/default/nodes", JSON, b"", 404, "NotFound"),
    ("options", "OPTIONS", MAPS, JSON, b"", 405, "MethodNotAllowed"),
]


async def send(client: httpx.AsyncClient, method: str, path: str, media: str, body: bytes) -> httpx.Response:
    return await client.request(method, path, content=body, headers={"content-type": media})


async def test_what_is_wrong_is_refused_and_changes_nothing(hub: Hub) -> None:
    wrong: list[tuple[object, ...]] = []
    async with hub.client() as client:
        assert (await client.post(MAPS, json=config_map("kept"))).status_code == 201
        revision = await hub.store.revision()
        for what, method, path, media, body, code, reason in CASES:
            answer = await send(client, method, path, media, body)
            status = answer.json()
            got = (answer.status_code, status.get("reason"), status.get("kind"), status.get("code"))
            if got != (code, reason, "Status", code):
                wrong.append((what, got, status.get("message")))
            if await hub.store.revision() != revision:
                wrong.append((what, "wrote", revision))
                revision = await hub.store.revision()
    assert wrong == []


async def test_a_field_given_twice_is_named(hub: Hub) -> None:
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","name":"b"},"data":{}}'
    async with hub.client() as client:
        answer = await send(client, "POST", f"{MAPS}?fieldValidation=Strict", JSON, body)
        assert answer.json()["message"] == 'strict decoding error: duplicate field "metadata.name"'
        worse = body.replace(b'"data":{}', b'"data":{},"more":1')
        answer = await send(client, "POST", f"{MAPS}?fieldValidation=Strict", JSON, worse)
        text = 'strict decoding error: unknown field "more", duplicate field "metadata.name"'
        assert answer.json()["message"] == text
        answer = await send(client, "POST", f"{MAPS}?fieldValidation=Warn", JSON, body)
    assert answer.status_code == 201
    assert answer.headers["warning"] == '299 - "duplicate field \\"metadata.name\\""'


async def test_an_unknown_field_is_a_warning_unless_strict_is_asked_for(hub: Hub) -> None:
    async with hub.client() as client:
        answer = await client.post(MAPS, json={**GOOD, "extra": 1})
        assert (answer.status_code, answer.headers["warning"]) == (201, '299 - "unknown field \\"extra\\""')
        answer = await client.post(f"{MAPS}?fieldValidation=Ignore", json={**config_map("b"), "extra": 1})
        assert answer.status_code == 201 and "warning" not in answer.headers


async def test_a_body_beyond_the_limit_is_refused_also_when_it_comes_in_chunks(hub: Hub) -> None:
    async def chunks() -> Any:
        for _ in range(40):
            yield b"x" * 100_000

    async with hub.client() as client:
        answer = await client.post(MAPS, content=chunks(), headers={"content-type": JSON})
        assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
        answer = await client.post(MAPS, content=b"x" * 4_000_000, headers={"content-type": JSON})
        assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_bomb_of_aliases_is_refused(hub: Hub) -> None:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    names = "abcdefgh"
    for before, name in pairwise(names):
        lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]")
    async with hub.client() as client:
        answer = await send(client, "POST", MAPS, "application/yaml", "\n".join(lines).encode())
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")


async def test_a_chunked_body_is_read_whole(hub: Hub) -> None:
    async def chunks() -> Any:
        data = text(GOOD)
        yield data[:10]
        yield data[10:]

    async with hub.client() as client:
        assert (await client.post(MAPS, content=chunks(), headers={"content-type": JSON})).status_code == 201


async def test_a_bug_is_a_500_that_says_nothing(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(hub.store, "get", broken)
    async with hub.client() as client:
        answer = await client.get(f"{MAPS}/a")
    assert (answer.status_code, answer.json()["reason"]) == (500, "InternalError")
    assert "secret detail" not in answer.text


async def test_a_dry_run_stores_nothing(hub: Hub) -> None:
    async with hub.client() as client:
        await client.post(MAPS, json=config_map("kept"))
        revision = await hub.store.revision()
        assert (await client.post(f"{MAPS}?dryRun=All", json=GOOD)).status_code == 201
        patch = await send(client, "PATCH", f"{MAPS}/kept?dryRun=All", MERGE, b'{"data":{"x":"y"}}')
        assert patch.json()["data"] == {"x": "y"}
        assert (await client.delete(f"{MAPS}/kept?dryRun=All")).status_code == 200
        options = b'{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["All"]}'
        assert (await send(client, "DELETE", f"{MAPS}/kept", JSON, options)).status_code == 200
        assert (await client.delete(MAPS, params={"dryRun": "All"})).status_code == 200
        assert (await client.get(f"{MAPS}/kept")).status_code == 200
    assert await hub.store.revision() == revision
