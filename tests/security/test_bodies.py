"""Bounds on what a client sends and on what is stored: refused with a reason, nothing changed, no process ended."""

from __future__ import annotations

import json
import random
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import orjson
import pytest

from api.engine.bounds import CONTAINERS_MAX, STORED_BYTES_MAX, int64, too_deep
from api.engine.patch import COPIED_AT_ONCE_BYTES, COPIED_BYTES_MAX, OPERATIONS_MAX, json_patch
from api.engine.rules import CostlyWrite
from api.engine.status import StatusError
from api.objects.apart import at_once
from api.wire.protobuf import decode
from fleet.values.untyped import DEPTH_MAX
from fleet.values.yamlread import load_yaml
from tests.api.protobodies import block, envelope
from tests.security.hub import Hub, open_hub

MAPS = "/api/v1/namespaces/default/configmaps"
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
REST = "/fleet/v1/jobs"
JSON, YAML = "application/json", "application/yaml"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
BRACKETS = 200_000


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    async with open_hub() as opened:
        yield opened


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def job(name: str, **container: Any) -> dict[str, Any]:
    pod = {"spec": {"containers": [{"name": "pytorch", "image": "x", **container}]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1, "template": pod}}},
    }


# -- depth


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


def nested(levels: int, rng: random.Random) -> Any:
    """A document about as deep as asked, with all that could be taken for a bracket or the end of a string."""
    leaves = ["", "[", ']{"', "\\", '\\"[[', 'a"b', "\\\\", 1, None, [], {}]
    if levels <= 0 or rng.random() < 0.01:
        return rng.choice(leaves)
    if rng.random() < 0.5:
        return [nested(levels - 1, rng), *(rng.choice(leaves) for _ in range(rng.randrange(3)))]
    return {rng.choice(["a", "[", '"', "\\"]): nested(levels - 1, rng), "z": rng.choice(leaves)}


def test_depth_is_counted_as_a_parser_would() -> None:
    rng = random.Random(9)
    seen = set()
    for _ in range(1500):
        document = nested(rng.randrange(80, 120), rng)
        deep = depth(document) > DEPTH_MAX
        seen.add(deep)
        for text in (json.dumps(document).encode(), orjson.dumps(document), json.dumps(document, indent=1).encode()):
            assert too_deep(text) is deep
    assert seen == {True, False}


@pytest.mark.parametrize("levels", [DEPTH_MAX - 1, DEPTH_MAX, DEPTH_MAX + 1])
@pytest.mark.parametrize("leaf", [b"", b"[]", b"{}", b"1", b'"]"'])
def test_depth_at_the_bound(levels: int, leaf: bytes) -> None:
    text = b"[" * levels + leaf + b"]" * levels
    assert too_deep(text) is (depth(json.loads(text)) > DEPTH_MAX)


DEEP: list[tuple[str, str, str, str, bytes]] = [
    ("a list", "POST", MAPS, JSON, b"[" * BRACKETS),
    ("a list of half as many", "POST", MAPS, JSON, b"[" * 50_000 + b"]" * 50_000),
    ("an object", "POST", MAPS, JSON, b'{"a":' * BRACKETS + b"1" + b"}" * BRACKETS),
    ("below metadata", "POST", MAPS, JSON, b'{"metadata":' + b"[" * 150 + b"]" * 150 + b"}"),
    ("a YAML flow list", "POST", MAPS, YAML, b"[" * BRACKETS),
    ("a YAML flow map", "POST", MAPS, YAML, b"{a: " * BRACKETS),
    ("a YAML block list", "POST", MAPS, YAML, b"- " * BRACKETS + b"a"),
    ("a YAML block map", "POST", MAPS, YAML, b"\n".join(b" " * level + b"a:" for level in range(300))),
    ("YAML question marks", "POST", MAPS, YAML, b"? " * BRACKETS),
    ("an alias", "POST", MAPS, YAML, b"a: &a " + b"[" * 60 + b"]" * 60 + b"\nb: " + b"[" * 60 + b"*a" + b"]" * 60),
    ("an alias of itself", "POST", MAPS, YAML, b"a: &a [*a]"),
    ("an applied YAML", "PATCH", f"{MAPS}/kept?fieldManager=x", APPLY, b"[" * BRACKETS),
    ("an applied JSON", "PATCH", f"{MAPS}/kept?fieldManager=x", APPLY, b'{"a":' * BRACKETS),
    ("a merge patch", "PATCH", f"{JOBS}/kept", "application/merge-patch+json", b'{"a":' * 500 + b"1" + b"}" * 500),
    ("a JSON patch", "PATCH", f"{JOBS}/kept", JSON_PATCH, b"[" * 500 + b"]" * 500),
    ("options of a DELETE", "DELETE", f"{MAPS}/kept", YAML, b"[" * 10_000),
    ("a review", "POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", YAML, b"[" * BRACKETS),
    ("a job over REST", "POST", REST, YAML, b"[" * BRACKETS),
    ("a job over REST, JSON", "POST", REST, JSON, b"[" * BRACKETS),
    ("a question over REST", "POST", "/fleet/v1/what-if", YAML, b"- " * BRACKETS),
]


