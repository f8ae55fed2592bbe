"""Objects that stay in a member on purpose, are not sent there on purpose, or do not leave although they should."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fleet.values.ports import Key
from fleet.wellknown import ANNOTATION_FORCE_DELETE
from tests.controllers.dispatch.configmaps import configmap, with_config
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

OURS = ("fleet.io/hub", "fleet.io/binding", "fleet.io/attempt")


async def test_what_its_policy_preserves_stays_in_the_member_and_is_nobodys() -> None:
    async with hub(member("cfa")) as world:
        keeping = policy(preserveResourcesOnDeletion=True)
        await world.apply(configmap("settings", depth="3"), keeping, with_config("one", "settings"))
        await world.running("one")
        await world.delete("PyTorchJob", "one")
        await eventually(lambda: world.binding("one") is None)
        await settle(120)  # the search for orphans leaves it, too
        copy = world.members.job("cfa", "default", "one")
        assert copy is not None and "deletionTimestamp" not in copy["metadata"]
        assert not set(OURS) & set(copy["metadata"]["labels"])
        config = world.members.by_name["cfa"].objects[Key("", "configmaps", "default", "settings")]
        assert not set(OURS) & set(config["metadata"]["labels"])
        assert world.members.owned("cfa") == []


async def test_a_binding_that_somebody_deletes_preserves_nothing() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(preserveResourcesOnDeletion=True), pytorchjob("one"))
        await world.running("one")
        first = (world.binding("one") or {})["metadata"]["uid"]
        await world.delete("ResourceBinding", "one-pytorchjob")
        await eventually(lambda: (world.binding("one") or {"metadata": {"uid": first}})["metadata"]["uid"] != first)
        assert await world.running("one") == "cfa"


async def test_preserving_waits_for_a_member_that_is_away() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(preserveResourcesOnDeletion=True), pytorchjob("one"))
        await world.running("one")
        world.members.set_down("cfa", True)
        await world.delete("PyTorchJob", "one")
        await settle(20)
        assert world.binding("one") is not None
        world.members.set_down("cfa", False)
        await eventually(lambda: world.binding("one") is None)
        assert world.members.where("one") == ["cfa"]


async def test_nothing_is_sent_to_a_member_that_the_policy_suspends_until_it_no_longer_does() -> None:
    async with hub(member("cfa")) as world:
        held = {"dispatchingOnClusters": {"clusterNames": ["cfa"]}}
        await world.apply(policy(suspension=held), pytorchjob("one"))
        await eventually(
            lambda: world.condition(world.binding("one"), "FullyApplied").get("reason") == "DispatchingSuspended"
        )
        await settle(90)
        assert (world.members.where("one"), world.placed("one"), world.attempt("one")) == ([], "cfa", 1)
        await world.apply(policy())
        assert await world.running("one") == "cfa"


async def test_suspending_another_member_is_no_matter() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(suspension={"dispatchingOnClusters": {"clusterNames": ["cfb"]}}), pytorchjob("one"))
        assert await world.running("one") == "cfa"


async def test_what_runs_goes_on_while_dispatching_is_suspended() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        await world.apply(policy(suspension={"dispatching": True}))
        await settle()
        assert world.condition(world.binding("one"), "FullyApplied")["status"] == "True"
        assert world.state("one") == "Running"


async def _evicted_with_stuck_pods(world: World) -> None:
    where = await world.running("one")
    world.members.by_name[where].stuck = True  # the node of its pods died
    world.members.finish("one", "Failed", reason="NodeLost")
    for pod in list(world.members.by_name[where].pods.values()):
        world.members.by_name[where].pods[pod.uid] = replace(pod, phase="Running")
    await eventually(lambda: world.placed("one") == "", within_s=60)


async def test_pods_that_do_not_go_are_named_after_a_bound_and_keep_their_job_waiting() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await _evicted_with_stuck_pods(world)
        await eventually(lambda: world.condition(world.binding("one"), "Withdrawn"), within_s=400)
        told = world.condition(world.binding("one"), "Withdrawn")
        assert (told["status"], told["reason"]) == ("False", "PodsTerminating")
        assert "one-master-0 on node n0" in told["message"]
        assert "one-master-0" in world.message("one")
        assert world.events("one", "EvictWorkloadFromClusterFailed")
        await settle(600)
        assert world.placed("one") == ""


async def test_pods_that_do_not_go_are_deleted_by_force_where_the_policy_accepts_it() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        accepting = policy(queue=True)
        accepting["metadata"]["annotations"] = {ANNOTATION_FORCE_DELETE: "60"}
        await world.apply(tree(), accepting, pytorchjob("one"))
        await _evicted_with_stuck_pods(world)
        began = world.clock.now()
        await eventually(lambda: world.placed("one"), within_s=120)
        assert world.clock.now() - began >= 55
        assert world.events("one", "PodForceDeleted")
        assert world.condition(world.binding("one"), "Withdrawn") == {}


def _annotated(job: dict[str, Any], **annotations: str) -> dict[str, Any]:
    job["metadata"]["annotations"] = annotations
    return job


async def test_force_is_nothing_to_guess() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(
            tree(), policy(queue=True), _annotated(pytorchjob("one"), **{ANNOTATION_FORCE_DELETE: "soon"})
        )
        await _evicted_with_stuck_pods(world)
        await settle(400)
        assert world.members.by_name["cfa"].pods
