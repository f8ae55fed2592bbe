"""What strangers can do to a server with a socket and no token: real sockets, small bounds, both event loops."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop
from prometheus_client import CollectorRegistry

from api.transport.edge import Bounds, EdgeMetrics, neighbourhood
from api.transport.serve import Server
from api.wire.http import Message, Receive, Scope, Send, send_body
from tests.security.certificate import self_signed

RUNNERS = [pytest.param(asyncio.run, id="asyncio"), pytest.param(uvloop.run, id="uvloop")]
Runner = Callable[[Any], Any]
HEAD = b"GET / HTTP/1.1\r\nhost: h\r\n"
LARGE = b"x" * (24 << 20)


class Face:
    """An application with an answer of each sort; `open` counts the requests that are being answered."""

    def __init__(self) -> None:
        self.open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.open += 1
        try:
            await self._answer(scope["path"], receive, send)
        finally:
            self.open -= 1

    async def _answer(self, path: str, receive: Receive, send: Send) -> None:
        size = 0
        if path == "/echo":
            message: Message = {"more_body": True}
            while message.get("more_body"):
                message = await receive()
                size += len(message.get("body", b""))
        start: Message = {"type": "http.response.start", "status": 200, "headers": []}
        if path == "/large":
            start["headers"] = [(b"content-length", b"%d" % len(LARGE))]
        await send(start)
        if path == "/large":
            await send_body(send, LARGE)
        elif path in ("/endless", "/quiet"):
            await send({"type": "http.response.body", "body": b"begun\n", "more_body": True})
            gone = asyncio.ensure_future(_disconnected(receive))
            while not gone.done():
                if path == "/endless":
                    await send({"type": "http.response.body", "body": b"y" * 65536, "more_body": True})
                await asyncio.wait({gone}, timeout=0.001)
        else:
            await send({"type": "http.response.body", "body": b"%d" % size, "more_body": False})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Peer:
    """A client that does just what it is told."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, within_s: float = 5.0) -> tuple[int, bytes]:
        """Status and body of the next answer, which says how long it is or comes in one chunk."""
        async with asyncio.timeout(within_s):
            head = await self.reader.readuntil(b"\r\n\r\n")
            headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
            if b"content-length" in headers:
                body = await self.reader.readexactly(int(headers[b"content-length"]))
            else:
                body = (await self.reader.readuntil(b"\r\n0\r\n\r\n")).split(b"\r\n")[1]
            return int(head.split()[1]), body

    async def ended(self, within_s: float = 5.0) -> bool:
        """Whether the server ends the connection in this time."""
        try:
            async with asyncio.timeout(within_s):
                while await self.reader.read(1 << 16):
                    pass
        except TimeoutError:
            return False
        except ConnectionError:
            pass
        return True


class Served:
    def __init__(self, face: Face, server: Server, registry: CollectorRegistry, cert: Path | None) -> None:
        self.face, self.server, self._registry = face, server, registry
        self._tls = ssl.create_default_context(cafile=str(cert)) if cert else None
        self._peers: list[Peer] = []

    async def peer(self) -> Peer:
        peer = Peer(*await asyncio.open_connection("127.0.0.1", self.server.port, ssl=self._tls))
        self._peers.append(peer)
        return peer

    def refused(self, bound: str) -> float:
        return self._registry.get_sample_value("fleet_api_refused_total", {"bound": bound}) or 0.0

    def cut(self) -> float:
        return self._registry.get_sample_value("fleet_api_slow_readers_total") or 0.0

    def connections(self) -> float:
        return self._registry.get_sample_value("fleet_api_connections") or 0.0


@asynccontextmanager
async def served(bounds: Bounds, folder: Path | None = None) -> AsyncIterator[Served]:
    """A server with these bounds, with TLS where there is a folder for its certificate."""
    cert, key = self_signed(folder) if folder else (None, None)
    registry = CollectorRegistry()
    face = Face()
    server = Server(face, cert=cert, key=key, bounds=bounds, metrics=EdgeMetrics(registry))
    await server.start()
    found = Served(face, server, registry, cert)
    try:
        yield found
    finally:
        for peer in found._peers:
            peer.writer.transport.abort()
        await server.stop()


