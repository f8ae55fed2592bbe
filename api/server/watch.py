"""Watches: the revision log as a stream of events, as each client's selector sees it.

An object that starts to match a selector is ADDED for that watcher, and an object that stops is DELETED. So the log
carries the part of the previous state that selectors need. Events that are at hand go out in one chunk, and their bytes
are made once for all watchers of the same form: a hundred watchers cost a hundred writes to sockets and little else.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import orjson

from api.engine.status import Cause, StatusError, expired
from api.objects.sharedbytes import SharedBytes
from api.objects.versions import ObjectSource
from api.server.lists import options_invalid, parse_integer, parse_revision, table_type, too_large_version
from api.server.tables import metadata_only, table
from api.slices import Slice, unhurried
from api.transport.websocket import handshake, is_websocket, offers, stream_upgrade
from api.wire.http import JSON, PROTOBUF, Answer, Request, Stream
from api.wire.joining import MANY
from api.wire.negotiation import AnswerForm
from api.wire.protobuf.answers import frame, whole
from api.wire.selection import Selection
from api.wire.servedkind import ServedKind
from fleet.values.ports import (
    Body,
    Clock,
    Event,
    EventType,
    ExpiredRevision,
    FutureRevision,
    StoredObject,
    StoreUnavailable,
    Watch,
)

CHUNK_BYTES = 64 * 1024
MIN_TIMEOUT_S = 1800.0
MAX_TIMEOUT_S = 6 * 3600.0
LAG_EVERY_S = 1.0  # between two measured events of one watch

Sender = Callable[[bytes], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """A watch as it was asked for, checked."""

    served: ServedKind
    namespace: str | None
    selection: Selection
    form: AnswerForm
    include_object: str
    since: int | None  # None: start with the current state
    initial: bool  # send the current state as ADDED events first
    end_bookmark: bool  # and say when that is done
    bookmarks: bool
    timeout_s: float


def parse_watch(
    request: Request, served: ServedKind, namespace: str | None, selection: Selection, form: AnswerForm
) -> WatchRequest:
    """Read the parameters of a watch; StatusError 400 or 422 for combinations that mean nothing."""
    query = request.query
    revision = parse_revision(query.get("resourceVersion", ""))
    match = query.get("resourceVersionMatch", "")
    send_initial = query.get("sendInitialEvents")
    if query.get("continue"):
        raise options_invalid("continue", "Forbidden: continue is forbidden for watch")
    if send_initial is None and match:
        raise options_invalid(
            "resourceVersionMatch",
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )
    if send_initial is not None and match != "NotOlderThan":
        if not match:
            text = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise options_invalid("resourceVersionMatch", text)
        text = f'Unsupported value: "{match[:50]}": supported values: "NotOlderThan"'
        raise options_invalid("resourceVersionMatch", text, "FieldValueNotSupported")
    timeout = query.get("timeoutSeconds", "")
    timeout_s = min(float(parse_integer(timeout)), MAX_TIMEOUT_S) if timeout else 0.0
    if timeout_s <= 0:
        # Spread, so that watches that began together do not all come back together.
        timeout_s = MIN_TIMEOUT_S * (1.0 + random.random())
    initial = request.flag("sendInitialEvents") if send_initial is not None else not revision
    bookmarks = request.flag("allowWatchBookmarks")
    since = None if initial else (revision or None)
    return WatchRequest(
        served,
        namespace,
        selection,
        form,
        query.get("includeObject", ""),
        since,
        initial,
        initial and send_initial is not None and bookmarks,
        bookmarks,
        timeout_s,
    )


def _line(kind: str, raw: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + raw + b"}\n"


@dataclass(slots=True)
class _Writer:
    """Turns events into lines for one watcher."""

    request: WatchRequest
    shared: SharedBytes
    clock: Clock
    columns_sent: bool = False
    revision: int = 0
    buffer: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, line: bytes) -> None:
        self.buffer.append(line)
        self.size += len(line)

    def take(self) -> bytes:
        chunk = b"".join(self.buffer)
        self.buffer.clear()
        self.size = 0
        return chunk

    def object_line(self, kind: str, stored: StoredObject, shared: bool = True) -> bytes:
        """The line of one object in the watcher's form. `shared`: other watchers may need the same bytes."""
        request = self.request
        form = request.form.form
        if request.form.protobuf:
            return self._frame(kind, stored, shared)
        if not form and not request.served.converted:
            return _line(kind, stored.raw)
        columns = form == "Table" and not self.columns_sent
        self.columns_sent = True
        key = (
            stored.revision,
            stored.uid,
            kind,
            form,
            request.form.version,
            request.include_object,
            columns,
            request.served.api_version,
        )
        line = self.shared.get(key) if shared else None
        if line is None:
            line = _line(kind, self._shown(stored, columns))
            if shared:
                self.shared.put(key, line)
        return line

    def _frame(self, kind: str, stored: StoredObject, shared: bool) -> bytes:
        """The same in protobuf."""
        request = self.request
        key = (
            stored.revision,
            stored.uid,
            kind,
            request.form.form,
            request.form.version,
            request.served.api_version,
            PROTOBUF,
        )
        data = self.shared.get(key) if shared else None
        if data is None:
            served = request.served
            shown = (
                metadata_only(stored.body, request.form.version)
                if request.form.form
                else served.in_version(stored.body)
            )
            data = frame(kind, whole(shown))
            if shared:
                self.shared.put(key, data)
        return data

    def line(self, kind: str, body: Body) -> bytes:
        """The line of an object that is not stored."""
        return frame(kind, whole(body)) if self.request.form.protobuf else _line(kind, orjson.dumps(body))

    def _shown(self, stored: StoredObject, columns: bool) -> bytes:
        request = self.request
        if request.form.form == "Table":
            return table(
                request.served,
                [stored],
                request.form.version,
                request.include_object,
                stored.revision,
                self.clock.now(),
                columns=columns,
            )
        if request.form.form.startswith("PartialObjectMetadata"):
            return orjson.dumps(metadata_only(request.served.in_version(stored.body), request.form.version))
        return request.served.outward(stored.raw)

    def event(self, event: Event) -> None:
        """Add the event's line, if the watcher's selector sees a change."""
        selector = self.request.selection.selector
        kind: str = event.type.value
        stored, shared = event.stored, True
        if selector is not None:
            before = event.previous is not None and selector(event.previous)
            now = selector(stored.body)
            if event.type is EventType.DELETED:
                if not now and not before:
                    return
            elif event.type is EventType.ADDED:
                if not now:
                    return
            elif now:
                kind = "MODIFIED" if before else "ADDED"
            elif before:
                kind, stored, shared = "DELETED", _as_it_was(stored, event.previous), False
            else:
                return
        self.add(self.object_line(kind, stored, shared))

    def bookmark(self, revision: int, *, initial_end: bool = False) -> None:
        meta: Body = {"resourceVersion": str(revision)}
        if initial_end:
            meta["annotations"] = {"k8s.io/initial-events-end": "true"}
        served = self.request.served
        if self.request.form.form == "Table":
            version = f"meta.k8s.io/{self.request.form.version}"
            item = {"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": {**meta}}
            body: Body = {
                "kind": "Table",
                "apiVersion": version,
                "metadata": {"resourceVersion": str(revision)},
                "columnDefinitions": None,
                "rows": [{"cells": [], "object": item}],
            }
        elif self.request.form.form:
            version = f"meta.k8s.io/{self.request.form.version}"
            body = {"kind": "PartialObjectMetadata", "apiVersion": version, "metadata": meta}
        else:
            body = {"kind": served.kind.kind, "apiVersion": served.api_version, "metadata": meta}
        self.add(self.line("BOOKMARK", body))


