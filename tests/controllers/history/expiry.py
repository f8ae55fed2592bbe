"""A hub whose finished jobs expire."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fleet.accounts.recorder import Recorder
from fleet.accounts.schema import engine_of
from fleet.controllers.history.finishedjobs import FinishedJobs
from fleet.controllers.history.loop import HistoryLoop
from fleet.controllers.runtime.hub import ControllerConfig
from tests.controllers.world import World, hub, member

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
