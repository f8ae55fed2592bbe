"""Jobs of several kinds that say where their pods stand."""

from __future__ import annotations

from typing import Any

from fleet.kinds import interpreter_of
from fleet.kinds.interpreter import Interpreter

Body = dict[str, Any]
EXCLUSIVE = "alpha.jobset.sigs.k8s.io/exclusive-topology"


def kind_of(body: Body) -> Interpreter:
    interpreter = interpreter_of(body["apiVersion"], body["kind"])
    assert interpreter is not None
    return interpreter


def template(annotations: Body | None = None) -> Body:
    return {"metadata": {"annotations": annotations or {}}, "spec": {"containers": []}}


def job(own: Body | None = None, **templates: Body | tuple[int, Body]) -> Body:
    """A TFJob with these annotations on itself and on its pod templates, each of one pod where no number stands by."""
    specs = {
        name: {"replicas": said[0], "template": template(said[1])}
        for name, value in (templates or {"Worker": (8, {})}).items()
        for said in [value if isinstance(value, tuple) else (1, value)]
    }
    meta = {"name": "one", "annotations": own or {}}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": meta, "spec": {"tfReplicaSpecs": specs}}


def volcano(network: Body | None = None, partitions: Body | None = None, **spec: Any) -> Body:
    """A leader and eight workers."""
    worker = {"name": "Worker", "replicas": 8, "template": template()}
    tasks = [
        {"replicas": 1, "template": template()},
        {**worker, **({"partitionPolicy": partitions} if partitions else {})},
    ]
    spec = {"tasks": tasks, **({} if network is None else {"networkTopology": network}), **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "v"}, "spec": spec}


def jobset(own: Body, of_job: Body | None = None) -> Body:
    """One driver, and four Jobs of two workers each."""
    entries = [
        {
            "name": name,
            "replicas": count,
            "template": {
                "metadata": {"annotations": (of_job or {}) if name == "workers" else {}},
                "spec": {"parallelism": pods, "completions": pods, "template": template()},
            },
        }
        for name, count, pods in (("driver", 1, 1), ("workers", 4, 2))
    ]
    meta = {"name": "s", "annotations": own}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": meta,
        "spec": {"replicatedJobs": entries},
    }
