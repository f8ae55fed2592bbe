"""Rivals that are submitted straight to a member never break a gang whose room the hub holds there.

Each round on the real scheduler: a gang is Reserved, its room held by placeholders, and its admission check still open.
Then rivals come, which want the same nodes and wait for room; more of them come every 20 ms while the job takes the
place of the placeholders. `make rivals` runs 200 rounds (FLEET_RIVAL_ROUNDS).
"""

from __future__ import annotations

import os
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.e2e.hub import World
from tests.e2e.manifests import gang_policy, pytorchjob
from tests.testbed.member import RealMember

ROUNDS = int(os.environ.get("FLEET_RIVAL_ROUNDS", "3"))
SEATS = 3  # nodes with one GPU each, which nothing else in the member may use
FRESH_MAX = 40
MEMBER = "cfb"
POOL = {"pool": "rivals"}
pytestmark = pytest.mark.xdist_group("e2e-real")


@pytest.fixture
def member(world: World) -> Iterator[RealMember]:
    assert world.bed is not None
    member = world.bed.members[MEMBER]
    for number in range(SEATS):
        room = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "1"}
        meta = {"name": f"rival-{number}", "labels": POOL, "annotations": {"kwok.x-k8s.io/node": "fake"}}
        member.post(
            "/api/v1/nodes",
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": meta,
                "spec": {"taints": [{"key": "pool", "value": "rivals", "effect": "NoSchedule"}]},
                "status": {"allocatable": room, "capacity": room},
            },
        )
    reserve(world, True)
    yield member
    reserve(world, False)
    for number in range(SEATS):
        member.delete(f"/api/v1/nodes/rival-{number}")


def reserve(world: World, on: bool) -> None:
    patch = f'{{"spec":{{"enableReservation":{str(on).lower()}}}}}'
    world.kubectl.run("patch", "cluster", MEMBER, "--type", "merge", "-p", patch)


def on_the_nodes() -> dict[str, Any]:
    tolerated = [{"key": "pool", "value": "rivals", "effect": "NoSchedule"}]
    return {"nodeSelector": POOL, "tolerations": tolerated, "terminationGracePeriodSeconds": 0}


class Rivals:
    """Pods of somebody else in the member, one GPU each, in a namespace of their own."""

    def __init__(self, member: RealMember) -> None:
        self._member = member
        self._path = "/api/v1/namespaces/rivals/pods"
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep_coming)
        self.count = 0
        if "rivals" not in member.names("/api/v1/namespaces"):
            member.post("/api/v1/namespaces", {"metadata": {"name": "rivals"}})

    def __enter__(self) -> Rivals:
        for _ in range(SEATS):
            self._submit()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def bound(self) -> list[str]:
        pods = self._member.get(self._path)["items"]
        return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]

    def clear(self) -> None:
        for name in self._member.names(self._path):
            self._member.delete(f"{self._path}/{name}")

    def _keep_coming(self) -> None:
        while not self._stop.wait(0.02) and self.count < FRESH_MAX:
            self._submit()

    def _submit(self) -> None:
        self.count += 1
        container = {"name": "main", "image": "rival", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        meta = {"name": f"rival-{self.count}-{time.monotonic_ns()}"}
        spec = {**on_the_nodes(), "containers": [container]}
        self._member.post(self._path, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})


@pytest.mark.parametrize("world", ["real"], indirect=True)
def test_no_rival_ever_gets_a_place_of_a_gang(
    world: World, member: RealMember, team: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    namespace = team()
    world.kubectl.apply(
        gang_policy(queue=True, placement={"clusterAffinity": {"clusterNames": [MEMBER]}}), namespace=namespace
    )
    world.until("its queue is there", lambda: queue_of(world, namespace))
    queue = queue_of(world, namespace)
    checks = '{"spec":{"admissionChecks":[{"name":"rivals"}]}}'
    world.kubectl.run("patch", "queue", queue, "-n", "kube-queue", "--type", "merge", "-p", checks)
    took = [one_round(world, member, namespace, f"gang-{number}") for number in range(ROUNDS)]
    with capsys.disabled():
        told = f"median {statistics.median(took):.2f} s, longest {max(took):.2f} s"
        print(f"\n{ROUNDS} of {ROUNDS} gangs whole beside rivals; from the last check to all pods bound: {told}")


def queue_of(world: World, leaf: str) -> str:
    """The name of the leaf's Queue; "" while it is not there."""
    for item in world.kubectl.items("queue", "-n", "kube-queue"):
        if item["metadata"]["annotations"].get("kube-queue/quota-fullname", "").endswith(f"/{leaf}"):
            return str(item["metadata"]["name"])
    return ""


def one_round(world: World, member: RealMember, namespace: str, job: str) -> float:
    """Seconds from the answer of the last check until every pod of the gang has a node."""
    pods = f"/api/v1/namespaces/{namespace}/pods"
    unit = f"{job}-pytorchjob-rb-qu"
    world.kubectl.apply(pytorchjob(job, workers=SEATS - 1, pod=on_the_nodes()), namespace=namespace)
    world.until(f"the room of {job} is held", lambda: ready(world.unit(job, namespace), "fleet.io/room"))
    assert sum(1 for pod in member.get(pods)["items"] if pod["spec"].get("nodeName")) == SEATS
    with Rivals(member) as rivals:
        answer = '[{"op":"replace","path":"/status/admissionChecks/0/state","value":"Ready"}]'
        world.kubectl.run(
            "patch", "queueunit", unit, "-n", namespace, "--subresource=status", "--type", "json", "-p", answer
        )
        begin = time.monotonic()
        world.until(f"the pods of {job} are bound", lambda: bound(member, pods, job) == SEATS, within_s=60)
        took = time.monotonic() - begin
    assert rivals.bound() == []
    assert [p["metadata"]["name"] for p in member.get(pods)["items"] if "fleet.io/placeholder" in labels(p)] == []
    attempt = world.kubectl.get("rb", f"{job}-pytorchjob", "-n", namespace)["metadata"]["annotations"]
    assert attempt["fleet.io/attempt"] == "1"
    rivals.clear()
    world.kubectl.run("delete", "pytorchjob", job, "-n", namespace)
    world.until(f"nothing of {job} is left", lambda: not member.get(pods)["items"])
    return took


def ready(unit: dict[str, Any], check: str) -> bool:
    found = unit.get("status", {}).get("admissionChecks", [])
    return any(entry["name"] == check and entry["state"] == "Ready" for entry in found)


def bound(member: RealMember, pods: str, job: str) -> int:
    """How many pods of the job itself have a node and run."""
    return sum(
        1
        for pod in member.get(pods)["items"]
        if pod["spec"].get("nodeName") and labels(pod).get("training.kubeflow.org/job-name") == job
    )


def labels(pod: dict[str, Any]) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"].get("labels") or {}
    return found
