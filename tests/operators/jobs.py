"""Pods and short waits for the tests of real controllers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.testbed.member import RealMember
from tests.testbed.processes import wait_for

Body = dict[str, Any]
PODS = "/api/v1/namespaces/default/pods"
SOON_S = 60.0
SETTLED_S = 2.0  # a wrong start would come within it


def pod_template(
    gpus: int, *, name: str = "main", node: str = "", run_for: str = "", exit_code: int = 0, **metadata: Any
) -> Body:
    """A pod without kind and name. It runs until it is deleted, or as long as `run_for` says."""
    annotations = dict(metadata.pop("annotations", {}))
    if run_for:
        annotations |= {"testbed/run-for": run_for, "testbed/exit-code": str(exit_code)}
    amounts = {"cpu": "100m", "nvidia.com/gpu": str(gpus)}
    container = {"name": name, "image": "example/train", "resources": {"requests": amounts, "limits": amounts}}
    spec: Body = {"containers": [container], "terminationGracePeriodSeconds": 0}
    if node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": node}
    return {"metadata": {"annotations": annotations, **metadata}, "spec": spec}


def post_pod(member: RealMember, name: str, template: Body) -> None:
    metadata = {**template["metadata"], "name": name}
    member.post(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})


def pods_of(member: RealMember, selector: str) -> list[Body]:
    found: list[Body] = member.get(f"{PODS}?labelSelector={selector}")["items"]
    return found


def bound(member: RealMember, selector: str) -> int:
    """Pods that have a node."""
    return sum(1 for pod in pods_of(member, selector) if pod["spec"].get("nodeName"))


def refused(pod: Body) -> bool:
    """Whether a scheduler has tried the pod and found no node."""
    conditions = pod["status"].get("conditions", [])
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)


def soon(what: str, probe: Callable[[], object]) -> Any:
    return wait_for(what, probe, SOON_S)


def stays(what: str, probe: Callable[[], object]) -> None:
    """`probe` is true now and for a while on."""
    end = time.monotonic() + SETTLED_S
    while time.monotonic() < end:
        assert probe(), what
        time.sleep(0.1)
