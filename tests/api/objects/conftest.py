"""The parts that the stories about objects share: a clock and ids that tests control, and a store in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from api.engine.registry import Registry
from api.objects.objects import Objects
from api.objects.writing import Options, User
from api.store.memory import MemoryStore
from tests.admission.conftest import hub as hub  # objects with every kind and rule
from tests.api.engine.conftest import NAMESPACE, WIDGET

OPTIONS = Options(user=User("tester"), manager="tests")


class FixedClock:
    """Stands still until told."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


class CountingIds:
    """uid 1, 2, 3, …; suffixes from a list when given one."""

    def __init__(self) -> None:
        self.count = 0
        self.suffixes: list[str] = []

    def uid(self) -> str:
        self.count += 1
        return f"00000000-0000-4000-8000-{self.count:012d}"

    def suffix(self) -> str:
        return self.suffixes.pop(0) if self.suffixes else f"{self.count:05d}".translate(str.maketrans("0123", "bcdf"))


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock()


@pytest.fixture
def ids() -> CountingIds:
    return CountingIds()


@pytest.fixture
async def objects(clock: FixedClock, ids: CountingIds) -> AsyncIterator[Objects]:
    """Objects over an empty store that has the namespace `default`."""
    store = MemoryStore(clock)
    await store.start()
    objects = Objects(store, Registry([NAMESPACE, WIDGET]), clock, ids)
    await objects.create(NAMESPACE, "", {"metadata": {"name": "default"}}, OPTIONS)
    yield objects
    await store.stop()
