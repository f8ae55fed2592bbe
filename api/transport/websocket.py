"""A connection that a client has upgraded: to a WebSocket, of which this is the server's end, or to bytes that the hub
passes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from api.access.credentials import TOKEN_PROTOCOL
from api.engine.status import StatusError, bad_request
from api.transport.protocol import TAKE_OVER
from api.transport.takenconnection import RawPipe, TakenConnection
from api.wire.frames import BadMessage, Decoder, Op, accept_key, encode, encode_close
from api.wire.http import JSON, Request, Stream, Upgrade

LENGTH_BYTES = 4  # of a protobuf event in a stream


class ServerPipe(TakenConnection):
    """A Pipe of messages. `deaf`: what the client says is passed over, but that it goes."""

    def __init__(self, *, deaf: bool = False) -> None:
        super().__init__()
        self._decoder, self._deaf = Decoder(), deaf
        self._code = 0

    # -- the transport's calls

    def data_received(self, data: bytes) -> None:
        if self._over:  # nothing reads it any more
            return
        try:
            for message in self._decoder.feed(data):
                self._takes(message.op, message.data)
        except BadMessage as error:
            self._ends(1002, str(error))
        self._rest()

    def _takes(self, op: Op, data: bytes) -> None:
        assert self._transport is not None
        match op:
            case Op.BINARY | Op.TEXT if self._deaf:
                pass
            case Op.BINARY:
                self._came(data)
            case Op.PING:
                if self._writable.is_set():  # a client that asks and does not read gets no answer
                    self._transport.write(encode(Op.PONG, data))
            case Op.CLOSE:
                code = int.from_bytes(data[:2], "big") if len(data) >= 2 else 1005
                self._ends(code, data[2:].decode("utf-8", "replace"))
            case Op.TEXT:
                raise BadMessage("a message is text")

    def _ends(self, code: int, reason: str) -> None:
        """The client has said its last, or is to be heard no more."""
        if not self._over:
            self._code, self._reason = code, reason
        self._over = True
        self._news.set()

    # -- for users

    async def send(self, message: bytes) -> None:
        await self._put(encode(Op.BINARY, message))

    async def send_text(self, message: bytes) -> None:
        await self._put(encode(Op.TEXT, message))

    async def receive(self) -> bytes | None:
        return await self._next()

    async def close(self, code: int, reason: str) -> None:
        self._end(encode_close(code, reason))

    def end_status(self) -> tuple[int, str]:
        return self._code, self._reason


def offers(request: Request) -> list[str]:
    """The subprotocols that the client offers, without the one that carries its token."""
    named = [text.strip() for text in request.header(b"sec-websocket-protocol").split(",")]
    return [text for text in named if text and not text.startswith(TOKEN_PROTOCOL)]


def is_websocket(request: Request) -> bool:
    wants = {word.strip().lower() for word in request.header(b"connection").split(",")}
    return request.header(b"upgrade").lower() == "websocket" and "upgrade" in wants


def handshake(request: Request, protocol: str = "") -> tuple[tuple[str, str], ...]:
    """The server's part, with the subprotocol that it chose. StatusError for a request that asks for no WebSocket."""
    if not is_websocket(request):
        raise StatusError(426, "UpgradeRequired", "this is a WebSocket: Upgrade: websocket is required")
    if request.header(b"sec-websocket-version") != "13":
        raise bad_request("the version of WebSocket must be 13")
    accepted = accept_key(request.header(b"sec-websocket-key").strip())
    if accepted is None:
        raise bad_request("Sec-WebSocket-Key is no key")
    need_take_over(request)
    chosen = (("sec-websocket-protocol", protocol),) if protocol else ()
    return (("upgrade", "websocket"), ("sec-websocket-accept", accepted), *chosen)


def need_take_over(request: Request) -> None:
    """StatusError where the connection cannot change its protocol, as below another server."""
    if TAKE_OVER not in request.scope.get("extensions", {}):
        raise StatusError(501, "NotImplemented", "this server cannot change the protocol of a connection")


async def send_upgrade(answer: Upgrade, request: Request, *ends: asyncio.Event) -> None:
    """Change the protocol of the request's connection, and run the answer until it has ended or one of `ends` is
    set."""
    pipe: TakenConnection = RawPipe() if answer.raw else ServerPipe(deaf=answer.deaf)
    lines = "".join(f"{name}: {value}\r\n" for name, value in answer.headers)
    head = f"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\n{lines}\r\n"
    tasks: list[asyncio.Task[object]] = []
    try:
        try:
            request.scope["extensions"][TAKE_OVER](head.encode("latin-1"), pipe)
        except ConnectionError:
            return
        running: asyncio.Task[object] = asyncio.create_task(_run(answer, pipe))
        tasks = [running, *(asyncio.create_task(event.wait()) for event in ends)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if answer.done is not None:
            await answer.done()
        await pipe.close(1001, "the server ends this connection")


async def _run(answer: Upgrade, pipe: TakenConnection) -> None:
    await answer.run(pipe)


def stream_upgrade(stream: Stream, headers: tuple[tuple[str, str], ...]) -> Upgrade:
    """The events of a watch as messages, one each: text for JSON, bytes for protobuf. The client says nothing."""
    text = any(name == b"content-type" and value.startswith(JSON.encode()) for name, value in stream.headers)

    async def run(pipe: ServerPipe) -> None:
        async def send(chunk: bytes) -> None:
            for event in chunk.splitlines(keepends=True) if text else _frames(chunk):
                await (pipe.send_text(event) if text else pipe.send(event))

        pump: asyncio.Task[object] = asyncio.create_task(_pumped(stream, send))
        incoming: asyncio.Task[object] = asyncio.create_task(pipe.receive())
        try:
            await asyncio.wait((pump, incoming), timeout=stream.timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (pump, incoming):
                task.cancel()
            await asyncio.gather(pump, incoming, return_exceptions=True)

    return Upgrade(headers, run, done=stream.done, deaf=True)


async def _pumped(stream: Stream, send: Callable[[bytes], Awaitable[None]]) -> None:
    await stream.pump(send)


def _frames(chunk: bytes) -> Iterator[bytes]:
    """Protobuf events without the length before each, which a message has itself."""
    at = 0
    while at < len(chunk):
        size = int.from_bytes(chunk[at : at + LENGTH_BYTES], "big")
        yield chunk[at + LENGTH_BYTES : at + LENGTH_BYTES + size]
        at += LENGTH_BYTES + size
