"""Queues as users meet them, with a real kubectl: limits per user, admission checks, moving, who may change what."""

from __future__ import annotations

import json
from collections.abc import Callable

import yaml

from tests.e2e.hub import World
from tests.e2e.manifests import gang_policy, leaf, pytorchjob, quota_tree

Team = Callable[..., str]


def queue_of(world: World, path: str) -> str:
    """The name of the Queue of a node of the tree."""
    found = ""

    def look() -> bool:
        nonlocal found
        for queue in world.kubectl.items("queue", "-n", "kube-queue"):
            if queue["metadata"]["annotations"]["kube-queue/quota-fullname"] == path:
                found = queue["metadata"]["name"]
        return bool(found)

    world.until(f"{path} has a queue", look)
    return found


def test_a_user_at_the_limit_waits_and_cannot_pass_for_another(world: World, team: Team) -> None:
    namespace = team()
    capped = leaf(namespace, namespace)
    capped["attributes"] = {"fleet.io/user-max": '{"kube-queue/max-jobs": 1}'}
    world.kubectl.apply(quota_tree(capped))
    world.kubectl.apply(gang_policy(queue=True), namespace=namespace)
    world.kubectl.run(
        "create", "rolebinding", "people", "--clusterrole=edit", "--user=ann", "--user=bob", "-n", namespace
    )
    for user, name in (("ann", "first"), ("ann", "second"), ("bob", "third")):
        job = pytorchjob(name, workers=0)
        job["metadata"]["annotations"] = {"fleet.io/creator": "carol"}
        world.kubectl.run("create", "-n", namespace, "--as", user, "-f", "-", stdin=yaml.safe_dump(job))
    world.until("one of each user's runs", lambda: world.state("third", namespace) == "Running")
    world.until("ann has one", lambda: "Running" in {world.state(n, namespace) for n in ("first", "second")})
    late = next(n for n in ("first", "second") if world.state(n, namespace) != "Running")
    world.until(
        "the other says why", lambda: "user ann already runs 1 of at most 1 job" in world.message(late, namespace)
    )
    claim = ("annotate", "pytorchjob", late, "fleet.io/creator=bob", "--overwrite", "-n", namespace)
    refused = world.kubectl.try_run(*claim, "--as", "ann")
    assert refused.code != 0 and "metadata.annotations[fleet.io/creator]: Forbidden" in refused.err


def test_a_job_with_quota_and_room_starts_when_its_checks_are_answered(world: World, team: Team) -> None:
    namespace = team()
    queue = queue_of(world, f"root/{namespace}")
    asked = json.dumps({"spec": {"admissionChecks": [{"name": "budget"}]}})
    world.kubectl.run("patch", "queue", queue, "-n", "kube-queue", "--type", "merge", "-p", asked)
    world.kubectl.apply(gang_policy(queue=True), pytorchjob("asks"), namespace=namespace)
    world.until("it is reserved", lambda: world.unit("asks", namespace).get("status", {}).get("phase") == "Reserved")
    status = world.unit("asks", namespace)["status"]
    assert status["message"] == "Reserved resources success, waiting admission checks to be ready"
    assert [(check["name"], check["state"]) for check in status["admissionChecks"]] == [("budget", "Pending")]
    assert world.jobs_in_members(namespace) == []
    patch = ("patch", "qu", "asks-pytorchjob-rb-qu", "-n", namespace, "--subresource=status", "--type", "json", "-p")
    at = "/status/admissionChecks/0/state"
    refused = world.kubectl.try_run(
        *patch, json.dumps([{"op": "replace", "path": "/status/phase", "value": "Running"}])
    )
    assert refused.code != 0 and "status.phase: Forbidden" in refused.err
    refused = world.kubectl.try_run(*patch, json.dumps([{"op": "replace", "path": at, "value": "Perhaps"}]))
    assert refused.code != 0 and "status.admissionChecks[0].state" in refused.err
    world.kubectl.run(*patch, json.dumps([{"op": "replace", "path": at, "value": "Ready"}]))
    world.until("it runs", lambda: world.state("asks", namespace) == "Running")
    assert world.placed("asks", namespace) == status["nomination"]["member"]


def test_a_waiting_job_moves_to_the_queue_that_its_label_names(world: World, team: Team) -> None:
    full, free = team(**{"kube-queue/max-jobs": 0}), team()
    world.kubectl.apply(gang_policy(queue=True), pytorchjob("moves"), namespace=full)
    world.until("it waits", lambda: "may run no jobs" in world.message("moves", full))
    label = ("label", "pytorchjob", "moves", "-n", full, "--overwrite")
    world.kubectl.run(*label, f"quota.scheduling.alibabacloud.com/name={free}")
    world.until("it runs", lambda: world.state("moves", full) == "Running")
    assert world.unit("moves", full)["spec"]["queue"] == queue_of(world, f"root/{free}")
    refused = world.kubectl.try_run(*label, f"quota.scheduling.alibabacloud.com/name={full}")
    assert refused.code != 0 and "the job has left its queue" in refused.err
