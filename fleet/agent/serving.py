"""The agent: one connection from a member to its hub, and what comes over it passed on to the member's API server.

The hub cannot name another address: a stream is a connection with the API server that the agent was started for. The
agent reads none of it. The hub speaks TLS with the API server and shows it a credential of its own.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

import structlog

from fleet.agent.lease import REPLACED
from fleet.agent.mux import Mux, MuxLimits, Stream
from fleet.agent.pipe import CONNECT_S, TunnelRefusal, connect, session
from fleet.agent.splice import Socket, splice
from fleet.wellknown import CLUSTER

API_S = 4.0  # to connect to the API server: less than the hub waits, so that the hub hears why
log = structlog.get_logger(__name__)


def path_of(name: str, subresource: str) -> str:
    """Where the hub's API takes agents (`tunnel`), and those who want to reach them (`dial`)."""
    return f"/apis/{CLUSTER}/v1alpha1/clusters/{name}/{subresource}"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between attempts, in seconds."""

    first_s: float = 0.5
    most_s: float = 30.0
    ran_well_s: float = 20.0  # after a connection that lasted so long the next attempt comes at once
    replaced_s: float = 60.0  # a second agent of one name must not throw the first out again and again
    random: Random = field(default_factory=Random)

    def pause(self, failures: int) -> float:
        """After so many attempts in a row that came to nothing; with jitter, since a hub that restarts meets all
        agents."""
        most = min(self.most_s, self.first_s * 2.0 ** min(failures, 16))
        return most * (0.5 + self.random.random() / 2)


class Agent:
    """`token` is asked before each attempt; `api`: host and port of the member's API server."""

    def __init__(
        self,
        hub: str,
        name: str,
        token: Callable[[], str],
        tls: ssl.SSLContext | None,
        api: tuple[str, int],
        *,
        limits: MuxLimits | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self._url = hub.rstrip("/") + path_of(name, "tunnel")
        self._name, self._token, self._tls, self._api = name, token, tls, api
        self._limits, self._backoff = limits or MuxLimits(), backoff or Backoff()
        self.connected = asyncio.Event()
        self.connections = 0  # so far
        self._ended = (0, 0)  # bytes to the hub and from it, of connections that are over
        self._mux: Mux | None = None
        self.trouble = "not connected yet"

    @property
    def name(self) -> str:
        """Of the member."""
        return self._name

    @property
    def streams(self) -> int:
        """That are open."""
        return self._mux.streams if self._mux is not None else 0

    def carried(self) -> tuple[int, int]:
        """Bytes to the hub and from it, so far."""
        sent, received = self._ended
        mux = self._mux
        return (sent + mux.sent_bytes, received + mux.received_bytes) if mux is not None else (sent, received)

    async def run(self) -> None:
        """For ever."""
        failures, clock = 0, asyncio.get_running_loop().time
        while True:
            began = clock()
            pause = await self._once()
            if pause is None:
                failures = 0 if clock() - began > self._backoff.ran_well_s else failures + 1
                pause = self._backoff.pause(failures)
            log.warning("not connected", member=self._name, hub=self._url, why=self.trouble, again_in_s=round(pause, 1))
            await asyncio.sleep(pause)

    async def _once(self) -> float | None:
        """Serve one connection to its end; a pause when this end asks for one of its own."""
        async with session(trust_env=True) as client:
            try:
                async with asyncio.timeout(CONNECT_S):
                    pipe = await connect(client, self._url, self._token(), self._tls)
            except TimeoutError:
                self.trouble = f"no answer within {CONNECT_S:g} s"
                return None
            except TunnelRefusal as error:
                self.trouble = str(error)
                return self._backoff.most_s * (0.5 + self._backoff.random.random() / 2) if error.status < 500 else None
            except OSError as error:
                self.trouble = str(error)
                return None
            mux = Mux(pipe, self._accept, self._limits)
            log.info("connected", member=self._name, hub=self._url)
            self.connected.set()
            self._mux, self.connections = mux, self.connections + 1
            try:
                await mux.run()
            finally:
                self.connected.clear()
                self._ended, self._mux = self.carried(), None
            self.trouble = mux.why
            return self._backoff.replaced_s if pipe.end_status()[0] == REPLACED else None

    async def _accept(self, stream: Stream) -> None:
        host, port = self._api
        try:
            async with asyncio.timeout(API_S):
                reader, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            raise ConnectionError(f"the agent gets no answer of the API server {host}:{port}") from None
        except OSError as error:
            raise ConnectionError(f"the agent cannot reach the API server {host}:{port}: {error}") from error
        near = Socket(reader, writer)
        try:
            await stream.accept()
            await splice(stream, near)
        finally:
            near.close()