def _as_it_was(stored: StoredObject, previous: Body | None) -> StoredObject:
    """The object that has left a selector, as far as the log knows how it was, at the revision of its leaving."""
    body = copy.copy(stored.body)
    before = previous or {}
    metadata = dict(body.get("metadata", {}))
    old = before.get("metadata", {})
    metadata.pop("labels", None)
    if old.get("labels"):
        metadata["labels"] = old["labels"]
    for key, value in before.items():
        if key != "metadata" and isinstance(value, dict) and isinstance(body.get(key), dict):
            body[key] = {**body[key], **value}
        elif key != "metadata":
            body[key] = value
    body["metadata"] = metadata
    return StoredObject(stored.key, stored.uid, stored.revision, orjson.dumps(body), body)


class Watches:
    """Opens watches."""

    def __init__(
        self, clock: Clock, *, bookmark_every_s: float = 55.0, lag: Callable[[float], None] = lambda _: None
    ) -> None:
        """`lag` is told the seconds from the commit of an event to the socket, of some events."""
        self._clock, self._lag = clock, lag
        self._shared = SharedBytes()
        self._bookmark_every_s = bookmark_every_s

    async def answer(self, request: Request, asked: WatchRequest, source: ObjectSource) -> Answer:
        """As a stream of HTTP, or over the WebSocket that the client asks for."""
        if not request.header(b"upgrade") or not is_websocket(request):
            return await self.open(asked, source, request.alone)
        headers = handshake(request, next(iter(offers(request)), ""))
        return stream_upgrade(await self.open(asked, source, request.alone), headers)

    async def open(self, request: WatchRequest, source: ObjectSource, alone: bool = False) -> Stream:
        """Each refusal that is possible happens here, with a status code; later errors are ERROR events. `alone`: see
        Store.get."""
        kind = request.served.kind
        initial: tuple[StoredObject, ...] = ()
        if request.initial:
            page = await source.list(
                kind.group, kind.resource, namespace=request.namespace, selector=request.selection.selector, alone=alone
            )
            initial, since = page.items, page.revision
        else:
            since = request.since if request.since is not None else await source.revision(alone=alone)
        try:
            watch = await source.watch(kind.group, kind.resource, namespace=request.namespace, since=since)
        except ExpiredRevision:
            raise expired(f"too old resource version: {since}") from None
        except FutureRevision as error:
            raise too_large_version(error.revision, error.current) from None
        content_type = table_type(request.form) if request.form.form else JSON
        if request.form.protobuf:
            content_type = f"{PROTOBUF};stream=watch"

        async def pump(send: Sender) -> None:
            await self._pump(request, watch, initial, since, send)

        headers = ((b"content-type", content_type.encode()), (b"cache-control", b"no-cache, private"))
        return Stream(pump, request.timeout_s, headers=headers, done=watch.aclose)

    async def _pump(
        self, request: WatchRequest, watch: Watch, initial: tuple[StoredObject, ...], since: int, send: Sender
    ) -> None:
        writer = _Writer(request, self._shared, self._clock)
        many = len(initial) > MANY
        async for stored in unhurried(initial):
            one = stored.once(packed=True) if many else stored
            writer.add(writer.object_line("ADDED", one, shared=not many))
            if writer.size >= CHUNK_BYTES:
                await send(writer.take())
        if request.end_bookmark:
            writer.bookmark(since, initial_end=True)
        if writer.buffer:
            await send(writer.take())
        now = self._clock.monotonic()
        next_bookmark = now + self._bookmark_every_s
        opened, next_lag = self._clock.now(), 0.0  # what was committed before says nothing about the hub
        try:
            while True:
                first = event = await watch.next(max(next_bookmark - now, 0.0))
                piece = Slice()
                while event is not None:
                    writer.event(event)
                    if writer.size >= CHUNK_BYTES:
                        break
                    if piece.over:
                        await piece.next()
                    event = watch.ready()
                if writer.buffer:
                    await send(writer.take())
                now = self._clock.monotonic()
                if first is not None and first.at >= opened and now >= next_lag:
                    next_lag = now + LAG_EVERY_S
                    self._lag(self._clock.now() - first.at)
                if now >= next_bookmark:
                    next_bookmark = now + self._bookmark_every_s
                    if request.bookmarks:
                        writer.bookmark(watch.progress)
                        await send(writer.take())
        except ExpiredRevision:
            over = expired(f"too old resource version: {watch.progress}")
            await send(writer.take() + writer.line("ERROR", over.status()))
        except StatusError as refused:
            await send(writer.take() + writer.line("ERROR", refused.status()))
        except StoreUnavailable:
            error = StatusError(
                500, "InternalError", "the store cannot be read now", causes=[Cause("", "unavailable", "Unavailable")]
            )
            await send(writer.take() + writer.line("ERROR", error.status()))
