"""GET /fleet/v1/watch/jobs: how the jobs stand that somebody asks for, and each change of that, as lines of JSON.

The lines follow the log: a client that names the revision of its last bookmark goes on from there. Places in a queue
change with every start, for thousands of jobs at once; they are told now and then, of the jobs that are next.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from heapq import nsmallest
from importlib import import_module
from typing import TYPE_CHECKING

import orjson
from starlette.requests import Request as Asked

from api.engine.kind import Kind
from api.engine.status import StatusError, expired
from api.objects.writing import User
from api.wire.http import Answer, Request, Stream
from api.wire.places import Places
from api.wire.rights import Authorizer
from api.wire.routing import method_not_allowed
from fleet.kinds import kind_word
from fleet.rest.context import RestHub
from fleet.rest.jobevents import ChangeReader, JobEvent, JobEvents
from fleet.rest.line import Lines
from fleet.rest.targets import job_kind, job_kinds
from fleet.values.ports import Body, ExpiredRevision, Key, StoreUnavailable

if TYPE_CHECKING:
    from fleet.rest.jobfilter import JobWatch

PATH = "/fleet/v1/watch/jobs"
PLACES_S = 5.0  # between two looks at the places of jobs that wait
PLACES_MOST = 100  # of one stream, those that are next
RIGHTS_S = 10.0  # between two looks at the rights of the user
BOOKMARK_S = 45.0  # between two lines at most
STREAMS_MAX = 1_000
CHUNK_BYTES = 64 * 1024
Send = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _QueuedJob:
    """A job that was shown with a place, by the key and uid of its unit."""

    place: int
    kind: Kind
    uid: str
    unit: Key
    unit_uid: str


class JobWatches:
    """The streams of one API process. A Face."""

    def __init__(self, hub: RestHub, authorizer: Authorizer, lines: Lines) -> None:
        self._hub, self._authorizer = hub, authorizer
        self._events = JobEvents(hub, lines)
        self._places = Places(STREAMS_MAX, STREAMS_MAX // 2, "watches of jobs")

    async def answer(self, request: Request) -> Answer:
        if request.method != "GET":
            raise method_not_allowed()
        filters = await asyncio.to_thread(import_module, "fleet.rest.jobfilter")
        query: JobWatch = filters.watch_of(request.scope.get("query_string", b"").decode("latin-1"))
        stream = _Stream(self._events, self._hub, query, request.user, self._authorizer)
        with ExitStack() as opened:
            opened.callback(self._places.take(request.user.name).leave)
            reader = opened.enter_context(self._events.reading())
            await self._events.current()
            begun, changed = self._events.at, None
            if query.resourceVersion:
                try:
                    changed = await self._events.since(query.resourceVersion)
                except ExpiredRevision:
                    raise expired(f"too old resource version: {query.resourceVersion}") from None
            closing = opened.pop_all()

        async def done() -> None:
            closing.close()

        async def pump(send: Send) -> None:
            await stream.pump(reader, begun, changed, send)

        headers = ((b"content-type", b"application/json"), (b"cache-control", b"no-cache, private"))
        return Stream(pump, query.timeoutSeconds, headers=headers, done=done)


class _Stream:
    """What one user is told. Raises StatusError for what she may not see."""

    def __init__(self, events: JobEvents, hub: RestHub, query: JobWatch, user: User, authorizer: Authorizer) -> None:
        self._events, self._hub, self._query = events, hub, query
        self._asked = Asked({"type": "http", "headers": [], "fleet.user": user, "fleet.authorizer": authorizer})
        self._of_object = query.of_object()
        self._places = self._rights()
        self._queued: dict[Key, _QueuedJob] = {}
        self._buffer: list[bytes] = []
        self._size = 0

    def _rights(self) -> dict[str, tuple[Kind, list[str | None]]]:
        registry, query = self._hub.registry, self._query
        return query.places(
            self._asked, [job_kind(registry, name, "kind") for name in query.kind] or job_kinds(registry)
        )

    async def pump(self, reader: ChangeReader, begun: int, changed: Iterable[JobEvent] | None, send: Send) -> None:
        """`changed`: how those jobs stand that have changed; None: all are shown, as they stand at `begun` or later."""
        at: dict[Key, int] = {}  # the revision as of which a job was shown: earlier changes of it are in that
        try:
            for event in changed or ():
                at[event.key] = event.revision
                self._tell(event)
                await self._flush(send, CHUNK_BYTES)
            for kind, namespaces in self._places.values() if changed is None else ():
                for namespace in namespaces:
                    async for event in self._events.now(kind, namespace, self._query.name, self._of_object):
                        at[event.key] = event.revision
                        if self._shows(event):
                            self._tell(event)
                        await self._flush(send, CHUNK_BYTES)
            self._bookmark(begun)
            await self._flush(send)
            await self._go_on(reader, at, send)
        except StatusError as refused:
            self._line({"type": "ERROR", "object": refused.status()})
            await self._flush(send)

    async def _go_on(self, reader: ChangeReader, at: dict[Key, int], send: Send) -> None:
        revision, clock = self._events.at, asyncio.get_running_loop().time
        places, rights, bookmark = clock() + PLACES_S, clock() + RIGHTS_S, clock() + BOOKMARK_S
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, min(places, rights, bookmark) - clock())):
                    await reader.woken.wait()
            reader.woken.clear()
            if clock() >= rights:
                if self._rights() != self._places:
                    raise expired("the rights of the user have changed")
                rights = clock() + RIGHTS_S
            if reader.lost:
                raise expired("the watch has fallen behind")
            has_news = bool(reader.waiting)
            while reader.waiting:
                event = reader.waiting.popleft()
                if event.revision > revision:
                    at.clear()
                if event.revision > at.get(event.key, -1):
                    self._tell(event)
                await self._flush(send, CHUNK_BYTES)
            upto = self._events.at
            if clock() >= places:
                await self._tell_places()
                places = clock() + PLACES_S
            if has_news or clock() >= bookmark:
                self._bookmark(upto)
                bookmark = clock() + BOOKMARK_S
            await self._flush(send)

    def _tell(self, event: JobEvent) -> None:
        """The line of a change that the user may hear of. A job that is none of those asked for any more is gone."""
        if not self._may(event):
            return
        self._queued.pop(event.key, None)
        if not self._shows(event):
            self._job("GONE", event.kind, event.key, event.uid)
            return
        if event.position is not None:
            self._queued[event.key] = _QueuedJob(event.position, event.kind, event.uid, *event.unit)
        self._line({"type": "JOB", "uid": event.uid, "job": orjson.Fragment(event.document)})

    def _may(self, event: JobEvent) -> bool:
        _, namespaces = self._places.get(event.kind.group_resource, (None, ()))
        there = None in namespaces or event.key.namespace in namespaces
        return there and (not self._query.name or event.key.name in self._query.name)

    def _shows(self, event: JobEvent) -> bool:
        if event.job is None or not self._may(event):
            return False
        return (self._of_object is None or self._of_object(event.job.body)) and self._query.takes(event.job)

    async def _tell_places(self) -> None:
        """The new places of the jobs that are next."""
        if not self._queued:
            return
        try:
            line = await self._events.lines.at(await self._hub.store.revision())
        except StoreUnavailable:
            return
        for key, one in nsmallest(PLACES_MOST, self._queued.items(), key=lambda item: item[1].place):
            place = line.place(one.unit, one.unit_uid)
            if place is not None and place != one.place:
                self._queued[key] = replace(one, place=place)
                self._job("PLACE", one.kind, key, one.uid, position=place)

    def _job(self, type_: str, kind: Kind, key: Key, uid: str, **more: int) -> None:
        named = {"namespace": key.namespace, "kind": kind_word(kind.group, kind.kind), "name": key.name}
        self._line({"type": type_, "uid": uid, "job": {**named, **more}})

    def _bookmark(self, revision: int) -> None:
        """All changes up to the revision are told."""
        self._line({"type": "BOOKMARK", "resourceVersion": str(revision)})

    def _line(self, told: Body) -> None:
        line = orjson.dumps(told) + b"\n"
        self._buffer.append(line)
        self._size += len(line)

    async def _flush(self, send: Send, least: int = 1) -> None:
        if self._size >= least:
            data = b"".join(self._buffer)
            self._buffer.clear()
            self._size = 0
            await send(data)
