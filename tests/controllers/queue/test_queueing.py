"""Waiting: in which queue, with which reason, and what moves a job out of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_QUOTA_PARENT
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import hub, member, policy, pytorchjob, tree


def _begins(said: Callable[[], str], text: str) -> bool:
    return said().startswith(text)


async def test_every_node_of_the_tree_has_one_queue_named_after_its_path() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree())
        await eventually(lambda: set(world.queues()) == {"root", "root/child-2"})
        assert world.queues()["root"].startswith("root-")
        assert world.queues()["root/child-2"].startswith("root-child-2-")
        leaf = world.see("Queue", world.queues()["root/child-2"], "kube-queue")
        assert leaf is not None
        assert leaf["metadata"]["annotations"][ANNOTATION_QUOTA_PARENT] == "root"


async def test_a_node_that_stays_keeps_its_queue_and_one_that_goes_loses_it() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(name="child-2"))
        await eventually(lambda: len(world.queues()) == 2)
        root = world.queues()["root"]
        await world.apply(tree(name="Team_B"))
        await eventually(lambda: set(world.queues()) == {"root", "root/Team_B"})
        assert world.queues()["root"] == root
        assert world.queues()["root/Team_B"].startswith("root-team-b-")
        await world.delete("ElasticQuotaTree", "elasticquotatree", "kube-system")
        await eventually(lambda: world.queues() == {})


async def test_a_node_of_which_no_queue_can_be_made_costs_its_own_queue_alone_and_the_tree_says_so() -> None:
    async with hub(member("cfa")) as world:
        whole = tree(max_jobs=9)
        root = whole["spec"]["root"]
        root["children"] = [{"name": "视觉", "namespaces": ["team-b"]}, *root["children"]]
        await world.apply(whole, policy(queue=True), pytorchjob("one"))
        await world.running("one")
        assert set(world.queues()) == {"root", "root/child-2"}
        (event,) = world.events("elasticquotatree", "QueueFailed")
        assert event["message"].startswith("root/视觉 has no Queue: the name of its Queue is made of it")
        await world.edit("ElasticQuotaTree", "elasticquotatree", _renamed, namespace="kube-system")
        await eventually(lambda: "root/vision" in world.queues())


def _renamed(body: Body) -> None:
    body["spec"]["root"]["children"][0]["name"] = "vision"


async def test_a_queue_that_asks_for_round_gets_priority() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree())
        await eventually(lambda: "root/child-2" in world.queues())
        name = world.queues()["root/child-2"]

        def ask_for(policy: str, queue: Body) -> None:
            queue["spec"]["queuePolicy"] = policy

        def policy_of() -> str:
            return str((world.see("Queue", name, "kube-queue") or {})["spec"]["queuePolicy"])

        for asked, kept in (("Round", "Priority"), ("Block", "Block")):
            await world.edit("Queue", name, partial(ask_for, asked), "kube-queue")
            await settle()
            assert policy_of() == kept


async def test_without_a_tree_a_queued_job_waits_for_one_and_starts_when_it_comes() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(queue=True), pytorchjob("one"))
        await eventually(lambda: "there is no quota tree" in world.message("one"))
        assert (world.unit("one") or {})["spec"]["queue"] == ""
        assert (world.unit("one") or {})["status"]["reason"]["code"] == "NoQueue"
        await world.apply(tree())
        assert await world.running("one") == "cfa"


async def test_a_unit_waits_in_the_queue_of_its_namespace_and_moves_with_the_tree() -> None:
    async with hub(member("cfa", no_pods=True)) as world:
        await world.apply(tree(max_jobs=0, name="a"), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: (world.unit("one") or {}).get("spec", {}).get("queue") == world.queues().get("root/a"))
        await world.apply(tree(max_jobs=0, name="b"))
        await eventually(lambda: "root/b" in world.queues())
        await eventually(lambda: (world.unit("one") or {})["spec"]["queue"] == world.queues()["root/b"])


async def test_a_unit_whose_leaf_went_as_it_was_queued_waits_like_one_that_came_later_until_there_is_a_leaf() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0, name="a"), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: "may run no jobs" in world.message("one"))
        await world.apply(tree(max_jobs=1, name="b", namespaces=("team-b",)))  # past the rule that keeps such leaves
        await world.apply(pytorchjob("later"))
        for message in (partial(world.message, "one"), partial(world.message, "later")):
            await eventually(partial(_begins, message, "no leaf of the quota tree has namespace default"))
        assert {(world.unit(name) or {})["spec"]["queue"] for name in ("one", "later")} == {""}
        await world.apply(tree(max_jobs=2, name="a"))
        await world.running("one")
        await world.running("later")


async def test_a_quota_name_label_chooses_the_leaf() -> None:
    async with hub(member("cfa")) as world:
        job = pytorchjob("one")
        job["metadata"]["labels"] = {"quota.scheduling.alibabacloud.com/name": "child-2"}
        await world.apply(tree(namespaces=("team-b",)), policy(queue=True), job)
        assert await world.running("one") == "cfa"


async def test_a_unit_that_somebody_deletes_comes_back_while_its_job_waits() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(queue=True), pytorchjob("one"))
        first = await eventually(lambda: world.unit("one"))
        await world.delete("QueueUnit", "one-pytorchjob-rb-qu")
        await eventually(lambda: (world.unit("one") or first)["metadata"]["uid"] != first["metadata"]["uid"])
        assert world.placed("one") == ""


async def test_max_jobs_raised_lets_the_waiting_job_start() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=1), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await world.apply(pytorchjob("two"))
        await eventually(lambda: "at most 1 job" in world.message("two"))
        await world.apply(tree(max_jobs=2))
        assert await world.running("two") == "cfa"


async def test_max_jobs_lowered_stops_nothing_that_runs() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=2), policy(queue=True), pytorchjob("one"), pytorchjob("two"))
        await world.running("one")
        await world.running("two")
        await world.apply(tree(max_jobs=1))
        await settle()
        assert (world.state("one"), world.state("two")) == ("Running", "Running")


async def test_a_tree_that_is_deleted_stops_nothing_and_lets_nothing_new_start() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await world.delete("ElasticQuotaTree", "elasticquotatree", "kube-system")
        await world.apply(pytorchjob("two"))
        await eventually(lambda: "there is no quota tree" in world.message("two"))
        assert world.state("one") == "Running"
        await world.apply(tree(max_jobs=2))
        await world.running("two")


async def test_what_runs_is_in_a_queue_of_the_tree_that_comes_after_the_one_that_was_deleted() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=2), policy(queue=True), pytorchjob("first", workers=0))
        await world.running("first")
        await world.delete("ElasticQuotaTree", "elasticquotatree", namespace="kube-system")
        await eventually(lambda: not world.queues())
        await world.apply(tree(max_jobs=1), pytorchjob("second", workers=0))
        await eventually(lambda: "already runs 1 of at most 1 job" in world.message("second"))
        leaf = world.queues()["root/child-2"]
        await eventually(lambda: (world.unit("first") or {})["spec"]["queue"] == leaf)
        assert world.phase("first") == "Running"


async def test_the_job_itself_says_why_it_waits() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(queue=True), pytorchjob("one"))
        await eventually(
            lambda: "may run no jobs" in world.condition(world.see("PyTorchJob", "one"), "Queuing").get("message", "")
        )
        condition = world.condition(world.see("PyTorchJob", "one"), "Queuing")
        assert (condition["status"], condition["reason"]) == ("True", "Enqueued")
        (event,) = world.events("one", "ScheduleBindingFailed")
        assert event["type"] == "Warning"
        assert world.condition(world.binding("one"), "Scheduled")["reason"] == "QuotaExceeded"


async def test_binding_and_job_say_the_numbers_of_now_too_a_little_later_than_the_unit() -> None:
    small = tree(max_jobs=10)
    small["spec"]["root"]["children"][0]["max"]["nvidia.com/gpu"] = 12
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(small, policy(queue=True), pytorchjob("one", workers=2, gpus=2))
        await world.running("one")
        await world.apply(pytorchjob("two", workers=1, gpus=4))
        await eventually(lambda: "used 6, max 12; 2 more needed" in world.message("two"))
        small["spec"]["root"]["children"][0]["max"]["nvidia.com/gpu"] = 10
        await world.apply(small)

        def everywhere() -> set[str]:
            queuing = world.condition(world.see("PyTorchJob", "two"), "Queuing")
            scheduled = world.condition(world.binding("two"), "Scheduled")
            return {world.message("two"), str(queuing.get("message")), str(scheduled.get("message"))}

        await eventually(lambda: len(everywhere()) == 1 and "4 more needed" in everywhere().pop(), within_s=20)
        assert len(world.events("two", "ScheduleBindingFailed")) == 1, "the code is the same"


async def test_a_held_unit_waits_until_it_is_released() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: world.unit("one"))
        await world.edit("QueueUnit", "one-pytorchjob-rb-qu", lambda unit: unit["spec"].update(active=False))
        await world.apply(tree(max_jobs=1))
        await eventually(lambda: "held" in world.message("one"))
        await world.edit("QueueUnit", "one-pytorchjob-rb-qu", lambda unit: unit["spec"].update(active=True))
        await world.running("one")


async def test_higher_priority_starts_first_whatever_came_first() -> None:
    async with hub(member("cfa")) as world:
        urgent = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        }
        await world.apply(urgent, tree(max_jobs=1), policy(queue=True), pytorchjob("first"))
        await world.running("first")
        await world.apply(pytorchjob("calm"))
        await eventually(lambda: world.unit("calm"))
        await world.apply(pytorchjob("hasty", priorityClassName="urgent"))
        await eventually(lambda: (world.unit("hasty") or {}).get("spec", {}).get("priority") == 1000)
        world.members.finish("first")
        await world.running("hasty")
        assert world.placed("calm") == ""


async def test_a_priority_class_that_changes_changes_those_that_wait() -> None:
    async with hub(member("cfa")) as world:
        klass = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "p"}, "value": 1}
        await world.apply(klass, tree(max_jobs=0), policy(queue=True), pytorchjob("one", priorityClassName="p"))
        await eventually(lambda: (world.unit("one") or {}).get("spec", {}).get("priority") == 1)
        await world.delete("PriorityClass", "p")
        await world.apply({**klass, "value": 7})
        await eventually(lambda: (world.unit("one") or {})["spec"]["priority"] == 7)


async def test_a_job_edited_while_it_waits_is_read_again() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=0), policy(queue=True), pytorchjob("one", workers=2))
        await eventually(
            lambda: (world.unit("one") or {}).get("spec", {}).get("resource", {}).get("nvidia.com/gpu") == "3"
        )
        await world.apply(pytorchjob("one", workers=4))
        await eventually(lambda: (world.unit("one") or {})["spec"]["resource"]["nvidia.com/gpu"] == "5")
        assert [c["replicas"] for c in (world.binding("one") or {})["spec"]["components"]] == [1, 4]
