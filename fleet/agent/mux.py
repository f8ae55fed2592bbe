"""Many streams over one connection, as frames.py writes them.

The reader of the connection never waits for a stream: each stream has a window, and a peer that sends past it ends the
connection. So a stream whose reader is slow holds its own bytes, bounded, and nothing else. Writers take turns frame by
frame. One side opens streams, the other accepts them. A connection that is silent for `silent_s`, although it is asked
every `ping_s`, is over: a firewall that forgot it, or a machine without power, sends no end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

from fleet.agent.frames import (
    DATA_MAX,
    PING_BYTES,
    STREAM_MAX,
    BadFrame,
    Frame,
    FrameKind,
    decode,
    encode,
    reason_of,
    reset,
    window,
    window_of,
)

CONTROL_MAX = 2048  # frames that wait to be sent beside data: a peer that asks for more than it reads is cut off
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class MuxLimits:
    """Times in seconds. Unread bytes of one connection are at most `window` times `streams`."""

    streams: int = 256
    window: int = 256 * 1024
    ping_s: float = 2.5
    silent_s: float = 8.0
    open_s: float = 10.0


class Pipe(Protocol):
    """A connection that carries messages, in order."""

    async def send(self, message: bytes) -> None:
        """Returns when the connection can take more. Raises OSError when it is over."""
        ...

    async def receive(self) -> bytes | None:
        """The next message; None at the end."""
        ...

    async def close(self, code: int, reason: str) -> None:
        """Say why, and end it. Never waits for the peer."""
        ...

    def end_status(self) -> tuple[int, str]:
        """The peer's code and reason at the end; 0 when it gave none."""
        ...


class BrokenStream(ConnectionError):
    """The stream is over before its end; the text says why."""


class Stream:
    """A stream of bytes in both directions, made by its Mux."""

    def __init__(self, mux: Mux, number: int, size: int) -> None:
        self._mux, self.number, self._size = mux, number, size
        self._unread: deque[bytes] = deque()
        self._unread_bytes = 0
        self._credit = 0  # read here, and not yet allowed again to the peer
        self._allowed = size
        self._ended = self._written = False  # no more comes; no more is sent
        self._news, self._room = asyncio.Event(), asyncio.Event()
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.broken = ""

    # -- for users

    async def accept(self) -> None:
        """Grant a stream that the peer asked for."""
        await self._mux._send(Frame(FrameKind.OPENED, self.number))

    async def read(self) -> bytes:
        """The next bytes, b"" at the end. Raises BrokenStream."""
        while not self._unread:
            self._check()
            if self._ended:
                return b""
            self._news.clear()
            await self._news.wait()
        data = self._unread.popleft()
        self._unread_bytes -= len(data)
        self._credit += len(data)
        if self._credit * 2 >= self._size and not self._ended:
            taken, self._credit = self._credit, 0
            await self._mux._send(window(self.number, taken))
        return data

    async def write(self, data: bytes) -> None:
        """Send, as fast as the peer reads. Raises BrokenStream."""
        view = memoryview(data)
        while view:
            while not self._allowed:
                self._check()
                self._room.clear()
                await self._room.wait()
            self._check()
            part = view[: min(self._allowed, DATA_MAX)]
            self._allowed -= len(part)
            view = view[len(part) :]
            await self._mux._send(Frame(FrameKind.DATA, self.number, bytes(part)))

    async def write_eof(self) -> None:
        """No more comes from here."""
        if not self._written and not self.broken:
            self._written = True
            await self._mux._send(Frame(FrameKind.END, self.number))
            self._mux._over(self)

    def abort(self, reason: str) -> None:
        """Break the stream, unless it is over already; the peer is told why."""
        if not self.broken and not (self._ended and self._written):
            self._mux._control(reset(self.number, reason))
        self.breaks(reason)

    # -- for the Mux

    @property
    def finished(self) -> bool:
        return self._ended and self._written

    def _check(self) -> None:
        if self.broken:
            raise BrokenStream(self.broken)

    def breaks(self, reason: str) -> None:
        self.broken = self.broken or reason or "reset"
        if not self.opened.done():
            self.opened.set_result(None)
        self._unread.clear()
        self._unread_bytes = 0
        self._news.set()
        self._room.set()
        self._mux._over(self)

    def takes(self, frame: Frame) -> None:
        """A frame of the peer's. Raises BadFrame."""
        match frame.kind:
            case FrameKind.OPENED:
                if not self.opened.done():
                    self.opened.set_result(None)
            case FrameKind.DATA:
                self._unread_bytes += len(frame.payload)
                if self._ended or self._unread_bytes + self._credit > self._size:
                    raise BadFrame("more data than was allowed")
                self._unread.append(frame.payload)
                self._news.set()
            case FrameKind.WINDOW:
                self._allowed += window_of(frame)
                if self._allowed > self._size:
                    raise BadFrame("a window larger than it was")
                self._room.set()
            case FrameKind.END:
                self._ended = True
                self._news.set()
                self._mux._over(self)
            case FrameKind.RESET:
                self.breaks(reason_of(frame))


