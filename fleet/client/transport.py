"""The two drivers of operations: one that blocks, one for asyncio. httpx carries both."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
import time
import warnings
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import AsyncExitStack, ExitStack, aclosing, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

import orjson

from fleet.client.config import Access
from fleet.client.errors import Unreachable
from fleet.client.steps import (
    Answer,
    Came,
    Flow,
    Give,
    NextLine,
    NextOf,
    Now,
    Open,
    Pause,
    Request,
    Say,
    Steps,
    lines_of,
)
from fleet.client.streams import InThread, Streams

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")
R = TypeVar("R")
CONNECT_S = 10.0
AGENT = "fleet-python"
WARNING_MOST_CHARS = 1000
HERE = str(Path(__file__).parent)


class HubWarning(UserWarning):
    """What the hub warns of beside its answer."""


def warn(text: str) -> None:
    """A HubWarning at the line of the program, outside this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(HERE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, HubWarning, stacklevel=level)


class _Talk(Generic[R]):
    """An operation under way: its next command, or its result when it is over."""

    def __init__(self, steps: Generator[Any, Any, R]) -> None:
        self._steps = steps
        self.over = False
        self.command: Any = None
        self.result: Any = None
        self.items: list[Any] = []
        self.answered(None)

    def answered(self, outcome: Any) -> None:
        try:
            self.command = self._steps.send(outcome)
        except StopIteration as stop:
            self.over, self.result = True, stop.value

    def failed(self, error: Exception) -> None:
        try:
            self.command = self._steps.throw(error)
        except StopIteration as stop:
            self.over, self.result = True, stop.value

    def local(self) -> Any:
        """The outcome of a command that asks the server nothing."""
        if isinstance(self.command, Give):
            self.items.append(self.command.item)
        elif isinstance(self.command, Say):
            warn(self.command.text)
        return time.monotonic() if isinstance(self.command, Now) else None

    def taken(self) -> list[Any]:
        given, self.items = self.items, []
        return given

    def close(self) -> None:
        self._steps.close()


class Blocking:
    """Carries operations out in the calling thread."""

    def __init__(self, access: Access, timeout_s: float) -> None:
        import httpx

        self._access, self._timeout_s = access, timeout_s
        self._client = httpx.Client(**_options(access, timeout_s))

    def run(self, steps: Steps[R]) -> R:
        talk = _Talk(steps)
        for _ in self._driven(talk):
            pass
        result: R = talk.result
        return result

    def items(self, flow: Flow[T]) -> Iterator[T]:
        """The items as they come. A loop that is left closes what it has opened."""
        return self._driven(_Talk(flow))

    def _driven(self, talk: _Talk[Any]) -> Iterator[Any]:
        lines: Iterator[str] = iter(())
        with closing(talk), ExitStack() as opened, _Beside(self._access, self._timeout_s) as beside:
            while not talk.over:
                command, outcome = talk.command, talk.local()
                try:
                    if isinstance(command, Request):
                        outcome, lines = self._asked(command, opened)
                    elif isinstance(command, NextLine):
                        outcome = self._next(lines)
                    elif isinstance(command, Open):
                        beside.open(command)
                    elif isinstance(command, NextOf):
                        outcome = beside.next(command.within_s)
                    elif isinstance(command, Pause):
                        time.sleep(command.seconds)
                except Unreachable as error:
                    talk.failed(error)
                else:
                    talk.answered(outcome)
                yield from talk.taken()

    def _asked(self, request: Request, opened: ExitStack) -> tuple[Answer, Iterator[str]]:
        import httpx

        built = self._client.build_request(**_built(request, self._access, self._access.credentials()))
        opened.close()  # an operation reads one stream at a time
        try:
            response = self._client.send(built, stream=request.stream)
            if request.stream:
                opened.callback(response.close)
                if response.status_code == 200:
                    return _opened(built, response, request), lines_of(response.iter_bytes())
                response.read()
        except httpx.RequestError as error:
            raise _unreachable(self._access, error) from error
        return _answer(response, response.content), iter(())

    def _next(self, lines: Iterator[str]) -> str | None:
        import httpx

        try:
            return next(lines, None)
        except httpx.RequestError as error:
            raise _unreachable(self._access, error) from error

    def close(self) -> None:
        self._client.close()


class _Beside:
    """The streams that an operation of a blocking client reads beside each other; begun with the first."""

    def __init__(self, access: Access, timeout_s: float) -> None:
        self._access, self._timeout_s = access, timeout_s
        self._thread: InThread | None = None

    def __enter__(self) -> Self:
        return self

    def open(self, command: Open) -> None:
        if self._thread is None:
            self._thread = InThread()
            self._driver = Awaiting(self._access, self._timeout_s)
            self._streams = Streams(self._driver.asked, self._driver.next_line)
        self._thread.run(self._streams.open(command))

    def next(self, within_s: float) -> list[Came]:
        if self._thread is not None:
            return self._thread.run(self._streams.next(within_s))
        time.sleep(within_s)
        return []

    def __exit__(self, *_: object) -> None:
        if self._thread is not None:
            self._thread.run(self._streams.aclose())
            self._thread.run(self._driver.close())
            self._thread.close()


