"""GET /fleet/v1/changes: server-sent events that say which parts of the hub have changed, for pages that stay open.

An event names kinds of content and no object: the page asks again for what it shows, with the rights of its user. One
task looks at the log for all streams of the process. So an open page costs what its messages cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING

import orjson
import structlog

from api.engine.registry import Registry
from api.objects.writing import User
from api.wire.http import Answer, Request, Stream
from api.wire.places import Place, Places
from api.wire.rights import Authorizer
from api.wire.routing import method_not_allowed
from fleet.values.ports import Clock, ExpiredRevision, Store, StoreUnavailable
from fleet.wellknown import CLUSTER, CONFIG, POLICY, QUEUE, QUOTA, WORK

if TYPE_CHECKING:
    from fleet.rest.changerights import Seen

PATH = "/fleet/v1/changes"
KINDS = ("jobs", "queues", "members", "decisions", "policies", "receivers")
_SPACED = ("jobs", "policies", "receivers")  # heard of by namespace
LOOK_S = 0.1  # between two looks at the log
TOGETHER_S = 0.5  # between two messages
PER_STREAM_S = 0.015  # more for each stream: each message makes a page ask, and the pages together are bounded so
RECORD_S = 1.0  # after a decision has changed a unit, its record is written
HEARTBEAT_S = 15.0
SEEN_S = 10.0  # for which the rights of a user are remembered
STREAM_S = 3600.0  # then the browser connects again
STREAMS_MAX = 2000
EVENTS_MAX = 5000  # of one look; more are as good as everything
_POLICIES = ("propagationpolicies", "clusterpropagationpolicies", "overridepolicies", "clusteroverridepolicies")
_KIND_OF = {
    (QUEUE, "queueunits"): ("jobs", "queues"),
    (WORK, "resourcebindings"): ("jobs",),
    (QUEUE, "queues"): ("queues",),
    (QUOTA, "elasticquotatrees"): ("queues",),
    (CLUSTER, "clusters"): ("members",),
    (CONFIG, "notificationreceivers"): ("receivers",),
    **{(POLICY, resource): ("policies",) for resource in _POLICIES},
}
log = structlog.get_logger(__name__)

Touched = frozenset[tuple[str, str]]  # kinds, each with the namespace of an object; "" for a kind that has none
ALL: Touched = frozenset()  # everything may have changed


class _Reader:
    """One open stream. `touched` None: nothing new."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.touched: Touched | None = None
        self.woken = asyncio.Event()

    def offer(self, touched: Touched) -> None:
        old = self.touched
        self.touched = touched if old is None else ALL if ALL in (old, touched) else old | touched
        self.woken.set()

    def take(self) -> Touched | None:
        touched, self.touched = self.touched, None
        self.woken.clear()
        return touched


