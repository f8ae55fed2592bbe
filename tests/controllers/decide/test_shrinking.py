"""Elastic jobs give up replicas for jobs that wait, before others are evicted."""

from __future__ import annotations

import pytest

from fleet.controllers.runtime.hub import ControllerConfig
from fleet.values.ports import Body
from fleet.wellknown import RESIZED
from tests.controllers.decide.elastic import drop, elastic, has, sent
from tests.controllers.decide.reclaims import job, leaves, leaving
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob

PROTECTED_S = 30.0
QUICK = ControllerConfig(protection_s=PROTECTED_S, claim_s=120.0)


async def borrows(world: World, name: str, least: int, workers: int = 8) -> None:
    """An elastic job of leaf a, with 2 GPUs a worker, runs on room that leaf b is promised."""
    body: Body = elastic(name, workers, least, gpus=2)
    body["metadata"]["labels"] = {"quota.scheduling.alibabacloud.com/name": "a"}
    await world.apply(leaves(16, a=0, b=16), policy(queue=True), body)
    await world.running(name)


async def test_an_elastic_job_gives_up_its_newest_replicas_in_place_of_being_evicted() -> None:
    async with hub(member("cfa", 2), config=QUICK) as world:
        await borrows(world, "stretch", 4)
        await world.apply(job("owner", "b", workers=0))
        await eventually(lambda: has(world, "stretch") == (4, 8) and sent(world, "stretch") == 4)
        said = [event["message"] for event in world.events("stretch", RESIZED)]
        assert "is made smaller, to make room for default/owner: worker 8 -> 4" in said
        await settle(20)
        assert not leaving(world) and world.placed("owner") == "", "its pods are still there"
        assert (world.unit("stretch") or {})["status"]["charged"]["nvidia.com/gpu"] == "16"
        drop(world, "stretch", 4, 5, 6, 7)
        await world.running("owner")
        assert (world.state("stretch"), world.attempt("stretch"), has(world, "stretch")) == ("Running", 1, (4, 8))
        await world.delete("PyTorchJob", "owner")
        await eventually(lambda: has(world, "stretch") == (8, 8))


async def test_what_else_such_a_decision_starts_is_recorded_with_the_plan_that_its_snapshot_leads_to() -> None:
    async with hub(member("cfa", 2), member("cfb", 1, gpus=1), config=QUICK) as world:
        await borrows(world, "stretch", 4)
        await world.apply(leaves(40, a=0, b=16))
        await settle(PROTECTED_S)
        await world.apply(job("owner", "b", workers=0), job("other", "a", gpus=1, workers=0))
        await eventually(lambda: has(world, "stretch") == (4, 8) and world.placed("other") == "cfb")


async def test_an_elastic_job_whose_least_is_still_in_the_way_is_evicted_whole() -> None:
    async with hub(member("cfa", 2), config=QUICK) as world:
        await borrows(world, "stretch", 4)
        await world.apply(job("owner", "b"))
        await settle(PROTECTED_S)
        await world.running("owner")
        assert world.placed("stretch") == "" and not world.events("stretch", RESIZED)


async def test_a_job_that_does_not_give_up_its_pods_in_time_is_evicted_whole() -> None:
    async with hub(member("cfa", 2), config=QUICK) as world:
        await borrows(world, "stretch", 4)
        await world.apply(job("owner", "b", workers=0))
        await eventually(lambda: has(world, "stretch") == (4, 8), within_s=60)
        await settle(100)
        assert (world.placed("stretch"), world.attempt("stretch")) == ("cfa", 1)
        await eventually(lambda: world.placed("owner") == "cfa", within_s=60)
        await eventually(lambda: world.attempt("stretch") == 2, what="it starts again beside the owner")
        assert has(world, "stretch") == (4, 8)


async def test_of_two_elastic_jobs_in_the_way_the_older_one_keeps_more() -> None:
    async with hub(member("cfa", 2), config=QUICK) as world:
        await borrows(world, "older", 1, workers=4)
        await settle(5)
        await borrows(world, "newer", 1, workers=4)
        await world.apply(job("owner", "b", workers=9, gpus=1))
        await eventually(lambda: has(world, "newer") == (1, 4), within_s=60)
        assert has(world, "older") == (2, 4), "ten pods have room in what both give up"
        drop(world, "newer", 1, 2, 3)
        drop(world, "older", 2, 3)
        await world.running("owner")
        assert (world.attempt("older"), world.attempt("newer")) == (1, 1)


async def makes_room(world: World) -> None:
    """An elastic job outside quota gives three of its eight pods up for another, which runs then."""
    await world.apply(policy(), elastic("stretch", 8, 2))
    await world.running("stretch")
    await world.apply(pytorchjob("other", workers=2))
    await eventually(lambda: has(world, "stretch") == (5, 8))
    assert "once elastic jobs have given up pods" in str(world.condition(world.binding("other"), "Scheduled"))
    drop(world, "stretch", 5, 6, 7)
    await world.running("other")


async def test_a_job_without_a_right_to_the_room_gets_what_an_elastic_job_has_beyond_its_least() -> None:
    async with hub(member("cfa", 1), config=QUICK) as world:
        await makes_room(world)
        assert has(world, "stretch") == (5, 8)


async def test_a_job_that_gave_up_replicas_does_not_grow_for_a_while() -> None:
    async with hub(member("cfa", 1), config=QUICK) as world:
        await makes_room(world)
        await world.delete("PyTorchJob", "other")
        await settle(PROTECTED_S - 10)
        assert has(world, "stretch") == (5, 8)
        await eventually(lambda: has(world, "stretch") == (8, 8), within_s=20)


@pytest.mark.parametrize("least", [8, 12])
async def test_a_job_at_its_least_has_nothing_to_give(least: int) -> None:
    async with hub(member("cfa", 2), config=QUICK) as world:
        await borrows(world, "stretch", least)
        await world.apply(job("owner", "b", workers=0))
        await settle(PROTECTED_S)
        await world.running("owner")
        assert world.placed("stretch") == ""
