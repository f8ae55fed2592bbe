"""Collections: pages, versions, selectors and forms."""

from __future__ import annotations

from typing import Any

import pytest

from api import slices
from api.wire import http, joining
from api.wire.joining import PART
from api.wire.protobuf import decode
from fleet.simulate.wall import WallClock
from tests.api.conftest import Hub
from tests.api.streams import config_map

PATH = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def fill(hub: Hub, count: int) -> None:
    async with hub.client() as client:
        for index in range(count):
            tier = "gold" if index % 2 else "silver"
            answer = await client.post(PATH, json=config_map(f"n{index:03}", {"tier": tier}))
            assert answer.status_code == 201


async def get(hub: Hub, accept: str = "application/json", **params: Any) -> Any:
    async with hub.client() as client:
        return await client.get(PATH, params=params, headers={"accept": accept})


async def test_all_pages_show_the_state_of_the_first_one(hub: Hub) -> None:
    await fill(hub, 10)
    page = (await get(hub, limit=4)).json()
    revision = page["metadata"]["resourceVersion"]
    assert page["metadata"]["remainingItemCount"] == 6
    async with hub.client() as client:
        await client.delete(f"{PATH}/n005")
        await client.post(PATH, json=config_map("n0045"))
    names = [item["metadata"]["name"] for item in page["items"]]
    while page["metadata"].get("continue"):
        page = (await get(hub, limit=4, **{"continue": page["metadata"]["continue"]})).json()
        assert page["metadata"]["resourceVersion"] == revision
        names += [item["metadata"]["name"] for item in page["items"]]
    assert names == [f"n{index:03}" for index in range(10)]


async def test_a_continue_token_whose_state_is_gone_is_expired(hub: Hub) -> None:
    await fill(hub, 4)
    token = (await get(hub, limit=2)).json()["metadata"]["continue"]
    async with hub.client() as client:
        await client.delete(f"{PATH}/n003")
    await hub.store.compact(await hub.store.revision())
    answer = await get(hub, limit=2, **{"continue": token})
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")
    await fill_one(hub, "n9-later")
    rest = (await get(hub, limit=2, **{"continue": answer.json()["metadata"]["continue"]})).json()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["n002", "n9-later"]
    assert int(rest["metadata"]["resourceVersion"]) == await hub.store.revision()


async def test_a_list_at_a_revision_that_is_gone_is_expired(hub: Hub) -> None:
    await fill(hub, 2)
    revision = (await get(hub)).json()["metadata"]["resourceVersion"]
    await fill_one(hub, "later")
    await hub.store.compact(await hub.store.revision())
    answer = await get(hub, resourceVersion=revision, resourceVersionMatch="Exact")
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")
    assert answer.json()["message"] == "The resourceVersion for the provided list is too old."


async def test_the_state_at_an_exact_revision(hub: Hub) -> None:
    await fill(hub, 2)
    page = (await get(hub, limit=1)).json()
    revision = page["metadata"]["resourceVersion"]
    await fill_one(hub, "later")
    exact = (await get(hub, resourceVersion=revision, resourceVersionMatch="Exact")).json()
    assert [item["metadata"]["name"] for item in exact["items"]] == ["n000", "n001"]
    newer = (await get(hub, resourceVersion=revision, resourceVersionMatch="NotOlderThan")).json()
    assert len(newer["items"]) == 3


