"""HTTP/1.1 as uvicorn speaks it with httptools, with the bounds that neither of the two has.

A request that comes whole in one piece, as nearly all do, costs no timer. All others are timed: the headers from the
first byte, the body from the end of the headers; a client that does not read is timed while the transport holds more
for it than it likes to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from time import perf_counter
from typing import Any

import httptools
import orjson
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from api.access.certificates import SCOPE as CERTIFICATE
from api.access.certificates import PeerCertificate
from api.engine.status import StatusError, bad_request
from api.fairness.reading import SCOPE as READER
from api.fairness.reading import Reader
from api.transport.answering import Cycle
from api.transport.edge import Bounds, ConnectionPlace, EdgeMetrics

TAKE_OVER = "fleet.takeOver"  # in `scope["extensions"]` of a request that asks for another protocol
FIRST_REQUEST_S = 1.0  # for the first request of a connection that was made while the server stops
UNREAD_BYTES = 64 * 1024  # of a request whose reading waits for its turn; then no more is taken from the kernel
WRITE_BUFFER_BYTES = 128 * 1024  # for a client that does not read, beside the kernel's buffer


class _Phase(Enum):
    BETWEEN = auto()  # nothing of the next request has come
    HEAD = auto()
    BODY = auto()


class TunnelProtocol(asyncio.Protocol):
    """A protocol that a connection goes on with; `lost` is to be called at its end."""

    lost: Callable[[Exception | None], None]


class _RefusedError(Exception):
    """Raised in a parser's callback: the flaw, and the name of the bound."""

    def __init__(self, error: StatusError, bound: str) -> None:
        super().__init__(bound)
        self.error, self.bound = error, bound


def _too_long() -> _RefusedError:
    error = StatusError(414, "RequestURITooLong", "the path and the query of the request are too long together")
    return _RefusedError(error, "path_bytes")


