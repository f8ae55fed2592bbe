"""Taking back over a hub: who is evicted for whom and how, what happens to the room, and what a new leader knows."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from fleet.controllers.decide.commit import PlanCommitter
from fleet.controllers.decide.snapshot import SnapshotBuilder
from fleet.controllers.fields.evict import evict
from fleet.controllers.runtime.events import EventRecorder
from fleet.core.decide import decide
from fleet.core.model.leaving import vacated
from fleet.core.model.unit import Phase
from fleet.core.snapshot import Config
from fleet.values.times import rfc3339
from fleet.wellknown import ANNOTATION_CHECKPOINT, ANNOTATION_ENQUEUED
from tests.controllers.decide.reclaims import QUICK, borrowed, job, leaving
from tests.controllers.fastloop import EPOCH, eventually, settle
from tests.controllers.world import World, hub, member


def enqueued(world: World, name: str) -> str:
    binding = world.binding(name)
    assert binding is not None
    return str(binding["metadata"]["annotations"][ANNOTATION_ENQUEUED])


def claim(world: World, name: str) -> dict[str, Any]:
    return dict(((world.unit(name) or {}).get("status") or {}).get("claim") or {})


async def test_what_was_borrowed_leaves_whole_and_its_room_is_kept_for_the_owner() -> None:
    slow = [member(name, delete_s=2.0) for name in ("cfa", "cfb")]
    async with hub(*slow, config=QUICK) as world:
        await borrowed(world, "a1", "a2")
        queued = {name: enqueued(world, name) for name in ("a1", "a2")}
        await world.apply(job("owner", "b"))
        await settle(20)
        assert not leaving(world), "both are protected still"
        await eventually(lambda: leaving(world), within_s=20)
        (victim,) = [name for name in ("a1", "a2") if f"{name}-pytorchjob" in leaving(world)]
        stays = {"a1": "a2", "a2": "a1"}[victim]
        kept = claim(world, "owner")
        assert kept["room"]["nvidia.com/gpu"] == "16"
        await eventually(lambda: "room is reserved for it until" in world.message("owner"))
        await world.apply(*(job(f"small-{number}", "a", gpus=1, workers=0) for number in range(8)))
        assert await world.running("owner") == kept["member"]
        assert not claim(world, "owner")
        assert not any(world.placed(f"small-{number}") for number in range(8))
        assert world.state(stays) == "Running"
        text = "makes room for default/owner, which is within its guarantee"
        assert text in world.events(victim, "EvictWorkloadFromClusterSucceed")[0]["message"]
        evicted = world.condition(world.unit(victim), "Evicted")
        assert (evicted["status"], evicted["reason"], evicted["message"]) == ("True", "Preempted", text)
        assert world.phase(victim) == "Enqueued"
        world.members.finish("owner")
        world.members.finish(stays)
        await world.running(victim)
        assert enqueued(world, victim) == queued[victim]
        for number in range(8):
            await world.running(f"small-{number}")


async def test_a_gang_larger_than_its_share_takes_back_once_it_is_a_head_though_nothing_happens() -> None:
    """Three leaves want the 32 GPUs, so each has a share of less than 16. Leaf a uses them all."""
    async with hub(member("cfa"), member("cfb"), config=replace(QUICK, head_after_s=100.0)) as world:
        await borrowed(world, "a1", "a2", owned=0)
        await world.apply(job("large", "b"), job("other", "c"))
        await settle(95)
        assert not leaving(world)
        await eventually(lambda: world.state("large") == "Running", within_s=15)
        texts = {e["message"] for name in ("a1", "a2") for e in world.events(name, "EvictWorkloadFromClusterSucceed")}
        why = "makes room for default/large, which is the first of a queue below its fair share"
        assert any(text.endswith(why) for text in texts)


async def test_evictions_that_no_claim_needs_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """One gang leaves, and let it be measured as needless."""
    monkeypatch.setattr("fleet.controllers.decide.loop.needless", lambda world, plan, *, now: plan.evictions)
    async with hub(member("cfa"), member("cfb"), config=QUICK) as world:
        counted = partial(world.hub.metrics.registry.get_sample_value, "fleet_decider_needless_evictions_total")
        await borrowed(world, "a1", "a2")
        assert counted() == 0
        await world.apply(job("owner", "b"))
        await eventually(lambda: counted() == 1, within_s=60)


async def test_a_new_leader_keeps_the_room_that_the_one_before_it_claimed() -> None:
    slow = [member(name, delete_s=5.0) for name in ("cfa", "cfb")]
    async with hub(*slow, config=QUICK) as world:
        await borrowed(world, "a1", "a2")
        await world.apply(job("owner", "b"))
        await eventually(lambda: leaving(world), within_s=60)
        kept = claim(world, "owner")
        await world.kill()
        await world.apply(*(job(f"small-{number}", "a", gpus=1, workers=0) for number in range(4)))
        world.start()
        assert await world.running("owner") == kept["member"]
        assert len(world.events("owner", "ScheduleBindingSucceed")) == 1
        assert not any(world.placed(f"small-{number}") for number in range(4))
        assert sorted(world.state(name) for name in ("a1", "a2")) == ["Queuing", "Running"]


async def test_without_reclaim_nobody_is_evicted() -> None:
    async with hub(member("cfa"), member("cfb"), config=replace(QUICK, reclaim=False)) as world:
        await borrowed(world, "a1", "a2")
        await world.apply(job("owner", "b"))
        await settle(400)
        assert (world.state("a1"), world.state("a2"), world.placed("owner")) == ("Running", "Running", "")
        assert "16 more needed" in world.message("owner")


async def test_the_gang_that_saved_its_work_last_is_the_one_that_leaves() -> None:
    async with hub(member("cfa"), member("cfb"), config=QUICK) as world:
        await borrowed(world, "a1", owned=32)
        await settle(10)
        await borrowed(world, "c1", owned=32)  # younger: it would lose less
        saved = {ANNOTATION_CHECKPOINT: rfc3339(EPOCH + 35)}
        await world.edit("PyTorchJob", "a1", lambda body: body["metadata"].setdefault("annotations", {}).update(saved))
        await eventually(
            lambda: ANNOTATION_CHECKPOINT in (world.binding("a1") or {})["metadata"].get("annotations", {})
        )
        await settle(40)
        await world.apply(job("owner", "b"))
        await world.running("owner")
        assert (world.state("a1"), world.state("c1")) == ("Queuing", "Running")


async def test_a_claim_that_is_not_used_in_time_is_given_up() -> None:
    slow = [member(name, delete_s=5.0) for name in ("cfa", "cfb")]
    async with hub(*slow, config=QUICK) as world:
        await borrowed(world, "a1", "a2")
        await world.apply(job("owner", "b"))
        await eventually(lambda: claim(world, "owner"), within_s=60)
        await world.edit("QueueUnit", "owner-pytorchjob-rb-qu", lambda unit: unit["spec"].update(active=False))
        await settle(100)
        assert claim(world, "owner")
        await eventually(lambda: not claim(world, "owner"), within_s=30)


async def test_evicting_waits_until_every_member_that_is_said_to_be_ready_answers() -> None:
    async with hub(member("cfa"), member("cfb"), member("cfc"), config=QUICK) as world:
        await borrowed(world, "a1", "a2", "a3")
        lost = next(name for name in ("a1", "a2", "a3") if world.placed(name) == "cfc")

        def say(ready: str) -> Any:
            condition = {"type": "Ready", "status": ready, "reason": "Test", "message": ""}
            return lambda body: body.setdefault("status", {}).update(conditions=[condition]) or True

        key = next(s.key for s in world.store.scan("cluster.karmada.io", "clusters") if s.key.name == "cfc")
        world.members.set_down("cfc", True)
        await world.hub.edit(key, say("True"))
        await world.apply(job("owner", "b"))
        await settle(200)
        assert not leaving(world)
        await world.hub.edit(key, say("False"))
        await world.running("owner")
        assert world.placed(lost) == "cfc", "what cannot be reached is not asked to leave"


async def planned(world: World) -> tuple[Any, Any, PlanCommitter]:
    """A picture in which the owner waits, with nobody at work any more, and the plan for it."""
    await borrowed(world, "a1", "a2")
    await world.apply(job("owner", "b"))
    await eventually(lambda: world.message("owner"))
    await world.kill()
    picture = SnapshotBuilder(world.store, world.members, Config(reclaim=True, protection_s=0.0)).build()
    plan = decide(picture.snapshot, now=world.clock.now(), seed=1, solver=None)
    assert len(plan.evictions) == len(plan.claims) == 1
    return picture, plan, PlanCommitter(world.hub, EventRecorder(world.hub))


async def test_claim_and_evictions_are_one_commit() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        picture, plan, committer = await planned(world)
        assert await committer.take_back(picture, plan) == {plan.claims[0].unit}
        assert claim(world, "owner")["member"] == plan.claims[0].member
        assert len(leaving(world)) == 1
        again = SnapshotBuilder(world.store, world.members, Config(reclaim=True, protection_s=0.0)).build()
        found = decide(again.snapshot, now=world.clock.now(), seed=1, solver=None)
        assert (found.placements, found.evictions, found.claims) == ((), (), ())
        assert [u.claim.member for u in again.snapshot.units.values() if u.claim] == [plan.claims[0].member]


async def test_a_victim_that_ended_meanwhile_takes_claim_and_evictions_out() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        picture, plan, committer = await planned(world)
        victim = picture.sources[plan.evictions[0].unit].binding
        name = victim.key.name.removesuffix("-pytorchjob")
        world.start()
        world.members.finish(name)
        await eventually(lambda: world.phase(name) == "Succeed")
        await world.kill()
        world.members.by_name[plan.claims[0].member].pods.clear()
        before = await world.store.revision()
        assert not await committer.take_back(picture, plan)
        assert await world.store.revision() == before
        assert not leaving(world)


async def test_a_victim_or_an_owner_that_changed_takes_claim_and_evictions_out() -> None:
    for changed in ("victim", "owner"):
        async with hub(member("cfa"), member("cfb")) as world:
            picture, plan, committer = await planned(world)
            key = plan.evictions[0].unit if changed == "victim" else plan.claims[0].unit
            unit = picture.sources[key].unit
            await world.edit("QueueUnit", unit.key.name, lambda body: body["spec"].update(priority=7))
            assert not await committer.take_back(picture, plan)
            assert not leaving(world)
            assert not claim(world, "owner")


async def test_units_carry_seats_that_say_what_their_nodes_have_without_them() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        builder = SnapshotBuilder(world.store, world.members)
        await borrowed(world, "a1", "a2")
        snapshot = builder.build().snapshot
        for unit in snapshot.units.values():
            assert unit.phase is Phase.PLACED
            assert sorted(seat.node for seat in unit.seats) == ["n0", "n1"]
            for seat in unit.seats:
                assert seat.free["nvidia.com/gpu"] == 0
                assert seat.free.plus(seat.holds) == world.members.by_name[unit.member or ""].nodes[seat.node]
        again = builder.build().snapshot
        assert [again.units[key] for key in snapshot.units] == list(snapshot.units.values())


async def test_a_gang_of_which_nothing_is_left_in_its_member_frees_no_room_there() -> None:
    """Until its binding says so, too, it is leaving; its nodes count as free already, and would count twice."""

    def free_without_it() -> int:
        snapshot = SnapshotBuilder(world.store, world.members).build().snapshot
        (unit,) = snapshot.units.values()
        assert unit.phase is Phase.EVICTING
        pools = vacated(snapshot.members["cfa"], [unit]).pools
        return sum(amounts["nvidia.com/gpu"] * nodes for pool in pools for amounts, nodes in pool.free)

    async with hub(member("cfa")) as world:
        await borrowed(world, "a1")
        await world.kill()
        now, there = world.clock.now(), world.members.by_name["cfa"]
        leave = partial(evict, now=now, reason="Test", message="")
        await world.edit("ResourceBinding", "a1-pytorchjob", leave)
        assert free_without_it() == 16
        there.objects.clear()
        there.pods.clear()
        assert free_without_it() == 16


async def test_a_job_that_moves_to_another_queue_leaves_the_room_that_it_claimed_to_others() -> None:
    slow = [member(name, delete_s=5.0) for name in ("cfa", "cfb")]
    async with hub(*slow, config=QUICK) as world:
        await borrowed(world, "a1", "a2")
        await world.apply(job("owner", "b"))
        await eventually(lambda: claim(world, "owner"), within_s=60)
        await world.apply(job("owner", "a"))
        await eventually(lambda: not claim(world, "owner"), within_s=3)
        await world.running("a1")
        await world.running("a2")
        assert not world.placed("owner")
