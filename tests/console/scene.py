"""A fleet as an ordinary afternoon leaves it: two departments over 96 GPUs, with jobs in each state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fleet.amc.get import proxy
from tests.cli.hub import Up, fleet, until
from tests.console.browser import ROOT

TREE = ROOT / "docs" / "how-to" / "quota-tree.yaml"
NAMESPACES = ("vision", "language", "production")
RUNS = ("language/pretrain-7b", "language/align-round-3", "production/ranker", "production/embeddings")
ENDED = "language/evaluate-6b"
EVICTED = "vision/segment-large"
WAITS = "vision/detector-v5"
HELD = "language/tokenizer-sweep"
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
EXPORTERS = {"testbed/gpu-exporter": "yes"}
FIRST_WAVE = ("language/pretrain-7b", "language/align-round-3", "vision/detector-v4", EVICTED, ENDED)


def job(name: str, workers: int, gpus: int = 8, run_for: str = "2h", used: int = 90) -> dict[str, Any]:
    """A PyTorchJob of `workers` pods with `gpus` GPUs each, which it uses by `used` percent. `name`: NAMESPACE/NAME."""
    namespace, _, short = name.partition("/")
    limits = {"cpu": 16, "memory": "128Gi", "nvidia.com/gpu": gpus}
    container = {"name": "pytorch", "image": "pytorch/pytorch:2.5.1", "resources": {"limits": limits}}
    template = {
        "metadata": {"annotations": {"testbed/run-for": run_for, "testbed/gpu-utilization": str(used)}},
        "spec": {"containers": [container]},
    }
    role = {"replicas": workers, "restartPolicy": "OnFailure", "template": template}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": short, "namespace": namespace},
        "spec": {"pytorchReplicaSpecs": {"Worker": role}},
    }


def policy(namespace: str) -> dict[str, Any]:
    """PyTorchJobs of a namespace are gangs, and queue first."""
    return {
        "apiVersion": "policy.one.alibabacloud.com/v1alpha1",
        "kind": "PropagationPolicy",
        "metadata": {"name": "training", "namespace": namespace},
        "spec": {
            "suspension": {"scheduling": True},
            "propagateDeps": True,
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided", "customSchedulingType": "Gang"}},
            "resourceSelectors": [{"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}],
        },
    }


def name_gpu_source(up: Up, member: str) -> None:
    """Exporters on each node of the member, which its Cluster names."""
    to = proxy(member)
    for node in [one["metadata"]["name"] for one in up.hub.request("GET", f"{to}/api/v1/nodes").body["items"]]:
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"exporter-{node}", "labels": EXPORTERS},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "x"}]},
        }
        up.hub.request("POST", f"{to}/api/v1/namespaces/default/pods", body)
    metrics = {"spec": {"metrics": {"dcgm": {"namespace": "default", "labels": EXPORTERS}}}}
    up.hub.request("PATCH", f"{CLUSTERS}/{member}", metrics, content_type="application/merge-patch+json")


def state(up: Up, name: str) -> str:
    namespace, _, short = name.partition("/")
    found = up.hub.find(f"/fleet/v1/jobs/{namespace}/PyTorchJob/{short}")
    return "" if found is None else str(found["state"])


def stage(up: Up, folder: Path) -> None:
    """Submit everything, and wait until each job has the state that the pages are to show.

    Production leaves its promise unused at first, so research borrows; then production comes and takes room back.
    """

    def submit(*objects: dict[str, Any]) -> None:
        manifest = folder / "objects.json"
        manifest.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        done = fleet("submit", str(manifest), "--data-dir", str(up.folder))
        assert done.returncode == 0, done.stderr

    def reach(wanted: str, *names: str) -> None:
        for name in names:
            until(f"{name} is {wanted}", lambda name=name: state(up, name) == wanted, 120)

    for name in NAMESPACES:
        until(f"namespace {name}", lambda name=name: _namespace(up, name))
    assert fleet("submit", str(TREE), "--data-dir", str(up.folder)).returncode == 0
    submit(*(policy(name) for name in NAMESPACES))
    submit(
        job("language/pretrain-7b", 4),
        job("language/align-round-3", 1, used=71),
        job("vision/detector-v4", 1, used=64),
        job(ENDED, 1, 4, "1s"),
    )
    reach("Running", *FIRST_WAVE[:3])
    reach("Succeeded", ENDED)
    submit(job(EVICTED, 2))
    reach("Running", EVICTED)
    submit(job("production/ranker", 4))
    reach("Running", "production/ranker")
    submit(job("production/embeddings", 1, used=2))
    reach("Running", "production/embeddings")
    submit(job(WAITS, 3), job(HELD, 4))
    assert fleet("hold", HELD.partition("/")[2], "-n", "language", "--data-dir", str(up.folder)).returncode == 0
    reach("Held", HELD)
    reach("Queued", WAITS, EVICTED)
    for member in ("cfa", "cfb", "cfc"):
        name_gpu_source(up, member)
    until("the use of a minute is recorded", lambda: _recorded(up), 180)
    until("each member tells the use of its GPUs", lambda: _told(up), 180)


def _namespace(up: Up, name: str) -> bool:
    if up.hub.find(f"/api/v1/namespaces/{name}") is None:
        up.hub.request(
            "POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
    return True


def _recorded(up: Up) -> bool:
    """Whether a minute in which all of this ran is in the history."""
    found = up.hub.request("GET", "/fleet/v1/reports/series?by=queue").body
    return any(value for one in found["series"] for value in one["used"])


def _told(up: Up) -> bool:
    members = up.hub.request("GET", "/fleet/v1/gpus").body["members"]
    return len(members) == 3 and all(one["utilization"] is not None for one in members)
