"""A job that is deleted with --cascade=orphan: its copy runs on, is named, and ends or is taken over."""

from __future__ import annotations

from fleet.bindings.ownerless import is_ownerless
from fleet.values.ports import Body
from tests.controllers.fastloop import eventually, settle
from tests.controllers.history.expiry import finishing
from tests.controllers.world import ALICE, World, hub, member, policy, pytorchjob, tree


async def orphan(world: World, name: str) -> None:
    kind = next(k for k in world.registry if k.kind == "PyTorchJob")
    await world.objects.delete(kind, "default", name, ALICE, {"propagationPolicy": "Orphan"})
    await eventually(lambda: world.see("PyTorchJob", name) is None)


def binding(world: World, name: str) -> Body:
    return world.binding(name) or {"metadata": {}}


async def test_the_copy_of_an_orphaned_job_runs_on_and_its_binding_says_so() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(10), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await orphan(world, "one")
        await eventually(lambda: is_ownerless(binding(world, "one")))
        await world.kill()
        world.start()
        await settle(30)
        assert (world.members.where("one"), world.phase("one")) == (["cfa"], "Running")
        kind = next(k for k in world.registry if k.kind == "ResourceBinding")
        await world.objects.delete(kind, "default", "one-pytorchjob", ALICE)
        await eventually(world.nothing_left)


async def test_a_job_that_waits_leaves_nothing_when_it_is_orphaned() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(0), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: world.phase("one") == "Enqueued")
        await orphan(world, "one")
        await eventually(world.nothing_left)


async def test_an_ownerless_copy_that_leaves_its_member_does_not_come_back() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(10), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await orphan(world, "one")
        await eventually(lambda: is_ownerless(binding(world, "one")))
        taint = {"key": "maintenance", "effect": "NoExecute"}
        await world.edit("Cluster", "cfa", lambda c: c["spec"].update(taints=[taint]))
        await eventually(world.nothing_left, within_s=60)


async def test_a_new_job_of_the_name_says_what_is_in_its_way_and_takes_it_over_when_it_asks_for_that() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(10), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        uid, pods = binding(world, "one")["metadata"]["uid"], set(world.members.by_name["cfa"].pods)
        await orphan(world, "one")
        await world.apply(pytorchjob("one"))
        pending = await eventually(lambda: world.condition(world.see("PyTorchJob", "one"), "Pending"))
        assert pending["reason"] == "NameTaken"
        assert "kubectl annotate pytorchjob.kubeflow.org one -n default fleet.io/takes-over=true" in pending["message"]
        assert "kubectl delete rb one-pytorchjob -n default" in pending["message"]
        [event] = world.events("one", "NameTaken")
        assert event["message"] == pending["message"]
        await world.edit(
            "PyTorchJob",
            "one",
            lambda job: job["metadata"].setdefault("annotations", {}).update({"fleet.io/takes-over": "true"}),
        )
        assert await world.running("one") == "cfa"
        now = binding(world, "one")["metadata"]
        assert (now["uid"], is_ownerless({"metadata": now})) == (uid, False)
        assert set(world.members.by_name["cfa"].pods) == pods, "its pods run on"
        assert world.condition(world.see("PyTorchJob", "one"), "Pending") == {}
        await world.delete("PyTorchJob", "one")
        await eventually(world.nothing_left)


async def test_an_ownerless_copy_is_followed_to_its_end_and_then_frees_its_name() -> None:
    async with finishing() as (world, _):
        await world.apply(tree(10), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await orphan(world, "one")
        await eventually(lambda: is_ownerless(binding(world, "one")))
        world.members.finish("one")
        await eventually(world.nothing_left, within_s=60)
        await world.apply(pytorchjob("one"))
        await world.running("one")


async def test_a_job_whose_deletion_takes_its_binding_along_waits_for_it_in_silence() -> None:
    """The usual deletion: the next job of the name starts when the copy of the first has left."""
    async with hub(member("cfa", delete_s=3.0)) as world:
        await world.apply(tree(10), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        await world.delete("PyTorchJob", "one")
        await world.apply(pytorchjob("one"))
        await eventually(lambda: world.attempt("one") == 1 and world.state("one") == "Running", within_s=60)
        assert not world.events("one", "NameTaken")
