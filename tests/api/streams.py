"""Reading a watch over HTTP, event by event, with a bound."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.api.conftest import Hub


class Events:
    """The events of one open watch."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def next(self, timeout: float = 10.0) -> dict[str, Any] | None:
        """The next event, None at the end of the stream; TimeoutError when none comes."""
        async with asyncio.timeout(timeout):
            line = await anext(self._lines, None)
        return None if line is None else json.loads(line)

    async def take(self, count: int, *, bookmarks: bool = False) -> list[tuple[str, str]]:
        """(type, name) of the next events."""
        out: list[tuple[str, str]] = []
        while len(out) < count:
            event = await self.next()
            assert event is not None, f"the watch ended after {out}"
            if event["type"] != "BOOKMARK" or bookmarks:
                out.append((event["type"], event["object"]["metadata"].get("name", "")))
        return out


@asynccontextmanager
async def watching(hub: Hub, path: str, accept: str = "application/json", **params: str) -> AsyncIterator[Events]:
    async with (
        hub.client() as client,
        client.stream("GET", path, params={"watch": "true", **params}, headers={"accept": accept}) as response,
    ):
        assert response.status_code == 200, (await response.aread()).decode()
        yield Events(response)


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": labels or {}}, "data": data}
