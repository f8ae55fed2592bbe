"""A hub before a member whose scheduler is Koordinator's: gangs that start whole, and room that is held."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.conftest import join
from tests.e2e.hub import Hub, Kubectl, World
from tests.e2e.manifests import gang_policy, leaf, pytorchjob, quota_tree
from tests.operators.jobs import pod_template, post_pod, stays
from tests.testbed.bed import started_bed
from tests.testbed.member import RealMember

PODS = "/api/v1/namespaces/default/pods"
TAKEN = "scheduling.koordinator.sh/reservation-allocated"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("koordinator")
    with started_bed(folder / "bed", ["cfa"], nodes=1, gpus=8, scheduler="koordinator") as bed:
        hub = Hub(folder / "hub")
        hub.start()
        try:
            join(hub, "cfa", bed.members["cfa"].kubeconfig)
            kubectl = Kubectl(hub.kubeconfig)
            kubectl.run("annotate", "cluster", "cfa", "fleet.io/gang-scheduler=Koordinator/default-scheduler")
            kubectl.apply(quota_tree(leaf("team", "default")))
            kubectl.apply(gang_policy(queue=True))
            yield World("real", hub, kubectl, ("cfa",), bed)
        finally:
            assert hub.stop() == 0, hub.log()


def member_of(world: World) -> RealMember:
    assert world.bed is not None
    return world.bed.members["cfa"]


def pods(world: World, job: str) -> list[dict[str, Any]]:
    found = member_of(world).get(PODS)["items"]
    return [pod for pod in found if (pod["metadata"].get("labels") or {}).get("training.kubeflow.org/job-name") == job]


def bound(world: World, job: str) -> int:
    return sum(1 for pod in pods(world, job) if pod["spec"].get("nodeName"))


def test_a_gang_for_which_the_member_has_less_room_than_the_hub_saw_starts_whole_when_there_is_room(
    world: World,
) -> None:
    """The hub knows nothing of host ports: it sends three pods of one port to a member with one node."""
    port = {"container": {"ports": [{"name": "rendezvous", "containerPort": 2222, "hostPort": 2222}]}}
    world.kubectl.apply(pytorchjob("ports", pod=port))
    world.until("its pods are in the member", lambda: len(pods(world, "ports")) == 3)
    stays("no part of the gang starts", lambda: bound(world, "ports") == 0)
    member_of(world).add_nodes(2, gpus=8, prefix="late")
    world.until("the whole gang has nodes", lambda: bound(world, "ports") == 3)
    world.until("the job runs", lambda: world.state("ports", "default") == "Running")
    world.kubectl.run("delete", "pytorchjob", "ports")
    world.until("nothing of it is left", lambda: not pods(world, "ports"))


def test_room_is_held_by_reservations_which_the_pods_of_the_job_take(world: World) -> None:
    patch = '{"spec":{"enableReservation":true}}'
    world.kubectl.run("patch", "cluster", "cfa", "--type", "merge", "-p", patch)
    checks = '{"spec":{"admissionChecks":[{"name":"rivals"}]}}'
    world.until("the queue is there", lambda: world.kubectl.items("queue", "-n", "kube-queue"))
    for queue in world.kubectl.items("queue", "-n", "kube-queue"):
        if queue["metadata"]["annotations"]["kube-queue/quota-fullname"].endswith("/team"):
            name = queue["metadata"]["name"]
            world.kubectl.run("patch", "queue", name, "-n", "kube-queue", "--type", "merge", "-p", checks)
    world.kubectl.apply(pytorchjob("held", gpus=8))
    world.until("its room is held", lambda: states(world, "held").get("fleet.io/room") == "Ready")
    reserved = member_of(world).get(RESERVATIONS)["items"]
    assert [r["status"]["phase"] for r in reserved] == ["Available"] * 3
    for number in range(3):
        post_pod(member_of(world), f"rival-{number}", pod_template(8))
    answer = '[{"op":"replace","path":"/status/admissionChecks/0/state","value":"Ready"}]'
    unit = ("queueunit", "held-pytorchjob-rb-qu", "--subresource=status")
    world.kubectl.run("patch", *unit, "--type", "json", "-p", answer)
    world.until("the whole gang runs", lambda: bound(world, "held") == 3)
    assert all(TAKEN in pod["metadata"]["annotations"] for pod in pods(world, "held"))
    rivals = [pod for pod in member_of(world).get(PODS)["items"] if pod["metadata"]["name"].startswith("rival-")]
    assert [pod["metadata"]["name"] for pod in rivals if pod["spec"].get("nodeName")] == []
    world.until("no reservation is left", lambda: not member_of(world).get(RESERVATIONS)["items"])


def states(world: World, job: str) -> dict[str, str]:
    found = world.unit(job, "default").get("status", {}).get("admissionChecks", [])
    return {entry["name"]: entry["state"] for entry in found}
