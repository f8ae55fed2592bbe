"""Taking connections in: counted before anything is read from them or spent on their TLS.

The servers of asyncio and uvloop make a transport, and begin a handshake, for every client. So connections are accepted
here, and only those that have a place get one.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import ssl
from collections.abc import Callable

import structlog

from api.transport.edge import Bounds, ConnectionPlace, Connections

ACCEPTED_AT_ONCE = 128  # then the loop gets a turn
PAUSE_S = 0.5  # when the process has no file descriptor left
FILES_BESIDE = 512  # file descriptors for all else than connections: database, members, files
log = structlog.get_logger(__name__)


class Acceptor:
    """One listening socket, in the shape of an asyncio server. `make` gets the connection's place; its protocol gives
    the place back when the connection is lost. `tls` may be set anew, for the connections to come."""

    def __init__(
        self,
        sock: socket.socket,
        make: Callable[[ConnectionPlace], asyncio.Protocol],
        connections: Connections,
        bounds: Bounds,
        *,
        tls: ssl.SSLContext | None,
        backlog: int,
    ) -> None:
        self._socket, self._make, self._connections, self._bounds = sock, make, connections, bounds
        self.tls, self._backlog = tls, backlog
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        self._pause: asyncio.TimerHandle | None = None
        self._closed = False

    def start(self) -> None:
        self._socket.setblocking(False)
        self._socket.listen(self._backlog)
        self._loop.add_reader(self._socket.fileno(), self._accept)

    async def finish(self, within_s: float) -> None:
        """Take in the clients that wait already, refuse all others, and let handshakes end: a client that has been
        taken in believes that it is served."""
        if self._closed:
            return
        self._accept()
        self._refuse()
        if self._handshakes:
            await asyncio.wait(self._handshakes, timeout=within_s)

    def close(self) -> None:
        """Stop accepting; connections go on, handshakes do not."""
        self._refuse()
        for task in self._handshakes:
            task.cancel()

    def _refuse(self) -> None:
        """Close the socket at once: the kernel would go on to take connections in that nobody serves."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        if self._pause is not None:
            self._pause.cancel()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("no connection can be accepted", error=str(error))
                self._loop.remove_reader(self._socket.fileno())
                self._pause = self._loop.call_later(PAUSE_S, self._resume)
                return
            place = self._connections.enter(address[0])
            if place is None:
                connection.close()
                continue
            connection.setblocking(False)
            task = self._loop.create_task(self._handshake(connection, place))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    def _resume(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._socket.fileno(), self._accept)

    async def _handshake(self, connection: socket.socket, place: ConnectionPlace) -> None:
        """The TLS handshake, and then the protocol; a handshake that fails is nobody's error but the client's."""
        handshake_s = self._bounds.handshake_s if self.tls is not None else None
        try:
            await self._loop.connect_accepted_socket(
                lambda: self._make(place), connection, ssl=self.tls, ssl_handshake_timeout=handshake_s
            )
        except (OSError, asyncio.CancelledError):
            place.leave()
            connection.close()


def room_for(connections: int) -> int:
    """As many connections as the process may have files for, after raising its limit as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + FILES_BESIDE
    if soft < wanted and soft != resource.RLIM_INFINITY:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return connections
    return max(soft - FILES_BESIDE, soft // 2)
