"""The reading of requests takes turns: over sockets, with a flood under way, and with turns that a test gives."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.fairness.reading import Reader
from api.transport.protocol import UNREAD_BYTES
from api.transport.serve import Server
from api.wire.http import Request
from tests.api.fairness.world import WORK, World, until, world

NAMESPACES = "/api/v1/namespaces"
FEW_SEATS = 20


class Peer:
    """A connection that speaks HTTP by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self.reader, self._writer, self._token = reader, writer, token

    def request(self, path: str, body: bytes = b"") -> bytes:
        method = "POST" if body else "GET"
        head = f"{method} {path} HTTP/1.1\r\nhost: hub\r\nauthorization: Bearer {self._token}\r\n"
        return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def answer(self) -> tuple[int, bytes]:
        async with asyncio.timeout(30):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            length = re.search(r"content-length: (\d+)", head)
            assert length is not None, head
            return int(head.split()[1]), await self.reader.readexactly(int(length[1]))

    async def ask(self, path: str) -> int:
        self.send(self.request(path))
        return (await self.answer())[0]

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def peers(port: int) -> AsyncIterator[Callable[[str], Any]]:
    opened: list[Peer] = []

    async def peer(token: str) -> Peer:
        opened.append(Peer(*await asyncio.open_connection("127.0.0.1", port), token))
        return opened[-1]

    try:
        yield peer
    finally:
        for one in opened:
            one.close()


def unread(hub: World) -> int:
    """Requests that wait to be read."""
    levels = hub.fairness.scheduler.levels.values()
    return sum(len(flow.unread) for level in levels for flow in level.flows.values())


@asynccontextmanager
async def flooded(go_on: asyncio.Event) -> AsyncIterator[tuple[World, list[Peer], Callable[[str], Any]]]:
    """A hub with few seats, and a user whose requests have taken hers and wait for more: all that her other connections
    send stays unread."""

    async def work(request: Request) -> None:
        if request.user.name == "flood":
            await go_on.wait()

    async with world(work=work, seats=FEW_SEATS) as hub:
        server = Server(hub.app, close_streams=hub.app.close_streams, reader=hub.fairness.reader)
        await server.start()
        try:
            async with peers(server.port) as peer:
                first = [await peer("flood") for _ in range(2 * FEW_SEATS)]
                later = [await peer("flood") for _ in range(10)]
                for one in later:
                    assert await one.ask(NAMESPACES) == 200  # the hub knows now whose connections these are
                for one in first:
                    one.send(one.request(WORK))

                async def full() -> bool:
                    return any(level.waiting for level in hub.fairness.scheduler.levels.values())

                await until(full)
                for one in later:
                    one.send(one.request(WORK))

                async def waiting() -> bool:
                    return unread(hub) == len(later)

                await until(waiting)
                yield hub, later, peer
        finally:
            go_on.set()
            await server.stop()


async def test_requests_of_a_flood_are_not_read_while_others_are_answered() -> None:
    go_on = asyncio.Event()
    async with flooded(go_on) as (hub, later, peer):
        ann = await peer("ann")
        assert [await ann.ask(WORK) for _ in range(3)] == [200, 200, 200]
        assert unread(hub) == len(later)
        go_on.set()
        assert {(await one.answer())[0] for one in later} == {200}
        assert unread(hub) == hub.fairness.scheduler.waiting == 0
        assert all(level.in_use == 0 for level in hub.fairness.scheduler.levels.values())


async def test_a_connection_that_ends_before_its_request_is_read_leaves_the_line() -> None:
    go_on = asyncio.Event()
    async with flooded(go_on) as (hub, later, _):
        later[0].close()

        async def left() -> bool:
            return unread(hub) == len(later) - 1

        await until(left)
        go_on.set()
        assert {(await one.answer())[0] for one in later[1:]} == {200}


async def test_requests_that_came_in_pieces_while_they_were_unread_are_answered_in_order() -> None:
    go_on = asyncio.Event()
    async with flooded(go_on) as (_, later, _):
        one = later[0]
        for piece in (one.request(NAMESPACES)[:20], one.request(NAMESPACES)[20:] + one.request(WORK)):
            one.send(piece)
            await asyncio.sleep(0)
        go_on.set()
        answers = [await one.answer() for _ in range(3)]
        assert [status for status, _ in answers] == [200, 200, 200]
        assert b"NamespaceList" in answers[1][1] and b"{}" == answers[0][1] == answers[2][1]


async def test_a_request_that_is_not_read_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async with flooded(asyncio.Event()) as (_, later, peer):
        monkeypatch.setattr("api.fairness.gate.WAIT_S", 0.1)
        assert {(await one.answer())[0] for one in later} == {429}
        assert await (await peer("ann")).ask(WORK) == 200


