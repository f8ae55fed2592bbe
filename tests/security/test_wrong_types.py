"""Nulls and wrong types: refused at the door with the field named. An object that is stored broken stays apart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.engine import fields
from api.engine.columns import INVALID
from api.engine.crd import kind_of
from api.engine.crd import validate as validate_crd
from api.engine.crdschema import KEYWORDS
from api.engine.deletion import check_options
from api.engine.kind import Body
from api.engine.status import StatusError
from api.engine.write import Author, prepare_create
from api.objects.definitions import definitions
from api.store.memory import MemoryStore
from fleet.simulate.wall import WallClock
from fleet.values.ports import EXISTS, Key, Put
from tests.api.conftest import Hub, open_hub

from .fuzzing import encoded

NS = "/api/v1/namespaces/default"
JOBS = "/apis/batch/v1/namespaces/default/jobs"
TORCH = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
POLICIES = "/apis/policy.one.alibabacloud.com/v1alpha1/namespaces/default"
CONTAINER = {"name": "pytorch", "image": "i"}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_hub(tmp_path, MemoryStore(WallClock())) as opened:
        yield opened


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a"}, "spec": {"containers": [CONTAINER], **spec}}


def job(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "a"},
        "spec": {"template": {"spec": {**pod(**spec)["spec"], "restartPolicy": "Never"}}},
    }


def torch(**spec: Any) -> dict[str, Any]:
    template = {"spec": pod(**spec)["spec"]}
    return {"metadata": {"name": "a"}, "spec": {"pytorchReplicaSpecs": {"Master": {"template": template}}}}


BEFORE_TORCH = "spec.pytorchReplicaSpecs.Master.template."
NULLS: list[tuple[str, dict[str, Any], str]] = [
    ("containers", {"containers": [CONTAINER, None]}, "spec.containers[1]"),
    ("initContainers", {"initContainers": [None]}, "spec.initContainers[0]"),
    ("tolerations", {"tolerations": [None]}, "spec.tolerations[0]"),
    ("volumes", {"volumes": [{"name": "v"}, None]}, "spec.volumes[1]"),
    ("imagePullSecrets", {"imagePullSecrets": [None]}, "spec.imagePullSecrets[0]"),
    ("env", {"containers": [{**CONTAINER, "env": [None]}]}, "spec.containers[0].env[0]"),
    ("envFrom", {"containers": [{**CONTAINER, "envFrom": [None]}]}, "spec.containers[0].envFrom[0]"),
    ("ports", {"containers": [{**CONTAINER, "ports": [None]}]}, "spec.containers[0].ports[0]"),
    ("args", {"containers": [{**CONTAINER, "args": ["a", None]}]}, "spec.containers[0].args[1]"),
]


@pytest.mark.parametrize(("what", "spec", "field"), NULLS, ids=[row[0] for row in NULLS])
async def test_a_null_in_a_list_of_a_pod_is_named(hub: Hub, what: str, spec: dict[str, Any], field: str) -> None:
    async with hub.client() as client:
        for path, body, place in (
            (f"{NS}/pods", pod(**spec), field),
            (JOBS, job(**spec), f"spec.template.{field}"),
            (TORCH, torch(**spec), BEFORE_TORCH + field),
        ):
            answer = await client.post(path, content=encoded(body), headers={"content-type": "application/json"})
            assert answer.status_code == 422
            causes = answer.json()["details"]["causes"]
            assert {
                "reason": "FieldValueRequired",
                "message": "Required value: must not be null",
                "field": place,
            } in causes


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        (f"{NS}/services", {"spec": {"ports": [None]}}, "spec.ports[0]"),
        (f"{RBAC}/roles", {"rules": [None]}, "rules[0]"),
        (f"{RBAC}/rolebindings", {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [None]}, "subjects[0]"),
        (f"{NS}/configmaps", {"metadata": {"name": "a", "ownerReferences": [None]}}, "metadata.ownerReferences[0]"),
        (f"{NS}/serviceaccounts", {"secrets": [None]}, "secrets[0]"),
        (f"{NS}/limitranges", {"spec": {"limits": [None]}}, "spec.limits[0]"),
        (f"{POLICIES}/propagationpolicies", {"spec": {"resourceSelectors": [None]}}, "spec.resourceSelectors[0]"),
        (f"{POLICIES}/overridepolicies", {"spec": {"overrideRules": [None]}}, "spec.overrideRules[0]"),
    ],
)
async def test_a_null_in_any_list_is_named(hub: Hub, path: str, body: dict[str, Any], field: str) -> None:
    async with hub.client() as client:
        answer = await client.post(path, json={"metadata": {"name": "a"}, **body})
        assert answer.status_code == 422, answer.text
        assert field in [cause["field"] for cause in answer.json()["details"]["causes"]]


@pytest.mark.parametrize(
    ("path", "body", "named"),
    [
        (f"{NS}/pods", {"spec": []}, "spec"),
        (f"{NS}/pods", {"spec": {"containers": {}}}, "spec.containers"),
        (f"{NS}/pods", {"spec": {"containers": [1]}}, "spec.containers"),
        (f"{NS}/configmaps", {"metadata": {"name": "a", "labels": []}}, "labels"),
        (f"{NS}/configmaps", {"metadata": {"name": "a", "finalizers": "x"}}, "finalizers"),
        (f"{NS}/configmaps", {"metadata": {"name": "a", "managedFields": [1]}}, "managedFields"),
        (f"{NS}/configmaps", {"metadata": []}, "metadata"),
        (JOBS, {"spec": {"parallelism": "two", "template": {}}}, "spec.parallelism"),
        (JOBS, {"spec": {"parallelism": 2**31, **job()["spec"]}}, "spec.parallelism"),
        (JOBS, {"spec": {"parallelism": True, **job()["spec"]}}, "spec.parallelism"),
        (TORCH, {"spec": {"pytorchReplicaSpecs": []}}, "spec.pytorchReplicaSpecs"),
        (TORCH, {"spec": {"pytorchReplicaSpecs": {"Master": 1}}}, "spec.pytorchReplicaSpecs.Master"),
        (TORCH, torch(nodeSelector=[]), BEFORE_TORCH + "spec.nodeSelector"),
        (TORCH, torch(affinity="x"), BEFORE_TORCH + "spec.affinity"),
    ],
)
async def test_a_wrong_type_is_refused_and_named(hub: Hub, path: str, body: dict[str, Any], named: str) -> None:
    async with hub.client() as client:
        answer = await client.post(path, json={"metadata": {"name": "a"}, **body})
        assert answer.status_code in (400, 422), answer.text
        assert named in answer.json()["message"]


@pytest.mark.parametrize("body", [{"spec": None}, {"metadata": {"name": "a", "labels": None, "finalizers": None}}, {}])
async def test_a_null_for_a_whole_field_is_as_good_as_nothing(hub: Hub, body: dict[str, Any]) -> None:
    async with hub.client() as client:
        answer = await client.post(f"{NS}/configmaps", json={"metadata": {"name": "a"}, **body})
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"preconditions": []}, "preconditions"),
        ({"preconditions": "x"}, "preconditions"),
        ({"preconditions": {"uid": 1}}, "preconditions.uid"),
        ({"preconditions": {"resourceVersion": 1}}, "preconditions.resourceVersion"),
        ({"gracePeriodSeconds": "1"}, "gracePeriodSeconds"),
        ({"gracePeriodSeconds": 2**63}, "gracePeriodSeconds"),
        ({"gracePeriodSeconds": True}, "gracePeriodSeconds"),
        ({"orphanDependents": 1}, "orphanDependents"),
        ({"propagationPolicy": {}}, "propagationPolicy"),
        ({"dryRun": "All"}, "dryRun"),
        ({"dryRun": {}}, "dryRun"),
    ],
)
async def test_delete_options_of_a_wrong_type_are_named(hub: Hub, options: dict[str, Any], field: str) -> None:
    async with hub.client() as client:
        await client.post(f"{NS}/pods", json=pod())
        for method, path in (("DELETE", f"{NS}/pods/a"), ("DELETE", f"{NS}/pods"), ("POST", f"{NS}/pods/a/eviction")):
            body = {"deleteOptions": options} if method == "POST" else options
            answer = await client.request(method, path, json=body)
            assert answer.status_code == 400
            assert f"DeleteOptions.{field}" in answer.json()["message"]
        assert (await client.get(f"{NS}/pods/a")).status_code == 200
    check_options({"preconditions": {"uid": "a"}, "gracePeriodSeconds": 0, "dryRun": ["All"], "orphanDependents": None})


@pytest.mark.parametrize("body", [[], "x", 1, True, None, [1, 2]])
async def test_delete_options_that_are_no_object_are_refused(hub: Hub, body: Any) -> None:
    async with hub.client() as client:
        await client.post(f"{NS}/pods", json=pod())
        answer = await client.request("DELETE", f"{NS}/pods/a", content=encoded(body))
        assert answer.status_code == 400
        assert (await client.get(f"{NS}/pods/a")).status_code == 200


@pytest.mark.parametrize("replicas", ["1", 1.5, -1, 2**31, True, [], {}])
async def test_a_scale_is_a_whole_number(hub: Hub, replicas: Any) -> None:
    scaled = hub.registry.need("kubeflow.org", "pytorchjobs")
    path = f"/apis/{scaled.api_version}/namespaces/default/{scaled.resource}"
    async with hub.client() as client:
        (await client.post(path, json=torch())).raise_for_status()
        answer = await client.put(f"{path}/a/scale", json={"metadata": {"name": "a"}, "spec": {"replicas": replicas}})
        assert answer.status_code == 422
        assert "spec.replicas" in answer.json()["message"]


def gadgets(schema: Any) -> Body:
    """A CRD whose objects have this schema under `spec`."""
    whole_schema = {"type": "object", "properties": {"spec": schema}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": whole_schema}}
    names = {"plural": "gadgets", "kind": "Gadget", "singular": "gadget", "listKind": "GadgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


@pytest.mark.parametrize("keyword", sorted(KEYWORDS))
@pytest.mark.parametrize("junk", [1, "x", [], {}, [1], True, 1.5, -1], ids=repr)
def test_a_keyword_of_a_wrong_type_is_refused_with_its_crd_or_does_no_harm(keyword: str, junk: Any) -> None:
    """Where it is taken, a kind is made of it, and objects of it are written, printed and described."""
    crd = gadgets({"type": "object", "properties": {"a": {"type": "string", keyword: junk}}})
    causes = validate_crd(crd)
    if causes:
        place = "spec.validation.openAPIV3Schema.properties[spec].properties[a]"
        assert all(cause.field.startswith(place) for cause in causes)
        return
    kind = kind_of(crd, definitions())
    assert kind is not None
    with suppress(StatusError):
        body: Body = {"metadata": {"name": "a"}, "spec": {"a": "b"}}
        prepare_create(kind, "default", body, Author("tests"), now=0.0, uid="u")


async def test_keywords_of_null_say_nothing_and_break_no_document(hub: Hub) -> None:
    """One CRD made /openapi/v2 a 500 for everybody."""
    async with hub.client() as client:
        schema = {"type": "object", "properties": {"a": {**dict.fromkeys(KEYWORDS), "type": "string"}}, "title": None}
        made = await client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", json=gadgets(schema))
        assert made.status_code == 201, made.text
        kind = kind_of(made.json(), definitions())
        assert kind is not None
        hub.registry.put(kind)
        for path in ("/openapi/v2", "/openapi/v3/apis/example.com/v1", "/apis/example.com/v1"):
            assert (await client.get(path)).status_code == 200
        protobuf = {"accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
        assert (await client.get("/openapi/v2", headers=protobuf)).status_code == 200
        gadget = {"metadata": {"name": "a"}, "spec": {"a": "b"}}
        answer = await client.post("/apis/example.com/v1/namespaces/default/gadgets", json=gadget)
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("metadata", [None, {}, {"labels": None}])
async def test_what_an_applied_configuration_leaves_out_is_filled_in(hub: Hub, metadata: Any) -> None:
    async with hub.client() as client:
        media = {"content-type": "application/apply-patch+yaml"}
        for data in ("a", "b"):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": data}}
            answer = await client.patch(f"{NS}/configmaps/a?fieldManager=x", json=body, headers=media)
            assert answer.status_code in (200, 201), answer.text
        assert (await client.get(f"{NS}/configmaps/a")).json()["data"] == {"a": "b"}


@pytest.mark.parametrize("target", [[], "n", {"name": 1}, {"name": ""}, None])
async def test_a_binding_of_a_wrong_type_is_named(hub: Hub, target: Any) -> None:
    async with hub.client() as client:
        await client.post(f"{NS}/pods", json=pod())
        answer = await client.post(f"{NS}/pods/a/binding", json={"target": target})
        assert answer.status_code in (400, 422)
        assert "target" in answer.json()["message"]


@pytest.mark.parametrize(
    "managed",
    [
        [{"manager": 1}],
        [{"fieldsV1": []}],
        [{"manager": "m", "operation": "Update", "fieldsV1": {"f:data": 1}}],
        [{"fieldsV1": {"k:{": {}}}],
        [{"fieldsV1": {"x": {}}}],
        [{"fieldsV1": {"f:a": None}}],
        [{"fieldsV1": {"k:1": {}}}],
    ],
)
async def test_managed_fields_that_cannot_be_read_are_not_taken(hub: Hub, managed: Any) -> None:
    assert not fields.sound(managed)
    async with hub.client() as client:
        made = (await client.post(f"{NS}/configmaps", json={"metadata": {"name": "a"}, "data": {"a": "b"}})).json()
        before = made["metadata"]["managedFields"]
        made["metadata"]["managedFields"] = managed
        answer = await client.put(f"{NS}/configmaps/a", json=made)
        assert answer.status_code in (200, 400)
        if answer.status_code == 200:
            assert answer.json()["metadata"]["managedFields"] == before
        # Stored already, they are no reason to refuse a write.
        key = Key("", "configmaps", "default", "a")
        await hub.store.commit([Put(key, made, EXISTS)])
        for media, query in (("merge-patch+json", ""), ("apply-patch+yaml", "?fieldManager=x&force=1")):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"a": media}}
            answer = await client.patch(
                f"{NS}/configmaps/a{query}", json=body, headers={"content-type": f"application/{media}"}
            )
            assert answer.status_code == 200, answer.text
        assert fields.sound(answer.json()["metadata"]["managedFields"])


async def stored(hub: Hub, client: httpx.AsyncClient, path: str, body: dict[str, Any], damage: dict[str, Any]) -> Key:
    """The object as it was stored before anybody looked."""
    made = (await client.post(path, json=body)).raise_for_status().json()
    kind = hub.registry.kind_of(made["apiVersion"], made["kind"])
    assert kind is not None
    key = Key(kind.group, kind.resource, "default", "a")
    await hub.store.commit([Put(key, {**made, **damage}, EXISTS)])
    return key


async def test_who_writes_an_object_that_was_stored_broken_mends_it_and_anybody_deletes_it(hub: Hub) -> None:
    async with hub.client() as client:
        broken = {"spec": {"pytorchReplicaSpecs": {"Master": {"template": {"spec": {"containers": [None, 1]}}}}}}
        await stored(hub, client, TORCH, torch(), broken)
        merge = {"content-type": "application/merge-patch+json"}
        answer = await client.patch(f"{TORCH}/a", json={"metadata": {"labels": {"a": "b"}}}, headers=merge)
        assert answer.status_code == 422
        assert BEFORE_TORCH + "spec.containers" in answer.json()["message"]
        mended = torch()
        mended["metadata"]["resourceVersion"] = (await client.get(f"{TORCH}/a")).json()["metadata"]["resourceVersion"]
        assert (await client.put(f"{TORCH}/a", json=mended)).status_code == 200
        await client.delete(f"{TORCH}/a")
        await stored(hub, client, TORCH, torch(), broken)
        assert (await client.delete(f"{TORCH}/a")).status_code == 200


async def test_one_broken_object_takes_no_list_and_no_table_down(hub: Hub) -> None:
    async with hub.client() as client:
        await stored(hub, client, f"{NS}/pods", pod(), {"spec": {"containers": 1}, "status": {"conditions": [None]}})
        await client.post(f"{NS}/pods", json={**pod(), "metadata": {"name": "b"}})
        assert len((await client.get(f"{NS}/pods")).json()["items"]) == 2
        table = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
        shown = (await client.get(f"{NS}/pods", headers=table)).json()["rows"]
        assert [row["cells"][0] for row in shown] == ["a", "b"]
        assert INVALID in shown[0]["cells"]
        assert INVALID not in shown[1]["cells"]


async def test_an_object_that_no_json_can_say_is_a_client_s_mistake(hub: Hub) -> None:
    kind = hub.registry.need("", "configmaps")
    for value in ("\ud800", 2**70, {1: "a"}):
        with pytest.raises(StatusError) as caught:
            await hub.objects.create(kind, "default", {"metadata": {"name": "a"}, "data": {"a": value}}, hub.options())
        assert caught.value.code == 400
