"""Open pages of the console without a browser: they ask what the page Fleet asks, and ask again as it does.

That is: a stream of changes, each query of a kind that has changed, and what has a timer. Each page has a connection
pool of its own, like a browser.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import orjson

CHANGES = "/fleet/v1/changes"
CONNECTIONS = 4  # of a page; a browser has up to 6, and a hub takes 1,000 from one address
OPENED_AT_ONCE = 20
OPEN_S = 120.0


@dataclass(frozen=True)
class Query:
    """`kind`: a change of it makes the page ask again; "" none. `every_s`: so does time; 0 never."""

    kind: str
    path: str
    every_s: float = 0.0


def fleet_page(members: tuple[str, ...]) -> list[Query]:
    """What console/src/pages/fleet.tsx shows; the maps of two members are open."""
    series = "/fleet/v1/reports/series?by=queue&points=120"
    return [
        Query("members", "/fleet/v1/clusters"),
        Query("jobs", "/fleet/v1/history?limit=10"),
        Query("jobs", "/fleet/v1/reports/changes?limit=12"),
        Query("", series, 60.0),
        *(Query("", f"/fleet/v1/nodes?member={name}&limit=400", 10.0) for name in members[:2]),
    ]


@dataclass
class Told:
    """What the pages have met since the last `reset`."""

    events: int = 0
    answers: int = 0
    failures: int = 0
    bytes: int = 0
    slowest_s: float = 0.0
    opened: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    def reset(self) -> None:
        self.events = self.answers = self.failures = self.bytes = 0
        self.slowest_s = 0.0


class Page:
    """One page, which asks each query once at a time."""

    def __init__(self, client: aiohttp.ClientSession, queries: list[Query], told: Told) -> None:
        self._client, self._told = client, told
        self._wanted = {query: asyncio.Event() for query in queries}

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for query, wanted in self._wanted.items():
                wanted.set()
                tasks.create_task(self._keep(query, wanted))
            tasks.create_task(self._hear())

    async def _hear(self) -> None:
        async with self._client.get(CHANGES, timeout=aiohttp.ClientTimeout(total=None)) as stream:
            assert stream.status == 200, await stream.text()
            self._told.opened.release()
            async for line in stream.content:
                if line.startswith(b"data:"):
                    self._told.events += 1
                    kinds = orjson.loads(line[5:])["kinds"]
                    for query, wanted in self._wanted.items():
                        if query.kind in kinds:
                            wanted.set()

    async def _keep(self, query: Query, wanted: asyncio.Event) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(query.every_s or None):
                    await wanted.wait()
            wanted.clear()
            began = time.monotonic()
            async with self._client.get(query.path) as answer:
                self._told.bytes += len(await answer.read())
                self._told.failures += answer.status != 200
            self._told.answers += 1
            self._told.slowest_s = max(self._told.slowest_s, time.monotonic() - began)


async def cookie_of(server: str, token: str) -> dict[str, str]:
    """The cookie of a new session of the console, by its name."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as client:
        body, headers = {"token": token}, {"origin": server}
        async with client.post(f"{server}/console/session", json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            return {name: cookie.value for name, cookie in answer.cookies.items()}


@contextlib.asynccontextmanager
async def open_pages(server: str, token: str, count: int, queries: list[Query]) -> AsyncIterator[Told]:
    """`count` pages, each with its stream open and all its queries answered once."""
    told, clients, tasks = Told(), list[aiohttp.ClientSession](), list[asyncio.Task[None]]()
    header = "; ".join(f"{name}={value}" for name, value in (await cookie_of(server, token)).items()) if count else ""
    try:
        for number in range(count):
            connector = aiohttp.TCPConnector(ssl=False, limit=CONNECTIONS)
            headers = {"cookie": header, "sec-fetch-site": "same-origin"}
            client = aiohttp.ClientSession(server, connector=connector, headers=headers)
            clients.append(client)
            tasks.append(asyncio.create_task(Page(client, queries, told).run()))
            if number % OPENED_AT_ONCE == OPENED_AT_ONCE - 1:
                await _answered(told, (number + 1) * len(queries), tasks)
        await _answered(told, count * len(queries), tasks)
        async with asyncio.timeout(OPEN_S):
            for _ in range(count):
                await told.opened.acquire()
        told.reset()
        yield told
        broken = [task for task in tasks if task.done()]
        assert not broken, broken[0].exception()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(client.close() for client in clients))


async def _answered(told: Told, count: int, tasks: list[asyncio.Task[None]]) -> None:
    async with asyncio.timeout(OPEN_S):
        while told.answers < count:
            for task in tasks:
                if task.done():
                    task.result()
            await asyncio.sleep(0.05)
