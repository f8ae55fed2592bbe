"""A watcher that stops reading is cut off, and what was held for it is given back; the others miss nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from api.transport.edge import Bounds
from api.transport.serve import Server
from tests.security.hub import Hub, open_hub

WATCH = b"GET /api/v1/configmaps?watch=true HTTP/1.1\r\nhost: h\r\nauthorization: Bearer admin-token\r\n\r\n"
EVENTS = 120
EVENT_BYTES = 200_000


def sample(hub: Hub, name: str) -> float:
    return hub.app.metrics.registry.get_sample_value(name) or 0.0


async def write_events(hub: Hub) -> None:
    for number in range(EVENTS):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{number}"}}
        await hub.create("configmaps", {**body, "data": {"k": "x" * EVENT_BYTES}}, namespace="default")
        await asyncio.sleep(0)


async def names(reader: asyncio.StreamReader) -> list[str]:
    """The objects of the events of a watch, in order, until all that were written have come."""
    found: list[str] = []
    rest = b""
    await reader.readuntil(b"\r\n\r\n")
    while len(found) < EVENTS:
        size = int(await reader.readline(), 16)
        *lines, rest = (rest + await reader.readexactly(size)).split(b"\n")
        await reader.readexactly(2)
        found += [json.loads(line)["object"]["metadata"]["name"] for line in lines]
    return found


async def test_a_watcher_that_stops_reading_is_cut_off_and_the_others_miss_nothing(tmp_path: Path) -> None:
    async with open_hub() as hub:
        server = Server(
            hub.app, close_streams=hub.app.close_streams, bounds=Bounds(send_s=1.5), metrics=hub.app.metrics.edge
        )
        await server.start()
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(WATCH)
            _, stuck = await asyncio.open_connection("127.0.0.1", server.port)
            stuck.transport.pause_reading()  # type: ignore[attr-defined]
            stuck.write(WATCH)
            deadline = asyncio.get_running_loop().time() + 90
            while sample(hub, "fleet_api_watches") < 2:
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.01)
            seen, _ = await asyncio.gather(asyncio.wait_for(names(reader), 60), write_events(hub))
            assert seen == [f"m{number}" for number in range(EVENTS)]
            while sample(hub, "fleet_api_watches") > 1:
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.01)
            assert sample(hub, "fleet_api_slow_readers_total") == 1
            assert sample(hub, "fleet_api_connections") == 1
            writer.close()
            stuck.transport.abort()
        finally:
            await server.stop()
