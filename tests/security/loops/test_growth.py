"""A job that runs is charged for what it runs, and does not become larger than what it was admitted with."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from api.engine import patch as patches
from api.engine.status import StatusError
from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.charge import beyond, running
from fleet.core.model.unit import Component
from fleet.values.ports import Body
from tests.admission.conftest import THE_HUB, USER, Hub
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, member, policy, pytorchjob, tree
from tests.controllers.world import hub as running_hub

WORKERS = ("spec", "pytorchReplicaSpecs", "Worker")
QUEUED = [{"type": "Queuing", "status": "True"}]
RUNNING = [{"type": "Queuing", "status": "False"}, {"type": "Running", "status": "True"}]
OUTSIDE_QUOTA = [{"type": "Created", "status": "True"}, {"type": "Running", "status": "True"}]
OVER = [{"type": "Queuing", "status": "False"}, {"type": "Succeeded", "status": "True"}]


def replicas(count: int) -> Callable[[Body], None]:
    def change(job: Body) -> None:
        job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = count

    return change


def gpus(amount: str) -> Callable[[Body], None]:
    def change(job: Body) -> None:
        container = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
        container["resources"]["limits"]["nvidia.com/gpu"] = amount

    return change


def a_component(job: Body) -> None:
    specs = job["spec"]["pytorchReplicaSpecs"]
    specs["Evaluator"] = copy.deepcopy(specs["Worker"])


def a_sidecar(job: Body) -> None:
    containers = job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
    containers.append({"name": "more", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}})


def an_image(job: Body) -> None:
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]["image"] = "other"


async def standing(hub: Hub, conditions: list[Body]) -> Body:
    """A job whose controllers have written this status."""
    await hub.create(pytorchjob("one"))
    kind = next(k for k in hub.registry if k.kind == "PyTorchJob")

    def told(body: Body) -> Body:
        body["status"] = {"conditions": conditions}
        return body

    changed = await hub.objects.change(kind, "default", "one", told, THE_HUB)
    assert changed is not None
    return changed


@pytest.mark.parametrize("conditions", [RUNNING, OUTSIDE_QUOTA], ids=["in quota", "outside quota"])
@pytest.mark.parametrize(
    ("larger", "said"),
    [
        pytest.param(replicas(12), "12 replicas of worker, 2 admitted", id="replicas"),
        pytest.param(gpus("8"), "worker asks for 8 nvidia.com/gpu a pod, 1 admitted", id="requests"),
        pytest.param(a_component, 'Unsupported value: "Evaluator"', id="another component"),
        pytest.param(a_sidecar, "worker asks for 2 nvidia.com/gpu a pod, 1 admitted", id="another container"),
    ],
)
async def test_a_job_that_has_its_room_is_not_made_larger(
    hub: Hub,
    conditions: list[Body],
    larger: Callable[[Body], None],
    said: str,
) -> None:
    stored = await standing(hub, conditions)
    body = copy.deepcopy(stored)
    larger(body)
    refusal = await hub.refused(body, "update")
    assert refusal.code == 422 and said in refusal.message
    assert refusal.causes[0].field.startswith("spec.pytorchReplicaSpecs.")
    kind = next(k for k in hub.registry if k.kind == "PyTorchJob")
    difference = patches.difference(stored["spec"], body["spec"])
    with pytest.raises(StatusError, match=said):
        await hub.objects.patch(kind, "default", "one", {"spec": difference}, patches.MERGE, USER)
    applied = {**pytorchjob("one"), "spec": body["spec"]}
    with pytest.raises(StatusError, match=said):
        forced = replace(USER, force=True)
        await hub.objects.patch(kind, "default", "one", applied, patches.APPLY, forced)


async def test_scaling_is_a_change_like_any_other(hub: Hub) -> None:
    await standing(hub, RUNNING)
    kind = next(k for k in hub.registry if k.kind == "PyTorchJob")
    change = {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 12}}}}
    with pytest.raises(StatusError, match="12 replicas of worker, 2 admitted"):
        await hub.objects.patch(kind, "default", "one", change, patches.MERGE, USER, "scale")


async def test_a_job_without_room_takes_any_size(hub: Hub) -> None:
    body = copy.deepcopy(await standing(hub, QUEUED))
    replicas(12)(body)
    await hub.update(body)


async def test_a_job_that_is_over_takes_no_size_any_more(hub: Hub) -> None:
    body = copy.deepcopy(await standing(hub, OVER))
    replicas(12)(body)
    assert "nothing runs again" in (await hub.refused(body, "update")).causes[0].message


@pytest.mark.parametrize("smaller", [replicas(1), gpus("0"), an_image])
async def test_a_job_that_runs_may_ask_for_less(hub: Hub, smaller: Callable[[Body], None]) -> None:
    body = copy.deepcopy(await standing(hub, RUNNING))
    smaller(body)
    await hub.update(body)


def batch_job(parallelism: int) -> Body:
    limits = {"nvidia.com/gpu": "1"}
    container = {"name": "c", "image": "i", "resources": {"limits": limits}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {
            "parallelism": parallelism,
            "completions": 50,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        },
    }


async def test_a_batch_job_says_that_it_left_its_queue_and_is_not_made_larger(hub: Hub) -> None:
    """Its status is a built-in type, which refused a field of the hub's condition: it never said so."""
    async with running_hub(member("cfa")) as world:
        selectors = [{"apiVersion": "batch/v1", "kind": "Job"}]
        await world.apply(tree(max_jobs=10), policy(queue=True, resourceSelectors=selectors), batch_job(1))
        await eventually(lambda: told(world).get("Queuing") == "False")
        status = (world.see("Job", "one") or {})["status"]
    await hub.create(batch_job(1))
    kind = hub.registry.need("batch", "jobs")
    await hub.objects.change(kind, "default", "one", lambda body: {**body, "status": status}, THE_HUB)
    with pytest.raises(StatusError, match="12 replicas of main, 1 admitted"):
        await hub.objects.patch(kind, "default", "one", {"spec": {"parallelism": 12}}, patches.MERGE, USER)


