"""The audit log as requests to a receiver: events go in batches, and are tried again for a bounded time.

Requests of clients never wait for the receiver. The buffer is bounded; events that find it full are counted and lost.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from api.audit.event import API_VERSION
from api.audit.metrics import Outcome, SinkCounts
from api.outgoing import OutgoingClient, OutgoingError, Reason
from fleet.values.kubeconfig.document import BadKubeconfig, ContextEntry, choose, parse
from fleet.values.kubeconfig.files import access_of, resolved
from fleet.values.ports import Clock

BATCH_EVENTS = 400  # of one request
BATCH_BYTES = 4 * 1024 * 1024
BUFFER_EVENTS = 10_000  # that wait for the receiver
BUFFER_BYTES = 32 * 1024 * 1024
WAIT_S = 5.0  # after the first event of a batch
TRIES = 5  # of one batch
PAUSE_S = 1.0  # before the second try; each next pause is twice as long
ANSWER_S = 30.0
ANSWER_BYTES = 64 * 1024
STOP_S = 3.0  # for the rest, at the end
_AGAIN = frozenset({Reason.UNREACHABLE, Reason.TIMED_OUT})
_HEAD = b'{"kind":"EventList","apiVersion":"%s","metadata":{},"items":[' % API_VERSION.encode()


@dataclass(frozen=True, slots=True)
class Receiver:
    """The server that takes the events."""

    url: str
    headers: Mapping[str, str]
    ca: str | None = None
    server_name: str | None = None


def read_receiver(text: str, folder: Path) -> Receiver:
    """The receiver that a kubeconfig names; `folder`: what its paths are relative to. Raises BadKubeconfig."""
    chosen = choose(resolved(parse(text), folder))
    if not chosen.server.startswith("https://"):
        raise BadKubeconfig(f"{chosen.cluster_at}.server", "must be an https:// URL")
    if chosen.cluster.get("insecure-skip-tls-verify"):
        raise BadKubeconfig(f"{chosen.cluster_at}.insecure-skip-tls-verify", "the certificate is always checked")
    for name in ("client-certificate", "client-certificate-data", "client-key", "client-key-data"):
        if chosen.user.get(name):
            raise BadKubeconfig(f"{chosen.user_at}.{name}", "the hub shows no client certificate; use a token")
    found = access_of(chosen)
    authorization = found.credential.authorization
    headers = {"content-type": "application/json"} | ({"authorization": authorization} if authorization else {})
    return Receiver(found.server, headers, _authority(chosen, found.ca), found.server_name or None)


def _authority(chosen: ContextEntry, data: bytes | None) -> str | None:
    if data is None:
        return None
    try:
        text = data.decode("ascii")
        ssl.create_default_context(cadata=text)
    except (ValueError, ssl.SSLError):
        raise BadKubeconfig(f"{chosen.cluster_at}.certificate-authority", "holds no certificates in PEM") from None
    return text


class AuditWebhook:
    """A Sink. `start` and `stop` belong to the event loop that it is used on."""

    def __init__(
        self,
        outgoing: OutgoingClient,
        receiver: Receiver,
        counts: SinkCounts,
        clock: Clock,
        *,
        wait_s: float = WAIT_S,
        buffer_events: int = BUFFER_EVENTS,
        pause_s: float = PAUSE_S,
        stop_s: float = STOP_S,
    ) -> None:
        self._outgoing, self._receiver, self._counts, self._clock = outgoing, receiver, counts, clock
        self._wait_s, self._buffer_events, self._pause_s, self._stop_s = wait_s, buffer_events, pause_s, stop_s
        self._events: deque[bytes] = deque()
        self._bytes = 0  # of events that wait or are on their way
        self._sending = 0
        self._news, self._stopping = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="audit-webhook")

    def put(self, line: bytes) -> None:
        if len(self._events) + self._sending >= self._buffer_events or self._bytes + len(line) > BUFFER_BYTES:
            self._lost(Outcome.OVERFLOW, 1, "the receiver takes events too slowly")
            return
        self._events.append(line)
        self._bytes += len(line)
        self._news.set()

    async def stop(self) -> None:
        """Send what has come so far, within a bounded time. Safe to call twice."""
        self._stopping.set()
        self._news.set()
        task, self._task = self._task, None
        if task is None:
            return
        done, _ = await asyncio.wait({task}, timeout=self._stop_s)
        if not done:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if left := len(self._events) + self._sending:
            self._lost(Outcome.UNWRITABLE, left, "the process ended before the receiver took them")

    def _lost(self, outcome: Outcome, count: int, why: str) -> None:
        self._counts.lost(outcome, count, self._clock.monotonic(), why)

    async def _run(self) -> None:
        while self._events or not self._stopping.is_set():
            if not self._events:
                self._news.clear()
                await self._news.wait()
                continue
            if len(self._events) < BATCH_EVENTS:
                await self._pause(self._wait_s)
            batch = self._batch()
            self._sending = len(batch)
            why = await self._send(_HEAD + b",".join(batch) + b"]}")
            self._sending = 0
            self._bytes -= sum(map(len, batch))
            if why:
                self._lost(Outcome.UNWRITABLE, len(batch), why)
            else:
                self._counts.written(len(batch))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            pass

    def _batch(self) -> list[bytes]:
        batch: list[bytes] = []
        size = 0
        while self._events and len(batch) < BATCH_EVENTS and (not batch or size + len(self._events[0]) <= BATCH_BYTES):
            batch.append(self._events.popleft())
            size += len(batch[-1])
        return batch

    async def _send(self, body: bytes) -> str:
        """Why the receiver did not take the events; "" when it did."""
        receiver, pause, why = self._receiver, self._pause_s, ""
        for tries_left in reversed(range(TRIES)):
            try:
                answer = await self._outgoing.request(
                    "POST",
                    receiver.url,
                    body=body,
                    headers=receiver.headers,
                    ca=receiver.ca,
                    server_name=receiver.server_name,
                    timeout=ANSWER_S,
                    limit=ANSWER_BYTES,
                )
            except OutgoingError as error:
                why, again = str(error), error.reason in _AGAIN
            else:
                if answer.status < 300:
                    return ""
                why, again = f"HTTP {answer.status}", answer.status == 429 or answer.status >= 500
            if not again or (self._stopping.is_set() and tries_left):
                break
            if tries_left:
                await self._pause(pause)
                pause *= 2
        return why
