"""What a process keeps of many objects, so that many open pages cost little more than one.

`Sums` and `Groups` follow the log: a request takes in what has changed since the last one. `SharedAnswer` and
`RecentAnswers` make an answer once for all who ask for it at the same time.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from api.objects.changes import Resource, changed_keys
from api.slices import unhurried
from fleet.rest.context import spared
from fleet.values.ports import Key, Store, StoredObject

T = TypeVar("T")
G = TypeVar("G", bound=Hashable)


class _FollowedParts(ABC, Generic[T]):
    """What each object of a resource adds to a whole. `part`: of an object, None where it adds nothing; it may look at
    other objects, and `owner` names the object whose part one that has changed may alter."""

    def __init__(
        self,
        store: Store,
        resource: Resource,
        part: Callable[[StoredObject], T | None],
        *relatives: Resource,
        owner: Callable[[Key], Key] = lambda key: key,
    ) -> None:
        self._store, self._resource, self._part = store, resource, part
        self._resources, self._owner = (resource, *relatives), owner
        self._parts: dict[Key, T] = {}
        self._upto, self._generation = -1, 0
        self._following = asyncio.Lock()

    async def _follow(self, revision: int, generation: int) -> None:
        """`revision` is the store's, and the whole may be newer; another `generation` makes all of it anew."""
        async with self._following:
            if generation != self._generation:
                self._generation, self._upto = generation, -1
            if self._upto < revision:
                changed, upto = await changed_keys(self._store, self._resources, self._upto, revision)
                if changed is None:
                    self._parts = {}
                    self._clear()
                    self._upto = -1  # a request that is broken off leaves a half
                keys: Iterable[Key] = map(self._owner, changed) if changed is not None else self._all()
                async for key in unhurried(keys):
                    self._take(key)
                self._upto = upto

    def _all(self) -> Iterable[Key]:
        return (stored.key for stored in self._store.scan(*self._resource))

    def _take(self, key: Key) -> None:
        stored = self._store.peek(key)
        now = spared(self._part, stored, otherwise=None) if stored is not None else None
        before = self._parts.pop(key, None)
        if before is not None:
            self._leave(before)
        if now is not None:
            self._parts[key] = now
            self._join(now)

    @abstractmethod
    def _clear(self) -> None: ...

    @abstractmethod
    def _leave(self, part: T) -> None: ...

    @abstractmethod
    def _join(self, part: T) -> None: ...


class Sums(_FollowedParts[tuple[str, Mapping[str, int]]]):
    """Sums over objects by group, e.g. the jobs of each member by state. A part is the group of an object and what it
    adds."""

    _sums: dict[str, Counter[str]]

    async def at(self, revision: int, generation: int = 0) -> Mapping[str, Mapping[str, int]]:
        """By group, without zeros. The next call changes the same sums."""
        await self._follow(revision, generation)
        return self._sums

    def _clear(self) -> None:
        self._sums = {}

    def _leave(self, part: tuple[str, Mapping[str, int]]) -> None:
        group, amounts = part
        sums = self._sums[group]
        sums.subtract(amounts)
        for name in amounts:
            if not sums[name]:
                del sums[name]
        if not sums:
            del self._sums[group]

    def _join(self, part: tuple[str, Mapping[str, int]]) -> None:
        self._sums.setdefault(part[0], Counter()).update(part[1])


class Groups(_FollowedParts[tuple[G, Key]]):
    """Keys by group. A part is the group of an object, and the key that stands for it there."""

    _groups: dict[G, set[Key]]

    async def at(self, revision: int, generation: int = 0) -> Mapping[G, Collection[Key]]:
        """No group is empty. The next call changes the same groups."""
        await self._follow(revision, generation)
        return self._groups

    def _clear(self) -> None:
        self._groups = {}

    def _leave(self, part: tuple[G, Key]) -> None:
        group, key = part
        self._groups[group].discard(key)
        if not self._groups[group]:
            del self._groups[group]

    def _join(self, part: tuple[G, Key]) -> None:
        self._groups.setdefault(part[0], set()).add(part[1])


class SharedAnswer:
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


class RecentAnswers(Generic[T]):
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