def told(world: World) -> dict[str, str]:
    status = (world.see("Job", "one") or {}).get("status") or {}
    return {c["type"]: c["status"] for c in status.get("conditions") or ()}


# -- what slips through, and what a member does by itself


async def in_quota(world: World, *jobs: Body, max_gpus: int = 4) -> None:
    quota = tree(max_jobs=10)
    quota["spec"]["root"]["children"][0]["max"]["nvidia.com/gpu"] = max_gpus
    await world.apply(quota, policy(queue=True), *jobs)


def asked(world: World, job: str) -> str:
    return str((world.unit(job) or {})["spec"]["resource"]["nvidia.com/gpu"])


async def test_a_job_that_grew_past_admission_stays_as_it_runs() -> None:
    """This world has no admission: it stands for the moment before a job's status says that it has left its queue."""
    async with running_hub(member("cfa")) as world:
        await in_quota(world, pytorchjob("one"))
        await world.running("one")
        await world.edit("PyTorchJob", "one", replicas(12))
        await eventually(lambda: world.condition(world.binding("one"), "Resized").get("status") == "False")
        said = world.condition(world.binding("one"), "Resized")["message"]
        assert "asks for 10 more nvidia.com/gpu; root/child-2 has 1 of its max 4 left" in said
        await settle(10)
        copy_ = world.members.job("cfa", "default", "one") or {}
        assert copy_["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] == 2
        assert asked(world, "one") == "3" and world.state("one") == "Running"
        assert world.condition(world.binding("one"), "FullyApplied")["status"] == "True"


async def test_pods_that_ask_for_more_past_admission_are_not_sent() -> None:
    async with running_hub(member("cfa")) as world:
        await in_quota(world, pytorchjob("one"))
        await world.running("one")
        await world.edit("PyTorchJob", "one", gpus("8"))
        await eventually(lambda: world.condition(world.binding("one"), "FullyApplied").get("status") == "False")
        said = world.condition(world.binding("one"), "FullyApplied")["message"]
        assert "asks for more than it is charged: worker asks for 8 nvidia.com/gpu a pod, 1 admitted" in said
        await settle(10)
        assert asked(world, "one") == "3" and world.state("one") == "Running"


async def test_a_job_that_shrinks_is_charged_for_less_once_its_pods_are_gone() -> None:
    async with running_hub(member("cfa")) as world:
        await in_quota(world, pytorchjob("one"))
        await world.running("one")
        await world.edit("PyTorchJob", "one", replicas(1))
        await eventually(lambda: asked(world, "one") == "2")
        await eventually(lambda: charged(world, "one") == "3", what="the third pod runs on")
        drop(world, "one-worker-1")
        await eventually(lambda: charged(world, "one") == "")


async def test_what_a_member_runs_beside_it_is_charged_within_a_second() -> None:
    async with running_hub(member("cfa")) as world:
        await in_quota(world, pytorchjob("one", workers=0))
        await world.running("one")
        grow(world, "one", 3)
        await eventually(lambda: charged(world, "one") == "4", within_s=1.5)
        await world.apply(pytorchjob("two", workers=0))
        await eventually(lambda: "used 4, max 4" in world.message("two"), what=world.message("two"))
        for number in range(3):
            drop(world, f"more-{number}")
        await world.running("two")
        await eventually(lambda: charged(world, "one") == "", within_s=1.5)


def charged(world: World, job: str) -> str:
    status = (world.unit(job) or {}).get("status") or {}
    return str((status.get("charged") or {}).get("nvidia.com/gpu", ""))


def grow(world: World, job: str, pods: int) -> None:
    """Somebody in the member gives the job more pods."""
    there = world.members.by_name["cfa"]
    first = next(iter(there.pods.values()))
    for number in range(pods):
        there.pods[f"more-{number}"] = replace(first, uid=f"more-{number}", name=f"more-{number}")
    tell(world, job)


def drop(world: World, pod: str) -> None:
    there = world.members.by_name["cfa"]
    del there.pods[next(uid for uid, found in there.pods.items() if found.name == pod)]
    tell(world, "one")


def tell(world: World, job: str) -> None:
    copy_ = world.members.job("cfa", "default", job)
    assert copy_ is not None
    world.members._tell("cfa", "pod", copy_)


# -- the comparison by itself


def component(name: str, count: int, **requests: int) -> Component:
    return Component(name, count, Amounts.of(requests))


@pytest.mark.parametrize(
    ("asks", "admitted", "found"),
    [
        ([("w", 2, 1)], [("w", 2, 1)], []),
        ([("w", 1, 1)], [("w", 2, 1)], []),
        ([], [("w", 2, 1)], []),
        ([("W", 3, 1)], [("w", 2, 1)], ["3 replicas of W, 2 admitted"]),
        ([("w", 2, 2)], [("w", 2, 1)], ["w asks for 2 gpu a pod, 1 admitted"]),
        ([("x", 1, 0)], [("w", 2, 1)], ["x was not admitted"]),
    ],
)
def test_what_is_beyond_what_was_admitted(asks: list[Any], admitted: list[Any], found: list[str]) -> None:
    said = beyond(
        [component(name, count, gpu=gpu) for name, count, gpu in asks],
        [component(name, count, gpu=gpu) for name, count, gpu in admitted],
    )
    assert [excess.text for excess in said] == found


def test_pods_are_charged_where_they_are_more_or_larger() -> None:
    admitted = (component("w", 2, gpu=1, pods=1),)
    one, large = Amounts.of({"gpu": 1, "pods": 1}), Amounts.of({"gpu": 4, "cpu": 9, "pods": 1})
    assert running(admitted, [("w", one)]) is admitted
    assert running(admitted, [("W", one)] * 3) == (component("w", 3, gpu=1, pods=1),)
    assert running(admitted, [("w", large)]) == (component("w", 2, gpu=4, cpu=9, pods=1),)
    assert running(admitted, [("x", one)]) == (*admitted, component("x", 1, gpu=1, pods=1))
    assert running((), [("x", NOTHING)]) == (Component("x", 1, NOTHING),)