@pytest.mark.parametrize(("what", "method", "path", "media", "data"), DEEP, ids=[case[0] for case in DEEP])
async def test_what_is_too_deep_is_refused_before_it_is_parsed(
    hub: Hub, what: str, method: str, path: str, media: str, data: bytes
) -> None:
    await hub.create("configmaps", config_map("kept", a="b"), namespace="default")
    before = await hub.store.revision()
    async with hub.client() as client:
        answer = await client.request(method, path, content=data, headers={"content-type": media})
    # Of so many brackets in JSON their number is refused first.
    assert answer.json()["reason"] in ("BadRequest", "RequestEntityTooLarge" if media == JSON else ""), answer.text
    assert answer.status_code in (400, 413)
    assert await hub.store.revision() == before


async def test_a_user_without_rights_who_may_ask_what_they_may_ends_no_process(hub: Hub) -> None:
    async with hub.client("nobody-token") as client:
        for media in (YAML, JSON):
            answer = await client.post(
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                content=b"[" * BRACKETS,
                headers={"content-type": media},
            )
            assert answer.status_code in (400, 403, 413)


async def test_a_token_of_brackets_is_no_token(hub: Hub) -> None:
    deep = urlsafe_b64encode(b"[" * 40_000).decode().rstrip("=")
    header = urlsafe_b64encode(b'{"alg":"ES256","typ":"JWT"}').decode().rstrip("=")
    for token in (f"{deep}.{deep}.x", f"{header}.{deep}.x"):
        async with hub.client(token) as client:
            assert (await client.get(MAPS)).status_code == 401


async def test_a_body_of_very_many_lists_is_413_and_no_patch_makes_one(hub: Hub) -> None:
    await hub.create("pytorchjobs", job("many"), group="kubeflow.org", namespace="default")
    before = await hub.store.revision()
    many: list[Any] = [[]] * (CONTAINERS_MAX + 1)
    some: list[Any] = [[]] * (CONTAINERS_MAX // 2)
    container = "/spec/pytorchReplicaSpecs/Worker/template/spec/containers/0"
    twice = [
        {"op": "add", "path": f"{container}/args", "value": some},
        {"op": "copy", "from": f"{container}/args", "path": f"{container}/command"},
    ]
    async with hub.client() as client:
        answer = await client.post(MAPS, json={**config_map("a"), "data": many})
        assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge")
        for field in ("managedFields", "finalizers"):
            answer = await client.patch(
                f"{JOBS}/many",
                json={"metadata": {field: some}},
                headers={"content-type": "application/merge-patch+json"},
            )
            assert answer.status_code in (200, 400, 422), answer.text
        answer = await client.patch(f"{JOBS}/many", content=orjson.dumps(twice), headers={"content-type": JSON_PATCH})
        assert answer.status_code == 422, answer.text[:300]
    assert await hub.store.revision() == before


def test_protobuf_is_bounded_in_depth_and_in_the_json_inside() -> None:
    schema = b""
    for _ in range(200):
        schema = block(1, schema)
    for raw in (block(2, schema), block(1, block(17, block(7, block(1, b'{"f":' * 150 + b"1" + b"}" * 150))))):
        try:
            found = decode(envelope("v1", "Pod", raw))
        except StatusError as refused:
            assert refused.code == 400
        else:
            assert depth(found) <= DEPTH_MAX


# -- aliases, tags and numbers of YAML


def aliases_of(text: bytes, count: int) -> bytes:
    names = ", ".join(f"k{number}: *a" for number in range(count))
    return (
        b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: &a " + text + b", " + names.encode() + b"}}"
    )


BOMBS = {
    "text by aliases": aliases_of(b"x" * 1_000_000, 60),
    "nodes by aliases": b"a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    + b"".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n".encode() for a, b in pairwise("abcdefgh")),
    "merge keys": b"a: &a {" + b",".join(b"k%d: 1" % n for n in range(9000)) + b"}\nb: {<<: [" + b"*a," * 9000 + b"]}",
    "nodes": b"[" + b"1," * 150_000 + b"]",
    "documents": b"---\n" * 100_000,
}


@pytest.mark.parametrize("bomb", BOMBS)
async def test_what_aliases_expand_to_is_bounded(hub: Hub, bomb: str) -> None:
    async with hub.client() as client:
        answer = await client.post(MAPS, content=BOMBS[bomb], headers={"content-type": YAML})
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest"), answer.text


