"""Where each kind of job that can be made from nothing keeps its pods."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fleet.submission.request import Body, Request, RequestFault

DEFAULT = "PyTorchJob"
WORKER = "Worker"


@dataclass(frozen=True)
class KindLayout:
    """One kind. `specs`: the field of its replica types, "" for a kind with one template. `leader`: the replica type
    with one pod. A leader that works is one of the workers, and the only pod of a job with one worker. One that does
    not runs the command, and the workers wait for it."""

    api_version: str
    container: str  # the name that the operator wants
    specs: str = ""
    leader: str = ""
    leader_works: bool = True


LAYOUTS: Mapping[str, KindLayout] = {
    "PyTorchJob": KindLayout("kubeflow.org/v1", "pytorch", "pytorchReplicaSpecs", "Master"),
    "TFJob": KindLayout("kubeflow.org/v1", "tensorflow", "tfReplicaSpecs"),
    "MPIJob": KindLayout("kubeflow.org/v1", "mpi", "mpiReplicaSpecs", "Launcher", leader_works=False),
    "JAXJob": KindLayout("kubeflow.org/v1", "jax", "jaxReplicaSpecs"),
    "PaddleJob": KindLayout("kubeflow.org/v1", "paddle", "paddleReplicaSpecs"),
    "XGBoostJob": KindLayout("kubeflow.org/v1", "xgboost", "xgbReplicaSpecs", "Master"),
    "Job": KindLayout("batch/v1", "main"),
}


@dataclass(frozen=True)
class Role:
    """The pods of one replica type. `works`: they get the amounts of a worker; `runs`: they run the command."""

    name: str
    pod: Body
    works: bool
    runs: bool


def layout_of(kind: str) -> KindLayout:
    found = LAYOUTS.get(kind)
    if found is None:
        raise RequestFault("kind", f"{kind} is none of {', '.join(LAYOUTS)}")
    return found


def roles_of(job: Body) -> Iterator[Role]:
    """The replica types of a job of a known kind; their pods are parts of it, to be changed in place."""
    layout = layout_of(job["kind"])
    if not layout.specs:
        yield Role("", job["spec"].setdefault("template", {}), True, True)
        return
    for name, spec in job["spec"].setdefault(layout.specs, {}).items():
        leads = name == layout.leader
        works = layout.leader_works if leads else name == WORKER
        yield Role(name, spec.setdefault("template", {}), works, leads or layout.leader_works)


def resize(job: Body, workers: int) -> None:
    """Give the job so many workers. A replica type that it does not have yet gets the pods of the other."""
    layout, spec = layout_of(job["kind"]), job["spec"]
    if not layout.specs:
        spec.update(parallelism=workers, completions=workers)
        if workers > 1:
            spec["completionMode"] = "Indexed"
        return
    specs = spec.setdefault(layout.specs, {})
    leads = bool(layout.leader)
    if leads and (layout.leader in specs or WORKER not in specs):
        specs.setdefault(layout.leader, _like(None, layout))["replicas"] = 1
        workers -= layout.leader_works
    if workers:
        specs.setdefault(WORKER, _like(specs.get(layout.leader), layout))["replicas"] = workers
    else:
        specs.pop(WORKER, None)


def longest_suffix(job: Body) -> int:
    """Characters that the name of its last pod adds to the name of the job."""
    layout = layout_of(job["kind"])
    if not layout.specs:
        return len(f"-{job['spec'].get('completions') or 1}")
    specs = job["spec"][layout.specs]
    return max(len(f"-{name}-{int(spec.get('replicas') or 1) - 1}") for name, spec in specs.items())


def skeleton(request: Request) -> Body:
    """A job of nothing but its kind and its size."""
    kind = request.kind or DEFAULT
    layout = layout_of(kind)
    job: Body = {"apiVersion": layout.api_version, "kind": kind, "metadata": {}, "spec": {}}
    if layout.specs:
        job["spec"]["runPolicy"] = {"cleanPodPolicy": "Running"}  # pods that are done stay, with their logs
    else:
        job["spec"]["backoffLimit"] = 0
        job["spec"]["template"] = {"spec": {"restartPolicy": "Never"}}
    resize(job, request.workers or 1)
    return job


def _like(leader: Body | None, layout: KindLayout) -> Body:
    """A replica type with the pods of the leader, where that is a worker, too."""
    if leader is not None and layout.leader_works:
        return copy.deepcopy(leader)
    return {"restartPolicy": "Never", "template": {}}
