"""Objects in the version that is asked for, where the store may have them in another one.

An object is stored in the storage version of its kind. An `ObjectSource` reads and writes the store in one version: the
store itself where nothing can differ, else a view of it. What is older than a kind's schema is completed by it on the
way, as if it had just been written. A webhook may take seconds, so no view takes a change that is made under the
writer's lock."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import orjson

from api.engine.bounds import check_stored, private
from api.engine.conversion import complete, rewritten
from api.engine.kind import Kind
from api.engine.status import StatusError
from api.objects.refusing import name_in
from api.objects.sharedbytes import SharedBytes
from fleet.values.ports import (
    Body,
    CommitResult,
    Conflict,
    Event,
    Key,
    Page,
    Put,
    Selector,
    Store,
    StoredObject,
    Watch,
    Write,
)

BREATH = 200  # objects that are read before others get a turn
AT_ONCE = 100  # events of a watch that are converted together
COMPLETE_MAX = 100_000  # objects that are known to need nothing, though they are older than their schema

Ask = Callable[[Sequence[Body]], Awaitable[Sequence[Body]]]
Complete = tuple[str, int, int]  # uid and revision of an object, and since when the schema is in force


class Converter(Protocol):
    """Conversion webhooks."""

    async def convert(self, kind: Kind, bodies: Sequence[Body]) -> list[Body]:
        """The bodies, of any versions, in that of `kind`. StatusError 500 where the webhook does not do it."""
        ...


class ObjectSource(Protocol):
    """The part of a `Store` by which requests read and write; see there."""

    async def get(self, key: Key, *, fresh: bool = True, alone: bool = False) -> StoredObject | None: ...

    async def list(
        self,
        group: str,
        resource: str,
        *,
        namespace: str | None = None,
        selector: Selector | None = None,
        limit: int | None = None,
        start: tuple[str, str] | None = None,
        at: int | None = None,
        fresh: bool = True,
        alone: bool = False,
    ) -> Page: ...

    async def watch(
        self, group: str, resource: str, *, namespace: str | None = None, since: int | None = None
    ) -> Watch: ...

    async def commit(self, writes: Sequence[Write], *, epoch: int | None = None) -> CommitResult | Conflict: ...

    async def revision(self, *, alone: bool = False) -> int: ...


class ConvertedObject(StoredObject):
    """A stored object in another form. `stale`: the store would have it otherwise, were it written now."""

    __slots__ = ("stale",)

    def __init__(self, stored: StoredObject, body: Body, *, stale: bool) -> None:
        super().__init__(stored.key, stored.uid, stored.revision, orjson.dumps(body), body)
        self.stale = stale


async def in_version(kind: Kind, body: Body, converter: Converter | None) -> Body:
    """A body that is not stored, in the version of `kind`, which is one of several; a copy where anything differs."""
    assert kind.family is not None
    if body["apiVersion"] == kind.api_version:
        return body
    body = private(body)
    if kind.family.webhook is not None and converter is not None:
        [body] = await converter.convert(kind, [body])
    return rewritten(kind, body)


class Versions:
    """Gives each kind its source."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.converter: Converter | None = None  # without one, objects that need a webhook stay as they are stored
        self._answers = _Answers()
        self._complete: set[Complete] = set()

    def of(self, kind: Kind) -> ObjectSource:
        if kind.family is None:
            return _View(self._store, kind, self._complete) if kind.since else self._store
        if kind.family.webhook is not None and self.converter is None:
            return self._store
        return _View(self._store, kind, self._complete, self.converter, self._answers)


