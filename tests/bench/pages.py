"""The cost of open pages of the console: CPU time of the API process with their streams, and without.

    python -m tests.bench.pages [--pages 200] [--writes 50] [--seconds 15]

A hub of its own runs. Pages hold /fleet/v1/changes open with a session. Writes change an annotation of a
PropagationPolicy. The same writes without pages are measured first.
"""

from __future__ import annotations

import argparse
import asyncio
import ssl
import tempfile
import time
from pathlib import Path

import httpx
import psutil

from tests.cli.hub import Up

POLICIES = "/apis/policy.one.alibabacloud.com/v1alpha1/namespaces/default/propagationpolicies"
POLICY = {
    "apiVersion": "policy.one.alibabacloud.com/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "bench"},
    "spec": {"resourceSelectors": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "none"}]},
}  # fmt: skip
MERGE = {"content-type": "application/merge-patch+json"}


async def writing(client: httpx.AsyncClient, writes: int, seconds: float) -> int:
    began, done = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        await asyncio.sleep(max(0.0, began + done / writes - time.monotonic()))
        patch = {"metadata": {"annotations": {"number": str(done)}}}
        (await client.patch(f"{POLICIES}/bench", json=patch, headers=MERGE)).raise_for_status()
        done += 1
    return done


async def page(client: httpx.AsyncClient, server: str, heard: list[int], opened: asyncio.Semaphore) -> None:
    async with client.stream("GET", f"{server}/fleet/v1/changes") as stream:
        stream.raise_for_status()
        opened.release()
        async for line in stream.aiter_lines():
            heard[0] += line.startswith("data:")


async def measured(up: Up, pages: int, writes: int, seconds: float) -> None:
    access = up.hub.client.access
    server, token, process = access.server, up.folder.joinpath("tokens.csv").read_text().split(",")[0], up.child("api")
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=server, headers=headers, verify=False, timeout=60) as client:
        (await client.post(POLICIES, json=POLICY)).raise_for_status()
        login = await client.post("/console/session", json={"token": token}, headers={"origin": server})
        cookies, trust = login.raise_for_status().cookies, ssl._create_unverified_context()
        for count in (0, pages):
            heard, opened, open_ = [0], asyncio.Semaphore(0), []
            for _ in range(count):
                browser = httpx.AsyncClient(verify=trust, timeout=60, cookies=cookies)
                open_.append((browser, asyncio.create_task(page(browser, server, heard, opened))))
            for _ in range(count):
                await opened.acquire()
            await asyncio.sleep(3)
            heard[0], before, began = 0, cpu(process), time.monotonic()
            done = await writing(client, writes, seconds)
            took = time.monotonic() - began
            used = (cpu(process) - before) / took
            print(f"{count} pages, {done / took:.0f} writes/s: {used:.1%} of a core, {heard[0] / took:.0f} events/s")
            for browser, task in open_:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                await browser.aclose()


def cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--writes", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=15.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        up = Up(Path(folder) / "hub")
        try:
            asyncio.run(measured(up, asked.pages, asked.writes, asked.seconds))
        finally:
            up.stop()


if __name__ == "__main__":
    main()
