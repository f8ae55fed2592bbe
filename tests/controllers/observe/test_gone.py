"""A copy that is gone from its member: after it ran the job is lost, and before it is sent anew."""

from __future__ import annotations

from fleet.values.ports import Body
from tests.controllers.fakemember import key_of
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}}
DEPLOYMENT: Body = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, **TEMPLATE},
    },
}
RESTARTS = {"application": {"decisionConditions": {"tolerationSeconds": 1}, "purgeMode": "Immediately"}}


def remove(world: World, job: str, *, pods: bool = True) -> None:
    """Somebody in the member deletes the copy, and its pods go with it."""
    [where] = world.members.where(job)
    there, copy = world.members.by_name[where], world.members.job(where, "default", job)
    assert copy is not None
    del there.objects[key_of(copy)]
    if pods:
        there.pods.clear()
    world.members._tell(where, "job", copy)


def sent(world: World, job: str) -> int:
    applies = [body for one in world.members.by_name.values() for body in one.applies]
    return sum(body["metadata"]["name"] == job for body in applies)


async def test_a_job_whose_copy_is_gone_after_it_ran_is_lost_and_not_run_again() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(10), policy(queue=True, failover=None), pytorchjob("one"))
        await world.running("one")
        remove(world, "one")
        await eventually(lambda: world.phase("one") == "Failed")
        job = world.see("PyTorchJob", "one")
        failed = world.condition(job, "Failed")
        assert (failed["status"], failed["reason"]) == ("True", "Lost")
        assert failed["message"] == "its copy is gone from member cfa, where it had run"
        assert world.condition(job, "Running")["status"] == "False"
        assert world.state("one") == "Failed"
        [event] = world.events("one", "Lost")
        assert event["type"] == "Warning" and "gone from member cfa" in event["message"]
        await world.kill()
        world.start()  # as after a restart: nothing is kept in memory
        await settle(120)
        assert (sent(world, "one"), world.attempt("one"), world.state("one")) == (1, 1, "Failed")
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)


async def test_a_policy_with_failover_starts_a_lost_job_anew_as_a_fault_of_the_infrastructure() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(10), policy(queue=True, failover=RESTARTS), pytorchjob("one"))
        await world.running("one")
        remove(world, "one")
        await eventually(lambda: world.attempt("one") == 2, within_s=60)
        await world.running("one")
        binding = world.binding("one") or {}
        assert '"others":1' in binding["metadata"]["annotations"]["fleet.io/failures"]
        assert world.condition(world.see("PyTorchJob", "one"), "Failed") == {}


async def test_a_copy_that_never_ran_is_sent_anew() -> None:
    async with hub(member("cfa", no_pods=True)) as world:
        await world.apply(tree(10), policy(queue=True, failover=None), pytorchjob("one"))
        await eventually(lambda: world.state("one") == "Created")
        remove(world, "one")
        await eventually(lambda: sent(world, "one") == 2)
        assert world.attempt("one") == 1


async def test_a_copy_whose_pods_lie_on_nodes_has_run_whatever_its_status_says() -> None:
    """Its master has a node, and its workers are still to come."""
    async with hub(member("cfa", in_turn_s=20.0)) as world:
        await world.apply(tree(10), policy(queue=True, failover=None), pytorchjob("one"))
        await eventually(lambda: any(pod.node for pod in world.members.by_name["cfa"].pods.values()))
        assert world.state("one") != "Running"
        remove(world, "one", pods=False)
        await eventually(lambda: world.phase("one") == "Failed")
        assert sent(world, "one") == 1


async def test_a_job_of_a_kind_without_an_end_is_put_back() -> None:
    selector = {"apiVersion": "apps/v1", "kind": "Deployment"}
    async with hub(member("cfa")) as world:
        await world.apply(tree(10), policy(queue=True, failover=None, resourceSelectors=[selector]), DEPLOYMENT)
        await eventually(lambda: sent(world, "web") == 1)
        await eventually(lambda: world.condition(world.binding("web", "deployment"), "PodsReady"))
        remove(world, "web")
        await eventually(lambda: sent(world, "web") == 2)


async def test_a_cache_that_shows_nothing_is_no_loss() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(10), policy(queue=True, failover=None), pytorchjob("one"))
        await world.running("one")
        there, copy = world.members.by_name["cfa"], world.members.job("cfa", "default", "one")
        assert copy is not None
        there.frozen = ({}, {})
        world.members._tell("cfa", "job", copy)
        await settle(30)
        assert (sent(world, "one"), world.state("one"), world.phase("one")) == (1, "Running", "Running")
        there.frozen = None
        world.members._tell("cfa", "job", copy)
        await settle(5)
        assert (sent(world, "one"), world.state("one")) == (1, "Running")


async def test_an_object_of_somebody_else_under_the_name_is_not_the_copy() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(10), policy(queue=True, failover=None), pytorchjob("one"))
        await world.running("one")
        copy = world.members.job("cfa", "default", "one")
        assert copy is not None
        world.members.put_foreign("cfa", pytorchjob("one"))
        world.members.by_name["cfa"].pods.clear()
        world.members._tell("cfa", "job", copy)
        await eventually(lambda: world.phase("one") == "Failed")
        assert world.condition(world.see("PyTorchJob", "one"), "Failed")["reason"] == "Lost"


async def test_a_member_that_comes_back_empty_has_lost_what_ran_there() -> None:
    """No change of a copy tells of it: the member is followed anew, and shows nothing."""
    async with hub(member("cfa")) as world:
        await world.apply(tree(10), policy(queue=True, failover=None), pytorchjob("one"))
        await world.running("one")
        world.members.set_down("cfa", True)
        await settle(5)
        there = world.members.by_name["cfa"]
        there.objects.clear()
        there.pods.clear()
        world.members.set_down("cfa", False)
        await eventually(lambda: world.phase("one") == "Failed")
        assert sent(world, "one") == 1
