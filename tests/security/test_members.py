"""A member that answers without end costs the hub a bounded amount of memory, and itself its place."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import aiohttp
import pytest
from aiohttp import web

from fleet.members import connection as connections
from fleet.members import follow
from fleet.members.connection import Connection, Unreachable
from fleet.members.follow import Follower
from fleet.members.kubeconfig import MemberAccess

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def member() -> AsyncIterator[Callable[[Handler], Awaitable[Connection]]]:
    """A member that answers every request in one way, over a real socket."""
    runners: list[web.AppRunner] = []
    opened: list[Connection] = []

    async def serve(handler: Handler) -> Connection:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        opened.append(Connection(MemberAccess(f"http://{host}:{port}", {}, ssl.create_default_context())))
        return opened[-1]

    yield serve
    for one in opened:
        await one.aclose()
    for runner in runners:
        await runner.cleanup()


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    try:
        for _ in range(64):
            await response.write(b"x" * 4096)
    except (ConnectionError, aiohttp.ClientError):
        pass
    return response


async def test_an_answer_without_an_end_is_cut(
    member: Callable[[Handler], Awaitable[Connection]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ANSWER_BYTES_MAX", 16_384)
    with pytest.raises(Unreachable, match="its answer is larger than"):
        await (await member(endless)).request("GET", "/api/v1/pods")
    monkeypatch.setattr(connections, "REFUSAL_BYTES_MAX", 16_384)
    assert (await (await member(endless)).probe(5.0)).ok  # it lives, whatever else it says


async def test_a_watch_that_sends_no_end_of_line_is_cut(
    member: Callable[[Handler], Awaitable[Connection]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ANSWER_BYTES_MAX", 16_384)
    one = await member(endless)
    with pytest.raises(Unreachable, match="its answer is larger than"):
        async with one.lines("/api/v1/pods", {}, silence_s=5.0) as (_, lines):
            async for _some in lines:
                raise AssertionError("there is no line")


async def test_lines_come_whole_however_they_are_cut(member: Callable[[Handler], Awaitable[Connection]]) -> None:
    async def in_pieces(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in (b"on", b"e\ntwo\nth", b"r", b"ee\n", b"\n", b"half"):
            await response.write(piece)
        return response

    one = await member(in_pieces)
    async with one.lines("/", {}, silence_s=5.0) as (_, lines):
        assert [line async for some in lines for line in some] == [b"one", b"two", b"three"]


async def test_a_list_without_a_last_page_is_given_up(
    member: Callable[[Handler], Awaitable[Connection]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "PAGES_MAX", 5)
    asked = 0

    async def more(request: web.Request) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return web.json_response({"items": [], "metadata": {"continue": "more", "resourceVersion": "1"}})

    class Nothing:
        def started(self) -> None: ...
        def seen(self, body: object) -> None: ...
        def gone(self, body: object) -> None: ...
        def listed(self) -> None: ...

    follower = Follower(await member(more), "/api/v1/pods", Nothing(), contact=lambda: None)
    with pytest.raises(Unreachable, match="more than 5 pages"):
        await follower._list()
    assert asked == 5
