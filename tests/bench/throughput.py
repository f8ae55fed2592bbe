"""1,000 one-GPU gangs created at once through REST, with room for all in three simulated members: jobs a second from
the first create to the last binding."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import aiohttp

from tests.bench.client import JOBS, post_all, session, watched
from tests.bench.report import Figure, Report
from tests.e2e.hub import Hub, Kubectl
from tests.e2e.manifests import gang_policy, leaf, pytorchjob, quota_tree

BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"


def measure(report: Report, folder: Path, rounds: int, jobs: int = 1000) -> None:
    created, bound = [], []
    for number in range(rounds):
        hub = Hub(folder / f"throughput-{number}", "--members", "3", "--nodes", "50")
        hub.start()
        try:
            kubectl = Kubectl(hub.kubeconfig)
            kubectl.apply(quota_tree(leaf("bench", "default")))
            kubectl.apply(gang_policy(queue=True))
            seconds_created, seconds_bound = asyncio.run(_flood(hub.kubeconfig, jobs))
        finally:
            hub.stop()
        created.append(jobs / seconds_created)
        bound.append(jobs / seconds_bound)
    report.add(Figure(f"{jobs} gangs → bound", "jobs/s", tuple(bound), "≥ 60"))
    report.add(Figure("creating them", "jobs/s", tuple(created), beside="throughput"))


async def _flood(kubeconfig: Path, jobs: int) -> tuple[float, float]:
    """(seconds until the last create was acknowledged, seconds until the last binding was placed)."""
    async with session(kubeconfig) as client:
        waiting = asyncio.create_task(_all_bound(client, jobs))
        await asyncio.sleep(0)
        begin = time.monotonic()
        await post_all(client, JOBS, (pytorchjob(f"job-{number}", workers=0) for number in range(jobs)))
        created = time.monotonic() - begin
        return created, await asyncio.wait_for(waiting, 300) - begin


async def _all_bound(client: aiohttp.ClientSession, jobs: int) -> float:
    """The moment the last of the bindings names a member, as a watch sees it."""
    bound: set[str] = set()
    async for bodies in watched(client, BINDINGS):
        bound.update(body["metadata"]["name"] for body in bodies if body["spec"].get("clusters"))
        if len(bound) == jobs:
            return time.monotonic()
    raise AssertionError(f"only {len(bound)} of {jobs} jobs were bound")
