"""Taking back on a whole hub over HTTP: `fleet up` with simulated members, as users and administrators see it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fleet.cli.hub import HubClient
from tests.cli.hub import Up, until

GPU = "nvidia.com/gpu"
QUEUED = {
    "apiVersion": "policy.one.alibabacloud.com/v1alpha1",
    "kind": "ClusterPropagationPolicy",
    "metadata": {"name": "training"},
    "spec": {
        "suspension": {"scheduling": True},
        "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "customSchedulingType": "Gang"}},
        "resourceSelectors": [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}],
    },
}
JOBS = "/apis/kubeflow.org/v1/namespaces/{}/pytorchjobs"
POLICIES = "/apis/policy.one.alibabacloud.com/v1alpha1/clusterpropagationpolicies"
TREES = "/apis/scheduling.sigs.k8s.io/v1beta1/namespaces/kube-system/elasticquotatrees"


def tree() -> dict[str, Any]:
    room = {GPU: 32}
    leaves: list[dict[str, Any]] = [
        {"name": "borrower", "namespaces": ["borrower"]},
        {"name": "owner", "min": {GPU: 16}, "namespaces": ["owner"]},
    ]
    root = {"name": "root", "max": room, "min": room, "children": leaves}
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": {"name": "elasticquotatree", "namespace": "kube-system"},
        "spec": {"root": root},
    }


def gang(name: str) -> dict[str, Any]:
    """Two pods of eight GPUs."""
    container = {"name": "pytorch", "image": "train:1", "resources": {"limits": {GPU: 8}}}
    worker = {"replicas": 2, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": {"Worker": worker}},
    }


def states(hub: HubClient, namespace: str) -> dict[str, str]:
    """STATE of each job, as kubectl prints it."""
    found = hub.request("GET", JOBS.format(namespace)).body["items"]
    return {
        job["metadata"]["name"]: ((job.get("status") or {}).get("conditions") or [{"type": ""}])[-1]["type"]
        for job in found
    }


def test_an_owner_gets_back_what_it_was_promised_and_the_evicted_gang_runs_again_later(tmp_path: Path) -> None:
    up = Up(tmp_path / "hub", "--members", "2", "--nodes", "2", "--protection-seconds", "2")
    try:
        hub = up.hub
        for namespace in ("borrower", "owner"):
            hub.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
        hub.request("POST", TREES, tree())
        hub.request("POST", POLICIES, QUEUED)
        for name in ("one", "two"):
            hub.request("POST", JOBS.format("borrower"), gang(name))
        running = {"one": "Running", "two": "Running"}
        until("the borrower has everything", lambda: states(hub, "borrower") == running)
        hub.request("POST", JOBS.format("owner"), gang("owner"))
        until("the owner runs", lambda: states(hub, "owner") == {"owner": "Running"})
        (victim,) = [name for name, state in states(hub, "borrower").items() if state != "Running"]
        events = hub.request("GET", "/api/v1/namespaces/borrower/events").body["items"]
        told = [e["message"] for e in events if e["reason"] == "EvictWorkloadFromClusterSucceed"]
        assert len(told) == 1
        assert told[0].endswith("makes room for a job of another namespace, which is within its guarantee")
        hub.request("DELETE", f"{JOBS.format('owner')}/owner")
        until(f"{victim} runs again", lambda: states(hub, "borrower") == running)
    finally:
        assert up.stop() == 0, up.errors.read_text()
