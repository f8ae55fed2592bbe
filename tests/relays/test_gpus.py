"""GPU figures of a running job, from a simulated exporter in its member to the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.amc.get import proxy
from fleet.cli.failure import Failure
from tests.cli.hub import Up, until
from tests.cli.test_amc import job as pytorchjob
from tests.cli.test_drain import QUOTA
from tests.cli.test_shells import run
from tests.cli.test_whatif import policy, written

pytestmark = pytest.mark.xdist_group("gpus")
CLUSTER = "/apis/cluster.karmada.io/v1alpha1/clusters/cfa"
PODS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/train/pods?usage=true"
GIB = 1 << 30


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("gpus")
    running = Up(folder / "hub", "--members", "1")
    try:
        body = pytorchjob("train")
        done = run(running, "submit", written(folder / "jobs.yaml", QUOTA, policy(), body))
        assert done.returncode == 0, done.stderr
        assert run(running, "wait", "train", "--for", "started", "--timeout", "90").returncode == 0
        yield running
    finally:
        assert running.stop() == 0, running.errors.read_text()


def name_source(up: Up, metrics: dict[str, Any] | None) -> None:
    up.hub.request("PATCH", CLUSTER, {"spec": {"metrics": metrics}}, content_type="application/merge-patch+json")


def told(up: Up) -> dict[str, Any]:
    body: dict[str, Any] = up.hub.request("GET", PODS).body
    return body


def test_a_member_without_a_source_tells_no_figures(up: Up) -> None:
    body = told(up)
    assert body["silentGpus"] == {} and all(item["gpu"] is None for item in body["items"])


def test_a_bad_source_is_refused_with_its_field(up: Up) -> None:
    with pytest.raises(Failure, match=r"spec\.metrics\.dcgm\.labels"):
        name_source(up, {"dcgm": {"namespace": "default", "labels": {"a": "b,c"}}})


def test_the_gpus_of_a_job_are_shown_by_pod(up: Up) -> None:
    name_source(up, {"dcgm": {"namespace": "default", "labels": {"testbed/gpu-exporter": "yes"}}})
    until("the silence has a reason", lambda: "no pod with the labels" in told(up)["silentGpus"].get("cfa", ""))
    for node in {item["node"] for item in told(up)["items"]}:
        metadata = {"name": f"exporter-{node}", "labels": {"testbed/gpu-exporter": "yes"}}
        spec = {"nodeName": node, "containers": [{"name": "main", "image": "x"}]}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        up.hub.request("POST", f"{proxy('cfa')}/api/v1/namespaces/default/pods", body)
    until("figures are told", lambda: all(item["gpu"] for item in told(up)["items"]))
    body = told(up)
    assert body["silentGpus"] == {}
    gpu = body["items"][0]["gpu"]
    assert gpu == {
        "gpus": 1, "models": ["Simulated"], "utilization": pytest.approx(0.9), "used_bytes": 40 * GIB,
        "memory_bytes": 80 * GIB, "power_watts": 350.0, "idle": 0,
    }  # fmt: skip
    done = run(up, "top", "train", "-o", "json")
    (first, *_) = json.loads(done.stdout)
    assert (first["gpu_%"], first["gpu_memory"], first["gpu_watts"]) == ("90%", "40.0Gi", "350")
    name_source(up, None)
    until("the source is gone", lambda: all(item["gpu"] is None for item in told(up)["items"]))