class Awaiting:
    """Carries operations out in an event loop."""

    def __init__(self, access: Access, timeout_s: float) -> None:
        import httpx

        self._access = access
        self._client = httpx.AsyncClient(**_options(access, timeout_s))

    async def run(self, steps: Steps[R]) -> R:
        talk = _Talk(steps)
        async for _ in self._driven(talk):
            pass
        result: R = talk.result
        return result

    def items(self, flow: Flow[T]) -> AsyncIterator[T]:
        """The items as they come. A loop that is left closes what it has opened."""
        return self._driven(_Talk(flow))

    async def _driven(self, talk: _Talk[Any]) -> AsyncIterator[Any]:
        lines: AsyncIterator[str] = _async_lines(None)
        with closing(talk):
            async with AsyncExitStack() as opened, aclosing(Streams(self.asked, self.next_line)) as beside:
                while not talk.over:
                    command, outcome = talk.command, talk.local()
                    try:
                        if isinstance(command, Request):
                            outcome, lines = await self.asked(command, opened)
                        elif isinstance(command, NextLine):
                            outcome = await self.next_line(lines)
                        elif isinstance(command, Open):
                            await beside.open(command)
                        elif isinstance(command, NextOf):
                            outcome = await beside.next(command.within_s)
                        elif isinstance(command, Pause):
                            await asyncio.sleep(command.seconds)
                    except Unreachable as error:
                        talk.failed(error)
                    else:
                        talk.answered(outcome)
                    for item in talk.taken():
                        yield item

    async def asked(self, request: Request, opened: AsyncExitStack) -> tuple[Answer, AsyncIterator[str]]:
        """The answer, and the lines of a stream; `opened` has what is to be closed."""
        import httpx

        credentials = await asyncio.to_thread(self._access.credentials)  # a plugin may run to renew them
        built = self._client.build_request(**_built(request, self._access, credentials))
        await opened.aclose()  # an operation reads one stream at a time
        try:
            response = await self._client.send(built, stream=request.stream)
            if request.stream:
                opened.push_async_callback(response.aclose)
                if response.status_code == 200:
                    return _opened(built, response, request), _async_lines(response.aiter_bytes())
                await response.aread()
        except httpx.RequestError as error:
            raise _unreachable(self._access, error) from error
        return _answer(response, response.content), _async_lines(None)

    async def next_line(self, lines: AsyncIterator[str]) -> str | None:
        import httpx

        try:
            return await anext(lines, None)
        except httpx.RequestError as error:
            raise _unreachable(self._access, error) from error

    async def close(self) -> None:
        await self._client.aclose()


def _options(access: Access, timeout_s: float) -> dict[str, Any]:
    import httpx

    timeout = httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
    return {"base_url": access.server, "verify": access.tls, "timeout": timeout, "headers": {"user-agent": AGENT}}


def _built(request: Request, access: Access, credentials: str) -> dict[str, Any]:
    """The arguments of httpx's build_request."""
    headers = {"accept": request.accept}
    if credentials:
        headers["authorization"] = credentials
    if request.body is not None:
        headers["content-type"] = request.content_type
    content = None if request.body is None else orjson.dumps(request.body)
    extensions = {"sni_hostname": access.server_name} if access.server_name else {}
    return {
        "method": request.method,
        "url": request.path,
        "headers": headers,
        "content": content,
        "extensions": extensions,
    }


def _opened(built: httpx.Request, response: httpx.Response, request: Request) -> Answer:
    """The answer of a stream. A followed log may be silent for ever."""
    if request.endless:
        built.extensions["timeout"]["read"] = request.quiet_s
    return _answer(response, b"")


def _answer(response: httpx.Response, raw: bytes) -> Answer:
    for header in response.headers.get_list("warning"):
        number, _, quoted = header.partition(' "')
        if number.startswith("299 "):
            text = quoted.rstrip().removesuffix('"').replace('\\"', '"').replace("\\\\", "\\")
            warn(text[:WARNING_MOST_CHARS])
    return Answer(response.status_code, raw, dict(response.headers))


async def _async_lines(pieces: AsyncIterator[bytes] | None) -> AsyncIterator[str]:
    """The same of pieces that are waited for; none at all without pieces."""
    rest = b""
    if pieces is not None:
        async for piece in pieces:
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def _unreachable(access: Access, error: Exception) -> Unreachable:
    import httpx

    if isinstance(error, httpx.TimeoutException):
        return Unreachable(access.server, "timed out")
    below: BaseException | None = error
    while below is not None:
        if isinstance(below, ssl.SSLCertVerificationError):
            why = f"its certificate is not trusted ({below.verify_message})"
            return Unreachable(access.server, why, lasting=True)
        if isinstance(below, ConnectionRefusedError):
            return Unreachable(access.server, "connection refused")
        if isinstance(below, socket.gaierror):
            return Unreachable(access.server, "its name does not resolve")
        below = below.__cause__ or below.__context__
    return Unreachable(access.server, str(error) or type(error).__name__)
