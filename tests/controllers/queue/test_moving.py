"""Jobs that wait move to another queue or get another priority; jobs that hold quota stay where they are charged."""

from __future__ import annotations

from typing import Any

import pytest

from api.engine.status import StatusError
from fleet.admission import rules
from fleet.values.ports import Body
from fleet.wellknown import QUOTA, QUOTA_NAME_LABELS, TREE_NAMESPACE
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob

UNIT = "one-pytorchjob-rb-qu"


def leaves(**max_jobs: int) -> Body:
    children = [
        {"name": name, "max": {"kube-queue/max-jobs": jobs}, "namespaces": ["default"] if name == "a" else []}
        for name, jobs in max_jobs.items()
    ]
    return {
        "apiVersion": f"{QUOTA}/v1beta1",
        "kind": "ElasticQuotaTree",
        "metadata": {"name": "elasticquotatree", "namespace": TREE_NAMESPACE},
        "spec": {"root": {"name": "root", "children": children}},
    }


def labelled(name: str, value: str | None) -> Any:
    def change(job: Body) -> None:
        job["metadata"]["labels"] = {} if value is None else {name: value}

    return change


def priority_class(name: str, value: int) -> Body:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def queue_of(world: World, job: str = "one") -> str:
    return str(((world.unit(job) or {}).get("spec") or {}).get("queue"))


@pytest.mark.parametrize("label", QUOTA_NAME_LABELS)
async def test_a_waiting_job_moves_to_the_queue_that_its_label_names_and_keeps_its_enqueue_time(label: str) -> None:
    async with hub(member("cfa")) as world:
        await world.apply(leaves(a=0, b=0), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: "root/a may run no jobs" in world.message("one"))
        since = (world.binding("one") or {})["metadata"]["annotations"]["fleet.io/enqueued-at"]
        uid = (world.unit("one") or {})["metadata"]["uid"]
        await settle(5)
        await world.edit("PyTorchJob", "one", labelled(label, "b"))
        await eventually(lambda: queue_of(world) == world.queues()["root/b"])
        await eventually(lambda: "root/b may run no jobs" in world.message("one"))
        assert (world.binding("one") or {})["metadata"]["annotations"]["fleet.io/enqueued-at"] == since
        assert (world.unit("one") or {})["metadata"]["uid"] == uid
        await world.edit("PyTorchJob", "one", labelled(label, None))
        await eventually(lambda: queue_of(world) == world.queues()["root/a"])


async def test_a_job_moved_to_a_queue_with_room_starts() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(leaves(a=0, b=1), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: "may run no jobs" in world.message("one"))
        await world.edit("PyTorchJob", "one", labelled(QUOTA_NAME_LABELS[0], "b"))
        assert await world.running("one") == "cfa"


async def test_the_older_of_two_jobs_goes_first_in_the_queue_it_moved_to() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(leaves(a=0, b=0), policy(queue=True), pytorchjob("old"))
        await eventually(lambda: world.unit("old"))
        await settle(5)
        young = pytorchjob("young")
        labelled(QUOTA_NAME_LABELS[0], "b")(young)
        await world.apply(young)
        await eventually(lambda: world.unit("young"))
        await world.edit("PyTorchJob", "old", labelled(QUOTA_NAME_LABELS[0], "b"))
        await eventually(lambda: queue_of(world, "old") == world.queues()["root/b"])
        await world.apply(leaves(a=0, b=1))
        await world.running("old")
        assert world.placed("young") == ""