async def until(condition: Callable[[], bool], within_s: float = 5.0) -> None:
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        if condition():
            return
        assert asyncio.get_running_loop().time() < deadline, f"not within {within_s} s"
        await asyncio.sleep(0.01)


def scenario(run: Runner, folder: Path, tell: Callable[[Served], Awaitable[None]], bounds: Bounds, tls: bool) -> None:
    async def whole() -> None:
        async with served(bounds, folder if tls else None) as server:
            await tell(server)

    run(whole())


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_requests_beyond_a_bound_are_refused_before_anybody_asks_who(run: Runner, tls: bool, tmp_path: Path) -> None:
    bounds = Bounds(header_bytes=2000, path_bytes=500, header_fields=20, pipelined=4)
    cases = [
        (b"GET /" + b"p" * 600 + b" HTTP/1.1\r\n\r\n", 414, "path_bytes"),
        (b"GET /?" + b"q" * 600 + b" HTTP/1.1\r\n\r\n", 414, "path_bytes"),
        (HEAD + b"a: " + b"v" * 2100 + b"\r\n\r\n", 431, "header_bytes"),
        (HEAD + b"a: b\r\n" * 30 + b"\r\n", 431, "header_bytes"),
        (b"GARBAGE\r\n\r\n", 400, "syntax"),
    ]

    async def tell(server: Served) -> None:
        for data, code, bound in cases:
            before = server.refused(bound)
            peer = await server.peer()
            await peer.send(data)
            status, body = await peer.answer()
            assert (status, json.loads(body)["code"]) == (code, code), data[:40]
            assert await peer.ended()
            assert server.refused(bound) == before + 1
        peer = await server.peer()
        await peer.send((HEAD + b"\r\n").replace(b"/ ", b"/quiet ") + (HEAD + b"\r\n") * 20)
        assert await peer.ended()
        assert server.refused("pipelined") == 1
        await until(lambda: server.connections() == 0)

    scenario(run, tmp_path, tell, bounds, tls)


@pytest.mark.parametrize("run", RUNNERS)
def test_headers_and_trailers_without_end_are_cut_off(run: Runner, tmp_path: Path) -> None:
    async def tell(server: Served) -> None:
        for begin in (HEAD + b"a: ", b"POST /echo HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nt: "):
            peer = await server.peer()
            await peer.send(begin)
            sent = 0
            with pytest.raises(ConnectionError):
                while sent < 10 << 20:
                    await peer.send(b"v" * 4096)
                    sent += 4096
                    await asyncio.sleep(0)
            assert sent < 10 << 20
        assert server.refused("header_bytes") == 2

    scenario(run, tmp_path, tell, Bounds(header_bytes=16384), False)


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_what_comes_too_slowly_is_408_and_the_connection_ends(run: Runner, tls: bool, tmp_path: Path) -> None:
    async def tell(server: Served) -> None:
        silent, head, blank, body = [await server.peer() for _ in range(4)]
        await head.send(HEAD)
        await body.send(b"POST /echo HTTP/1.1\r\ncontent-length: 10\r\n\r\n123")
        for _ in range(5):  # bytes that begin no request keep nothing open
            await blank.send(b"\r\n")
            await asyncio.sleep(0.05)
        assert (await head.answer())[0] == 408
        assert (await body.answer())[0] == 408
        for peer in (silent, head, blank, body):
            assert await peer.ended()
        assert (server.refused("header_s"), server.refused("body_s")) == (3, 1)
        await until(lambda: server.face.open == 0 and server.connections() == 0)

    scenario(run, tmp_path, tell, Bounds(header_s=0.4, body_s=0.4), tls)


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_idle_connections_and_quiet_watches_are_not_slow(run: Runner, tls: bool, tmp_path: Path) -> None:
    async def tell(server: Served) -> None:
        idle, watch = await server.peer(), await server.peer()
        await watch.send((HEAD + b"\r\n").replace(b"/ ", b"/quiet "))
        for _ in range(2):
            await idle.send(HEAD + b"\r\n")
            assert await idle.answer() == (200, b"0")
            await idle.send(b"POST /echo HTTP/1.1\r\ncontent-length: 10\r\n\r\n12345")
            await asyncio.sleep(0.05)
            await idle.send(b"67890")
            assert await idle.answer() == (200, b"10")
            await asyncio.sleep(0.9)
        assert not await watch.ended(0.2)
        assert server.connections() == 2

    scenario(run, tmp_path, tell, Bounds(header_s=0.7, body_s=0.7, send_s=0.7), tls)


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_connections_are_counted_from_the_first_packet_on(run: Runner, tls: bool, tmp_path: Path) -> None:
    async def tell(server: Served) -> None:
        # They say nothing: with TLS they are still before their handshake.
        held = [socket.create_connection(("127.0.0.1", server.server.port)) for _ in range(3)]
        await until(lambda: server.connections() == 3)
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", server.server.port)) as more:
                assert await asyncio.to_thread(_ended, more)
        assert server.refused("connections_by_address") == 2
        held.pop().close()
        await until(lambda: server.connections() == 2)
        peer = await server.peer()
        await peer.send(HEAD + b"\r\n")
        assert await peer.answer() == (200, b"0")
        for sock in held:
            sock.close()

    scenario(run, tmp_path, tell, Bounds(connections_by_address=3), tls)