Accept = Callable[[Stream], Awaitable[None]]


class Mux:
    """Runs one connection. `accept` handles each stream that the peer opens, in a task of its own; None: the peer
    opens none."""

    def __init__(self, pipe: Pipe, accept: Accept | None = None, limits: MuxLimits | None = None) -> None:
        self.limits = limits or MuxLimits()
        self.why = ""  # it is over
        self.over = asyncio.Event()
        self.sent_bytes = self.received_bytes = 0
        self._pipe, self._accept = pipe, accept
        self._streams: dict[int, Stream] = {}
        self._last = 0  # number of the newest stream
        self._turn = asyncio.Lock()  # asyncio's locks are fair, so writers take turns
        self._waiting: deque[Frame] = deque()
        self._waits = asyncio.Event()
        self._heard_at = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._code = 1000

    async def run(self) -> None:
        """Until the connection is over, for whatever reason; `why` says it."""
        self._heard_at = asyncio.get_running_loop().time()
        parts = [
            asyncio.create_task(part(), name=f"tunnel:{part.__name__}")
            for part in (self._read, self._send_control, self._ping)
        ]
        waiting: asyncio.Task[object] = asyncio.create_task(self.over.wait())
        try:
            await asyncio.wait({waiting, *parts}, return_when=asyncio.FIRST_COMPLETED)
            for part in parts:
                if part.done() and not part.cancelled() and (error := part.exception()) is not None:
                    self._fails(error)
        finally:
            self.close(self.why or "the connection has ended")
            for task in (waiting, *parts, *self._tasks):
                task.cancel()
            await asyncio.gather(waiting, *parts, *self._tasks, return_exceptions=True)
            await self._pipe.close(self._code, self.why)

    def _fails(self, error: BaseException) -> None:
        if isinstance(error, BadFrame):
            self.close(f"the peer breaks the protocol: {error}", 1002)
        elif isinstance(error, OSError):
            self.close(str(error) or type(error).__name__)
        else:
            log.error("a tunnel failed", error=repr(error)[:300])
            self.close(repr(error)[:100], 1011)

    def close(self, why: str, code: int = 1000) -> None:
        """End the connection and break its streams."""
        if self.over.is_set():
            return
        self.why, self._code = why, code
        self.over.set()
        for stream in list(self._streams.values()):
            stream.breaks(why)

    @property
    def streams(self) -> int:
        return len(self._streams)

    async def open(self) -> Stream:
        """A stream that the peer has granted. Raises BrokenStream with the peer's reason."""
        if self.over.is_set():
            raise BrokenStream(self.why)
        if len(self._streams) >= self.limits.streams or self._last >= STREAM_MAX:
            raise BrokenStream("too many streams over one tunnel")
        self._last += 1
        stream = self._streams[self._last] = Stream(self, self._last, self.limits.window)
        try:
            async with asyncio.timeout(self.limits.open_s):
                await self._send(Frame(FrameKind.OPEN, stream.number))
                await stream.opened
        except TimeoutError:
            stream.abort("not wanted any more")
            raise BrokenStream(f"no answer over the tunnel within {self.limits.open_s:g} s") from None
        except BaseException:
            stream.abort("not wanted any more")
            raise
        stream._check()
        return stream

    # -- the connection

    async def _send(self, frame: Frame | None = None) -> None:
        """Send what waits, then the frame: a peer hears of the end of one stream before the begin of the next."""
        async with self._turn:
            if self.over.is_set():
                raise BrokenStream(self.why)
            try:
                while self._waiting:
                    await self._write(self._waiting.popleft())
                if frame is not None:
                    await self._write(frame)
            except OSError as error:
                self.close(str(error) or type(error).__name__)
                raise BrokenStream(self.why) from error

    async def _write(self, frame: Frame) -> None:
        message = encode(frame)
        self.sent_bytes += len(message)
        await self._pipe.send(message)

    def _control(self, frame: Frame) -> None:
        """Send without waiting."""
        if len(self._waiting) >= CONTROL_MAX:
            self.close("the peer asks for more than it reads", 1008)
            return
        self._waiting.append(frame)
        self._waits.set()

    async def _send_control(self) -> None:
        while True:
            await self._waits.wait()
            self._waits.clear()
            await self._send()

    async def _ping(self) -> None:
        clock, number = asyncio.get_running_loop().time, 0
        while True:
            before = clock()
            await asyncio.sleep(self.limits.ping_s)
            late = clock() - before - self.limits.ping_s  # this process was stopped or starved: it cannot have heard
            self._heard_at = min(clock(), self._heard_at + max(0.0, late))
            if clock() - self._heard_at > self.limits.silent_s:
                self.close(f"silent for {self.limits.silent_s:g} s", 1001)
                return
            number += 1
            self._control(Frame(FrameKind.PING, 0, number.to_bytes(PING_BYTES, "big")))

    async def _read(self) -> None:
        while (message := await self._pipe.receive()) is not None:
            self._heard_at = asyncio.get_running_loop().time()
            self.received_bytes += len(message)
            self._takes(decode(message))
        code, reason = self._pipe.end_status()
        self.close(reason or f"closed by the peer{f' ({code})' if code else ''}")

    def _takes(self, frame: Frame) -> None:
        if frame.kind is FrameKind.PING:
            self._control(Frame(FrameKind.PONG, 0, frame.payload))
        elif frame.kind is FrameKind.OPEN:
            self._asked(frame.stream)
        elif frame.kind is not FrameKind.PONG:
            stream = self._streams.get(frame.stream)
            if stream is not None:
                stream.takes(frame)
            elif frame.stream > self._last:
                raise BadFrame(f"{frame.kind.name} of a stream that was never opened")

    def _asked(self, number: int) -> None:
        if self._accept is None or number <= self._last:
            raise BadFrame("OPEN out of turn")
        self._last = number
        if len(self._streams) >= self.limits.streams:
            self._control(reset(number, "too many streams over one tunnel"))
            return
        stream = self._streams[number] = Stream(self, number, self.limits.window)
        task = asyncio.create_task(self._serve(stream, self._accept), name=f"tunnel:stream-{number}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, stream: Stream, accept: Accept) -> None:
        try:
            await accept(stream)
            stream.abort("its handler has ended")
        except OSError as error:
            stream.abort(str(error) or type(error).__name__)
        except Exception:  # a bug met by one stream: the others go on
            log.exception("a stream failed")
            stream.abort("failed")
        finally:
            if not stream.finished:
                stream.breaks("its handler has ended")

    def _over(self, stream: Stream) -> None:
        if stream.broken or stream.finished:
            self._streams.pop(stream.number, None)

    def __len__(self) -> int:
        return len(self._streams)
