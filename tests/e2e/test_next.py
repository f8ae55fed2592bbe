"""What users try after the walk-through: gangs that do not fit, jobs that fail, deletions at every moment, edits."""

from __future__ import annotations

from collections.abc import Callable

import yaml

from tests.e2e.hub import World
from tests.e2e.manifests import gang_policy, pytorchjob, quota_tree

Team = Callable[..., str]


def test_a_second_job_starts_when_the_first_succeeds(world: World, team: Team) -> None:
    namespace = team(**{"kube-queue/max-jobs": 1})
    world.kubectl.apply(
        gang_policy(queue=True),
        pytorchjob("first", run_for="10s"),
        pytorchjob("second", run_for="2s"),
        namespace=namespace,
    )
    world.until("the first runs", lambda: world.state("first", namespace) == "Running")

    def waits() -> bool:
        status = world.unit("second", namespace)["status"]
        return bool(status["phase"] == "Enqueued" and "at most 1" in status.get("message", ""))

    world.until("the second waits and says so", waits)
    world.until("the first succeeds", lambda: world.state("first", namespace) == "Succeeded")
    world.until("the second succeeds", lambda: world.state("second", namespace) == "Succeeded")
    world.until(
        "both units are done",
        lambda: [world.unit(n, namespace)["status"]["phase"] for n in ("first", "second")] == ["Succeed"] * 2,
    )


def test_without_suspension_a_job_is_placed_without_queueing(world: World, team: Team) -> None:
    namespace = team(**{"kube-queue/max-jobs": 0})
    world.kubectl.apply(gang_policy(), pytorchjob("direct"), namespace=namespace)
    world.until("it runs", lambda: world.state("direct", namespace) == "Running")
    assert world.unit("direct", namespace) == {}


def test_a_gang_larger_than_any_member_starts_nowhere_and_says_how_much_is_missing(world: World, team: Team) -> None:
    namespace = team()
    world.kubectl.apply(gang_policy(queue=True), pytorchjob("huge", workers=5, gpus=8), namespace=namespace)
    world.until("it says which member came closest", lambda: "Closest" in world.message("huge", namespace))
    message = world.message("huge", namespace)
    assert any(member in message for member in world.members), message
    assert "2 pods find no node with 8" in message, message
    assert world.pods_in_members(namespace) == []
    assert world.jobs_in_members(namespace) == []
    assert world.placed("huge", namespace) == ""


def test_a_gang_whose_sum_fits_but_whose_pods_do_not_is_not_sent(world: World, team: Team) -> None:
    """Five pods of 5 GPUs are 25 of a member's 32 GPUs, but only four nodes have 5 free."""
    namespace = team()
    world.kubectl.apply(gang_policy(queue=True), pytorchjob("odd", workers=4, gpus=5), namespace=namespace)
    world.until("it has a reason", lambda: "Closest" in world.message("odd", namespace))
    assert world.jobs_in_members(namespace) == []
    assert world.placed("odd", namespace) == ""


def test_a_job_that_fails_in_its_member_moves_to_another(world: World, team: Team) -> None:
    namespace = team()
    world.kubectl.apply(
        gang_policy(queue=True, toleration_s=1), pytorchjob("shaky", run_for="2s", exit_code=1), namespace=namespace
    )
    world.until("it is placed", lambda: world.placed("shaky", namespace) != "")
    first = world.placed("shaky", namespace)
    world.until("it moves", lambda: world.placed("shaky", namespace) not in ("", first), within_s=90)
    world.until("one copy at most", lambda: len(world.jobs_in_members(namespace)) <= 1)


def test_what_the_pod_template_names_travels_with_the_job_and_leaves_with_it(world: World, team: Team) -> None:
    namespace = team()
    pod = {
        "volumes": [{"name": "config", "configMap": {"name": "settings"}}],
        "container": {"envFrom": [{"secretRef": {"name": "token"}}]},
    }
    world.kubectl.run("create", "configmap", "settings", "--from-literal=lr=0.1", "-n", namespace)
    world.kubectl.run("create", "secret", "generic", "token", "--from-literal=key=value", "-n", namespace)
    world.kubectl.apply(gang_policy(queue=True), pytorchjob("needs", pod=pod), namespace=namespace)
    world.until("it runs", lambda: world.state("needs", namespace) == "Running")
    member = world.placed("needs", namespace)

    def travelled(kind: str, name: str) -> bool:
        return (member, name) in world.copies(f"/api/v1/namespaces/{namespace}/{kind}")

    assert travelled("configmaps", "settings")
    assert travelled("secrets", "token")
    world.kubectl.run("delete", "pytorchjob", "needs", "-n", namespace)
    world.until("they leave", lambda: not travelled("configmaps", "settings") and not travelled("secrets", "token"))


