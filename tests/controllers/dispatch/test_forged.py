"""A member that shows pods and copies with the uid of another member's job changes nothing for that job."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.bindings import binding as b
from fleet.controllers.decide.units import base_unit, now_unit
from fleet.controllers.runtime.hub import ControllerConfig
from fleet.core.model.amounts import Amounts
from fleet.core.model.pod import PodView
from fleet.values.ports import Body
from fleet.wellknown import ATTEMPT, LABEL_BINDING
from tests.controllers.fakemember import key_of
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

FAST = ControllerConfig(sweep_s=4.0)


async def running_in_a(world: World) -> tuple[str, Body]:
    """The uid of the binding of a job that runs in cfa, and its copy there."""
    await world.apply(tree(), policy(queue=True, placement=only("cfa")), pytorchjob("one"))
    assert await world.running("one") == "cfa"
    found = world.members.job("cfa", "default", "one")
    assert found is not None
    return str(found["metadata"]["labels"][LABEL_BINDING]), found


def only(name: str) -> Body:
    return {
        "clusterAffinity": {"clusterNames": [name]},
        "replicaScheduling": {"replicaSchedulingType": "Divided", "customSchedulingType": "Gang"},
    }


def forge_pod(world: World, uid: str, **how: Any) -> None:
    there = world.members.by_name["cfa"].pods.values()
    pod = replace(next(pod for pod in there if pod.binding == uid), member="cfb", uid="forged", **how)
    world.members.by_name["cfb"].pods["forged"] = pod
    world.members._tell("cfb", "pod", {"metadata": {"labels": {LABEL_BINDING: uid}}})


def forge_copy(world: World, found: Body, *, attempt: str = "", status: Body | None = None) -> None:
    forged = copy.deepcopy(found)
    forged["metadata"].update(uid="forged-copy")
    forged["metadata"]["labels"][ATTEMPT] = attempt or found["metadata"]["labels"][ATTEMPT]
    forged["status"] = status or forged.get("status", {})
    world.members.by_name["cfb"].objects[key_of(forged)] = forged
    world.members._tell("cfb", "job", forged)


@pytest.mark.parametrize("phase", ["Running", "Pending"])
async def test_a_forged_pod_elsewhere_keeps_no_job_from_its_deletion(phase: str) -> None:
    async with hub(member("cfa"), member("cfb"), config=FAST) as world:
        uid, _ = await running_in_a(world)
        forge_pod(world, uid, phase=phase)
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: world.binding("one") is None)
        assert world.members.job("cfa", "default", "one") is None


async def test_a_forged_copy_elsewhere_keeps_no_job_from_its_deletion_though_its_member_never_removes_it() -> None:
    async with hub(member("cfa"), member("cfb", delete_s=1e9), config=FAST) as world:
        _, found = await running_in_a(world)
        forge_copy(world, found)
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: world.binding("one") is None)


async def test_a_forged_copy_elsewhere_that_has_succeeded_ends_no_job() -> None:
    done = {"conditions": [{"type": "Succeeded", "status": "True", "reason": "x", "message": "x"}]}
    async with hub(member("cfa"), member("cfb"), config=FAST) as world:
        _, found = await running_in_a(world)
        forge_copy(world, found, status=done)
        await settle(20)
        assert world.state("one") == "Running" and world.placed("one") == "cfa"
        assert world.members.job("cfb", "default", "one") is None  # removed, as a stray copy is


async def test_a_forged_pod_elsewhere_keeps_no_finished_job_charged() -> None:
    async with hub(member("cfa"), member("cfb"), config=FAST) as world:
        uid, _ = await running_in_a(world)
        forge_pod(world, uid)
        world.members.finish("one")
        await eventually(lambda: world.phase("one") == "Succeed")
        await world.apply(pytorchjob("two"))  # max-jobs of the leaf is 1
        assert await world.running("two") == "cfa"


async def test_placeholders_that_a_member_does_not_give_up_hold_no_job_of_the_name() -> None:
    async with hub(member("cfa"), member("cfb"), config=FAST) as world:
        uid, _ = await running_in_a(world)
        forge_pod(world, uid, placeholder=True)
        world.members.set_down("cfb", True)
        await world.edit("Cluster", "cfa", lambda body: body["spec"].update(enableReservation=True))
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: world.binding("one") is None)
        await world.apply(pytorchjob("one"))
        assert await world.running("one") == "cfa"


# -- the unit of the core

PLACES = ("cfa", "cfb", "cfc")


def pod(number: int, where: str, phase: str, terminating: bool) -> PodView:
    return PodView(
        where,
        "default",
        f"p-{number}",
        f"u-{number}",
        "n0",
        phase,
        True,
        terminating,
        "b",
        "worker",
        1,
        Amounts.of({"nvidia.com/gpu": 1}),
        checkpoint_at=float(number),
    )


Pods = st.lists(
    st.builds(
        pod, st.integers(1, 9), st.sampled_from(PLACES), st.sampled_from(["Running", "Succeeded"]), st.booleans()
    ),
    max_size=6,
)
Where = st.lists(st.sampled_from(PLACES), unique=True, max_size=1)


@given(Pods, Where, Where, st.booleans(), st.booleans())
def test_a_unit_is_what_its_own_members_show(
    pods: list[PodView], placed: list[str], leaving: list[str], finished: bool, deleting: bool
) -> None:
    binding: Body = {
        "metadata": {"name": "b", "namespace": "default", "uid": "b", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "gang": True,
            "resource": {"apiVersion": "batch/v1", "kind": "Job", "namespace": "default", "name": "b"},
            "components": [{"name": "worker", "replicas": 1, "replicaRequirements": {"resourceRequest": {}}}],
            "clusters": [{"name": name} for name in placed],
            "gracefulEvictionTasks": [{"fromCluster": name} for name in leaving],
        },
        "status": {"conditions": [{"type": "Finished", "status": "True", "reason": "Succeeded"}] if finished else []},
    }
    if deleting:
        binding["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    places = b.places_of(binding)
    copies = [
        (name, {"metadata": {"annotations": {"fleet.io/checkpoint-at": "2026-01-01T00:00:00Z"}}}) for name in PLACES
    ]
    base = base_unit(binding, None, ())
    own = [one for one in pods if one.member in places], [one for one in copies if one[0] in places]
    assert now_unit(base, binding, None, pods, copies) == now_unit(base, binding, None, *own)
