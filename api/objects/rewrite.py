"""One change of a stored object as a client asks for it, however many others write that object at the same time.

The first try is optimistic: read, make the new body, ask the admission rule, write if no other write came meanwhile. A
client that named no revision must not see the fights of others, so what loses is made again under the writer's lock,
where nothing can come in between. A rule that looks at other objects cannot be asked there, since it would wait while
all others wait for the lock. Such a write is tried again in turn with the others of this process, so that fifty writers
need about fifty tries more and not a thousand. Other processes are met with small random pauses. All of it has a bound
of time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from weakref import WeakValueDictionary

from api.engine.kind import Kind
from api.engine.rules import CostlyWrite
from api.engine.status import StatusError, conflict, not_found
from api.engine.write import PreparedWrite
from api.objects.apart import LARGE_BYTES, apart_if, at_once
from api.objects.hooking import Way
from api.objects.versions import ConvertedObject, ObjectSource
from api.objects.writing import WriteOutcome, as_stored
from fleet.values.ports import Body, Change, Clock, CommitResult, Delete, Expect, Key, Put, StoredObject, Write

PATIENCE_S = 10.0  # of a write whose rule looks at other objects, its wait for its turn included; then 409 Conflict
PAUSE_S = (0.001, 0.02)  # between its tries
TURNS_MAX = 5  # between "is to be removed" and "is to be written", when others keep changing which it is


class Turns:
    """The turn to change an object that several of this process want to change; first come, first served."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()

    def of(self, key: Key) -> asyncio.Lock:
        """Kept for as long as a task holds it or waits for it."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock


@dataclass(frozen=True, slots=True)
class Rewrite:
    """`make` says what becomes of the stored body (pure; asked once for each try). `admit` asks the admission rule
    about (prepared, old, whether it is large) and raises what it refuses; `check` does the same without waiting, None
    when the rule cannot. `size`: of what the client sent, in bytes. A large body is made beside the event loop, and
    never under the lock. `way`: through webhooks and policies, which are not asked under the lock either. `alone`: see
    Store.get."""

    kind: Kind
    key: Key
    make: Callable[[Body], PreparedWrite]
    admit: Callable[[PreparedWrite, Body, bool], Awaitable[None]]
    check: Callable[[PreparedWrite, Body], None] | None
    epoch: int | None = None
    dry_run: bool = False
    size: int = 0
    way: Way | None = None
    alone: bool = False

    async def run(self, store: ObjectSource, clock: Clock, turns: Turns) -> WriteOutcome:
        """StatusError 404 when there is no object, 409 when others would not let go of it, or the refusal of `make` or
        of the rule."""
        written = await self._first(store)
        if written is not None:
            return written
        if self.check is not None and self.way is None and not await self._large(store):
            try:
                return await self._locked(store, self.check)
            except CostlyWrite:
                pass
        deadline = clock.monotonic() + PATIENCE_S
        async with turns.of(self.key):
            while True:
                written = await self._once(store)
                if written is not None:
                    return written
                if clock.monotonic() >= deadline:
                    raise conflict(self.kind.group, self.kind.resource, self.key.name)
                await clock.sleep(random.uniform(*PAUSE_S))

    async def _first(self, store: ObjectSource) -> WriteOutcome | None:
        """The first try, of the object as this process has seen it: a commit that happens says that this was the
        newest. An answer without a commit holds for the newest object only, which is asked for then."""
        stored = None if self.dry_run or self.way is not None else await store.get(self.key, fresh=False)
        if stored is None:
            return await self._once(store)
        refused, written, old = None, None, stored.body
        try:
            written = await self._of(store, stored)
        except StatusError as error:
            refused = error
        if refused is None and (written is None or written.deleted or written.what is not old):
            return written
        newest = await store.get(self.key, alone=self.alone)
        if newest is None or (newest.uid, newest.revision) != (stored.uid, stored.revision):
            return await self._once(store)
        if refused is not None:
            raise refused
        return written

    async def _once(self, store: ObjectSource) -> WriteOutcome | None:
        """None when another write came in between."""
        stored = await store.get(self.key, alone=self.alone)
        if stored is None:
            raise self._missing()
        return await self._of(store, stored)

    async def _of(self, store: ObjectSource, stored: StoredObject) -> WriteOutcome | None:
        large = max(self.size, len(stored.raw)) > LARGE_BYTES
        if self.way is not None:
            prepared = await self.way.prepare(stored.body, large)
        else:
            prepared = await apart_if(large, self.make, stored.body)
        stale = (
            isinstance(stored, ConvertedObject) and stored.stale
        )  # a write that changes nothing still rewrites it then
        same = prepared.body is stored.body and not prepared.finished and not stale
        if not same:
            await self.admit(prepared, stored.body, large)
        if self.way is not None:
            await self.way.validate(prepared, stored.body)
        if same:
            return WriteOutcome(prepared.body, warnings=prepared.warnings)
        if self.dry_run:
            return WriteOutcome(prepared.body, deleted=prepared.finished, warnings=prepared.warnings)
        expect = Expect(revision=stored.revision)
        write = Delete(self.key, expect) if prepared.finished else Put(self.key, prepared.body, expect)
        outcome = await store.commit([write], epoch=self.epoch)
        return _written(prepared, stored.body, outcome) if isinstance(outcome, CommitResult) else None

    async def _large(self, store: ObjectSource) -> bool:
        stored = await store.get(self.key, alone=self.alone)
        return stored is not None and max(self.size, len(stored.raw)) > LARGE_BYTES

    async def _locked(self, store: ObjectSource, check: Callable[[PreparedWrite, Body], None]) -> WriteOutcome:
        """Made, checked and written under the writer's lock. Removing is another kind of write than changing, and which
        of the two it comes to is known there only: whichever guess is wrong writes nothing, and the other is made."""
        last: list[tuple[PreparedWrite, Body]] = []

        def checked(body: Body) -> PreparedWrite:
            prepared = at_once(self.make, body)
            if prepared.body is not body or prepared.finished:
                check(prepared, body)
            last[:] = [(prepared, body)]
            return prepared

        def change(body: Body) -> Body | None:
            prepared = checked(body)
            if prepared.finished:
                raise _OtherwiseError
            return None if prepared.body is body else prepared.body

        def guard(body: Body) -> None:
            if not checked(body).finished:
                raise _OtherwiseError

        ways: list[list[Write]] = [[Change(self.key, change)], [Change(self.key, guard), Delete(self.key)]]
        for turn in range(TURNS_MAX):
            try:
                outcome = await store.commit(ways[turn % 2], epoch=self.epoch)
            except _OtherwiseError:
                continue
            if not isinstance(outcome, CommitResult):
                raise self._missing()
            prepared, old = last[0]
            return _written(prepared, old, outcome)
        raise conflict(self.kind.group, self.kind.resource, self.key.name)

    def _missing(self) -> Exception:
        return not_found(self.kind.group, self.kind.resource, self.key.name)


class _OtherwiseError(Exception):
    """The object is to be removed where a change was tried, or the other way round."""


def _written(prepared: PreparedWrite, old: Body, outcome: CommitResult) -> WriteOutcome:
    """An update that lets an object go answers with what it wrote last; a deletion with the object as it went."""
    stored = outcome.stored[-1]
    if not prepared.finished:
        return as_stored(stored, prepared.body, warnings=prepared.warnings)
    what = stored if prepared.body is old else prepared.body
    return WriteOutcome(what, deleted=True, warnings=prepared.warnings)
