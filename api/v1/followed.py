"""What a process keeps of many objects, so that many open pages cost little more than one.

`Sums` follow the log: a request takes in what has changed since the last one. `Shared` and `Recent` make an answer once
for all who ask for it at the same time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from api.v1.context import spared, unhurried
from fleet.ports import Expired, Key, Store, Stored

CHANGES = 5_000  # more of them since the last request, and all is made anew, which then costs less
Resource = tuple[str, str]
T = TypeVar("T")


async def changed_keys(
    store: Store, resources: Collection[Resource], since: int, revision: int
) -> tuple[set[Key] | None, int]:
    """The objects that have changed after `since`, and the revision up to which the log was read. No objects where the
    log does not tell, or tells of too many. `since` -1: nothing was ever read. `revision`: the store's."""
    if since < 0:
        return None, revision
    try:
        events, upto = await store.events(resources, since=since, limit=CHANGES)
    except Expired:
        return None, revision
    if len(events) == CHANGES or upto < since:
        return None, revision
    return {event.stored.key for event in events}, upto


class Sums:
    """Sums over objects by group, e.g. the jobs of each member by state. `counted`: the group of an object and what it
    adds, None for one that adds nothing; it may look at other objects, and `owner` names the object whose part one that
    has changed may alter."""

    def __init__(
        self,
        store: Store,
        resource: Resource,
        counted: Callable[[Stored], tuple[str, Mapping[str, int]] | None],
        *others: Resource,
        owner: Callable[[Key], Key] = lambda key: key,
    ) -> None:
        self._store, self._resource, self._counted = store, resource, counted
        self._resources, self._owner = (resource, *others), owner
        self._parts: dict[Key, tuple[str, Mapping[str, int]]] = {}
        self._sums: dict[str, Counter[str]] = {}
        self._upto, self._generation = -1, 0
        self._following = asyncio.Lock()

    async def at(self, revision: int, generation: int = 0) -> Mapping[str, Mapping[str, int]]:
        """By group, without zeros. `revision` is the store's, and the answer may be newer; another `generation` makes
        all of it anew. The next call changes the same sums."""
        async with self._following:
            if generation != self._generation:
                self._generation, self._upto = generation, -1
            if self._upto < revision:
                changed, upto = await changed_keys(self._store, self._resources, self._upto, revision)
                if changed is None:
                    self._parts, self._sums = {}, {}
                    self._upto = -1  # a request that is broken off leaves a half
                keys: Iterable[Key] = map(self._owner, changed) if changed is not None else self._all()
                async for key in unhurried(keys):
                    self._take(key)
                self._upto = upto
            return self._sums

    def _all(self) -> Iterable[Key]:
        return (stored.key for stored in self._store.scan(*self._resource))

    def _take(self, key: Key) -> None:
        stored = self._store.peek(key)
        now = spared(self._counted, stored, otherwise=None) if stored is not None else None
        before = self._parts.pop(key, None)
        if before is not None:
            group, amounts = before
            sums = self._sums[group]
            sums.subtract(amounts)
            for name in amounts:
                if not sums[name]:
                    del sums[name]
            if not sums:
                del self._sums[group]
        if now is not None:
            self._parts[key] = now
            self._sums.setdefault(now[0], Counter()).update(now[1])


class Shared:
    """One answer that follows from the store alone. `make`: of the store's revision."""

    def __init__(self, store: Store, make: Callable[[int], Awaitable[bytes]]) -> None:
        self._store, self._make = store, make
        self._answer, self._of = b"", -1
        self._making = asyncio.Lock()

    async def now(self) -> bytes:
        """Of the store as it is at the call, or newer."""
        revision = await self._store.revision()
        async with self._making:
            if self._of < revision:
                newest = await self._store.revision()  # of those that came while this one waited
                self._answer = await self._make(newest)
                self._of = newest
            return self._answer


class Recent(Generic[T]):
    """Answers of a slow source, each kept for `keep_s` seconds after it came, at most `most` of them."""

    def __init__(self, keep_s: float, most: int = 100) -> None:
        self._keep_s, self._most = keep_s, most
        self._asked: dict[Hashable, asyncio.Task[T]] = {}
        self._until: dict[Hashable, float] = {}

    async def of(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """What `make` gives, now or a moment ago. What it raises is not kept."""
        task = self._asked.get(key)
        if task is None or (task.done() and time.monotonic() >= self._until.get(key, 0.0)):
            while len(self._asked) >= self._most:
                oldest = next(iter(self._asked))
                del self._asked[oldest]
                self._until.pop(oldest, None)
            self._asked.pop(key, None)
            task = self._asked[key] = asyncio.create_task(self._made(key, make), name="shared answer")
        return await asyncio.shield(task)

    async def _made(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        found = await make()
        self._until[key] = time.monotonic() + self._keep_s
        return found
