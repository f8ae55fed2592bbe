"""1,000 one-GPU gangs created at once through REST, with room for all in three simulated members: jobs a second from
the first create to the last binding.

The load is made with aiohttp: on the machine that also runs the hub, what the client spends is missing there.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import time
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

from tests.bench.report import Figure, Report
from tests.e2e.hub import Hub, Kubectl
from tests.e2e.manifests import gang_policy, leaf, pytorchjob, quota_tree

JOBS_PATH = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"
BINDINGS_PATH = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"


def measure(report: Report, folder: Path, rounds: int, jobs: int = 1000, clients: int = 20) -> None:
    created, bound = [], []
    for number in range(rounds):
        hub = Hub(folder / f"throughput-{number}", "--members", "3", "--nodes", "50")
        hub.start()
        try:
            kubectl = Kubectl(hub.kubeconfig)
            kubectl.apply(quota_tree(leaf("bench", "default")))
            kubectl.apply(gang_policy(queue=True))
            seconds_created, seconds_bound = asyncio.run(_flood(hub.kubeconfig, jobs, clients))
        finally:
            hub.stop()
        created.append(jobs / seconds_created)
        bound.append(jobs / seconds_bound)
    report.add(Figure(f"{jobs} gangs → bound", "jobs/s", tuple(bound), "≥ 60"))
    report.add(Figure("creating them", "jobs/s", tuple(created), beside="throughput"))


async def _flood(kubeconfig: Path, jobs: int, clients: int) -> tuple[float, float]:
    """(seconds until the last create was acknowledged, seconds until the last binding was placed)."""
    async with _client(kubeconfig) as client:
        waiting = asyncio.create_task(_all_bound(client, jobs))
        await asyncio.sleep(0)
        numbers = iter(range(jobs))
        begin = time.monotonic()

        async def work() -> None:
            for number in numbers:
                body = orjson.dumps(pytorchjob(f"job-{number}", workers=0))
                async with client.post(JOBS_PATH, data=body, headers={"Content-Type": "application/json"}) as answer:
                    assert answer.status == 201, await answer.text()

        await asyncio.gather(*(work() for _ in range(clients)))
        created = time.monotonic() - begin
        return created, await asyncio.wait_for(waiting, 300) - begin


async def _all_bound(client: aiohttp.ClientSession, jobs: int) -> float:
    """The moment the last of the bindings names a member, as a watch sees it."""
    bound: set[str] = set()
    query = {"watch": "true", "timeoutSeconds": "300"}
    async with client.get(BINDINGS_PATH, params=query) as answer:
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                body = orjson.loads(line)["object"]
                if body["spec"].get("clusters"):
                    bound.add(body["metadata"]["name"])
            if len(bound) == jobs:
                return time.monotonic()
    raise AssertionError(f"only {len(bound)} of {jobs} jobs were bound")


def _client(kubeconfig: Path) -> aiohttp.ClientSession:
    config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    trust = ssl.create_default_context(cadata=base64.b64decode(cluster["certificate-authority-data"]).decode())
    return aiohttp.ClientSession(
        cluster["server"],
        connector=aiohttp.TCPConnector(ssl=trust, limit=0),
        headers={"Authorization": f"Bearer {user['token']}"},
        timeout=aiohttp.ClientTimeout(total=310),
    )
