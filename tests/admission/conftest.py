"""A hub's objects with every kind and rule, over a store in memory, on a clock that stands still."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from api.engine.registry import Registry
from api.engine.status import StatusError
from api.objects.objects import Objects
from api.objects.writing import Options, User, WriteOutcome
from api.store.memory import MemoryStore
from fleet.admission import rules
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.admission.seed import seed

Body = dict[str, Any]
USER = Options(user=User("ann"), manager="tests")
THE_HUB = Options(user=User("system:fleet:controllers", hub=True), manager="fleet")


class StandingClock:
    def now(self) -> float:
        return 1_700_000_000.0

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        return None


class CountingIds:
    def __init__(self) -> None:
        self.count = 0

    def uid(self) -> str:
        self.count += 1
        return f"00000000-0000-4000-8000-{self.count:012d}"

    def suffix(self) -> str:
        return f"{self.count:05d}".translate(str.maketrans("01", "bc"))


class Hub:
    """The calls of a client, in short: `await hub.create(body)`, `await hub.refused(body)`."""

    def __init__(self, objects: Objects) -> None:
        self.objects = objects
        self.registry = objects.registry
        self.store = objects.store

    def _kind(self, body: Body) -> Any:
        kind = self.registry.kind_of(body["apiVersion"], body["kind"])
        assert kind is not None, body["kind"]
        return kind

    async def create(self, body: Body) -> Body:
        kind = self._kind(body)
        namespace = body["metadata"].get("namespace", "default") if kind.namespaced else ""
        return (await self.objects.create(kind, namespace, body, USER)).body

    async def made(self, body: Body) -> Body:
        """Objects that the hub itself creates, status included."""
        kind = self._kind(body)
        namespace = body["metadata"].get("namespace", "default") if kind.namespaced else ""
        return (await self.objects.create(kind, namespace, body, THE_HUB, with_status=True)).body

    async def update(self, body: Body) -> Body:
        kind = self._kind(body)
        metadata = body["metadata"]
        namespace = metadata.get("namespace", "default") if kind.namespaced else ""
        return (await self.objects.update(kind, namespace, metadata["name"], body, USER)).body

    async def delete(self, body: Body) -> WriteOutcome:
        kind = self._kind(body)
        metadata = body["metadata"]
        namespace = metadata.get("namespace", "default") if kind.namespaced else ""
        return await self.objects.delete(kind, namespace, metadata["name"], USER)

    async def refused(self, body: Body, verb: str = "create") -> StatusError:
        """The refusal of this request, which must not have changed anything."""
        before = await self.store.revision()
        with pytest.raises(StatusError) as refusal:
            await getattr(self, verb)(body)
        assert await self.store.revision() == before
        return refusal.value


@pytest.fixture
async def hub() -> AsyncIterator[Hub]:
    clock = StandingClock()
    store = MemoryStore(clock)
    await store.start()
    objects = Objects(store, Registry(load_kinds()), clock, CountingIds(), rules(), fill=filled)
    await seed(objects)
    yield Hub(objects)
    await store.stop()
