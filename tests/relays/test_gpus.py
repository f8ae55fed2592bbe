"""GPU figures of a running job, from a simulated exporter in its member to the command line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fleet.amc.get import proxy
from fleet.cli.failure import Failure
from tests.cli.amc_objects import job as pytorchjob
from tests.cli.hub import Up, until
from tests.cli.manifests import QUOTA, policy, written
from tests.cli.metrics import admin, ask
from tests.cli.shells import run

pytestmark = pytest.mark.xdist_group("gpus")
CLUSTER = "/apis/cluster.karmada.io/v1alpha1/clusters/cfa"
PODS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/train/pods?usage=true"
GIB = 1 << 30


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("gpus")
    running = Up(folder / "hub", "--members", "1", "--metrics-listen", "127.0.0.1:0")
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
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        up.hub.request("POST", f"{proxy('cfa')}/api/v1/namespaces/default/pods", pod)
    until("figures are told", lambda: all(item["gpu"] for item in told(up)["items"]))
    body = told(up)
    assert body["silentGpus"] == {}
    gpu = body["items"][0]["gpu"]
    assert gpu == {
        "gpus": 1,
        "models": ["Simulated"],
        "utilization": pytest.approx(0.9),
        "used_bytes": 40 * GIB,
        "memory_bytes": 80 * GIB,
        "power_watts": 350.0,
        "idle": 0,
    }
    done = run(up, "top", "train", "-o", "json")
    (first, *_) = json.loads(done.stdout)
    assert (first["gpu_%"], first["gpu_memory"], first["gpu_watts"]) == ("90%", "40.0Gi", "350")
    name_source(up, None)
    until("the source is gone", lambda: all(item["gpu"] is None for item in told(up)["items"]))


def figure(up: Up, name: str, **labels: str) -> float | None:
    """The value of a metric of the controllers; None for one without such a row."""
    (address,) = re.findall(r'metrics of the controllers: (https://[^"\s]+)', up.errors.read_text())
    status, content = ask(address, up.folder, admin(up.folder))
    assert status == 200, content
    samples = [one for family in text_string_to_metric_families(content) for one in family.samples]
    return next((one.value for one in samples if one.name == name and one.labels == labels), None)


def idle(up: Up, *words: str) -> Any:
    done = run(up, "top", "--idle", *words, "-o", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_source_and_its_figures_are_metrics_and_an_idle_job_is_named(up: Up) -> None:
    pods = f"{proxy('cfa')}/api/v1/namespaces/default/pods"
    own = [item["name"] for item in told(up)["items"]]
    name_source(up, {"dcgm": {"namespace": "nowhere", "labels": {"testbed/gpu-exporter": "yes"}}})
    until("the source is down", lambda: figure(up, "fleet_member_gpu_source_up", member="cfa") == 0)
    name_source(up, {"dcgm": {"namespace": "default", "labels": {"testbed/gpu-exporter": "yes"}}})
    until("the source is up", lambda: figure(up, "fleet_member_gpu_source_up", member="cfa") == 1)
    labels = {"member": "cfa", "model": "Simulated"}
    assert figure(up, "fleet_member_gpu_utilization_ratio", **labels) == pytest.approx(0.9)
    count = figure(up, "fleet_member_gpus_telling", **labels)
    assert count == len(own) and figure(up, "fleet_member_gpus_idle", **labels) == 0
    assert figure(up, "fleet_member_gpu_memory_used_bytes", **labels) == count * 40 * GIB
    assert figure(up, "fleet_member_gpu_power_watts", **labels) == count * 350
    assert idle(up) == []
    for name in own:
        body = {"metadata": {"annotations": {"testbed/gpu-utilization": "2"}}}
        up.hub.request("PATCH", f"{pods}/{name}", body, content_type="application/merge-patch+json")
    name_source(up, None)
    until("nobody tells of the member", lambda: figure(up, "fleet_member_gpu_source_up", member="cfa") is None)
    name_source(up, {"dcgm": {"namespace": "default", "labels": {"testbed/gpu-exporter": "yes"}}})
    until("the job is idle", lambda: bool(idle(up)))
    (job,) = idle(up, "-n", "default")
    assert (job["job"], job["member"], job["gpus"], job["gpu_%"]) == ("default/train", "cfa", len(own), "2%")
    assert job["since"] and job["queue"] and idle(up, "--below", "1%") == [] and idle(up, "-n", "other") == []
    (member,) = up.hub.request("GET", "/fleet/v1/gpus").body["members"]
    assert (member["name"], member["silent"], member["gpus"], member["idle"]) == ("cfa", "", len(own), len(own))


def test_a_wrong_limit_of_idle_jobs_is_named(up: Up) -> None:
    done = run(up, "top", "--idle", "--below", "7%")
    assert (done.returncode, done.stderr.strip()) == (1, "fleet: --below 7%: one of 1%, 5%, 10%, 20% and 50%")
    assert run(up, "top", "train", "--idle").returncode == 1
