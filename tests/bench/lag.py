"""How late a watch through one API process shows what another has acknowledged, and whether in its order.

    python -m tests.bench.lag [--processes 2 3] [--writers 8] [--seconds 10] [--pause 0.02]

The processes share one PostgreSQL. Writers create ConfigMaps of 1 KB through the first, each with a pause between two
writes; one watch is open through each of the others. The lag of an object is the time from the answer to its writer
until its event is read.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import ssl
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import yaml

from tests.clients.processes import ApiProcesses, api_processes

MAPS = "/api/v1/namespaces/default/configmaps"
DATA = {f"key-{i}": "x" * 90 for i in range(8)}
LAST = "last"


@dataclass
class Seen:
    """The events of one watch: when each object was first shown, and the revisions in their order."""

    at: dict[str, float] = field(default_factory=dict)
    revisions: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Lag:
    """What one run found, in milliseconds. `disorder` counts events that came before an older one."""

    processes: int
    writes: int
    writes_per_s: float
    p50: float
    p99: float
    max: float
    disorder: int


def client_of(processes: ApiProcesses, kubeconfig: Path) -> httpx.AsyncClient:
    server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    trust = ssl.create_default_context(cafile=str(processes.data.ca_certificate))
    headers = {"authorization": f"Bearer {processes.data.admin_token()}"}
    return httpx.AsyncClient(base_url=server, verify=trust, headers=headers, timeout=60)


async def watch(client: httpx.AsyncClient, revision: str, seen: Seen) -> None:
    """Read until the object LAST, before which all others were written."""
    asked = {"watch": "1", "resourceVersion": revision}
    async with client.stream("GET", MAPS, params=asked) as stream:
        async for line in stream.aiter_lines():
            now = time.monotonic()
            metadata = json.loads(line)["object"]["metadata"]
            seen.at.setdefault(metadata["name"], now)
            seen.revisions.append(int(metadata["resourceVersion"]))
            if metadata["name"] == LAST:
                return


async def write(
    client: httpx.AsyncClient, name: str, end: float, pause_s: float, acknowledged: dict[str, float]
) -> None:
    number = 0
    while time.monotonic() < end:
        number += 1
        answer = await client.post(MAPS, json={"metadata": {"name": f"{name}-{number}"}, "data": DATA})
        answer.raise_for_status()
        acknowledged[f"{name}-{number}"] = time.monotonic()
        await asyncio.sleep(pause_s)


async def measure(
    processes: ApiProcesses, kubeconfigs: Sequence[Path], writers: int, seconds: float, pause_s: float
) -> Lag:
    first, *others = [client_of(processes, path) for path in kubeconfigs]
    acknowledged: dict[str, float] = {}
    watches = [Seen() for _ in others]
    revision = (await first.get(MAPS)).json()["metadata"]["resourceVersion"]
    async with asyncio.TaskGroup() as group:
        for client, seen in zip(others, watches, strict=True):
            group.create_task(watch(client, revision, seen))
        await asyncio.sleep(1)
        end = time.monotonic() + seconds
        async with asyncio.TaskGroup() as work:
            for number in range(writers):
                work.create_task(write(first, f"w{number}", end, pause_s, acknowledged))
        await first.post(MAPS, json={"metadata": {"name": LAST}})
    for client in (first, *others):
        await client.aclose()
    lags = sorted(1000 * max(0.0, seen.at[name] - at) for seen in watches for name, at in acknowledged.items())
    disorder = sum(b <= a for seen in watches for a, b in zip(seen.revisions, seen.revisions[1:], strict=False))
    p99 = lags[min(len(lags) - 1, int(len(lags) * 0.99))]
    count = len(acknowledged)
    return Lag(len(kubeconfigs), count, count / seconds, statistics.median(lags), p99, lags[-1], disorder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--pause", type=float, default=0.02)
    options = parser.parse_args()
    print("processes  writes/s  p50 ms  p99 ms  max ms  out of order")
    for count in options.processes:
        with tempfile.TemporaryDirectory(prefix="fleet-lag-") as folder:
            names = [f"api-{number}" for number in range(count)]
            with api_processes(Path(folder), *names) as (processes, kubeconfigs):
                found = asyncio.run(measure(processes, kubeconfigs, options.writers, options.seconds, options.pause))
        print(
            f"{found.processes:9}  {found.writes_per_s:8.0f}  {found.p50:6.1f}  {found.p99:6.1f}  {found.max:6.1f}"
            f"  {found.disorder:12}",
            flush=True,
        )


if __name__ == "__main__":
    main()
