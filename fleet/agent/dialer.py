"""Connections to members that only their agents reach.

The Lease of an agent names the API process that holds its tunnel. A process of the hub keeps one connection to that
process for each member, with its streams in it; where it holds the tunnel itself, it needs none. Every stream becomes
an ordinary connected socket, so nothing behind it knows of tunnels.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable

from fleet.agent.lease import TunnelLease, absence
from fleet.agent.mux import BrokenStream, Mux, Pipe, Stream
from fleet.agent.splice import Socket, splice

CONNECT_S = 5.0


class NoConnection(ConnectionError):
    """There is no way to the member's agent."""


class _Link:
    """The connection to the holder of one member's tunnel."""

    def __init__(self, holding: TunnelLease, pipe: Pipe) -> None:
        self.holding = holding
        self.mux = Mux(pipe)
        self.task = asyncio.create_task(self.mux.run(), name="tunnel:link")

    async def aclose(self) -> None:
        self.mux.close("not needed any more")
        await asyncio.gather(self.task, return_exceptions=True)


class Dialer:
    """`holding`: what the store says about a member's agent; `connect` (address, member) reaches the process that holds
    the tunnel; `own`: the tunnel where this process holds it; `close` ends the means of `connect`."""

    def __init__(
        self,
        holding: Callable[[str], TunnelLease | None],
        connect: Callable[[str, str], Awaitable[Pipe]],
        own: Callable[[str], Mux | None] = lambda name: None,
        close: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._holding, self._connect, self._own, self._close = holding, connect, own, close
        self._links: dict[str, _Link] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._splices: set[asyncio.Task[None]] = set()
        self._closed = False

    async def dial(self, name: str) -> socket.socket:
        """A socket that is connected with the member's API server. Raises NoConnection, or BrokenStream with the
        agent's own words."""
        stream = await self._stream(name)
        near, far = socket.socketpair()
        try:
            near.setblocking(False)
            far.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=far)
        except BaseException:
            near.close()
            far.close()
            stream.abort("not wanted any more")
            raise
        task = asyncio.create_task(_run(stream, Socket(reader, writer)), name=f"tunnel:dialled:{name}")
        self._splices.add(task)
        task.add_done_callback(self._splices.discard)
        return near

    async def _stream(self, name: str) -> Stream:
        own = self._own(name)
        if own is not None and not own.over.is_set():
            return await own.open()
        async with self._locks.setdefault(name, asyncio.Lock()):
            link = await self._link(name)
        return await link.mux.open()

    async def _link(self, name: str) -> _Link:
        holding, link = self._holding(name), self._links.get(name)
        if link is not None:
            same = holding is not None and holding.transitions == link.holding.transitions
            if same and not link.mux.over.is_set():
                return link
            del self._links[name]
            await link.aclose()
        if self._closed:
            raise NoConnection("this process ends")
        if holding is None or not holding.holder or not holding.address:
            raise NoConnection(absence(holding))
        try:
            async with asyncio.timeout(CONNECT_S):
                pipe = await self._connect(holding.address, name)
        except TimeoutError:
            raise NoConnection(f"{absence(holding)}: no answer of {holding.address}, which held it") from None
        except OSError as error:
            raise NoConnection(f"{absence(holding)}: {holding.address}, which held it: {error}") from error
        link = self._links[name] = _Link(holding, pipe)
        return link

    async def aclose(self) -> None:
        self._closed = True
        links, self._links = list(self._links.values()), {}
        await asyncio.gather(*(link.aclose() for link in links))
        for task in list(self._splices):
            task.cancel()
        await asyncio.gather(*self._splices, return_exceptions=True)
        if self._close is not None:
            await self._close()


async def _run(stream: Stream, near: Socket) -> None:
    try:
        await splice(stream, near)
    except BrokenStream:
        pass
    finally:
        near.close()
