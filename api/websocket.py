"""A connection that a client has upgraded to a WebSocket: the server's end, as a Pipe of messages.

Both directions are bounded. Messages that nothing has taken yet stop the reading of the connection, and a sender waits
while the transport holds more than it likes to.
"""

from __future__ import annotations

import asyncio
from collections import deque

from api.http import Request, Upgrade
from api.protocol import TAKE_OVER, Tunnelled
from fleet.agent.mux import Pipe
from fleet.agent.websocket import BadMessage, Decoder, Op, accept_key, encode, encode_close
from fleet.engine.status import StatusError, bad_request

UNREAD_MAX = 512 * 1024  # bytes of messages that nothing has taken yet
CLOSE_S = 1.0  # to write what is left


class ServerPipe(Tunnelled):
    """A Pipe."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._decoder = Decoder()
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._paused = False
        self._news, self._writable = asyncio.Event(), asyncio.Event()
        self._writable.set()
        self._over = False
        self._code, self._reason = 0, ""

    # -- the transport's calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._over:  # nothing reads it any more
            return
        try:
            for message in self._decoder.feed(data):
                self._takes(message.op, message.data)
        except BadMessage as error:
            self._ends(1002, str(error))
        if self._unread_bytes > UNREAD_MAX and not self._paused and self._transport is not None and not self._over:
            self._paused = True
            self._transport.pause_reading()

    def _takes(self, op: Op, data: bytes) -> None:
        assert self._transport is not None
        match op:
            case Op.BINARY:
                self._unread.append(data)
                self._unread_bytes += len(data)
                self._news.set()
            case Op.PING:
                if self._writable.is_set():  # a client that asks and does not read gets no answer
                    self._transport.write(encode(Op.PONG, data))
            case Op.CLOSE:
                code = int.from_bytes(data[:2], "big") if len(data) >= 2 else 1005
                self._ends(code, data[2:].decode("utf-8", "replace"))
            case Op.TEXT:
                raise BadMessage("a message is text")

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._reason = self._reason or (str(exc) if exc is not None else "")
        self._news.set()
        self._writable.set()
        self.lost(exc)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _ends(self, code: int, reason: str) -> None:
        """The client has said its last, or is to be heard no more."""
        if not self._over:
            self._code, self._reason = code, reason
        self._over = True
        self._news.set()

    # -- for users

    async def send(self, message: bytes) -> None:
        if self._over or self._transport is None or self._transport.is_closing():
            raise ConnectionError(self._reason or "the connection is closed")
        self._transport.write(encode(Op.BINARY, message))
        if not self._writable.is_set():
            await self._writable.wait()

    async def receive(self) -> bytes | None:
        while not self._unread:
            if self._over:
                return None
            self._news.clear()
            await self._news.wait()
        message = self._unread.popleft()
        self._unread_bytes -= len(message)
        if self._paused and self._unread_bytes <= UNREAD_MAX // 2 and self._transport is not None:
            self._paused = False
            if not self._transport.is_closing():
                self._transport.resume_reading()
        return message

    async def close(self, code: int, reason: str) -> None:
        transport = self._transport
        self._over = True
        self._news.set()
        if transport is None or transport.is_closing():
            return
        transport.write(encode_close(code, reason))
        transport.close()
        asyncio.get_running_loop().call_later(CLOSE_S, transport.abort)  # else a client that reads nothing keeps it

    def ended(self) -> tuple[int, str]:
        return self._code, self._reason


def handshake(request: Request) -> str:
    """The value of Sec-WebSocket-Accept. StatusError for a request that asks for no WebSocket."""
    wants = {word.strip().lower() for word in request.header(b"connection").split(",")}
    if request.header(b"upgrade").lower() != "websocket" or "upgrade" not in wants:
        raise StatusError(426, "UpgradeRequired", "a tunnel is a WebSocket: Upgrade: websocket is required")
    if request.header(b"sec-websocket-version") != "13":
        raise bad_request("the version of WebSocket must be 13")
    accepted = accept_key(request.header(b"sec-websocket-key").strip())
    if accepted is None:
        raise bad_request("Sec-WebSocket-Key is no key")
    if TAKE_OVER not in request.scope.get("extensions", {}):
        raise StatusError(501, "NotImplemented", "this server cannot change the protocol of a connection")
    return accepted


async def send_upgrade(answer: Upgrade, request: Request, *ends: asyncio.Event) -> None:
    """Change the protocol of the request's connection, and run the answer until it has ended or one of `ends` is
    set."""
    pipe = ServerPipe()
    head = (
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n"
        f"sec-websocket-accept: {answer.accepted}\r\n\r\n"
    )
    try:
        request.scope["extensions"][TAKE_OVER](head.encode(), pipe)
    except ConnectionError:
        return
    running: asyncio.Task[None] = asyncio.create_task(_run(answer, pipe))
    others: list[asyncio.Task[object]] = [asyncio.create_task(event.wait()) for event in ends]
    try:
        await asyncio.wait((running, *others), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in (running, *others):
            task.cancel()
        await asyncio.gather(running, *others, return_exceptions=True)
        await pipe.close(1001, "the server ends this connection")


async def _run(answer: Upgrade, pipe: Pipe) -> None:
    await answer.run(pipe)