async def fill_one(hub: Hub, name: str) -> None:
    async with hub.client() as client:
        assert (await client.post(PATH, json=config_map(name))).status_code == 201


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ({"labelSelector": "tier=gold"}, ["n001", "n003"]),
        ({"labelSelector": "tier!=gold"}, ["n000", "n002"]),
        ({"labelSelector": "tier in (gold, bronze),tier"}, ["n001", "n003"]),
        ({"labelSelector": "!tier"}, []),
        ({"fieldSelector": "metadata.name=n002"}, ["n002"]),
        ({"fieldSelector": "metadata.name!=n002"}, ["n000", "n001", "n003"]),
        ({"fieldSelector": "metadata.name=n002", "labelSelector": "tier=gold"}, []),
        ({"fieldSelector": "metadata.name=n001,metadata.namespace=default"}, ["n001"]),
    ],
)
async def test_selectors_choose(hub: Hub, selector: dict[str, str], names: list[str]) -> None:
    await fill(hub, 4)
    items = (await get(hub, **selector)).json()["items"]
    assert [item["metadata"]["name"] for item in items] == names


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({"continue": "nonsense"}, 400),
        ({"continue": "eyJ2IjoxfQ"}, 400),
        ({"limit": "many"}, 400),
        ({"labelSelector": "a in b"}, 400),
        ({"labelSelector": "-bad=1"}, 400),
        ({"fieldSelector": "data.a=1"}, 400),
        ({"resourceVersion": "x"}, 400),
        ({"resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422),
        ({"resourceVersionMatch": "Sometimes", "resourceVersion": "1"}, 422),
        ({"resourceVersion": "99999"}, 504),
        ({"timeout": "soon"}, 400),
        ({"timeout": "3"}, 400),
    ],
)
async def test_parameters_that_mean_nothing_are_refused(hub: Hub, params: dict[str, str], code: int) -> None:
    answer = await get(hub, **params)
    assert (answer.status_code, answer.json()["kind"]) == (code, "Status"), answer.text


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_a_table_has_rows_of_what_was_asked_for(hub: Hub, version: str) -> None:
    await fill(hub, 1)
    accept = f"application/json;as=Table;v={version};g=meta.k8s.io"
    answer = await get(hub, accept)
    body = answer.json()
    assert (body["kind"], body["apiVersion"]) == ("Table", f"meta.k8s.io/{version}")
    assert body["rows"][0]["cells"][:2] == ["n000", 0]
    assert body["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    whole = (await get(hub, accept, includeObject="Object")).json()["rows"][0]["object"]
    assert (whole["kind"], whole["metadata"]["name"]) == ("ConfigMap", "n000")
    assert "object" not in (await get(hub, accept, includeObject="None")).json()["rows"][0]
    assert (await get(hub, accept, includeObject="Half")).status_code == 400


async def test_metadata_alone_can_be_listed(hub: Hub) -> None:
    await fill(hub, 1)
    body = (await get(hub, "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")).json()
    assert (body["kind"], set(body["items"][0])) == ("PartialObjectMetadataList", {"kind", "apiVersion", "metadata"})


async def test_yaml_is_for_those_who_accept_nothing_else(hub: Hub) -> None:
    answer = await get(hub, "application/yaml")
    assert answer.headers["content-type"] == "application/yaml" and "kind: ConfigMapList" in answer.text
    assert (await get(hub, "image/png")).status_code == 406


async def test_a_collection_is_deleted_by_selector(hub: Hub) -> None:
    await fill(hub, 4)
    async with hub.client() as client:
        answer = await client.delete(PATH, params={"labelSelector": "tier=gold"})
    assert answer.status_code == 200
    assert [item["metadata"]["name"] for item in answer.json()["items"]] == ["n001", "n003"]
    assert [item["metadata"]["name"] for item in (await get(hub)).json()["items"]] == ["n000", "n002"]


async def test_an_alias_group_shows_the_same_object(hub: Hub) -> None:
    ours = "/apis/policy.one.alibabacloud.com/v1alpha1/namespaces/default/propagationpolicies"
    alias = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
    policy = {
        "apiVersion": "policy.karmada.io/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "p"},
        "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]},
    }
    async with hub.client() as client:
        created = await client.post(alias, json=policy)
        assert (created.status_code, created.json()["apiVersion"]) == (201, "policy.karmada.io/v1alpha1"), created.text
        assert (await client.get(f"{ours}/p")).json()["apiVersion"] == "policy.one.alibabacloud.com/v1alpha1"
        listed = (await client.get(alias)).json()
        assert (listed["apiVersion"], listed["items"][0]["apiVersion"]) == ("policy.karmada.io/v1alpha1",) * 2


@pytest.mark.parametrize(("size", "encoding"), [(150_000, "gzip"), (100_000, "")])
async def test_a_large_answer_is_compressed_for_clients_that_take_it(hub: Hub, size: int, encoding: str) -> None:
    body = config_map("large") | {"data": {"text": "x" * size}}
    async with hub.client() as client:
        assert (await client.post(PATH, json=body)).status_code == 201
        zipped = await client.get(PATH, headers={"accept-encoding": "deflate, gzip;q=1.0"})
        plain = await client.get(PATH, headers={"accept-encoding": "identity"})
    assert zipped.headers.get("content-encoding", "") == encoding
    assert "content-encoding" not in plain.headers and int(plain.headers["content-length"]) > size
    assert not encoding or int(zipped.headers["content-length"]) < size / 10
    assert zipped.json() == plain.json()


async def test_there_is_no_table_of_a_review(hub: Hub) -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"nonResourceAttributes": {"path": "/", "verb": "get"}}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec}
    async with hub.client() as client:
        refused = await client.post(path, json=body, headers={"accept": TABLE.split(",")[0]})
        answered = await client.post(path, json=body, headers={"accept": TABLE})
    assert (refused.status_code, refused.json()["reason"]) == (406, "NotAcceptable")
    assert (answered.status_code, answered.json()["status"]["allowed"]) == (201, True)


@pytest.mark.parametrize("first", ["kind", "apiVersion"])
async def test_items_of_a_built_in_kind_do_not_repeat_its_name(hub: Hub, first: str) -> None:
    names = {"kind": "ConfigMap", "apiVersion": "v1"}
    body = {first: names[first], **names, "metadata": {"name": "one"}, "data": {"a": "b"}}
    async with hub.client() as client:
        assert (await client.post(PATH, json=body)).status_code == 201
        assert (await client.post(PATH, json=body | {"metadata": {"name": "two"}})).status_code == 201
    listed = (await get(hub)).json()
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert [(item["metadata"]["name"], item["data"]) for item in listed["items"]] == [
        ("one", {"a": "b"}),
        ("two", {"a": "b"}),
    ]
    assert not any({"kind", "apiVersion"} & item.keys() for item in listed["items"])


