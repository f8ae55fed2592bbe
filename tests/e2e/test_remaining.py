"""A job that has failed and leaves a pod running (cleanPodPolicy None): every answer has one number for its charge."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.e2e.hub import World
from tests.e2e.manifests import gang_policy, pytorchjob

Team = Callable[..., str]
GPU = "nvidia.com/gpu"


def asked(world: World, path: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(world.kubectl.run("get", "--raw", f"/fleet/v1/{path}"))["items"]
    return found


def test_what_a_failed_job_leaves_running_is_charged_alike_everywhere(world: World, team: Team) -> None:
    namespace = team(**{GPU: 4})
    job = pytorchjob("half", workers=1, gpus=2)
    job["spec"]["runPolicy"] = {"cleanPodPolicy": "None"}
    worker = json.loads(json.dumps(job["spec"]["pytorchReplicaSpecs"]["Worker"]))
    worker["template"]["metadata"]["annotations"] = {"testbed/run-for": "2s", "testbed/exit-code": "1"}
    job["spec"]["pytorchReplicaSpecs"]["Worker"] = worker
    world.kubectl.apply(gang_policy(queue=True), job, namespace=namespace)
    world.until("it has failed", lambda: world.state("half", namespace) == "Failed")
    world.kubectl.apply(pytorchjob("next", workers=0, gpus=4), namespace=namespace)

    def numbers() -> tuple[str, str, int]:
        [queue] = [one for one in asked(world, "queues") if one["path"] == f"root/{namespace}"]
        numbers = world.unit("next", namespace).get("status", {}).get("reason", {}).get("numbers", {})
        return queue["used"][GPU], str(numbers.get("used")), queue["running"]

    world.until("both say the same", lambda: numbers() == ("2", "2", 1))
    [line] = [one for one in asked(world, f"jobs?namespace={namespace}") if one["name"] == "half"]
    assert f"its pods still run in {world.placed('half', namespace)}, and are charged" in line["reason"]["text"]
    world.kubectl.run("delete", "pytorchjob", "half", "-n", namespace, timeout_s=240)
    world.until("the next one runs", lambda: world.state("next", namespace) == "Running")
