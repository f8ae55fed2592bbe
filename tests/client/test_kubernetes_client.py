"""The official `kubernetes` client works on a hub as it is: typed, for custom objects, dynamic, and its watch."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes import client as k8s
from kubernetes import config, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic import DynamicClient

from fleet.client import Fleet
from tests.cli.hub import Up
from tests.cli.manifests import job
from tests.client.conftest import kubeconfig_of

WHERE = ("kubeflow.org", "v1", "default", "pytorchjobs")


@pytest.fixture(scope="module")
def api(up: Up) -> Iterator[Any]:
    with config.new_client_from_config(str(kubeconfig_of(up))) as made:
        yield made


def _placed(up: Up, name: str) -> None:
    with Fleet(data_dir=up.folder) as fleet:
        fleet.wait(name, until="started", timeout=90)


def test_custom_objects_are_created_read_patched_logged_and_deleted(up: Up, api: Any) -> None:
    jobs: Any = k8s.CustomObjectsApi(api)
    core: Any = k8s.CoreV1Api(api)
    created = jobs.create_namespaced_custom_object(*WHERE, job("typed"))
    assert created["metadata"]["uid"]
    _placed(up, "typed")
    assert "typed" in [one["metadata"]["name"] for one in jobs.list_namespaced_custom_object(*WHERE)["items"]]
    patch = {"metadata": {"labels": {"seen": "yes"}}}
    jobs.patch_namespaced_custom_object(*WHERE, "typed", patch)
    found = jobs.get_namespaced_custom_object(*WHERE, "typed")
    assert found["metadata"]["labels"]["seen"] == "yes"

    pod = core.read_namespaced_pod("typed-worker-0", "default")
    assert pod.status.phase == "Running" and pod.metadata.creation_timestamp.tzinfo is not None
    assert "simulated cluster cfa" in core.read_namespaced_pod_log("typed-worker-0", "default")
    events = core.list_namespaced_event("default", field_selector=f"involvedObject.uid={found['metadata']['uid']}")
    assert "ScheduleBindingSucceed" in {event.reason for event in events.items}

    assert jobs.delete_namespaced_custom_object(*WHERE, "typed")["status"] == "Success"
    with pytest.raises(ApiException) as gone:
        jobs.delete_namespaced_custom_object(*WHERE, "never")
    assert gone.value.status == 404


def test_typed_objects_go_there_and_back(api: Any) -> None:
    core: Any = k8s.CoreV1Api(api)
    body = k8s.V1ConfigMap(metadata=k8s.V1ObjectMeta(name="typed", labels={"of": "python"}), data={"a": "b"})
    core.create_namespaced_config_map("default", body)
    try:
        listed = core.list_namespaced_config_map("default", label_selector="of=python")
        assert [(one.metadata.name, one.data) for one in listed.items] == [("typed", {"a": "b"})]
        core.patch_namespaced_config_map("typed", "default", {"data": {"c": "d"}})
        read = core.read_namespaced_config_map("typed", "default")
        assert read.data == {"a": "b", "c": "d"}
        read.metadata.resource_version = listed.items[0].metadata.resource_version
        with pytest.raises(ApiException) as conflict:
            core.replace_namespaced_config_map("typed", "default", read)
        assert conflict.value.status == 409
    finally:
        core.delete_namespaced_config_map("typed", "default")


def test_a_watch_shows_each_change_until_it_is_stopped(api: Any) -> None:
    core: Any = k8s.CoreV1Api(api)
    began = core.list_namespaced_config_map("default").metadata.resource_version

    def write() -> None:
        body = k8s.V1ConfigMap(metadata=k8s.V1ObjectMeta(name="watched"))
        core.create_namespaced_config_map("default", body)
        core.patch_namespaced_config_map("watched", "default", {"data": {"a": "b"}})
        core.delete_namespaced_config_map("watched", "default")

    writer = threading.Thread(target=write)
    writer.start()
    seen: list[str] = []
    watcher = watch.Watch()
    changes = watcher.stream(
        core.list_namespaced_config_map,
        "default",
        resource_version=began,
        timeout_seconds=60,
        field_selector="metadata.name=watched",
    )
    for change in changes:
        seen.append(change["type"])
        if change["type"] == "DELETED":
            watcher.stop()
    writer.join(30)
    assert seen == ["ADDED", "MODIFIED", "DELETED"]


def test_the_dynamic_client_finds_kinds_by_itself(up: Up, api: Any) -> None:
    dynamic = DynamicClient(api)
    jobs = dynamic.resources.get(api_version="kubeflow.org/v1", kind="PyTorchJob")
    jobs.create(body=job("dynamic"), namespace="default")
    _placed(up, "dynamic")
    assert "dynamic" in [one.metadata.name for one in jobs.get(namespace="default").items]
    patch = {"metadata": {"annotations": {"note": "x"}}}
    patched = jobs.patch(name="dynamic", namespace="default", body=patch, content_type="application/merge-patch+json")
    assert patched.metadata.annotations.note == "x"
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "b"}}
    maps = dynamic.resources.get(api_version="v1", kind="ConfigMap")
    maps.server_side_apply(body=applied, name="applied", namespace="default", field_manager="python")
    assert maps.get(name="applied", namespace="default").data.a == "b"
    maps.delete(name="applied", namespace="default")
    assert jobs.delete(name="dynamic", namespace="default") is not None
    queues = dynamic.resources.get(api_version="scheduling.x-k8s.io/v1alpha1", kind="Queue").get(namespace="kube-queue")
    assert {one.metadata.annotations["kube-queue/quota-fullname"] for one in queues.items} == {"root", "root/a"}