async def test_finalizers_of_a_namespace_change_by_its_own_subresource_alone(hub: Hub) -> None:
    path = "/api/v1/namespaces/held"
    async with hub.client() as client:
        made = (await client.post("/api/v1/namespaces", json={"metadata": {"name": "held"}})).json()
        made["spec"]["finalizers"].append("example.com/mine")
        kept = await client.put(path, json=made)
        made["metadata"].pop("resourceVersion")
        put = await client.put(f"{path}/finalize", json=made)
    assert (kept.status_code, kept.json()["spec"]["finalizers"]) == (200, ["kubernetes"])
    assert (put.status_code, put.json()["spec"]["finalizers"]) == (200, ["kubernetes", "example.com/mine"])


INITIAL = {
    "watch": "true",
    "sendInitialEvents": "true",
    "resourceVersionMatch": "NotOlderThan",
    "timeoutSeconds": "1",
}


@pytest.mark.parametrize(
    ("accept", "params"),
    [
        ("application/json", {}),
        (TABLE, {}),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", {}),
        ("application/vnd.kubernetes.protobuf", {}),
        ("application/json", {"labelSelector": "tier notin (gold, silver)"}),
        ("application/json", {"labelSelector": "tier=gold"}),
        ("application/json", {"fieldSelector": "metadata.name!=n001"}),
        ("application/json", INITIAL),
    ],
    ids=["json", "table", "metadata", "protobuf", "selector", "label", "field", "watch"],
)
async def test_others_have_their_turns_while_a_list_is_made(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, accept: str, params: dict[str, str]
) -> None:
    turns = 0

    async def counted(piece: slices.Slice) -> None:
        nonlocal turns
        turns += 1
        await wait(piece)

    wait = slices.Slice.next
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    monkeypatch.setattr(slices.Slice, "next", counted)
    await fill(hub, 4 * PART)
    turns = 0
    answer = await get(hub, accept, **params)
    assert answer.status_code == 200 and turns >= 4


@pytest.mark.parametrize(
    "accept",
    [
        "application/json",
        TABLE,
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf",
        "application/yaml",
    ],
    ids=["json", "table", "metadata", "protobuf", "yaml"],
)
@pytest.mark.parametrize("path", [PATH, "/api/v1/limitranges"], ids=["maps", "none"])
@pytest.mark.parametrize("bytes_each", [1, 700])
async def test_an_answer_in_pieces_says_the_same(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, accept: str, path: str, bytes_each: int
) -> None:
    await fill(hub, 2 * PART)
    now = hub.objects.clock.now()
    monkeypatch.setattr(WallClock, "now", lambda clock: now + 90)  # a table has ages
    headers = {"accept": accept, "accept-encoding": "identity"}
    async with hub.client() as client:
        whole = await client.get(path, headers=headers)
        monkeypatch.setattr(joining, "PART", 3)
        monkeypatch.setattr(joining, "MANY", 10)
        monkeypatch.setattr(joining, "JOINED_BYTES", bytes_each)
        monkeypatch.setattr(http, "ZIP_ABOVE_BYTES", 1000)
        pieces = await client.get(path, headers=headers)
        zipped = await client.get(path, headers=headers | {"accept-encoding": "gzip"})
        head = await client.head(path, headers=headers)
    assert whole.status_code == 200 and whole.content == pieces.content == zipped.content
    assert (zipped.headers.get("content-encoding") == "gzip") is (len(whole.content) > 1000)
    assert (head.status_code, head.content) == (200, b"")


async def test_a_collection_that_was_deleted_is_told_in_pieces(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "JOINED_BYTES", 1)
    await fill(hub, 2 * PART)
    async with hub.client() as client:
        gone = (await client.delete(PATH)).json()["items"]
    assert [item["metadata"]["name"] for item in gone] == [f"n{index:03}" for index in range(2 * PART)]
    assert (await get(hub)).json()["items"] == []


async def test_pieces_are_answered_in_the_form_that_there_is(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "PART", 1)
    monkeypatch.setattr(joining, "JOINED_BYTES", 1)
    typed = {"accept": "application/vnd.kubernetes.protobuf, application/json"}
    policies = "/apis/policy.karmada.io/v1alpha1/namespaces/default/propagationpolicies"
    spec = {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap"}]}
    await fill(hub, 3)
    async with hub.client() as client:
        for name in ("a", "b", "c"):
            body = {"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": name}}
            assert (await client.post(policies, json=body | {"spec": spec})).status_code == 201
        listed = await client.get(policies, headers=typed)
        gone = await client.delete(PATH, headers=typed)
    assert listed.headers["content-type"] == "application/json"
    assert [item["metadata"]["name"] for item in listed.json()["items"]] == ["a", "b", "c"]
    assert gone.headers["content-type"] == "application/vnd.kubernetes.protobuf"
    assert [item["metadata"]["name"] for item in decode(gone.content)["items"]] == ["n000", "n001", "n002"]
