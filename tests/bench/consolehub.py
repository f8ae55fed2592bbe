"""A hub for the figures of the console: simulated members with pods of their own, a quota tree, thousands of jobs."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from fleet.cli.hub import connect
from fleet.cli.joining import MemberFacts, join, wait_ready
from tests.bench.client import items, patch, post, post_all, session
from tests.bench.crowd import Crowd
from tests.bench.family import cpu_seconds, family
from tests.bench.report import say
from tests.e2e.hub import Hub, Kubectl
from tests.e2e.manifests import gang_policy, leaf, pytorchjob, quota_tree

GPU = "nvidia.com/gpu"
UNITS = "/apis/scheduling.x-k8s.io/v1alpha1/queueunits"
PROCESSES = 2  # of the members
OWN_PODS = 4  # of each member
READY_S, FILLED_S, CALM_S, ENDS_S = 600.0, 1800.0, 600.0, 120.0
LOOK_S, BUSY_CORES = 5.0, 0.2  # a hub that uses less over so long has nothing left to do


@dataclass(frozen=True)
class Size:
    """`running`: jobs that the quota lets run at once. All jobs are of one pod and one GPU. `queues`: leaves, each with
    a namespace."""

    members: int = 50
    nodes: int = 10
    jobs: int = 10_000
    running: int = 500
    queues: int = 10


class World:
    """The running hub. `server`, `token`: its address, and the administrator's token."""

    def __init__(self, hub: Hub, crowd: Crowd, size: Size) -> None:
        self.hub, self.size = hub, size
        self._crowd = crowd
        access = connect(hub.kubeconfig).client.access
        self.server = access.server
        self.token = (hub.folder / "tokens.csv").read_text().partition(",")[0]

    def client(self) -> aiohttp.ClientSession:
        return session(self.hub.kubeconfig)

    @property
    def members(self) -> tuple[str, ...]:
        return self._crowd.names

    def in_member(self, number: int) -> aiohttp.ClientSession:
        """A session with one of the members, in turns."""
        return session(self._crowd.kubeconfig(self.members[number % len(self.members)]))

    async def running(self, client: aiohttp.ClientSession, limit: int) -> list[dict[str, Any]]:
        """Jobs that run, as /fleet/v1/jobs shows them."""
        return await items(client, f"/fleet/v1/jobs?state=Running&limit={limit}")

    async def end(self, job: dict[str, Any]) -> float:
        """The job's pod succeeds in its member, so the job is over. The moment before that, of time.monotonic()."""
        path = f"/api/v1/namespaces/{job['namespace']}/pods/{job['name']}-master-0"
        async with session(self._crowd.kubeconfig(job["member"])) as there:
            async with there.get(path) as answer:  # connected before the clock starts
                assert answer.status == 200, await answer.text()
            began = time.monotonic()
            await patch(there, f"{path}/status", {"status": {"phase": "Succeeded"}})
        return began


@contextlib.contextmanager
def started_world(folder: Path, size: Size) -> Iterator[World]:
    """Hub and members, joined and empty."""
    crowd = Crowd(
        folder / "crowd", size.members, nodes=size.nodes, pods=OWN_PODS, processes=min(PROCESSES, size.members)
    )
    hub = Hub(folder / "hub")
    try:
        say(f"console: {size.members} members start")
        crowd.start()
        hub.start()
        api = connect(hub.kubeconfig)
        for name in crowd.names:
            join(api, MemberFacts(name, crowd.kubeconfig(name), provider="simulated"))
        wait_ready(api, crowd.names, READY_S)
        yield World(hub, crowd, size)
    finally:
        with contextlib.suppress(AssertionError):  # a hub that never started
            hub.stop()
        crowd.stop()


def spaces(size: Size) -> list[str]:
    return [f"team-{number}" for number in range(size.queues)]


async def fill(world: World) -> None:
    """The jobs, until as many run as the quota lets, and the hub has no more to do about the rest."""
    size, names = world.size, spaces(world.size)
    leaves = [leaf(name, name, **{GPU: size.running // size.queues}) for name in names]
    kubectl = Kubectl(world.hub.kubeconfig)
    async with world.client() as client:
        for name in names:
            await post(client, "/api/v1/namespaces", {"metadata": {"name": name}})
        await asyncio.to_thread(kubectl.apply, quota_tree(*leaves))
        for name in names:
            await asyncio.to_thread(kubectl.apply, gang_policy(queue=True), namespace=name)
        say(f"console: {size.jobs:,} jobs are made")
        for number, name in enumerate(names):
            count = size.jobs // size.queues
            bodies = (pytorchjob(f"job-{number}-{one:05}", workers=0) for one in range(count))
            await post_all(client, f"/apis/kubeflow.org/v1/namespaces/{name}/pytorchjobs", bodies)
        await _settled(client, size)
    await _calm(world.hub)


async def _settled(client: aiohttp.ClientSession, size: Size) -> None:
    end = time.monotonic() + FILLED_S
    wanted = size.jobs // size.queues * size.queues
    while True:
        units = await items(client, UNITS)
        told = [unit for unit in units if (unit.get("status") or {}).get("message")]
        running = sum(one["jobs"].get("Running", 0) for one in await items(client, "/fleet/v1/clusters"))
        say(f"console: {len(units):,} units, {len(told):,} told, {running:,} run")
        if len(units) == wanted and running >= size.running // size.queues * size.queues:
            return
        assert time.monotonic() < end, f"{len(units)} units, {running} running jobs after {FILLED_S:g} s"
        await asyncio.sleep(5.0)


async def _calm(hub: Hub) -> None:
    end, before = time.monotonic() + CALM_S, cpu_seconds(family(hub))
    while True:
        began = time.monotonic()
        await asyncio.sleep(LOOK_S)
        after = cpu_seconds(family(hub))
        cores = (after - before) / (time.monotonic() - began)
        say(f"console: the hub uses {cores:.2f} cores")
        if cores < BUSY_CORES:
            return
        assert time.monotonic() < end, f"the hub is busy after {CALM_S:g} s"
        before = after


@contextlib.asynccontextmanager
async def ending(world: World, rate: float) -> AsyncIterator[list[int]]:
    """Meanwhile `rate` running jobs a second end in their members, and as many waiting ones start. The list has the
    number of those that ended."""
    done = [0]

    async def work() -> None:
        async with world.client() as client:
            began, jobs = time.monotonic(), list[dict[str, Any]]()
            while rate:
                await asyncio.sleep(max(0.0, began + done[0] / rate - time.monotonic()))
                if not jobs:
                    jobs = await world.running(client, 100)
                with contextlib.suppress(AssertionError):  # one that has just ended
                    await world.end(jobs.pop())
                done[0] += 1

    working = asyncio.create_task(work())
    try:
        yield done
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