@pytest.mark.parametrize("run", RUNNERS)
def test_too_many_connections_are_refused_and_a_handshake_has_its_time(run: Runner, tmp_path: Path) -> None:
    async def tell(server: Served) -> None:
        mute = socket.create_connection(("127.0.0.1", server.server.port))
        await until(lambda: server.connections() == 1)
        with socket.create_connection(("127.0.0.1", server.server.port)) as more:
            assert await asyncio.to_thread(_ended, more)
        assert server.refused("connections") == 1
        assert await asyncio.to_thread(_ended, mute)
        mute.close()
        await until(lambda: server.connections() == 0)
        peer = await server.peer()
        await peer.send(HEAD + b"\r\n")
        assert await peer.answer() == (200, b"0")

    scenario(run, tmp_path, tell, Bounds(connections=1, handshake_s=0.5), True)


def _ended(sock: socket.socket) -> bool:
    sock.settimeout(5)
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize("run", RUNNERS)
@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    ("path", "more"),
    [("/large", b""), ("/large", b"connection: close\r\n"), ("/endless", b"")],
    ids=["a large answer", "a last answer", "a stream"],
)
def test_a_client_that_stops_reading_is_cut_off(run: Runner, tls: bool, path: str, more: bytes, tmp_path: Path) -> None:
    async def tell(server: Served) -> None:
        peer = await server.peer()
        reading = await server.peer()
        await reading.send((HEAD + b"\r\n").replace(b"/ ", b"/large "))
        peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await peer.send((HEAD + more + b"\r\n").replace(b"/ ", path.encode() + b" "))
        status, body = await reading.answer(20)  # who reads gets everything meanwhile
        assert (status, len(body)) == (200, len(LARGE))
        await until(lambda: server.cut() == 1, 20)
        await until(lambda: server.face.open == 0 and server.connections() == 1)

    scenario(run, tmp_path, tell, Bounds(send_s=1.5), tls)


def test_addresses_of_one_subscriber_count_as_one() -> None:
    assert neighbourhood("10.0.0.1") == "10.0.0.1" == neighbourhood("::ffff:10.0.0.1")
    assert neighbourhood("2001:db8::1") == neighbourhood("2001:db8::2:3") != neighbourhood("2001:db8:0:1::1")
    assert neighbourhood("fe80::1%eth0") == neighbourhood("fe80::2")
