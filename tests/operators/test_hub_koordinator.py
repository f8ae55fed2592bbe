"""A hub before a member whose scheduler is Koordinator's: gangs that start whole, and room that is held."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.hub import World
from tests.e2e.jobs import Jobs
from tests.e2e.manifests import leaf, pytorchjob
from tests.operators.hub import bound, hub_before, member_of, pods, starts_whole_when_there_is_room
from tests.operators.jobs import PODS, pod_template, post_pod
from tests.operators.kinds import RAYJOB

TAKEN = "scheduling.koordinator.sh/reservation-allocated"
RESERVATIONS = "/apis/scheduling.koordinator.sh/v1alpha1/reservations"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    choice = "fleet.io/gang-scheduler=Koordinator/default-scheduler"
    folder, leaves = tmp_path_factory.mktemp("koordinator"), [leaf("ray", "ray")]
    with hub_before(folder, "koordinator", choice, operators=[RAYJOB.operator], leaves=leaves) as world:
        yield world


def test_a_gang_for_which_the_member_has_less_room_than_the_hub_saw_starts_whole_when_there_is_room(
    world: World,
) -> None:
    starts_whole_when_there_is_room(world)


def test_a_ray_job_is_a_gang_without_the_pod_that_submits_it(world: World) -> None:
    """KubeRay makes that pod when the cluster is ready: the cluster does not wait for it."""
    world.kubectl.run("create", "namespace", "ray")
    jobs = Jobs(world, RAYJOB, "ray")
    jobs.submit("train", run_for="2s")
    world.until("the job is over", lambda: jobs.phase("train") == "Succeed")
    found = member_of(world).get("/apis/ray.io/v1/namespaces/ray/rayjobs/train")["spec"]
    head, submitter = found["rayClusterSpec"]["headGroupSpec"]["template"], found["submitterPodTemplate"]
    assert head["metadata"]["annotations"]["gang.scheduling.koordinator.sh/min-available"] == "3"
    assert "gang.scheduling.koordinator.sh/name" not in submitter["metadata"].get("annotations", {})
    jobs.delete("train")
    world.until("nothing of it is left", lambda: not jobs.in_members())


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
