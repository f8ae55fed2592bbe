"""Requests and answers, as thin as they can be: an API server spends its time here on every call.

No framework: a `Request` wraps the ASGI scope and parses what is asked for when it is asked for; a handler returns a
`Response` (bytes) or a `Stream` (a coroutine that sends chunks until it is done or cancelled).
"""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl

import orjson

from api.engine.status import StatusError, bad_request
from api.objects.writing import User
from api.wire.nullrecord import UNRECORDED, NullRecord
from api.wire.rights import Attributes

if TYPE_CHECKING:
    from zlib import _Compress as Packer

    from api.fairness.gate import RequestPlace

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

JSON = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MAX_BODY_BYTES = 3 * 1024 * 1024
PIECE_BYTES = 64 * 1024  # of a large answer, handed over at once: to encrypt it takes a tenth of a millisecond
AT_HAND_BYTES = 1024 * 1024  # of a list, made before the first byte is sent; the rest is made as the client reads
WHOLE_BYTES = 128 * 1024  # of an answer that is handed over whole: another piece would wait for its turn
ZIP_ABOVE_BYTES = 128 * 1024  # of an answer, as a kube-apiserver; below it the network is not what takes time
ZIP_LEVEL = 1  # higher ones take several times as long and save little
GZIP_WINDOW = 31  # as zlib says "with the headers of gzip"
MAX_PARAMETERS = 1000
LENGTH_DIGITS = 18  # of a Content-Length
_DURATION = re.compile(r"[-+]?(0|((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+)")
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class Request:
    """One HTTP request. `user` is filled in once it is known, `attributes` with what she needs the right to, `place`
    and `alone` (the only one of its user) once fairness has classified it. `record`: what the audit log says of it."""

    __slots__ = (
        "_headers",
        "_query",
        "alone",
        "attributes",
        "method",
        "path",
        "place",
        "receive",
        "record",
        "scope",
        "user",
    )

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self.receive = receive
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.user = ANONYMOUS
        self.attributes: Attributes | None = None
        self.record: NullRecord = UNRECORDED
        self.place: RequestPlace | None = None
        self.alone = False
        self._headers: dict[bytes, bytes] | None = None
        self._query: dict[str, str] | None = None

    def header(self, name: bytes) -> str:
        """The value of a header (name in lower case), "" when absent; repeated headers are joined with commas."""
        if self._headers is None:
            headers: dict[bytes, bytes] = {}
            for key, value in self.scope["headers"]:
                headers[key] = headers[key] + b", " + value if key in headers else value
            self._headers = headers
        value = self._headers.get(name)
        return value.decode("latin-1") if value is not None else ""

    def all_headers(self, name: bytes) -> list[str]:
        """Every value of a header that may stand several times (name in lower case)."""
        return [value.decode("latin-1") for key, value in self.scope["headers"] if key == name]

    @property
    def query(self) -> Mapping[str, str]:
        """Query parameters, the first value of each."""
        if self._query is None:
            query: dict[str, str] = {}
            raw = self.scope.get("query_string", b"")
            if raw:
                try:
                    pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
                except ValueError:
                    raise bad_request(f"more than {MAX_PARAMETERS} query parameters") from None
                for key, value in pairs:
                    query.setdefault(key, value)
            self._query = query
        return self._query

    def flag(self, name: str) -> bool:
        """A boolean parameter as client-go writes them: absent, "0" and "false" are False, even "" is True."""
        value = self.query.get(name)
        return value is not None and value.lower() not in ("false", "0", "f")

    @property
    def agent(self) -> str:
        """The part of the User-Agent before the slash: the name of a writer that gives no field manager."""
        return self.header(b"user-agent").split("/", 1)[0][:128] or "unknown"

    async def body(self, limit: int = MAX_BODY_BYTES) -> bytes:
        """The whole body, chunked or not. StatusError 413 beyond `limit` bytes."""
        length = self.header(b"content-length")
        if length.isascii() and length.isdigit() and (len(length) > LENGTH_DIGITS or int(length) > limit):
            raise too_large(limit)
        message = await self._part()
        data: bytes = message.get("body", b"")
        if not message.get("more_body"):
            if len(data) > limit:
                raise too_large(limit)
            return data
        parts, size = [data], len(data)
        while True:
            if size > limit:
                raise too_large(limit)
            if not message.get("more_body"):
                return b"".join(parts)
            message = await self._part()
            part = message.get("body", b"")
            parts.append(part)
            size += len(part)

    async def _part(self) -> Message:
        message = await self.receive()
        if message["type"] != "http.request":
            # Half a body must never be taken for a whole one: half a YAML document is one too.
            raise bad_request("the client went away before the whole body had come")
        return message


