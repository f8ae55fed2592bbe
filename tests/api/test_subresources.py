"""What hangs below an object: status, scale, binding, eviction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from api.engine.kind import Kind, Scale
from api.objects.objects import Objects
from api.objects.writing import WriteOutcome
from tests.api.conftest import KUBECTL, Hub

PODS = "/api/v1/namespaces/default/pods"
THINGS = "/apis/example.org/v1/namespaces/default/things"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
THING = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"replicas": 1}}
MERGE = {"content-type": "application/merge-patch+json"}


def scaled() -> Kind:
    return Kind(
        "example.org",
        "v1",
        "Thing",
        "things",
        "thing",
        True,
        "ThingList",
        status=True,
        scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
    )


async def test_status_and_the_rest_are_written_apart(hub: Hub) -> None:
    hub.registry.put(scaled())
    path = f"{THINGS}/t"
    async with hub.client() as client:
        await client.post(THINGS, json=THING)
        body = (await client.get(path)).json()
        body["status"] = {"phase": "Running"}
        body["spec"] = {"replicas": 9}
        answer = await client.put(f"{path}/status", json=body)
        assert (answer.status_code, answer.json()["status"]) == (200, {"phase": "Running"})
        assert answer.json()["spec"] == {"replicas": 1}
        patched = await client.patch(path, content=b'{"status":{"phase":"Failed"}}', headers=MERGE)
        assert patched.json()["status"] == {"phase": "Running"}
        patched = await client.patch(f"{path}/status", content=b'{"status":{"reason":"r"}}', headers=MERGE)
        assert patched.json()["status"] == {"phase": "Running", "reason": "r"}
        assert (await client.get(f"{path}/status")).json()["status"]["reason"] == "r"


@pytest.mark.parametrize(("version", "code"), [({}, 200), ({"metadata": {"resourceVersion": "now"}}, 409)])
async def test_a_scale_waits_for_nobody_who_writes_at_the_same_moment_unless_it_names_its_version(
    hub: Hub, monkeypatch: pytest.MonkeyPatch, version: dict[str, Any], code: int
) -> None:
    hub.registry.put(scaled())
    sound = Objects.patch

    async def patch(self: Objects, kind: Kind, namespace: str, name: str, change: Any, *how: Any) -> WriteOutcome:
        monkeypatch.setattr(Objects, "patch", sound)
        async with hub.client() as other:  # a controller, between the look at the object and the write
            await other.patch(f"{THINGS}/t/status", content=b'{"status":{"phase":"Running"}}', headers=MERGE)
        return await sound(self, kind, namespace, name, change, *how)

    async with hub.client() as client:
        now = (await client.post(THINGS, json=THING)).json()["metadata"]["resourceVersion"]
        asked = json.dumps({"spec": {"replicas": 2}, **version}).replace('"now"', f'"{now}"')
        monkeypatch.setattr(Objects, "patch", patch)
        assert (await client.patch(f"{THINGS}/t/scale", content=asked.encode(), headers=MERGE)).status_code == code


async def test_kubectl_scales_what_has_a_scale(hub: Hub) -> None:
    hub.registry.put(scaled())
    async with hub.client() as client:
        assert (await client.post(THINGS, json=THING)).status_code == 201
        assert "scaled" in (await hub.kubectl(KUBECTL, "scale", "thing/t", "--replicas=3"))[1]
        assert (await client.get(f"{THINGS}/t")).json()["spec"]["replicas"] == 3
        scale = (await client.get(f"{THINGS}/t/scale")).json()
        assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 3})
        wrong = await client.patch(f"{THINGS}/t/scale", content=b'{"spec":{"replicas":-1}}', headers=MERGE)
        assert (wrong.status_code, wrong.json()["details"]["causes"][0]["field"]) == (422, "spec.replicas")
        stale = {**scale, "metadata": {**scale["metadata"], "resourceVersion": "1"}}
        answer = await client.put(f"{THINGS}/t/scale", content=json.dumps(stale))
        assert answer.status_code == 409


@pytest.mark.parametrize(
    ("version", "kind", "selector", "shown"),
    [
        ("apps/v1", "Deployment", {"matchLabels": {"b": "2", "a": "1"}}, "a=1,b=2"),
        (
            "apps/v1",
            "ReplicaSet",
            {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "In", "values": ["3", "2"]}]},
            "a=1,b in (2,3)",
        ),
        ("v1", "ReplicationController", {"a": "1", "b": "2"}, "a=1,b=2"),
    ],
)
async def test_the_scale_of_a_workload_names_its_pods(
    hub: Hub, version: str, kind: str, selector: dict[str, Any], shown: str
) -> None:
    pods = {"labels": {"a": "1", "b": "2"}}
    body = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "w"},
        "spec": {"selector": selector, "template": {"metadata": pods, "spec": POD["spec"]}},
    }
    path = f"/{'api' if version == 'v1' else 'apis'}/{version}/namespaces/default/{kind.lower()}s"
    async with hub.client() as client:
        made = await client.post(path, json=body)
        assert made.status_code == 201, made.text
        assert (await client.get(f"{path}/w/scale")).json()["status"] == {"replicas": 0, "selector": shown}


async def test_metadata_that_became_empty_is_not_shown(hub: Hub) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": "m", "labels": {"a": "1"}, "annotations": {}, "finalizers": []}}
    async with hub.client() as client:
        assert set((await client.post(path, json=body)).json()["metadata"]).isdisjoint({"annotations", "finalizers"})
        patched = await client.patch(f"{path}/m", content=b'{"metadata":{"labels":{"a":null}}}', headers=MERGE)
        assert (patched.status_code, "labels" in patched.json()["metadata"]) == (200, False)


async def test_a_kind_without_scale_has_none(hub: Hub) -> None:
    async with hub.client() as client:
        await client.post(PODS, json=POD)
        assert (await client.get(f"{PODS}/p/scale")).status_code == 404
        assert (await client.post(f"{PODS}/p/status", json=POD)).status_code == 405


async def test_a_pod_is_bound_once(hub: Hub) -> None:
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n1"},
    }
    async with hub.client() as client:
        await client.post(PODS, json=POD)
        assert (await client.post(f"{PODS}/p/binding", json=binding)).status_code == 201
        pod = (await client.get(f"{PODS}/p")).json()
        assert pod["spec"]["nodeName"] == "n1"
        assert [(c["type"], c["status"]) for c in pod["status"]["conditions"]] == [("PodScheduled", "True")]
        assert (await client.post(f"{PODS}/p/binding", json=binding)).status_code == 409
        assert (await client.post(f"{PODS}/none/binding", json=binding)).status_code == 404
        answer = await client.post(f"{PODS}/p/binding", json={**binding, "target": {}})
        assert answer.json()["details"]["causes"][0]["field"] == "target.name"


async def test_an_eviction_deletes_the_pod(hub: Hub) -> None:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    async with hub.client() as client:
        await client.post(PODS, json=POD)
        assert (await client.post(f"{PODS}/p/eviction", json=eviction)).status_code == 201
        assert (await client.get(f"{PODS}/p")).status_code == 404
