"""A TCP proxy before one member, which fails as networks and API servers do.

Bytes pass unread, TLS and all. Where a fault needs words of HTTP, the proxy speaks them itself, under the member's own
certificate. A fault strikes the connections that exist and the connections that come, each in its own way (`Mode`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import socket
import ssl
import struct
import threading
from enum import StrEnum
from pathlib import Path

CHUNK = 1 << 16
LINGER_NONE = struct.pack("ii", 1, 0)  # close() sends RST


class Mode(StrEnum):
    """What the proxy does. The first line is for connections that exist, the second for new ones."""

    PASS = "pass"
    SLOW = "slow"  # each piece of data waits | the same
    REFUSE = "refuse"  # reset | reset
    BLACKHOLE = "blackhole"  # hang | accepted, and hang
    HALF_OPEN = "half-open"  # hang, and the other end never learns of it | pass
    CUT = "cut"  # reset, once: each watch ends at a random place | pass
    ERRORS = "errors"  # reset | answered with 429, 500, 502, 503 or 504, or closed in mid-answer
    EXPIRE = "expire"  # reset | watches are answered with 410, all else with 503


FAULTS = tuple(mode for mode in Mode if mode is not Mode.PASS)
SPOKEN = (Mode.ERRORS, Mode.EXPIRE)


class Proxy:
    """Listens on a port of loopback for `target`. `set_mode` is safe to call from any thread once it serves."""

    def __init__(self, name: str, target: int, *, certificate: Path, key: Path, seed: int) -> None:
        self.name, self.port = name, 0
        self.mode = Mode.PASS
        self.struck = 0  # connections that a fault met
        self._target, self._random = target, random.Random(seed)
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate, key)
        self._moving: dict[asyncio.Task[None], asyncio.Event] = {}  # each connection, and whether its bytes move
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self._reset()
        await asyncio.gather(*self._moving, return_exceptions=True)

    def set_mode(self, mode: Mode) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._set_mode(mode), self._loop).result(10)

    async def _set_mode(self, mode: Mode) -> None:
        """A fault that ends resets the connections that hung: half of their bytes may be lost."""
        if mode is not Mode.PASS:
            self.struck += len(self._moving)
        if mode in (Mode.BLACKHOLE, Mode.HALF_OPEN):
            for moving in self._moving.values():
                moving.clear()
        elif mode is not Mode.SLOW and (mode is not Mode.PASS or self.mode not in (Mode.SLOW, Mode.CUT)):
            self._reset()
        self.mode = mode

    def _reset(self) -> None:
        for task in self._moving:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        moving = self._moving[task] = asyncio.Event()
        if self.mode is not Mode.BLACKHOLE:
            moving.set()
        if self.mode not in (Mode.PASS, Mode.CUT, Mode.HALF_OPEN):
            self.struck += 1
        try:
            if self.mode is Mode.REFUSE:
                return
            if self.mode in SPOKEN:
                await self._speak(self.mode, reader, writer)
            else:
                await self._relay(reader, writer, moving)
        except asyncio.CancelledError:
            pass  # reset; the server's own task has nobody to tell
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            del self._moving[task]
            _abort(writer)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, moving: asyncio.Event) -> None:
        onward_reader, onward = await asyncio.open_connection("127.0.0.1", self._target)
        ways = [
            asyncio.create_task(self._pump(source, sink, moving))
            for source, sink in ((reader, onward), (onward_reader, writer))
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            _abort(onward)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, moving: asyncio.Event) -> None:
        while data := await source.read(CHUNK):
            if self.mode is Mode.SLOW:
                await asyncio.sleep(self._random.uniform(0.02, 0.4))
            await moving.wait()
            sink.write(data)
            await sink.drain()

    async def _speak(self, mode: Mode, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await writer.start_tls(self._tls)
        while self.mode is mode:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lengths = [line.partition(":")[2] for line in head.lower().split("\r\n") if line.startswith("content-len")]
            await reader.readexactly(int(lengths[0]) if lengths else 0)
            watches = "watch=" in head.split("\r\n", 1)[0]
            code = self._random.choice((429, 500, 502, 503, 504)) if mode is Mode.ERRORS else 410 if watches else 503
            answer = _status(code)
            if mode is Mode.ERRORS and self._random.random() < 0.2:
                writer.write(answer[: len(answer) // 2])
                await writer.drain()
                return
            writer.write(answer)
            await writer.drain()


def _status(code: int) -> bytes:
    reason = {410: "Expired", 429: "TooManyRequests", 503: "ServiceUnavailable"}.get(code, "InternalError")
    body = json.dumps(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "reason": reason,
            "code": code,
            "message": "a fault of the test",
        }
    ).encode()
    wait = "Retry-After: 1\r\n" if code == 429 else ""
    head = f"HTTP/1.1 {code} {reason}\r\nContent-Type: application/json\r\n{wait}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _abort(writer: asyncio.StreamWriter) -> None:
    """Close with RST, so that no end takes what it has read for the whole."""
    connection = writer.get_extra_info("socket")
    if connection is not None:
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
    writer.transport.abort()


class ProxyThread:
    """An event loop in a thread of its own, for the proxies of tests that block."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()
        self.proxies: dict[str, Proxy] = {}

    def add(self, proxy: Proxy) -> Proxy:
        asyncio.run_coroutine_threadsafe(proxy.start(), self._loop).result(10)
        self.proxies[proxy.name] = proxy
        return proxy

    def stop(self) -> None:
        async def end() -> None:
            await asyncio.gather(*(proxy.stop() for proxy in self.proxies.values()))

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


def behind(kubeconfig: Path, proxy: Proxy, target: int, to: Path) -> Path:
    """The kubeconfig of a member with the proxy's address in place of its own."""
    text = kubeconfig.read_text()
    assert f"127.0.0.1:{target}" in text
    to.write_text(text.replace(f"127.0.0.1:{target}", f"127.0.0.1:{proxy.port}"))
    to.chmod(0o600)
    return to
