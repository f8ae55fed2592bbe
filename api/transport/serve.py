"""Serving an application with TLS: uvicorn, started and stopped from code.

A server that stops may drain first: it says that it is not ready, answers on, and each answer tells its client to use
another connection next. Then no new connection is taken, open watches are closed, since they must not hold the server,
and requests under way get a bounded time. Nothing here depends on the ASGI lifespan: the composer of the parts starts
and stops them around this.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import uvicorn
from prometheus_client import CollectorRegistry

from api.access.certificates import ask_for_certificates
from api.fairness.reading import Reader
from api.transport.accept import Acceptor, room_for
from api.transport.edge import Bounds, ConnectionPlace, Connections, EdgeMetrics
from api.transport.protocol import BoundedProtocol
from api.transport.tls import Certificates, Pair
from api.wire.http import ASGIApp

STOP_S = 1.0
HANDSHAKES_S = 1.0
CLOSE = (b"connection", b"close")
BACKLOG = 2048


class _Uvicorn(uvicorn.Server):
    """A uvicorn that leaves the signals of the process to its caller, and has bounds on its connections."""

    def __init__(
        self,
        config: uvicorn.Config,
        bounds: Bounds,
        metrics: EdgeMetrics,
        certificates: Certificates | None,
        authorities: tuple[Path, ...],
        reader: Callable[[], Reader] | None,
    ) -> None:
        super().__init__(config)
        self._bounds, self._metrics, self._reader = bounds, metrics, reader
        self._certificates, self._authorities = certificates, authorities

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await self.lifespan.startup()
        tls = self._tls()
        connections = Connections(self._bounds, self._metrics)
        acceptors = [
            Acceptor(sock, self._protocol, connections, self._bounds, tls=tls, backlog=self.config.backlog)
            for sock in sockets or ()
        ]
        for acceptor in acceptors:
            acceptor.start()
        self.servers = acceptors  # type: ignore[assignment]
        self.started = True

    def _tls(self) -> ssl.SSLContext | None:
        if self._certificates is None:
            return None
        context = self._certificates.context()
        if self._authorities:
            ask_for_certificates(context, self._authorities)
        return context

    def renew(self) -> None:
        tls = self._tls()
        for acceptor in self.servers:
            acceptor.tls = tls  # type: ignore[attr-defined]

    def dismiss(self) -> None:
        """From now on each answer ends its connection, and says so."""
        if CLOSE in self.config.encoded_headers:
            return
        self.config.encoded_headers.append(CLOSE)
        self.server_state.default_headers = [*self.server_state.default_headers, CLOSE]
        for connection in self.server_state.connections:
            connection.dismiss()  # type: ignore[union-attr]

    async def refuse_new(self) -> None:
        """Take no new connection."""
        self.dismiss()
        for acceptor in self.servers:
            await acceptor.finish(HANDSHAKES_S)  # type: ignore[attr-defined]

    def _protocol(self, place: ConnectionPlace) -> asyncio.Protocol:
        return BoundedProtocol(
            self.config,
            self.server_state,
            self.lifespan.state,
            bounds=self._bounds,
            metrics=self._metrics,
            place=place,
            reader=self._reader() if self._reader is not None else None,
        )


def bind(host: str, port: int) -> socket.socket:
    """A listening address; port 0 takes a free one. OSError when it is in use."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


class Server:
    """One listening server in this event loop.

    `certificates`: those of TLS; `cert` and `key`: one of them, in short; without either it speaks plain HTTP.
    `close_streams` is called when it takes no new connection any more (`Api.close_streams`). `listener`: a bound socket
    to take over, in place of binding host and port. `metrics`: where it is counted what the bounds refused
    (`Api.metrics.edge`). `client_authorities`: files of the authorities whose client certificates are credentials.
    `drain_s`: how long it drains before it stops, after calling `on_drain` (`Api.drain`). `finish_s`: the time for
    requests under way. `reader`: makes the reader of each connection (`Fairness.reader`).
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        cert: Path | None = None,
        key: Path | None = None,
        close_streams: Callable[[], None] | None = None,
        listener: socket.socket | None = None,
        bounds: Bounds | None = None,
        metrics: EdgeMetrics | None = None,
        client_authorities: tuple[Path, ...] = (),
        drain_s: float = 0.0,
        on_drain: Callable[[], None] | None = None,
        finish_s: float = STOP_S,
        reader: Callable[[], Reader] | None = None,
        certificates: Certificates | None = None,
    ) -> None:
        self._drain_s, self._on_drain, self._finish_s = drain_s, on_drain, finish_s
        self._socket = listener or bind(host, port)
        self.host = host
        self.port: int = self._socket.getsockname()[1]
        self._close_streams = close_streams
        if cert is not None and key is not None:
            certificates = Certificates(Pair(cert, key))
        self._tls = certificates is not None
        config = uvicorn.Config(
            app,
            host=host,
            port=self.port,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=int(finish_s),
            backlog=BACKLOG,
        )
        bounds = bounds or Bounds()
        bounds = replace(bounds, connections=room_for(bounds.connections))
        metrics = metrics or EdgeMetrics(CollectorRegistry())
        self._server = _Uvicorn(config, bounds, metrics, certificates, client_authorities, reader)
        self._task: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    async def start(self) -> None:
        """Listen; returns once requests are answered."""
        self._task = asyncio.create_task(self._server.serve(sockets=[self._socket]), name=f"serve-{self.port}")
        while not self._server.started:
            if self._task.done():
                await self._task
                raise RuntimeError("the server ended before it served")
            await asyncio.sleep(0.005)

    def renew(self) -> None:
        """Show new connections the certificates as their files are now. OSError where they cannot be used: those from
        before are shown then."""
        self._server.renew()

    async def stop(self) -> None:
        """Drain, stop listening, close streams, wait for the rest for `finish_s`. Safe to call twice: the
        second call does not drain again."""
        task = self._task
        if task is None:
            self._socket.close()
            return
        drain_s, self._drain_s = self._drain_s, 0.0
        if drain_s:
            if self._on_drain is not None:
                self._on_drain()
            self._server.dismiss()
            await asyncio.sleep(drain_s)
        await self._server.refuse_new()
        if self._close_streams is not None:
            self._close_streams()
        self._server.should_exit = True
        done, _ = await asyncio.wait({task}, timeout=self._finish_s + 2.0)
        if not done:
            self._server.force_exit = True
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        self._task = None
        self._socket.close()


async def serve(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    cert: Path | None,
    key: Path | None,
    stop_event: asyncio.Event,
    on_ready: Callable[[str], None] | None = None,
    close_streams: Callable[[], None] | None = None,
) -> None:
    """Serve until `stop_event` is set; `on_ready` gets the URL when requests are answered."""
    server = Server(app, host=host, port=port, cert=cert, key=key, close_streams=close_streams)
    await server.start()
    try:
        if on_ready is not None:
            on_ready(server.url)
        await stop_event.wait()
    finally:
        await server.stop()