class _Answers:
    """What webhooks made of states of objects, for all readers of a state: watchers of one event ask once together."""

    def __init__(self) -> None:
        self._made = SharedBytes()
        self._asked: dict[tuple[object, ...], asyncio.Future[None]] = {}

    async def of(self, keys: Sequence[tuple[object, ...]], bodies: Sequence[Body], ask: Ask) -> list[Body]:
        """The answer about each body; `keys` name the states. Raises what the question raises, whoever asked it."""
        answers: dict[int, Body] = {}
        while True:
            answers |= {
                i: orjson.loads(raw) for i, key in enumerate(keys) if i not in answers and (raw := self._made.get(key))
            }
            rest = [index for index in range(len(keys)) if index not in answers]
            if not rest:
                return [answers[index] for index in range(len(keys))]
            mine = [index for index in rest if keys[index] not in self._asked]
            if mine:
                found = await self._put([keys[index] for index in mine], [bodies[index] for index in mine], ask)
                answers |= zip(mine, found, strict=True)
            else:
                await asyncio.shield(self._asked[keys[rest[0]]])

    async def _put(self, keys: Sequence[tuple[object, ...]], bodies: Sequence[Body], ask: Ask) -> Sequence[Body]:
        done = asyncio.get_running_loop().create_future()
        self._asked |= dict.fromkeys(keys, done)
        try:
            found = await ask(bodies)
            for key, body in zip(keys, found, strict=True):
                self._made.put(key, orjson.dumps(body))
            return found
        except StatusError as refusal:
            done.set_exception(refusal)
            done.exception()  # which nobody may wait for
            raise
        finally:
            for key in keys:
                del self._asked[key]
            if not done.done():
                done.set_result(None)  # a reader that has gone: the next one asks


