"""Heads over a hub: who has waited long has room collected for it, a new leader knows, and small jobs wait for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fleet.controllers.runtime.hub import ControllerConfig
from fleet.values.ports import Body
from tests.controllers.decide.reclaims import job, leaves
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob

SOON = ControllerConfig(reclaim=False, head_after_s=30.0)


def head(world: World, name: str) -> dict[str, Any]:
    return dict(((world.unit(name) or {}).get("status") or {}).get("head") or {})


async def test_a_gang_that_waited_long_gets_its_room_though_small_jobs_keep_coming_and_leaders_change() -> None:
    async with hub(member("cfa"), config=SOON) as world:
        half = [job(f"half-{number}", "a", workers=0) for number in range(2)]
        await world.apply(leaves(32, a=0, b=0, c=0), policy(queue=True), *half)
        for number in range(2):
            await world.running(f"half-{number}")
        await world.apply(job("large", "b"))
        await settle(20)
        assert head(world, "large") == {}
        found = await eventually(lambda: head(world, "large"), within_s=30)
        assert (found["member"], found["certain"]) == ("cfa", False)
        await eventually(lambda: "room in member cfa is reserved" in world.message("large"))
        await world.kill()
        world.start()
        await world.apply(*(job(f"small-{number}", "c", gpus=1, workers=0) for number in range(4)))
        await world.delete("PyTorchJob", "half-0")
        await settle(60)
        assert not any(world.placed(f"small-{number}") for number in range(4))
        assert "waits behind default/large" in world.message("small-0")
        assert head(world, "large") == found
        await world.delete("PyTorchJob", "half-1")
        assert await world.running("large") == "cfa"
        assert head(world, "large") == {}


async def test_a_job_whose_member_ends_it_in_time_starts_before_the_gang_that_room_is_collected_for() -> None:
    def ends(body: Body, seconds: int) -> Body:
        body["spec"]["runPolicy"] = {"activeDeadlineSeconds": seconds}
        return body

    async with hub(member("cfa"), config=SOON) as world:
        half = [ends(job(f"half-{number}", "a", workers=0), 3600) for number in range(2)]
        await world.apply(leaves(32, a=0, b=0, c=0), policy(queue=True), *half)
        for number in range(2):
            await world.running(f"half-{number}")
        await world.apply(job("large", "b"))
        await eventually(lambda: head(world, "large"), within_s=60)
        await world.delete("PyTorchJob", "half-0")
        small = [job(f"small-{number}", "c", gpus=1, workers=0) for number in range(3)]
        await world.apply(small[0], ends(small[1], 600), ends(small[2], 7200))
        assert await world.running("small-1") == "cfa"
        await settle(20)
        assert not world.placed("small-0") and not world.placed("small-2")
        assert "waits behind default/large" in world.message("small-2")
        # Its user gives it less time: the hub plans with what the job says now.
        await world.edit("PyTorchJob", "small-2", lambda body: ends(body, 300))
        assert await world.running("small-2") == "cfa"


async def test_guaranteed_work_waits_for_an_overdue_head_and_then_passes_it_though_nothing_happens() -> None:
    async with hub(member("cfa"), config=replace(SOON, guarantee_delay_s=50.0)) as world:
        half = [job(f"half-{number}", "a", workers=0) for number in range(2)]
        await world.apply(leaves(16, a=0, b=0, c=8), policy(queue=True), *half)
        for number in range(2):
            await world.running(f"half-{number}")
        await world.apply(job("large", "b"))
        await settle(70)
        await world.delete("PyTorchJob", "half-0")
        await world.apply(job("promised", "c", workers=0))
        await settle(35)
        assert "waits behind default/large" in world.message("promised")
        await eventually(lambda: world.state("promised") == "Running", within_s=15)


async def test_outside_quota_the_binding_remembers_where_room_is_collected() -> None:
    async with hub(member("cfa"), config=SOON) as world:
        await world.apply(policy(), *(pytorchjob(f"half-{number}", workers=0, gpus=8) for number in range(2)))
        for number in range(2):
            await world.running(f"half-{number}")
        await world.apply(pytorchjob("large", workers=1, gpus=8))

        def told() -> dict[str, Any]:
            return dict(((world.binding("large") or {}).get("status") or {}).get("head") or {})

        found = await eventually(told, within_s=60)
        assert found["member"] == "cfa"
        await world.kill()
        world.start()
        await world.apply(*(pytorchjob(f"small-{number}", gpus=1, workers=0) for number in range(4)))
        await world.delete("PyTorchJob", "half-0")
        await settle(60)
        assert not any(world.placed(f"small-{number}") for number in range(4))
        assert told() == found
        await world.delete("PyTorchJob", "half-1")
        assert await world.running("large") == "cfa"
        assert told() == {}


async def test_nothing_is_collected_where_that_is_switched_off() -> None:
    config = ControllerConfig(reclaim=False, head_after_s=0.0)
    async with hub(member("cfa"), config=config) as world:
        await world.apply(leaves(16, a=0, b=0), policy(queue=True), job("first", "a"))
        await world.running("first")
        await world.apply(job("large", "b"))
        await settle(2000)
        assert head(world, "large") == {}
