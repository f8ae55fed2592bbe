"""Finished jobs go after their time to live, and not before they are in the history."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fleet.accounts.recorder import Recorder
from fleet.accounts.schema import engine_of
from fleet.controllers.history.finished import FinishedJobs
from fleet.controllers.history.loop import HistoryLoop
from fleet.controllers.runtime.hub import ControllerConfig
from fleet.values.ports import Body
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree

DEFAULT_S = 300.0


@contextlib.asynccontextmanager
async def finishing(*, ttl_s: float = DEFAULT_S, recorded: bool = True) -> AsyncIterator[tuple[World, Recorder]]:
    """A hub whose history is recorded up to the end of the log, or not at all."""
    async with hub(member("cfa"), member("cfb"), config=ControllerConfig(finished_job_ttl_s=ttl_s)) as world:
        history = HistoryLoop(world.hub, "")
        history.recorder = Recorder(world.store, world.registry, engine_of("postgresql://nowhere"), world.clock)
        history.recorder.revision = 2**60 if recorded else 1
        running = asyncio.create_task(FinishedJobs(world.hub, history).run())
        try:
            yield world, history.recorder
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


def gone(world: World, name: str) -> bool:
    return world.see("PyTorchJob", name) is None


def living(name: str, seconds: int) -> Body:
    body = pytorchjob(name, workers=0)
    body["spec"]["runPolicy"] = {"ttlSecondsAfterFinished": seconds}
    return body


async def over(world: World, body: Body, how: str = "Succeeded") -> float:
    """When the job was over."""
    name = body["metadata"]["name"]
    await world.apply(body)
    await world.running(name)
    world.members.finish(name, how)
    await eventually(lambda: world.state(name) == how)
    return world.clock.now()


async def test_the_time_of_the_job_counts_and_else_that_of_the_hub() -> None:
    async with finishing() as (world, _):
        await world.apply(tree(10), policy(queue=True))
        own, other = await over(world, living("own", 60)), await over(world, pytorchjob("other", workers=0))
        await eventually(lambda: gone(world, "own"), within_s=120)
        assert 55 <= world.clock.now() - own <= 70
        assert not gone(world, "other")
        await eventually(lambda: gone(world, "other"), within_s=2 * DEFAULT_S)
        assert DEFAULT_S - 5 <= world.clock.now() - other <= DEFAULT_S + 10
        await eventually(world.nothing_left, within_s=60)


async def test_a_hub_without_a_default_keeps_what_says_nothing() -> None:
    async with finishing(ttl_s=0.0) as (world, _):
        await world.apply(policy())
        await over(world, pytorchjob("one", workers=0))
        await settle(600)
        assert not gone(world, "one")


async def test_a_job_that_is_not_recorded_stays() -> None:
    async with finishing(recorded=False) as (world, recorder):
        await world.apply(policy())
        await over(world, living("one", 0))
        await settle(100)
        assert not gone(world, "one")
        recorder.revision = 2**60
        uid = (world.see("PyTorchJob", "one") or {})["metadata"]["uid"]
        recorder.unwritten.add(uid)
        await settle(100)
        assert not gone(world, "one"), "the database refused its rows"


async def test_a_failed_job_that_starts_anew_is_not_deleted_before() -> None:
    async with finishing() as (world, _):
        await world.apply(tree(), policy(queue=True))
        await over(world, living("one", 0), "Failed")
        await eventually(lambda: world.attempt("one") == 2, within_s=120)
        await world.running("one")
        assert not gone(world, "one")
