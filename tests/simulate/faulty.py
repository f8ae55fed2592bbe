"""A small server before a member's API: it passes requests on, but for those that a test wants answered otherwise."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

Fault = Callable[[str, str], tuple[int, Any] | None]  # of method and path: status, and a body, text as it is
_OF_ONE_HOP = frozenset({"connection", "content-length", "host", "keep-alive", "transfer-encoding"})


class FaultyServer:
    """`asked` has method and path of each request."""

    def __init__(self, target: str, fault: Fault) -> None:
        self._target, self._fault = target, fault
        self.asked: list[tuple[str, str]] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, request.path))
        forced = self._fault(request.method, request.path)
        if forced is not None:
            status, body = forced
            if isinstance(body, str):
                return web.Response(status=status, text=body, content_type="text/html")
            return web.Response(status=status, body=json.dumps(body).encode(), content_type="application/json")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _OF_ONE_HOP}
        async with (
            aiohttp.ClientSession(auto_decompress=False) as session,
            session.request(
                request.method,
                self._target + request.path_qs,
                data=await request.read(),
                headers=headers,
                allow_redirects=False,
            ) as answered,
        ):
            kept = {name: value for name, value in answered.headers.items() if name.lower() not in _OF_ONE_HOP}
            response = web.StreamResponse(status=answered.status, headers=kept)
            await response.prepare(request)
            async for chunk in answered.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


@asynccontextmanager
async def faulty(target: str, fault: Fault) -> AsyncIterator[FaultyServer]:
    """The server, on a port of its own, before the API at the URL `target`."""
    server, app = FaultyServer(target, fault), web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    server.url = f"http://{host}:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


def refusal(status: int, reason: str, message: str) -> tuple[int, Any]:
    """As an API server words it."""
    return status, {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": status,
    }