class _View:
    """The store, as one kind in one version sees it."""

    def __init__(
        self,
        store: Store,
        kind: Kind,
        complete: set[Complete],
        converter: Converter | None = None,
        answers: _Answers | None = None,
    ) -> None:
        self._store, self._kind, self._family = store, kind, kind.family
        self._ask = converter if kind.family is not None and kind.family.webhook is not None else None
        self._complete, self._answers = complete, answers
        self._heads: tuple[bytes, ...] = ()
        if kind.family is not None:
            names = f'"kind":"{kind.kind}"', f'"apiVersion":"{kind.api_version}"'
            self._heads = tuple(f"{{{one},{other},".encode() for one, other in (names, names[::-1]))

    async def revision(self, *, alone: bool = False) -> int:
        return await self._store.revision(alone=alone)

    async def get(self, key: Key, *, fresh: bool = True, alone: bool = False) -> StoredObject | None:
        stored = await self._store.get(key, fresh=fresh, alone=alone)
        if stored is None or self._is_as_asked(stored):
            return stored
        return (await self.in_version((stored,)))[0]

    async def list(
        self,
        group: str,
        resource: str,
        *,
        namespace: str | None = None,
        selector: Selector | None = None,
        limit: int | None = None,
        start: tuple[str, str] | None = None,
        at: int | None = None,
        fresh: bool = True,
        alone: bool = False,
    ) -> Page:
        """A webhook's answer is selected from when it is there, so a page may have fewer items than its limit."""
        test = None if selector is None or self._ask is not None else self._seen_by(selector)
        page = await self._store.list(
            group,
            resource,
            namespace=namespace,
            selector=test,
            limit=limit,
            start=start,
            at=at,
            fresh=fresh,
            alone=alone,
        )
        items = await self.in_version(page.items)
        if selector is not None and self._ask is not None:
            items = [stored for stored in items if selector(stored.body)]
        return replace(page, items=tuple(items))

    async def watch(
        self, group: str, resource: str, *, namespace: str | None = None, since: int | None = None
    ) -> Watch:
        watch = await self._store.watch(group, resource, namespace=namespace, since=since)
        if self._family is None and (since is None or since >= self._kind.since):
            return watch
        return _ShownWatch(watch, self)

    async def commit(self, writes: Sequence[Write], *, epoch: int | None = None) -> CommitResult | Conflict:
        """Puts in the kind's version are stored in the storage version."""
        matches = [write.key[:2] == (self._kind.group, self._kind.resource) for write in writes]
        kept = [
            await self._kept(write) if mine and isinstance(write, Put) else write
            for mine, write in zip(matches, writes, strict=True)
        ]
        outcome = await self._store.commit(kept, epoch=epoch)
        if not isinstance(outcome, CommitResult):
            return outcome
        stored = [
            (await self.in_version((one,)))[0] if mine else one
            for mine, one in zip(matches, outcome.stored, strict=True)
        ]
        return CommitResult(tuple(stored), outcome.revision)

    async def _kept(self, put: Put) -> Put:
        if self._family is None or put.body["apiVersion"] == self._family.storage:
            return put
        storage = self._family.kinds[self._family.storage]
        body = await in_version(storage, put.body, self._ask)
        complete(storage, body)  # a conversion adds no defaults, and a reader would find those that are missing
        check_stored(storage.group, storage.kind, name_in(body), body)
        return Put(put.key, body, put.expect)

    async def in_version(self, items: Sequence[StoredObject]) -> Sequence[StoredObject]:
        """The objects in the version of the kind."""
        away = [index for index, stored in enumerate(items) if not self._is_as_asked(stored)]
        if not away:
            return items
        out, foreign = list(items), []
        for turn, index in enumerate(away):
            if turn and turn % BREATH == 0:
                await asyncio.sleep(0)
            stored = items[index]
            body, stale = self._completed(stored)
            if body["apiVersion"] == self._kind.api_version:
                out[index] = ConvertedObject(stored, body, stale=stale) if stale else self._remembered(stored)
            elif self._ask is None:
                out[index] = ConvertedObject(stored, rewritten(self._kind, body), stale=stale)
            else:
                foreign.append((index, body, stale))
        if foreign:
            bodies = await self._by_webhook([(items[index], body) for index, body, _ in foreign])
            for (index, _, stale), body in zip(foreign, bodies, strict=True):
                out[index] = ConvertedObject(items[index], body, stale=stale)
        return out

    async def _by_webhook(self, given: Sequence[tuple[StoredObject, Body]]) -> Sequence[Body]:
        """Stored objects, which have been completed, in the version of the kind."""
        assert self._ask is not None and self._answers is not None
        keys = [(self._family, stored.uid, stored.revision, self._kind.api_version) for stored, _ in given]
        found = await self._answers.of(keys, [body for _, body in given], partial(self._ask.convert, self._kind))
        return [rewritten(self._kind, body) for body in found]

    def _is_as_asked(self, stored: StoredObject) -> bool:
        since = self._kind.since
        if stored.revision <= since and (stored.uid, stored.revision, since) not in self._complete:
            return False
        return self._family is None or stored.raw.startswith(self._heads)

    def _remembered(self, stored: StoredObject) -> StoredObject:
        """An object that is older than the schema, and yet as the schema asks for."""
        if len(self._complete) >= COMPLETE_MAX:
            self._complete.clear()
        self._complete.add((stored.uid, stored.revision, self._kind.since))
        return stored

    def _completed(self, stored: StoredObject) -> tuple[Body, bool]:
        """The body by the schema of the version in which it is stored, and whether a write would store it otherwise.
        StatusError 500 for a version that the CRD no longer has."""
        body: Body = orjson.loads(stored.raw)
        kind, stale = self._kind, False
        if self._family is not None:
            said = body["apiVersion"]
            known = self._family.kinds.get(said)
            if known is None:
                raise StatusError(500, "", f"request to convert CR from an invalid group/version: {said}")
            kind, stale = known, said != self._family.storage
        if stored.revision <= kind.since:
            complete(kind, body)
            stale = stale or orjson.dumps(body) != stored.raw
        return body, stale

    def _seen_by(self, selector: Selector) -> Selector:
        """The test on stored bodies that comes to the same."""

        def test(stored: Body) -> bool:
            kind, old = self._kind.stored_as(stored), int(stored["metadata"]["resourceVersion"]) <= self._kind.since
            if kind is self._kind and not old:
                return selector(stored)
            body = private(stored)
            if old:
                complete(kind, body)
            return selector(body if kind is self._kind else rewritten(self._kind, body))

        return test


class _ShownWatch:
    """A watch whose events show objects in the version of a view. Events that are at hand are converted together."""

    def __init__(self, watch: Watch, view: _View) -> None:
        self._watch, self._view = watch, view
        self._ready: deque[Event] = deque()
        self._progress = watch.progress

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            event = await self.next(60.0)
            if event is not None:
                yield event

    async def next(self, timeout: float) -> Event | None:
        if not self._ready:
            event = await self._watch.next(timeout)
            events = []
            while event is not None:
                events.append(event)
                event = self._watch.ready() if len(events) < AT_ONCE else None
            shown = await self._view.in_version([event.stored for event in events])
            self._ready.extend(replace(event, stored=one) for event, one in zip(events, shown, strict=True))
            if not self._ready:
                self._progress = self._watch.progress
                return None
        return self.ready()

    def ready(self) -> Event | None:
        if not self._ready:
            return None
        event = self._ready.popleft()
        self._progress = event.revision if self._ready else self._watch.progress
        return event

    @property
    def progress(self) -> int:
        return self._progress

    async def aclose(self) -> None:
        await self._watch.aclose()