def refuse_timeout(request: Request) -> None:
    """StatusError 400 for a `timeout` that is no duration as Go writes them. No other use is made of it: a request that
    takes as long as clients may ask for is none of ours. Below a proxy the parameter is the member's."""
    if b"timeout=" not in request.scope.get("query_string", b"") or "/proxy" in request.path:
        return
    text = request.query.get("timeout", "")
    if text and not _DURATION.fullmatch(text):
        raise bad_request(f'invalid timeout specified in the request URL - time: invalid duration "{text[:50]}"')


@lru_cache(maxsize=32)  # documents are few, large and made once; bytes know their hash
def _digest(body: bytes) -> str:
    return sha256(body).hexdigest().upper()


def conditional(response: Response, request: Request) -> Response:
    """The answer with an ETag; 304 without a body for a client that has just this."""
    etag = next((value for name, value in response.headers if name == b"etag"), b"")
    if not etag:
        etag = f'"{_digest(response.body)}"'.encode()
        response.headers = (*response.headers, (b"etag", etag))
    known = [item.strip().removeprefix("W/") for item in request.header(b"if-none-match").split(",")]
    if response.status == 200 and etag.decode() in known:
        response.body, response.status = b"", 304
    return response


async def zipped(response: Response, request: Request) -> Response:
    """The answer, compressed where it is large and the client takes gzip: beside the event loop, since zlib lets go of
    the interpreter."""
    if response.length <= ZIP_ABOVE_BYTES:
        return response
    offers = (offer.partition(";")[0].strip() for offer in request.header(b"accept-encoding").split(","))
    if "gzip" in offers and all(name != b"content-encoding" for name, _ in response.headers):
        packer = zlib.compressobj(ZIP_LEVEL, zlib.DEFLATED, GZIP_WINDOW)
        later = response.later
        pieces = (response.body, *response.rest)
        response.body, response.rest = await asyncio.to_thread(_zipped, packer, pieces, last=later is None), ()
        response.later = _zipped_later(packer, later) if later is not None else None
        response.headers = (*response.headers, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding"))
    return response


def _zipped(packer: Packer, pieces: Sequence[bytes], *, last: bool) -> bytes:
    return b"".join([*map(packer.compress, pieces), packer.flush() if last else b""])


async def _zipped_later(packer: Packer, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for piece in pieces:
        yield await asyncio.to_thread(packer.compress, piece)
    yield packer.flush()


def too_large(limit: int) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


async def send_body(send: Send, body: bytes, *, more: bool = False) -> None:
    """Send it in pieces, each when the client has taken those before. A transport holds the bytes that it was given for
    as long as the client does not read. `more`: the next bytes belong to the same answer."""
    if len(body) <= WHOLE_BYTES:
        await send({"type": "http.response.body", "body": body, "more_body": more})
        return
    view = memoryview(body)
    for at in range(0, len(body), PIECE_BYTES):
        if at:
            await asyncio.sleep(0)  # a client that reads fast would otherwise hold the event loop for the whole
        last = at + PIECE_BYTES >= len(body) and not more
        await send({"type": "http.response.body", "body": view[at : at + PIECE_BYTES], "more_body": not last})


class Response:
    """A whole answer. `rest`: the pieces that follow the body, of a large one. `later`: those after them, made when the
    client has taken what is there; None where all are."""

    __slots__ = ("body", "content_type", "headers", "later", "rest", "status")

    def __init__(
        self, body: bytes, status: int = 200, content_type: str = JSON, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        self.body = body
        self.rest: Sequence[bytes] = ()
        self.later: AsyncIterator[bytes] | None = None
        self.status = status
        self.content_type = content_type
        self.headers = headers

    @property
    def length(self) -> int:
        """The bytes that are there."""
        return len(self.body) + sum(map(len, self.rest)) if self.rest else len(self.body)

    @property
    def whole(self) -> bytes:
        """The bytes that are there, as one string."""
        return b"".join((self.body, *self.rest)) if self.rest else self.body

    async def send(self, send: Send) -> None:
        headers = [(b"content-type", self.content_type.encode("latin-1")), *self.headers]
        if self.later is None:
            headers.insert(1, (b"content-length", b"%d" % self.length))
        if all(name != b"cache-control" for name, _ in self.headers):
            headers.append((b"cache-control", b"no-cache, private"))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        later = self.later
        await send_body(send, self.body, more=bool(self.rest) or later is not None)
        for left, piece in zip(range(len(self.rest) - 1, -1, -1), self.rest, strict=True):
            await asyncio.sleep(0)
            await send_body(send, piece, more=left > 0 or later is not None)
        if later is not None:
            async for piece in later:
                await asyncio.sleep(0)
                await send_body(send, piece, more=True)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def as_read(pieces: AsyncIterator[bytes], content_type: str) -> Response:
    """An answer whose pieces are made as the client reads, but for the first ones."""
    first: list[bytes] = []
    size, later = 0, None
    async for piece in pieces:
        first.append(piece)
        size += len(piece)
        if size >= AT_HAND_BYTES:
            later = pieces
            break
    made = in_pieces(first, content_type)
    made.later = later
    return made


def in_pieces(pieces: Sequence[bytes], content_type: str) -> Response:
    """A large answer, of one piece at least."""
    made = Response(pieces[0], content_type=content_type)
    made.rest = pieces[1:]
    return made


class Stream:
    """An answer that goes on: `pump` is called with a function that sends one chunk, and ends by returning. It is
    cancelled when the client goes away, when the server stops, or after `timeout_s`; `done` is called at the end, also
    when `pump` never began."""

    __slots__ = ("done", "headers", "pump", "status", "timeout_s")

    def __init__(
        self,
        pump: Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]],
        timeout_s: float,
        *,
        status: int = 200,
        headers: tuple[tuple[bytes, bytes], ...],
        done: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.pump = pump
        self.timeout_s = timeout_s
        self.status = status
        self.headers = headers
        self.done = done


class Upgrade:
    """An answer after which the connection carries another protocol. `run` gets the connection as messages of a
    WebSocket, or as bytes where `raw`. It is cancelled as a Stream's `pump` is; `done` is called at the end, also when
    `run` never began. `headers`: the server's part of the handshake. `deaf`: messages of the client are passed
    over."""

    __slots__ = ("deaf", "done", "headers", "raw", "run")

    def __init__(
        self,
        headers: tuple[tuple[str, str], ...],
        run: Callable[[Any], Awaitable[None]],
        *,
        done: Callable[[], Awaitable[None]] | None = None,
        raw: bool = False,
        deaf: bool = False,
    ) -> None:
        self.headers = headers
        self.run = run
        self.done = done
        self.raw = raw
        self.deaf = deaf


Answer = Response | Stream | Upgrade
Handler = Callable[[Request], Awaitable[Answer]]


class Face(Protocol):
    """A mounted part that answers as the rest of the API does, streams included. It is no callable, as an ASGI
    application is."""

    async def answer(self, request: Request) -> Answer: ...


class OpenApiSource(Protocol):
    """The OpenAPI documents. `answer` gets a path below /openapi and says what to send, or None for an unknown path."""

    async def answer(self, path: str, request: Request) -> Response | None: ...


def json_response(body: Any, status: int = 200, *, warnings: tuple[str, ...] = ()) -> Response:
    return Response(orjson.dumps(body), status, headers=warning_headers(warnings))


def text_response(text: str, status: int = 200) -> Response:
    return Response(text.encode(), status, "text/plain; charset=utf-8")


def warning_headers(warnings: tuple[str, ...]) -> tuple[tuple[bytes, bytes], ...]:
    """`Warning: 299 - "text"`, as clients print them; bounded, since headers are."""
    headers = []
    for text in warnings[:20]:
        clean = "".join(c if c.isprintable() else " " for c in text)[:400]
        quoted = clean.replace("\\", "\\\\").replace('"', '\\"')
        headers.append((b"warning", f'299 - "{quoted}"'.encode()))
    return tuple(headers)


def error_response(error: StatusError) -> Response:
    headers: tuple[tuple[bytes, bytes], ...] = ()
    if error.retry_after_s is not None:
        headers = ((b"retry-after", b"%d" % error.retry_after_s),)
    return Response(orjson.dumps(error.status()), error.code, headers=headers)