def _too_many() -> _RefusedError:
    error = StatusError(431, "RequestHeaderFieldsTooLarge", "the headers of the request are too large together")
    return _RefusedError(error, "header_bytes")


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        bounds: Bounds,
        metrics: EdgeMetrics,
        place: ConnectionPlace,
        reader: Reader | None,
    ) -> None:
        super().__init__(config, server_state, app_state, asyncio.get_running_loop())
        self._bounds, self._metrics, self._place, self._reader = bounds, metrics, place, reader
        self._turn: asyncio.Future[bool] | None = None  # which the reading of the next request waits for
        self._unread = b""  # came meanwhile
        self._phase = _Phase.BETWEEN
        self._requests = 0  # begun
        self._head_bytes = self._head_fields = 0  # of this request, as far as the parser has told
        self._untold = 0  # bytes that came since the parser last told anything: of a header without end
        self._timed: tuple[_Phase, int] | None = None  # what the timer is for
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None  # until a client that does not read is cut off
        self._patience_s = bounds.send_s  # the time that the client may let pass so
        self._unsent = 0  # bytes that waited when it began
        self._ending: asyncio.TimerHandle | None = None  # until a connection that should be closed is cut off
        self._over = False
        self._certificate: PeerCertificate | None = None

    # -- the connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(WRITE_BUFFER_BYTES)
        tls = transport.get_extra_info("ssl_object")
        shown = tls.getpeercert(binary_form=True) if tls is not None else None
        if shown:
            self._certificate = PeerCertificate(shown)
        self._time((_Phase.BETWEEN, 0))

    def connection_lost(self, exc: Exception | None) -> None:
        self._over = True
        self._place.leave()
        for timer in (self._timer, self._reading, self._ending):
            if timer is not None:
                timer.cancel()
        self._timer = self._reading = self._ending = None
        if self._turn is not None:
            self._turn.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def dismiss(self) -> None:
        """Let the answer under way end the connection."""
        if self.cycle is not None:
            self.cycle.keep_alive = False

    def shutdown(self) -> None:
        """The server stops. A client that has just come gets the time to send its first request; the answer tells it
        to go elsewhere afterwards."""
        if self._turn is not None:
            self._turn.cancel()
            self._read_all()
        if self._requests:
            super().shutdown()
        else:
            self.loop.call_later(FIRST_REQUEST_S, self._end_unused)

    def _end_unused(self) -> None:
        if not self._over and not self._requests:
            self._end()

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._unset_keepalive_if_required()
        if self._turn is not None:
            self._unread += data
            if len(self._unread) >= UNREAD_BYTES:
                self.flow.pause_reading()
            return
        if self._reader is not None and self._phase is _Phase.BETWEEN and not self._answering():
            self._turn = self._reader.turn()
            if self._turn is not None:
                self._unread = data
                self._turn.add_done_callback(self._turned)
                return
        self._read(data)

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _turned(self, turn: asyncio.Future[bool]) -> None:
        """The turn of the next request to be read has come."""
        if turn is self._turn and not turn.cancelled() and self._reader is not None:
            self._reader.came(turn)
            self._read_all()

    def _read_all(self) -> None:
        data, self._unread, self._turn = self._unread, b"", None
        if not self._over:
            self.flow.resume_reading()
            self._read(data)

    def _read(self, data: bytes) -> None:
        if self._reader is None:
            self._parse(data)
            return
        began = perf_counter()
        self._parse(data)
        self._reader.spend(perf_counter() - began)

    def _parse(self, data: bytes) -> None:
        self._untold += len(data)
        try:
            self.parser.feed_data(data)
            if self._untold > self._bounds.header_bytes:
                raise _too_many()
        except httptools.HttpParserUpgrade:
            pass  # no protocol is changed here: the request is answered as any other
        except httptools.HttpParserError as error:
            found = error.__context__
            if not isinstance(found, _RefusedError):
                found = _RefusedError(bad_request("the request is no HTTP"), "syntax")
            self._refuse(found)
            return
        except _RefusedError as error:
            self._refuse(error)
            return
        if self._phase is _Phase.BETWEEN and self._answering():
            self._time(None)
        else:
            self._time((self._phase, self._requests))

    # -- what the parser tells

    def on_message_begin(self) -> None:
        self._phase = _Phase.HEAD
        self._requests += 1
        self._head_bytes = self._head_fields = self._untold = 0
        super().on_message_begin()
        if self._certificate is not None:
            self.scope[CERTIFICATE] = self._certificate  # type: ignore[literal-required]
        if self._reader is not None:
            self.scope[READER] = self._reader  # type: ignore[literal-required]

    def on_url(self, url: bytes) -> None:
        self._head_bytes += len(url)
        if self._head_bytes > self._bounds.path_bytes:
            raise _too_long()
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value) + 4
        self._head_fields += 1
        if self._head_bytes > self._bounds.header_bytes or self._head_fields > self._bounds.header_fields:
            raise _too_many()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade() and not self.pipeline:
            self.scope["extensions"] = {TAKE_OVER: self._take_over}  # type: ignore[dict-item]
        if len(self.pipeline) >= self._bounds.pipelined:
            raise _RefusedError(bad_request("too many requests at once on one connection"), "pipelined")
        super().on_headers_complete()
        self._phase = _Phase.BODY

    def on_body(self, body: bytes) -> None:
        self._untold = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._phase = _Phase.BETWEEN
        self._untold = 0
        super().on_message_complete()

    def _take_over(self, head: bytes, protocol: TunnelProtocol) -> None:
        """The application has authorised another protocol: send its head and hand the connection over. The connection
        keeps its place among the others until it ends."""
        if self._over or self.transport is None or self.transport.is_closing():
            raise ConnectionError("the client has gone")
        self._over = True
        self.cycle.disconnected = True  # no answer after this
        self.cycle.message_event.set()
        for timer in (self._timer, self._reading, self._ending):
            if timer is not None:
                timer.cancel()
        self._timer = self._reading = self._ending = None
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        protocol.lost = self.connection_lost
        self.transport.write(head)
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)

    # -- clients that are slow to send

    def _time(self, what: tuple[_Phase, int] | None) -> None:
        """Time this phase of this request from now on, unless it is timed already."""
        if what == self._timed:
            return
        self._timed = what
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if what is not None:
            seconds = self._bounds.body_s if what[0] is _Phase.BODY else self._bounds.header_s
            self._timer = self.loop.call_later(seconds, self._late)

    def _late(self) -> None:
        what, self._timed = self._timed, None
        if what is not None and what[0] is _Phase.BODY and self.flow.read_paused:
            self._time(what)  # it is this side that does not read
            return
        part = "body" if self._phase is _Phase.BODY else "headers"
        error = StatusError(408, "Timeout", f"the {part} of the request did not come in time")
        self._refuse(_RefusedError(error, "body_s" if part == "body" else "header_s"))

    def _refuse(self, refused: _RefusedError) -> None:
        """Answer, where no other answer is under way, and end the connection."""
        self._over = True
        self._metrics.refused(refused.bound)
        cycle = self.cycle
        free = cycle is None or cycle.response_complete
        if not free and self._phase is _Phase.BODY and not self.pipeline and not cycle.response_started:
            free = True
        if cycle is not None:
            cycle.disconnected = True  # no writes after this
            cycle.message_event.set()
        if free and self._requests and not self.transport.is_closing():
            body = orjson.dumps(refused.error.status())
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[refused.error.code] + head + body)
        self._end()

    # -- clients that are slow to read

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._reading is None:
            self._unsent = self.transport.get_write_buffer_size()
            self._reading = self.loop.call_later(self._patience_s, self._cut)

    def resume_writing(self) -> None:
        """What is left of the patience, and what the bytes that were read since are worth, is for the next time."""
        super().resume_writing()
        if self._reading is not None:
            taken = self._unsent - self.transport.get_write_buffer_size()
            left = self._reading.when() - self.loop.time()
            self._patience_s = min(left + taken / self._bounds.send_rate, self._bounds.send_s)
            self._reading.cancel()
            self._reading = None

    def _cut(self) -> None:
        self._metrics.cut()
        self.transport.abort()

    def _start_asgi_task(self, cycle: Any, app: Any) -> None:
        cycle.__class__ = Cycle  # uvicorn makes them, and does not ask which
        task = self.loop.create_task(cycle.run_asgi(app))
        self.tasks.add(task)
        task.add_done_callback(self._answered)

    def _answered(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if self.transport.is_closing():
            self._end()

    def timeout_keep_alive_handler(self) -> None:
        self._end()

    def _end(self) -> None:
        """Close the connection. The bytes that are still to be sent get a bounded time: a transport would wait for
        ever."""
        if not self.transport.is_closing():
            self.transport.close()
        if self._ending is None and self.parser is not None:
            self._ending = self.loop.call_later(self._bounds.send_s, self.transport.abort)