@pytest.mark.parametrize(
    "text",
    [
        "!!binary aGVsbG8=",
        "!!timestamp 2020-01-01",
        "!!set {a}",
        "!!omap [a: b]",
        "!!pairs [a: b]",
        "!!bool maybe",
        "!!int abc",
        '!!int ""',
        "!!float abc",
        "!!float .inf",
        "!!float .nan",
        "1e999",
        "9" * 400,
        "9" * 5000,
        "0x" + "f" * 5000,
        "!!map [[a, b]]",
        "!!map abc",
        "!!seq {a: b}",
        "!!str [a]",
        "!!null [a]",
        "!unknown a",
        "*nowhere",
    ],
)
async def test_yaml_that_json_cannot_say_is_refused(hub: Hub, text: str) -> None:
    body = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a, labels: {{a: {text}}}}}".encode()
    async with hub.client() as client:
        answer = await client.post(MAPS, content=body, headers={"content-type": YAML})
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest"), answer.text


def test_numbers_beyond_64_bits_are_floats_as_in_json() -> None:
    text = b"[18446744073709551615, 18446744073709551616, -9223372036854775809]"
    assert load_yaml(text, []) == orjson.loads(text)


# -- what is stored


async def test_an_object_that_is_too_large_to_store_is_413_whichever_way_it_comes(hub: Hub) -> None:
    large = "x" * (STORED_BYTES_MAX - 100)
    half = "x" * (STORED_BYTES_MAX // 2)
    await hub.create("configmaps", config_map("kept", a=half), namespace="default")
    before = await hub.store.revision()
    ways = [
        ("POST", MAPS, JSON, config_map("a", a=large)),
        ("POST", MAPS, YAML, config_map("a", a=large)),
        ("PUT", f"{MAPS}/kept", JSON, config_map("kept", a=large)),
        ("PATCH", f"{MAPS}/kept", "application/merge-patch+json", {"data": {"b": half}}),
        ("PATCH", f"{MAPS}/kept", "application/strategic-merge-patch+json", {"data": {"b": half}}),
        ("PATCH", f"{MAPS}/kept", JSON_PATCH, [{"op": "copy", "from": "/data/a", "path": "/data/b"}]),
        ("PATCH", f"{MAPS}/kept?fieldManager=x", APPLY, config_map("kept", b=half)),
        ("PATCH", f"{MAPS}/fresh?fieldManager=x", APPLY, config_map("fresh", a=large)),
        ("POST", f"{MAPS}?dryRun=All", JSON, config_map("a", a=large)),
    ]
    async with hub.client() as client:
        for method, path, media, body in ways:
            answer = await client.request(method, path, content=orjson.dumps(body), headers={"content-type": media})
            status = answer.json()
            assert (answer.status_code, status["reason"]) == (413, "RequestEntityTooLarge"), (method, path, status)
            assert str(STORED_BYTES_MAX) in status["message"]
        assert await hub.store.revision() == before
        fits = job("fits", args=["x" * (STORED_BYTES_MAX - 4000)])
        assert (await client.post(JOBS, json=fits)).status_code == 201


async def test_patches_that_add_up_cannot_nest_deeper_than_the_bound(hub: Hub) -> None:
    await hub.create("pytorchjobs", job("deep"), group="kubeflow.org", namespace="default")
    inner: dict[str, Any] = {}
    for _ in range(90):
        inner = {"a": inner}
    operations = [
        {"op": "add", "path": "/metadata/annotations", "value": inner},
        *(
            {"op": "add", "path": "/metadata/annotations" + "/a" * (90 * times), "value": inner}
            for times in range(1, 12)
        ),
    ]
    async with hub.client() as client:
        for data in (operations, operations[:2]):
            answer = await client.patch(
                f"{JOBS}/deep", content=orjson.dumps(data), headers={"content-type": JSON_PATCH}
            )
            assert answer.status_code in (400, 422), answer.text


async def test_bodies_beyond_three_mebibytes_are_413_on_every_path(hub: Hub) -> None:
    data = b" " * (3 * 1024 * 1024 + 1)
    paths = [MAPS, REST, "/fleet/v1/what-if", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]
    async with hub.client() as client:
        for path in paths:
            answer = await client.post(path, content=data, headers={"content-type": JSON})
            assert (answer.status_code, answer.json()["reason"]) == (413, "RequestEntityTooLarge"), path


# -- JSON patches


def test_a_json_patch_has_so_many_operations_and_no_more() -> None:
    operations = [{"op": "add", "path": "/a", "value": 1}] * OPERATIONS_MAX
    assert json_patch({}, operations) == {"a": 1}
    with pytest.raises(StatusError) as refused:
        json_patch({}, [*operations, operations[0]])
    assert refused.value.code == 413


def test_copies_that_double_are_refused_before_they_are_made() -> None:
    doubling = [{"op": "copy", "from": "/a", "path": f"/a/c{number}"} for number in range(40)]
    with pytest.raises(StatusError) as refused:
        json_patch({"a": {"text": "x" * 1000}}, doubling)
    assert refused.value.code == 413
    assert str(COPIED_BYTES_MAX) in refused.value.message


def test_copies_of_many_lists_are_refused_before_they_are_made() -> None:
    """Each copy of the list holds all copies before it: a patch of 900 bytes made a million lists."""
    doubling = [{"op": "copy", "from": "/a", "path": "/a/-"}] * 19
    with pytest.raises(StatusError) as refused:
        json_patch({"a": [[]] * 3}, doubling)
    assert refused.value.code == 413
    assert str(CONTAINERS_MAX) in refused.value.message
    few = json_patch({"a": [[]] * 3}, doubling[:10])
    assert len(few["a"]) == 13


def test_large_copies_are_not_made_on_an_event_loop() -> None:
    patch = [{"op": "copy", "from": "/a", "path": "/b"}]
    body = {"a": "x" * COPIED_AT_ONCE_BYTES}
    with pytest.raises(CostlyWrite):
        at_once(json_patch, body, patch)
    assert json_patch(body, patch)["b"] == body["a"]


async def test_what_one_try_of_a_patch_made_is_not_in_the_next(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that a patch adds and then fills was filled again when the write had lost to another."""
    await hub.create("configmaps", config_map("kept", a="b"), namespace="default")
    kind = hub.registry.need("", "configmaps")
    commit = hub.store.commit
    lost: list[bool] = []

    async def contended(writes: Any, **how: Any) -> Any:
        if not lost:
            lost.append(True)
            monkeypatch.undo()
            await hub.client().patch(f"{MAPS}/kept", json={"data": {"other": "x"}}, headers=merge)
        return await commit(writes, **how)

    merge = {"content-type": "application/merge-patch+json"}
    monkeypatch.setattr(hub.store, "commit", contended)
    operations = [
        {"op": "add", "path": "/metadata/finalizers", "value": []},
        {"op": "add", "path": "/metadata/finalizers/-", "value": "a.b/c"},
    ]
    async with hub.client() as client:
        answer = await client.patch(
            f"{MAPS}/kept", content=orjson.dumps(operations), headers={"content-type": JSON_PATCH}
        )
    assert lost
    assert answer.status_code == 200, answer.text
    body = await hub.objects.get(kind, "default", "kept")
    assert body["metadata"]["finalizers"] == ["a.b/c"]
    assert body["data"] == {"a": "b", "other": "x"}


# -- parameters


def test_numbers_in_text_have_64_bits() -> None:
    assert [int64(text) for text in ("0", "-1", "+7", str(2**63 - 1), str(-(2**63)))] == [0, -1, 7, 2**63 - 1, -(2**63)]
    for text in ("", "-", "1e3", "1_0", " 1", "٣", str(2**63), "9" * 400, "9" * 5000, "1.0", "--1"):
        assert int64(text) is None


@pytest.mark.parametrize("digits", ["9" * 25, "9" * 400, "9" * 5000, "-" + "9" * 5000, "1_000", "٣"])
async def test_a_parameter_of_many_digits_is_refused(hub: Hub, digits: str) -> None:
    async with hub.client() as client:
        for parameter in ("limit", "resourceVersion", "timeoutSeconds"):
            answer = await client.get(MAPS, params={parameter: digits, "watch": str(parameter == "timeoutSeconds")})
            assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest"), parameter
        answer = await client.delete(f"{MAPS}/a", params={"gracePeriodSeconds": digits})
        assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
        for selector in (f"a>{digits}", f"a in (b),c<{digits}"):
            answer = await client.get(MAPS, params={"labelSelector": selector})
            assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
        for path in ("jobs?limit=", "decisions?limit=", "decisions/", "jobs?continue="):
            answer = await client.get(f"/fleet/v1/{path}{digits}")
            assert answer.status_code in (400, 404, 422) or digits == "1_000", path


async def test_a_selector_has_so_many_requirements_and_no_more(hub: Hub) -> None:
    async with hub.client() as client:
        for selectors in (
            {"labelSelector": ",".join(f"!k{number}" for number in range(101))},
            {"fieldSelector": ",".join(f"metadata.name!=k{number}" for number in range(101))},
            {"labelSelector": "a in (" + ",".join(str(number) for number in range(5000)) + ")"},
        ):
            answer = await client.get(MAPS, params=selectors)
            assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
        many = {"labelSelector": "a in (" + ",".join(str(number) for number in range(1000)) + ")"}
        assert (await client.get(MAPS, params=many)).status_code == 200
