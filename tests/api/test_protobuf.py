"""Protobuf in both directions: every message of the tables, bad bytes, and what a client of the hub gets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from random import Random
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.engine.status import StatusError
from api.objects.definitions import definitions
from api.wire.protobuf import UnwritableValue, decode, decode_message, encode_kind, encode_message, kind_message, kinds
from api.wire.protobuf.answers import envelope, whole
from api.wire.protobuf.tables import NUMBERS, SCALARS, SPECIAL, message, message_names
from tests.api.conftest import Hub
from tests.api.protobodies import body_of, frames, inside, lost, settled
from tests.api.streams import config_map
from tests.testbed.protobuf_tables import TARGET, source_folder, tables

PROTOBUF = "application/vnd.kubernetes.protobuf"
METADATA = ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
MAPS = "/api/v1/namespaces/default/configmaps"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
NAMES = message_names()


def test_every_type_in_the_tables_is_known() -> None:
    types = {field.type for name in NAMES for field in message(name).fields}
    assert types - SCALARS - SPECIAL <= set(NAMES)
    assert len(NAMES) > 1000 and len(kinds()) > 300 and NUMBERS < SCALARS


def test_every_message_says_the_same_after_a_journey() -> None:
    for name in NAMES:
        for seed in range(3):
            body = body_of(name, Random(f"{name}{seed}"))
            assert decode_message(encode_message(name, body), name) == body, name


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(kinds())), st.integers(0, 1 << 32))
def test_every_kind_says_the_same_after_a_journey(kind: str, seed: int) -> None:
    api_version, _, kind_name = kind.rpartition("/")
    body = {"kind": kind_name, "apiVersion": api_version, **body_of(kinds()[kind], Random(seed))}
    assert decode(whole(body)) == body


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 1 << 32), st.data())
def test_broken_bytes_are_refused_or_read_but_never_a_bug(seed: int, data: st.DataObject) -> None:
    random = Random(seed)
    api_version, _, kind = random.choice(sorted(kinds())).rpartition("/")
    body = {"kind": kind, "apiVersion": api_version, **body_of(kinds()[f"{api_version}/{kind}"], random)}
    raw = bytearray(whole(body))
    for _ in range(data.draw(st.integers(1, 5))):
        raw[data.draw(st.integers(4, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(4, len(raw)))]
    try:
        found = decode(bytes(raw))
    except StatusError as refused:
        assert refused.code == 400
    else:
        assert isinstance(found, dict)


def test_objects_inside_objects_are_bounded() -> None:
    inner = whole(config_map("x"))
    for _ in range(300):
        item = b"\x0a" + _size(len(inner)) + inner
        inner = envelope("v1", "List", b"\x12" + _size(len(item)) + item)
    with pytest.raises(StatusError) as refused:
        decode(inner)
    assert refused.value.code == 400
    once = decode(envelope("v1", "List", encode_message("core.v1.List", {"items": [{"kind": "ConfigMap"}]})))
    assert once == {"kind": "List", "apiVersion": "v1", "items": [{"kind": "ConfigMap"}]}


def test_as_many_messages_are_read_as_objects_of_json() -> None:
    for count, code in ((60_000, 0), (70_000, 413)):
        body = envelope("v1", "Pod", b"\x12" + _size(2 * count) + b"\x0a\x00" * count)  # volumes
        try:
            found = decode(body)
        except StatusError as refused:
            assert refused.code == code
        else:
            assert code == 0 and len(found["spec"]["volumes"]) == count


def _size(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def test_what_has_no_protobuf_form_is_said() -> None:
    wrong: list[dict[str, Any]] = [
        {"kind": "ConfigMap", "apiVersion": "v1", "data": {"a": 1}},
        {"kind": "ConfigMap", "apiVersion": "v1", "data": "text"},
        {"kind": "ConfigMap", "apiVersion": "v1", "immutable": "yes"},
        {"kind": "Secret", "apiVersion": "v1", "data": {"a": "abc"}},
        {"kind": "Pod", "apiVersion": "v1", "spec": {"priority": 1.5}},
        {"kind": "Pod", "apiVersion": "v1", "metadata": {"creationTimestamp": "yesterday"}},
        {"kind": "Pod", "apiVersion": "v1", "spec": {"containers": [{"resources": {"limits": {"cpu": []}}}]}},
        {"kind": "Widget", "apiVersion": "example.com/v1"},
    ]
    for body in wrong:
        with pytest.raises(UnwritableValue):
            encode_kind(body)
        with pytest.raises(StatusError) as refused:
            whole(body)
        assert refused.value.code == 406


def test_nulls_and_numbers_that_are_written_in_another_way() -> None:
    spec = {"containers": [{"name": "c", "args": [None, "b"], "resources": {"limits": {"cpu": 2}}}], "priority": 3.0}
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": {"labels": {"a": None}, "name": None}, "spec": spec}
    found = decode(whole(body))
    assert found["metadata"] == {"labels": {"a": ""}}
    container = {"name": "c", "args": ["", "b"], "resources": {"limits": {"cpu": "2"}}}
    assert found["spec"] == {"containers": [container], "priority": 3}


def test_names_in_json_are_those_of_the_schemas() -> None:
    """The tables against the schema package, for each group that both have."""
    prefixes = {"meta": "io.k8s.apimachinery.pkg.apis", "apiextensions": "io.k8s.apiextensions-apiserver.pkg.apis"}
    compared = 0
    for name in NAMES:
        group = name.partition(".")[0]
        full = f"{prefixes.get(group, 'io.k8s.api')}.{name}"
        if full not in definitions() or message(name).wrapped or message(name).choice or not message(name).fields:
            continue
        schema = set(definitions()._raw[full].get("properties", {})) - {"kind", "apiVersion"}
        assert _names(name) - {"kind", "apiVersion"} == schema, name
        compared += 1
    assert compared > 500


def _names(name: str) -> set[str]:
    fields = message(name).fields
    return {f.name for f in fields if not f.inline}.union(*(_names(f.type) for f in fields if f.inline))


# -- Kubernetes' own files


def test_the_tables_are_what_the_script_writes() -> None:
    assert tables() == TARGET.read_text()


def test_kubernetes_own_samples_are_read_and_written() -> None:
    """Kubernetes keeps an object of each kind with every field set, in JSON and in protobuf."""
    folders = [
        source_folder("k8s.io/api") / "testdata/HEAD",
        source_folder("k8s.io/apiextensions-apiserver") / "pkg/apis/testdata/HEAD",
    ]
    samples = [path for folder in folders for path in sorted(folder.glob("*.pb"))]
    compared = 0
    for path in samples:
        plain = orjson.loads(path.with_suffix(".json").read_bytes())
        name = kind_message(plain.get("apiVersion", ""), plain.get("kind", ""))
        if name is None:  # a kind that no server has
            assert path.name in ("core.v1.WatchEvent.pb", "imagepolicy.k8s.io.v1alpha1.ImageReview.pb")
            continue
        assert list(lost(decode(path.read_bytes()), plain)) == [], path.name
        again = {"kind": plain["kind"], "apiVersion": plain["apiVersion"], **decode_message(encode_kind(plain), name)}
        assert list(lost(again, plain)) == [], path.name
        assert settled(encode_kind(plain), name) == settled(inside(path.read_bytes()), name), path.name
        compared += 1
    assert compared > 150


# -- the hub's answers


async def ask(hub: Hub, path: str, accept: str = PROTOBUF, method: str = "GET", **more: Any) -> httpx.Response:
    async with hub.client() as client:
        return await client.request(method, path, headers={"accept": accept, **more.pop("headers", {})}, **more)


async def fill(hub: Hub, count: int) -> None:
    for index in range(count):
        answer = await ask(
            hub, MAPS, "application/json", "POST", json=config_map(f"n{index}", {"a": "b"}, x="y" * 5000)
        )
        assert answer.status_code == 201


async def test_an_object_and_a_list_are_what_their_json_is(hub: Hub) -> None:
    await fill(hub, 3)
    for path in (f"{MAPS}/n1", "/api/v1/namespaces/default"):
        in_json, binary = await ask(hub, path, "application/json"), await ask(hub, path)
        assert (binary.status_code, binary.headers["content-type"]) == (200, PROTOBUF)
        assert decode(binary.content) == in_json.json()
    plain = (await ask(hub, MAPS, "application/json", params={"limit": 2})).json()
    found = decode((await ask(hub, MAPS, f"{PROTOBUF}, */*", params={"limit": 2})).content)
    assert found["metadata"] == plain["metadata"] and found["kind"] == "ConfigMapList"
    bare = [{k: v for k, v in item.items() if k not in ("kind", "apiVersion")} for item in plain["items"]]
    assert found["items"] == bare


async def test_an_event_is_given_in_the_version_that_is_asked_for(hub: Hub) -> None:
    involved = {"kind": "Pod", "namespace": "default", "name": "p"}
    event = {"kind": "Event", "apiVersion": "v1", "metadata": {"name": "e"}, "involvedObject": involved, "reason": "R"}
    path = "namespaces/default/events"
    made = await ask(hub, f"/api/v1/{path}", method="POST", json={**event, "message": "m"})
    assert (made.status_code, decode(made.content)["message"]) == (201, "m")
    for base, name, text in (("/api/v1", "involvedObject", "message"), ("/apis/events.k8s.io/v1", "regarding", "note")):
        one = decode((await ask(hub, f"{base}/{path}/e")).content)
        (item,) = decode((await ask(hub, f"{base}/{path}")).content)["items"]
        for found in (one, item):
            assert (found[name]["name"], found[text], found["reason"]) == ("p", "m", "R")


async def test_a_write_answers_in_protobuf_and_takes_it(hub: Hub) -> None:
    headers = {"content-type": PROTOBUF}
    sent = whole({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "m"}, "data": {"k": "v"}})
    created = await ask(hub, MAPS, method="POST", content=sent, headers=headers)
    body = decode(created.content)
    assert (created.status_code, body["data"]) == (201, {"k": "v"})
    body["data"] = {"k": "w"}
    changed = await ask(hub, f"{MAPS}/m", method="PUT", content=whole(body), headers=headers)
    assert decode(changed.content)["data"] == {"k": "w"}
    options = whole({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
    gone = await ask(hub, f"{MAPS}/m", method="DELETE", content=options, headers=headers)
    assert (decode(gone.content)["kind"], decode(gone.content)["status"]) == ("Status", "Success")


async def test_refusals_reviews_and_discovery_are_in_protobuf_too(hub: Hub) -> None:
    missing = await ask(hub, f"{MAPS}/none")
    status = decode(missing.content)
    assert (missing.status_code, status["reason"], status["code"]) == (404, "NotFound", 404)
    assert missing.headers["content-type"] == PROTOBUF
    async with hub.client("") as client:
        refused = await client.get(MAPS, headers={"accept": PROTOBUF})
    assert (refused.status_code, decode(refused.content)["reason"]) == (401, "Unauthorized")
    review = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    said = await ask(hub, "/apis/authentication.k8s.io/v1/selfsubjectreviews", method="POST", json=review)
    assert decode(said.content)["status"]["userInfo"]["username"] == "admin"
    resources = decode((await ask(hub, "/api/v1")).content)
    assert {"configmaps", "pods"} <= {item["name"] for item in resources["resources"]}
    aggregated = f"{PROTOBUF};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    groups = await ask(hub, "/apis", aggregated)
    assert groups.headers["content-type"] == aggregated
    assert "batch" in [item["metadata"]["name"] for item in decode(groups.content)["items"]]


async def test_custom_resources_and_tables_have_no_protobuf_form(hub: Hub) -> None:
    assert (await ask(hub, POLICIES)).status_code == 406
    both = await ask(hub, POLICIES, f"{PROTOBUF},application/json")
    assert (both.status_code, both.json()["kind"]) == (200, "PropagationPolicyList")
    table = f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1"
    assert (await ask(hub, MAPS, table)).status_code == 406
    assert (await ask(hub, MAPS, f"{table},application/json;as=Table;g=meta.k8s.io;v=v1")).json()["kind"] == "Table"


async def test_the_metadata_of_every_kind_has_one(hub: Hub) -> None:
    await fill(hub, 2)
    alone = decode((await ask(hub, f"{MAPS}/n0", PROTOBUF + METADATA)).content)
    assert (alone["kind"], alone["metadata"]["name"], "data" in alone) == ("PartialObjectMetadata", "n0", False)
    listed = PROTOBUF + METADATA.replace("Metadata;", "MetadataList;")
    found = decode((await ask(hub, MAPS, listed)).content)
    assert [item["metadata"]["name"] for item in found["items"]] == ["n0", "n1"]
    custom = await ask(hub, POLICIES, listed)
    assert (custom.status_code, decode(custom.content)["kind"]) == (200, "PartialObjectMetadataList")


async def test_a_watch_sends_frames(hub: Hub) -> None:
    await fill(hub, 2)
    await _frames(hub, "", "ConfigMap")
    await _frames(hub, METADATA, "PartialObjectMetadata")


async def _frames(hub: Hub, form: str, kind: str) -> None:
    data, seen = b"", list[tuple[str, dict[str, Any]]]()
    params = {"watch": "1", "allowWatchBookmarks": "1", "timeoutSeconds": "20"}
    async with hub.client() as client, asyncio.timeout(20):
        headers = {"accept": f"{PROTOBUF}{form};stream=watch"}
        async with client.stream("GET", MAPS, params=params, headers=headers) as stream:
            assert stream.headers["content-type"] == f"{PROTOBUF};stream=watch"
            pieces = stream.aiter_bytes()
            assert isinstance(pieces, AsyncGenerator)
            async with contextlib.aclosing(pieces) as chunks:
                async for chunk in chunks:
                    data += chunk
                    seen = list(frames(data))
                    if len(seen) == 2:
                        patch = {"content-type": "application/merge-patch+json"}
                        change = orjson.dumps({"data": {"form": form}})
                        await ask(hub, f"{MAPS}/n0", method="PATCH", content=change, headers=patch)
                    if [event for event, _ in seen][-1] == "BOOKMARK" and len(seen) > 3:
                        break
    events = [(event, found["kind"], found["metadata"].get("name")) for event, found in seen]
    assert events[:3] == [("ADDED", kind, "n0"), ("ADDED", kind, "n1"), ("MODIFIED", kind, "n0")]
    assert events[-1] == ("BOOKMARK", kind, None)
    if not form:
        json_form = (await ask(hub, f"{MAPS}/n0", "application/json")).json()
        assert next(found for event, found in seen if event == "MODIFIED") == json_form


async def test_a_watch_from_a_revision_that_is_gone_says_so_in_protobuf(hub: Hub) -> None:
    await fill(hub, 3)
    await hub.store.compact(await hub.store.revision())
    answer = await ask(hub, MAPS, params={"watch": "1", "resourceVersion": "1", "timeoutSeconds": "1"})
    assert (answer.status_code, decode(answer.content)["reason"]) == (410, "Expired")


async def test_a_crd_with_a_schema_goes_and_comes(hub: Hub) -> None:
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "additionalProperties": {"type": "string", "default": "x"}}},
    }
    crd = {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    made = await ask(hub, CRDS, method="POST", content=whole(crd), headers={"content-type": PROTOBUF})
    assert made.status_code == 201, made.content
    found = decode(made.content)
    assert found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == schema