class ChangeStreams:
    """The streams of one API process. A Face."""

    def __init__(self, store: Store, registry: Registry, authorizer: Authorizer, clock: Clock) -> None:
        self._store, self._registry, self._authorizer, self._clock = store, registry, authorizer, clock
        self._readers: set[_Reader] = set()
        self._places = Places(STREAMS_MAX, STREAMS_MAX // 2, "streams of changes")
        self._task: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._at = 0  # the revision up to which the log is read
        self._seen: dict[User, tuple[float, Seen]] = {}
        self._messages: dict[tuple[User, Touched], bytes] = {}  # of the last round

    async def answer(self, request: Request) -> Answer:
        """A stream for the request's user. StatusError 429 where there are too many."""
        if request.method != "GET":
            raise method_not_allowed()
        place = self._places.take(request.user.name)
        try:
            return await self._opened(request, place)
        except BaseException:
            place.leave()
            raise

    async def _opened(self, request: Request, place: Place) -> Stream:
        await asyncio.to_thread(import_module, "fleet.rest.changerights")
        async with self._starting:  # a second task would send everything once more
            if self._task is None or self._task.done():
                self._at = await self._store.revision()
                self._task = asyncio.create_task(self._follow(), name="changes")
        reader, last = _Reader(request.user), request.header(b"last-event-id")
        if last and last != str(self._at):
            reader.offer(ALL)  # asking again costs the page little, and a gap would stay
        self._readers.add(reader)

        async def done() -> None:
            self._readers.discard(reader)
            place.leave()

        async def pump(send: Callable[[bytes], Awaitable[None]]) -> None:
            await self._pump(reader, send)

        headers = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"))
        return Stream(pump, STREAM_S, headers=headers, done=done)

    async def _pump(self, reader: _Reader, send: Callable[[bytes], Awaitable[None]]) -> None:
        await send(f"retry: 1000\nid: {self._at}\n\n".encode())
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await reader.woken.wait()
            except TimeoutError:
                await send(b":\n\n")
                continue
            touched = reader.take()
            message = self._message(reader.user, touched) if touched is not None else b""
            if message:
                await send(message)

    def _message(self, user: User, touched: Touched) -> bytes:
        """The event for this user; empty where nothing has changed that she may list."""
        message = self._messages.get((user, touched))
        if message is None:
            seen = self._seen_by(user)
            kinds = [kind for kind in KINDS if _shows(seen, kind, touched)]
            data = orjson.dumps({"kinds": kinds}).decode()
            message = f"event: changed\nid: {self._at}\ndata: {data}\n\n".encode() if kinds else b""
            self._messages[user, touched] = message
        return message

    def _seen_by(self, user: User) -> Seen:
        now = self._clock.monotonic()
        until, sight = self._seen.get(user, (now, {}))
        if until <= now:
            self._seen = {one: known for one, known in self._seen.items() if known[0] > now}
            from fleet.rest.changerights import seen_by

            sight = seen_by(self._registry, self._authorizer, user)
            self._seen[user] = (now + SEEN_S, sight)
        return sight

    async def _follow(self) -> None:
        """Ends when no stream is open."""
        pending: Touched | None = None
        sent_at = recorded = float("-inf")
        waiting = False  # for the record of a decision
        while self._readers:
            await asyncio.sleep(LOOK_S)
            self._messages.clear()
            now = self._clock.monotonic()
            try:
                touched = await self._look()
            except StoreUnavailable:
                continue  # the next look finds the same
            except Exception:
                log.exception("changes cannot be read")
                touched = ALL
            if touched is not None:
                pending = touched if pending is None else ALL if ALL in (touched, pending) else pending | touched
                if not waiting and (touched is ALL or any(kind == "queues" for kind, _ in touched)):
                    waiting, recorded = True, now + RECORD_S
            if waiting and now >= recorded:
                waiting, record = False, frozenset({("decisions", "")})
                pending = record if pending is None else pending | record if pending != ALL else ALL
            if pending is not None and now - sent_at >= TOGETHER_S + PER_STREAM_S * len(self._readers):
                for reader in self._readers:
                    reader.offer(pending)
                pending, sent_at = None, now

    async def _look(self) -> Touched | None:
        """What has changed since the last look."""
        from fleet.rest.targets import job_kinds

        kinds = {**{(kind.group, kind.resource): ("jobs",) for kind in job_kinds(self._registry)}, **_KIND_OF}
        try:
            events, at = await self._store.events(kinds, since=self._at, limit=EVENTS_MAX)
        except ExpiredRevision:
            self._at = await self._store.revision()
            return ALL
        self._at = at
        return (
            _touched(
                (event.stored.key.group, event.stored.key.resource, event.stored.key.namespace) for event in events
            )
            if events
            else None
        )


def _touched(keys: Iterable[tuple[str, str, str]]) -> Touched:
    found = set()
    for group, resource, namespace in set(keys):
        for kind in _KIND_OF.get((group, resource), ("jobs",)):
            found.add((kind, namespace if kind in _SPACED else ""))
    return frozenset(found)


def _shows(seen: Seen, kind: str, touched: Touched) -> bool:
    spaces = seen.get(kind, ())
    if spaces == ():
        return False
    return touched == ALL or any(one == kind and (spaces is None or space in spaces) for one, space in touched)
