"""A trace that the controllers replay: the GPU hours of its pods, and those of its history."""

from __future__ import annotations

import random
from dataclasses import dataclass

import sqlalchemy as sa

from fleet.accounts.models import AttemptRecord, JobRecord
from fleet.controllers.history import gpus
from fleet.controllers.runtime.hub import Hub
from fleet.core.foresee.forward import UnitEventKind
from fleet.core.model.amounts import Amounts
from fleet.simulate.replay import world
from fleet.simulate.replay.full import replay_fully
from fleet.simulate.replay.run import Options, ReplayResult
from fleet.simulate.replay.trace import GPU, gang
from fleet.simulate.replay.trace import TraceJob as Traced
from tests.accounts.stories import Kept, from_the_first, kept

HOUR, DAY = 3600.0, 86_400.0
NODE = world.WorldNode("A100", Amounts.of({GPU: 8, "cpu": 96_000, "memory": 512 << 30}))


def trace(days: float, count: int, longest_s: float, seed: int = 7) -> list[Traced]:
    """Jobs of two queues, minutes to hours long, for half a node to four nodes."""
    draw = random.Random(seed)
    sizes = [draw.choice((4, 8, 8, 16, 32)) for _ in range(count)]
    return [
        Traced(
            f"j{number}", draw.choice("ab"), draw.uniform(0, days * DAY), draw.uniform(300, longest_s), size, gang(size)
        )
        for number, size in enumerate(sizes)
    ]


def replayed(days: float, count: int, longest_s: float = 6 * HOUR) -> tuple[ReplayResult, Hub]:
    jobs, inventory = trace(days, count, longest_s), [NODE] * 8
    quota = world.Quota(guarantee=0.5)
    hubs: list[Hub] = []
    done = replay_fully(
        jobs,
        world.units(jobs, world.Arrivals(overestimate=None), 0),
        world.split(inventory, 2, 0),
        world.tree(jobs, inventory, quota),
        Options(),
        after=hubs.append,
    )
    return done, hubs[0]


def seen_in_members(done: ReplayResult) -> float:
    """GPU-seconds of pods: from the start of a gang until its end, or until it has left."""
    since: dict[str, float] = {}
    total = 0.0
    for event in done.log:
        if event.what is UnitEventKind.STARTED:
            since[event.unit] = event.at
        elif event.what in (UnitEventKind.ENDED, UnitEventKind.LEFT) and event.unit in since:
            total += (event.at - since.pop(event.unit)) * done.jobs[event.unit].gpus
    return total


@dataclass(frozen=True)
class Counted:
    """What the history says of a replay."""

    gpu_s: float
    ended: int
    evictions: int
    models: set[str]


def counted(dsn: str, hub: Hub) -> Counted:
    async def look(history: Kept) -> Counted:
        await from_the_first(history)
        async with history.engine.connect() as connection:
            total = await connection.scalar(sa.select(sa.func.sum(AttemptRecord.gpu_s)))
            ended = await connection.scalar(sa.select(sa.func.count()).where(JobRecord.state == "Succeeded"))
            evictions = await connection.scalar(sa.select(sa.func.sum(JobRecord.evictions)))
            models = {model for (model,) in await connection.execute(sa.select(AttemptRecord.model))}
        return Counted(float(total or 0.0), int(ended or 0), int(evictions or 0), models)

    return kept(dsn, hub.store, look, lambda binding: gpus.of_binding(hub.members, binding))
