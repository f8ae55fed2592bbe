"""Builders for the contract suite: stores, keys, bodies, and ways to wait that have a bound."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from api.store.leadership import PostgresLeadership
from api.store.life import Patience
from api.store.memory import MemoryLeadership, MemoryStore
from api.store.postgres import PostgresStore
from fleet.simulate.wall import WallClock
from fleet.values.ports import (
    Body,
    CommitResult,
    Conflict,
    Event,
    Key,
    Leadership,
    Put,
    Store,
    StoredObject,
    Watch,
    Write,
)

PATIENCE_S = 60.0  # how long a test waits for what must happen
FUTURE_WAIT_S = 0.2  # how long these stores wait for a revision that has not happened


class World(Protocol):
    async def open(self, **options: Any) -> Store: ...

    def candidate(self) -> Leadership: ...

    async def close(self) -> None: ...


class MemoryWorld:
    """All handles are the one store: there is no other process."""

    def __init__(self) -> None:
        self._store: MemoryStore | None = None
        self._candidates: list[Leadership] = []

    async def open(self, **options: Any) -> Store:
        if self._store is None:
            self._store = MemoryStore(WallClock(), future_wait_s=FUTURE_WAIT_S, **options)
        return self._store

    def candidate(self) -> Leadership:
        assert self._store is not None
        self._candidates.append(MemoryLeadership(self._store))
        return self._candidates[-1]

    async def close(self) -> None:
        for candidate in self._candidates:
            await candidate.release()


class PostgresWorld:
    """Each handle is a store with its own connections and cache, as in a process of its own."""

    def __init__(self, dsn: str, key_file: Path) -> None:
        self.dsn, self.key_file = dsn, key_file
        self._stores: list[PostgresStore] = []
        self._candidates: list[Leadership] = []

    async def open(self, **options: Any) -> PostgresStore:
        store = PostgresStore(
            self.dsn, WallClock(), secret_key_file=self.key_file, future_wait_s=FUTURE_WAIT_S, **options
        )
        await store.start()
        self._stores.append(store)
        return store

    def candidate(self, **options: Any) -> PostgresLeadership:
        made = PostgresLeadership(self.dsn, patience=Patience(**options))
        self._candidates.append(made)
        return made

    async def close(self) -> None:
        for candidate in self._candidates:
            await candidate.release()
        for store in self._stores:
            await store.stop()


def key(name: str, *, namespace: str = "default", resource: str = "configmaps", group: str = "") -> Key:
    return Key(group, resource, namespace, name)


def body(name: str, *, namespace: str = "default", labels: dict[str, str] | None = None, **fields: Any) -> Body:
    metadata: Body = {"name": name, "namespace": namespace, "uid": f"uid-of-{name}", "generation": 1}
    if labels is not None:
        metadata["labels"] = labels
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **fields}


def put(name: str, **fields: Any) -> Put:
    return Put(key(name), body(name, **fields))


async def must(store: Store, *writes: Write, epoch: int | None = None) -> CommitResult:
    """Commit, and insist that it happened."""
    outcome = await store.commit(writes, epoch=epoch)
    assert isinstance(outcome, CommitResult), outcome
    return outcome


async def must_not(store: Store, *writes: Write) -> Conflict:
    outcome = await store.commit(writes)
    assert isinstance(outcome, Conflict), outcome
    return outcome


async def take(watch: Watch, count: int) -> list[Event]:
    """The next `count` events."""
    events: list[Event] = []
    while len(events) < count:
        event = await watch.next(PATIENCE_S)
        assert event is not None, f"only {len(events)} of {count} events came"
        events.append(event)
    return events


# `...`: a lambda in a loop binds its variable by a default, which mypy refuses for `[]`
async def eventually(condition: Callable[..., bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


def names(items: tuple[StoredObject, ...]) -> list[str]:
    return [item.key.name for item in items]