def test_deleting_a_waiting_job_leaves_nothing(world: World, team: Team) -> None:
    namespace = team(**{"kube-queue/max-jobs": 0})
    world.kubectl.apply(gang_policy(queue=True), pytorchjob("waits"), namespace=namespace)
    world.until("it waits", lambda: world.message("waits", namespace) != "")
    world.kubectl.run("delete", "pytorchjob", "waits", "-n", namespace)
    world.until("no binding and no unit", lambda: not world.kubectl.items("rb,queueunit", "-n", namespace))


def test_deleting_a_job_while_it_is_being_placed_leaves_nothing(world: World, team: Team) -> None:
    namespace = team()
    world.kubectl.apply(gang_policy(queue=True), namespace=namespace)
    for number in range(5):
        world.kubectl.apply(pytorchjob(f"brief-{number}"), namespace=namespace)
        world.kubectl.run("delete", "pytorchjob", f"brief-{number}", "-n", namespace, "--wait=false")
    world.until("no binding and no unit", lambda: not world.kubectl.items("rb,queueunit", "-n", namespace))
    world.until("no copy", lambda: not world.jobs_in_members(namespace))
    world.until("no pod", lambda: not world.pods_in_members(namespace))


def test_deleting_a_running_job_leaves_nothing(world: World, team: Team) -> None:
    namespace = team()
    world.kubectl.apply(gang_policy(queue=True), pytorchjob("runs"), namespace=namespace)
    world.until("it runs", lambda: world.state("runs", namespace) == "Running")
    world.kubectl.run("delete", "pytorchjob", "runs", "-n", namespace)
    world.until("no binding and no unit", lambda: not world.kubectl.items("rb,queueunit", "-n", namespace))
    world.until("no copy", lambda: not world.jobs_in_members(namespace))
    world.until("no pod", lambda: not world.pods_in_members(namespace))


def test_deleting_the_policy_leaves_running_work_alone(world: World, team: Team) -> None:
    namespace = team()
    world.kubectl.apply(gang_policy(queue=True), pytorchjob("stays"), namespace=namespace)
    world.until("it runs", lambda: world.state("stays", namespace) == "Running")
    uid = world.kubectl.get("rb", "stays-pytorchjob", "-n", namespace)["metadata"]["uid"]
    world.kubectl.run("delete", "propagationpolicy", "gang", "-n", namespace)
    world.kubectl.apply(gang_policy(queue=True), namespace=namespace)
    assert world.kubectl.get("rb", "stays-pytorchjob", "-n", namespace)["metadata"]["uid"] == uid
    assert world.state("stays", namespace) == "Running"
    assert len(world.pods_in_members(namespace)) == 3


def test_a_leaf_with_work_on_it_cannot_be_removed(world: World, team: Team) -> None:
    namespace = team()
    world.kubectl.apply(gang_policy(queue=True), pytorchjob("works"), namespace=namespace)
    world.until("it runs", lambda: world.state("works", namespace) == "Running")
    refused = world.kubectl.try_run("apply", "-f", "-", stdin=yaml.safe_dump(quota_tree()))
    assert refused.code == 1
    assert namespace in refused.err and "spec.root" in refused.err, refused.err
    assert world.state("works", namespace) == "Running"


def test_raising_a_quota_starts_what_waited_for_it(world: World, team: Team) -> None:
    namespace = team(**{"nvidia.com/gpu": 2})
    world.kubectl.apply(gang_policy(queue=True), pytorchjob("three"), namespace=namespace)
    world.until("it names the quota", lambda: "nvidia.com/gpu" in world.message("three", namespace))
    tree = world.kubectl.get("elasticquotatree", "elasticquotatree", "-n", "kube-system")
    for child in tree["spec"]["root"]["children"]:
        child["max"] = {"nvidia.com/gpu": 3}
    world.kubectl.apply(
        {k: tree[k] for k in ("apiVersion", "kind", "spec")}
        | {"metadata": {"name": "elasticquotatree", "namespace": "kube-system"}}
    )
    world.until("it runs", lambda: world.state("three", namespace) == "Running")