async def test_a_server_that_stops_reads_and_answers_what_has_come() -> None:
    stopped = asyncio.Event()
    async with scripted(iter([stopped])) as (server, _, peer):
        one = await peer("any")
        assert await one.ask("/first") == 200
        one.send(one.request("/second"))
        await until_true(lambda: server.turns_asked == 2)
        stop = asyncio.create_task(server.server.stop())
        assert await one.answer() == (200, b"/second")
        await stop


async def test_a_watch_that_is_open_goes_on_during_a_flood_and_ends_with_its_client() -> None:
    go_on = asyncio.Event()
    async with flooded(go_on) as (hub, _, peer):
        watcher, ann = await peer("root"), await peer("root")
        watcher.send(watcher.request(f"{NAMESPACES}?watch=true"))
        assert b" 200 " in await watcher.reader.readuntil(b"\r\n\r\n")
        ann.send(
            ann.request(NAMESPACES, b'{"metadata": {"name": "seen"}}').replace(
                b"host", b"content-type: application/json\r\nhost"
            )
        )
        assert (await ann.answer())[0] == 201
        async with asyncio.timeout(30):
            while b"seen" not in await watcher.reader.readline():
                pass
        gauge = hub.app.metrics.watches
        watcher.close()
        await until_true(lambda: gauge._value.get() == 0)


# -- turns that come when the test says


class Scripted(Reader):
    """A reader whose turns wait for the events of a script: None for a turn at once."""

    def __init__(self, served: ScriptedServer, script: Iterator[asyncio.Event | None]) -> None:
        self._served, self._script = served, script
        self.turned = self.late = False
        self._first = True

    def turn(self) -> asyncio.Future[bool] | None:
        self._served.turns_asked += 1
        if self._first:
            self._first = False
            return None
        event = next(self._script, None)
        if event is None:
            return None
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        async def come() -> None:
            await event.wait()
            if not future.done():
                future.set_result(True)

        self._served.tasks.append(asyncio.create_task(come()))
        return future

    def spend(self, seconds: float) -> None:
        pass


class ScriptedServer:
    server: Server
    turns_asked = 0

    def __init__(self) -> None:
        self.tasks: list[asyncio.Task[None]] = []
        self.seen: list[tuple[str, bytes]] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer with the path, when the whole body has come."""
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.seen.append((scope["path"], body))
        text = scope["path"].encode()
        headers = [(b"content-length", b"%d" % len(text))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": text})


@asynccontextmanager
async def scripted(
    script: Iterator[asyncio.Event | None],
) -> AsyncIterator[tuple[ScriptedServer, list[tuple[str, bytes]], Callable[[str], Any]]]:
    served = ScriptedServer()
    served.server = Server(served, reader=lambda: Scripted(served, script))
    await served.server.start()
    try:
        async with peers(served.server.port) as peer:
            yield served, served.seen, peer
    finally:
        for task in served.tasks:
            task.cancel()
        await served.server.stop()


async def until_true(there: Callable[[], bool]) -> None:
    async def asked() -> bool:
        return there()

    await until(asked)


@settings(max_examples=30, deadline=None)
@given(
    bodies=st.lists(st.binary(max_size=300) | st.just(b"x" * (UNREAD_BYTES + 1)), min_size=1, max_size=6),
    cuts=st.lists(st.integers(0, 2000), max_size=8),
    waits=st.lists(st.booleans(), max_size=8),
)
def test_no_byte_is_lost_or_moved_by_waiting(bodies: list[bytes], cuts: list[int], waits: list[bool]) -> None:
    async def tell() -> None:
        events = [asyncio.Event() if wait else None for wait in waits]
        async with scripted(iter(events)) as (_, seen, peer):
            one = await peer("any")
            data = b"".join(one.request(f"/{number}", body) for number, body in enumerate(bodies))
            places = sorted({0, *(cut % len(data) for cut in cuts), len(data)})
            for start, end in pairwise(places):
                one.send(data[start:end])
                await asyncio.sleep(0)
            for event in events:
                if event is not None:
                    await asyncio.sleep(0)
                    event.set()
            for number in range(len(bodies)):
                assert await one.answer() == (200, f"/{number}".encode())
            assert seen == [(f"/{number}", body) for number, body in enumerate(bodies)]

    asyncio.run(tell())


async def test_a_client_that_sends_on_and_on_before_its_turn_is_not_read_without_bound() -> None:
    turn = asyncio.Event()
    async with scripted(iter([turn])) as (server, seen, peer):
        one = await peer("any")
        assert await one.ask("/first") == 200
        body = b"x" * 40 * UNREAD_BYTES
        one.send(one.request("/large", body))
        (connection,) = server.server._server.server_state.connections
        await until_true(lambda: connection.flow.read_paused)  # type: ignore[union-attr]
        assert len(connection._unread) < 10 * UNREAD_BYTES  # type: ignore[union-attr]
        turn.set()
        assert await one.answer() == (200, b"/large")
        assert seen[-1] == ("/large", body)