async def test_a_job_that_left_its_queue_cannot_be_moved_and_says_why() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        await world.apply(leaves(a=1, b=1), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        for label in (QUOTA_NAME_LABELS[0], "quota.scheduling.alibabacloud.com/preemptible"):
            with pytest.raises(StatusError) as refusal:
                await world.edit("PyTorchJob", "one", labelled(label, "false"))
            assert refusal.value.causes[0].field == f"metadata.labels[{label}]"
            assert "suspend it" in refusal.value.message
        world.members.finish("one")
        await eventually(lambda: world.phase("one") == "Succeed")
        await world.edit("PyTorchJob", "one", labelled(QUOTA_NAME_LABELS[0], "b"))


async def test_a_label_changed_behind_the_hubs_back_moves_the_charge_only_when_the_job_waits_again() -> None:
    async with hub(member("cfa", delete_s=2.0)) as world:
        await world.apply(leaves(a=1, b=1), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await world.edit("PyTorchJob", "one", labelled(QUOTA_NAME_LABELS[0], "b"))
        await world.apply(pytorchjob("two"))
        await eventually(lambda: "root/a already runs 1" in world.message("two"))
        assert queue_of(world) == world.queues()["root/a"]
        await world.edit("PyTorchJob", "one", lambda job: job["spec"].update(runPolicy={"suspend": True}))
        await eventually(lambda: queue_of(world) == world.queues()["root/b"])
        await world.running("two")
        await world.edit("PyTorchJob", "one", lambda job: job["spec"].update(runPolicy={"suspend": False}))
        await world.running("one")


async def test_the_queue_of_a_unit_is_changed_by_the_jobs_label_alone() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        await world.apply(leaves(a=0, b=1), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: world.unit("one"))
        with pytest.raises(StatusError, match=QUOTA_NAME_LABELS[0]):
            await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].update(queue=world.queues()["root/b"]))


async def test_a_priority_class_chosen_for_a_waiting_unit_gives_it_its_priority_until_a_person_gives_another() -> None:
    async with hub(member("cfa")) as world:
        world.objects.rules.update(rules())
        await world.apply(priority_class("calm", 1), priority_class("urgent", 900), leaves(a=0), policy(queue=True))
        await world.apply(pytorchjob("one", priorityClassName="calm"))
        await eventually(lambda: (world.unit("one") or {}).get("spec", {}).get("priority") == 1)
        await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].update(priorityClassName="urgent"))
        await eventually(lambda: (world.unit("one") or {})["spec"]["priority"] == 900)
        await world.delete("PriorityClass", "urgent")
        await world.apply(priority_class("urgent", 950))
        await eventually(lambda: (world.unit("one") or {})["spec"]["priority"] == 950)
        await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].update(priority=5))
        await world.edit("PyTorchJob", "one", lambda job: job["metadata"].update(labels={"seen": "again"}))
        await settle()
        assert (world.unit("one") or {})["spec"]["priority"] == 5
        with pytest.raises(StatusError, match="there is no PriorityClass"):
            await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].update(priorityClassName="nothing"))


async def test_a_unit_whose_class_is_taken_off_follows_its_job_again() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(priority_class("calm", 1), priority_class("urgent", 900), leaves(a=0), policy(queue=True))
        await world.apply(pytorchjob("one", priorityClassName="calm"))
        await eventually(lambda: world.unit("one"))
        await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].update(priorityClassName="urgent"))
        await eventually(lambda: (world.unit("one") or {})["spec"]["priority"] == 900)
        await world.edit("QueueUnit", UNIT, lambda unit: unit["spec"].pop("priorityClassName"))
        await eventually(lambda: (world.unit("one") or {})["spec"]["priority"] == 1)
        assert (world.unit("one") or {})["spec"]["priorityClassName"] == "calm"


async def test_a_job_whose_own_class_goes_leaves_none_on_its_unit() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(priority_class("calm", 1), leaves(a=0), policy(queue=True))
        await world.apply(pytorchjob("one", priorityClassName="calm"))
        await eventually(lambda: (world.unit("one") or {}).get("spec", {}).get("priority") == 1)
        await world.apply(pytorchjob("one"))
        await eventually(lambda: (world.unit("one") or {})["spec"]["priority"] == 0)
        assert not (world.unit("one") or {})["spec"].get("priorityClassName")
