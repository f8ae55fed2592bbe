"""Elastic jobs behind a hub, on their real controllers: each follows the number of replicas that the hub writes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.hub import World
from tests.e2e.manifests import Manifest, gang_policy, leaf, quota_tree
from tests.operators.hub import hub_before, member_of
from tests.operators.jobs import PODS, pod_template
from tests.operators.kinds import RAYCLUSTER

MIN = "fleet.io/min-replicas"
GPU = "nvidia.com/gpu"
COMPONENTS = {"RayCluster": "workers", "Job": "main"}  # that are elastic


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder, options = tmp_path_factory.mktemp("elastic"), ("--protection-seconds", "1", "--claim-seconds", "60")
    with hub_before(folder, "kubernetes", operators=("kuberay",), options=options) as world:
        promised = {**leaf("owner", "owner"), "min": {GPU: 8}}
        world.kubectl.run("create", "namespace", "owner")
        tree = quota_tree({**leaf("team", "default"), "min": {GPU: 0}}, promised)
        tree["spec"]["root"] |= {"min": {GPU: 8}, "max": {GPU: 8}}
        world.kubectl.apply(tree)
        taken = [{"apiVersion": "ray.io/v1", "kind": "RayCluster"}, {"apiVersion": "batch/v1", "kind": "Job"}]
        for namespace in ("default", "owner"):
            world.kubectl.apply(gang_policy("all", queue=True, resourceSelectors=taken), namespace=namespace)
        yield world


def template(gpus: int, app: str) -> Manifest:
    made = pod_template(gpus, labels={"app": app})
    made["spec"]["restartPolicy"] = "Never"
    return made


def batchjob(name: str, gpus: int, parallelism: int = 1, least: str = "") -> Manifest:
    meta: Manifest = {"name": name, "annotations": {MIN: least} if least else {}}
    spec = {"parallelism": parallelism, "template": template(gpus, name)}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


def elastic(kind: str, replicas: int, least: int) -> Manifest:
    """A job called one."""
    if kind == "Job":
        return batchjob("one", 1, replicas, str(least))
    body = RAYCLUSTER.body("one", template(0, "head"))
    (group,) = body["spec"]["workerGroupSpecs"]
    group |= {"replicas": replicas, "minReplicas": least, "maxReplicas": replicas, "template": template(1, "one")}
    return {**body, "metadata": {"name": "one"}}


def running(world: World, app: str, namespace: str = "default") -> int:
    """The pods with this label that run; -1 while others of them come or go."""
    found = member_of(world).get(f"{PODS.replace('default', namespace)}?labelSelector=app={app}")["items"]
    up = [
        pod for pod in found if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]
    return len(up) if len(up) == len(found) else -1


def charged(world: World, kind: str) -> int:
    body = world.kubectl.get("rb", f"one-{kind.lower()}")
    return {part["name"]: int(part["replicas"]) for part in body["spec"]["components"]}[COMPONENTS[kind]]


@pytest.mark.parametrize("kind", COMPONENTS)
def test_an_elastic_job_starts_small_grows_and_gives_up_no_more_than_it_must(world: World, kind: str) -> None:
    world.kubectl.apply(batchjob("filler", 5))
    world.until("the room of five is taken", lambda: running(world, "filler") == 1)
    world.kubectl.apply(elastic(kind, 7, 2))
    world.until("it has what is free", lambda: (running(world, "one"), charged(world, kind)) == (3, 3))
    world.kubectl.run("delete", "job", "filler")
    world.until("it grows", lambda: (running(world, "one"), charged(world, kind)) == (7, 7))
    world.kubectl.apply(batchjob("owner", 1, parallelism=3), namespace="owner")
    world.until("the owner runs", lambda: running(world, "owner", "owner") == 3)
    world.until("it has all but what the owner lacked", lambda: (running(world, "one"), charged(world, kind)) == (5, 5))
    binding = world.kubectl.get("rb", f"one-{kind.lower()}")
    assert binding["metadata"]["annotations"]["fleet.io/attempt"] == "1"
    messages = [event["message"] for event in world.kubectl.items("events")]
    assert any(
        f"make room for a job of another namespace: {COMPONENTS.get(kind, 'main')} 7 -> 5" in m for m in messages
    )
    world.kubectl.run("delete", "job", "owner", "-n", "owner")
    world.until("it grows again", lambda: (running(world, "one"), charged(world, kind)) == (7, 7))
    world.kubectl.run("delete", kind.lower(), "one")
    world.until("nothing of it is left", lambda: running(world, "one") == 0 and not world.kubectl.items("rb"))
