"""A job that is over while pods of it still run: the decider, its unit and the API have one charge for it."""

from __future__ import annotations

from dataclasses import replace

from fleet.controllers.decide.snapshot import SnapshotBuilder
from fleet.rest.standing import StoredJob, charged, charged_amounts, reason_of, state_of
from fleet.values.ports import Body
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

GPU = "nvidia.com/gpu"


def decided(world: World, job: str) -> int:
    """GPUs that the decider charges."""
    units = SnapshotBuilder(world.store, world.members).build().snapshot.units.values()
    return sum(part.replicas * part.requests[GPU] for u in units if u.name == f"default/{job}" for part in u.components)


def told(world: World, job: str) -> int:
    """GPUs that the API tells."""
    binding, unit = world.binding(job) or {}, world.unit(job) or {}
    return charged_amounts(unit).get(GPU, 0) if charged(binding, unit) else 0


def stands(world: World, job: str) -> StoredJob:
    kind = next(k for k in world.registry if k.kind == "PyTorchJob")
    return StoredJob(kind, world.see("PyTorchJob", job) or {}, world.binding(job), world.unit(job))


def end(world: World, job: str, outcome: str, *, left: str) -> str:
    """The job is over, and one component of it runs on. Returns the uid of a pod that is left."""
    cfa = world.members.by_name["cfa"]
    world.members.finish(job, outcome)
    cfa.pods |= {uid: replace(p, phase="Running") for uid, p in cfa.pods.items() if p.component == left}
    [uid] = [uid for uid, p in cfa.pods.items() if p.component == left]
    return uid


def drop(world: World, uid: str, job: Body) -> None:
    world.members.by_name["cfa"].pods.pop(uid)
    world.members._tell("cfa", "pod", job)


async def test_the_pods_that_a_failed_job_has_left_are_its_whole_charge() -> None:
    async with hub(member("cfa", gpus=8)) as world:
        await world.apply(tree(10), policy(queue=True, failover=None), pytorchjob("one", workers=1, gpus=8))
        await world.running("one")
        assert (decided(world, "one"), told(world, "one")) == (16, 16)
        left = end(world, "one", "Failed", left="master")
        await eventually(lambda: world.phase("one") == "Failed")
        assert (decided(world, "one"), told(world, "one")) == (8, 8)
        reason = reason_of(stands(world, "one"), state_of(stands(world, "one"))) or {}
        assert reason["code"] == "JobFailed"
        assert "its pods still run in cfa, and are charged:" in reason["text"] and f"8 {GPU}" in reason["text"]
        drop(world, left, world.members.job("cfa", "default", "one") or {})
        await eventually(lambda: told(world, "one") == 0)
        assert decided(world, "one") == 0


async def test_the_charge_follows_the_pods_of_a_job_whose_copy_is_cleaned_away() -> None:
    async with hub(member("cfa", gpus=8)) as world:
        await world.apply(tree(10), policy(queue=True), pytorchjob("one", workers=1, gpus=4))
        await world.running("one")
        left = end(world, "one", "Succeeded", left="worker")
        await eventually(lambda: told(world, "one") == 4)
        assert (reason_of(stands(world, "one"), state_of(stands(world, "one"))) or {})["code"] == "PodsRemain"
        cfa, copy = world.members.by_name["cfa"], world.members.job("cfa", "default", "one") or {}
        cfa.objects.clear()
        world.members._tell("cfa", "job", copy)
        await settle(3)
        assert (decided(world, "one"), told(world, "one")) == (4, 4)
        drop(world, left, copy)
        await eventually(lambda: told(world, "one") == 0)
        assert decided(world, "one") == 0
        assert reason_of(stands(world, "one"), state_of(stands(world, "one"))) is None


async def test_the_room_that_ended_pods_leave_is_given_to_the_next_job() -> None:
    """Half of a job is over and half of it runs on: the other half of its quota is free."""
    async with hub(member("cfa", gpus=8)) as world:
        await world.apply(tree(10), policy(queue=True, failover=None), pytorchjob("one", workers=1, gpus=8))
        await world.running("one")
        end(world, "one", "Failed", left="master")
        await world.apply(pytorchjob("two", workers=0, gpus=8))
        await world.running("two")


async def test_a_job_that_is_over_with_all_its_pods_charges_nothing() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(tree(10), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        world.members.finish("one")
        await eventually(lambda: world.phase("one") == "Succeed")
        await settle(3)
        assert (decided(world, "one"), told(world, "one")) == (0, 0)
        assert "charged" not in (world.unit("one") or {})["status"]
