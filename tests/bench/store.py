"""How fast the stores are on this machine: writes by concurrency, fresh reads, watch fan-out, start.

usage: python -m tests.bench.store [--json]
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from api.store.embedded import EmbeddedPostgres
from api.store.memory import MemoryStore
from api.store.postgres import PostgresStore
from fleet.simulate.wall import WallClock
from fleet.values.ports import ABSENT, Change, CommitResult, Key, Put, Store, Watch

WRITES = {1: 1000, 10: 5000, 50: 20_000}  # concurrency -> writes
WATCHERS = 100


def _key(name: str) -> Key:
    return Key("", "configmaps", "default", name)


def _body(name: str) -> dict[str, Any]:
    """About 1 KB."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "data": {"text": "x" * 800},
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "bench"}},
    }


async def writes(store: Store, concurrency: int, count: int, figures: dict[str, float]) -> None:
    numbers = iter(range(count))
    took: list[float] = []

    async def work() -> None:
        for number in numbers:
            name = f"c{concurrency}-{number}"
            began = time.perf_counter()
            outcome = await store.commit([Put(_key(name), _body(name), ABSENT)])
            took.append(time.perf_counter() - began)
            assert isinstance(outcome, CommitResult)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(concurrency)))
    took.sort()
    figures[f"create c={concurrency} per s"] = round(count / (time.perf_counter() - began))
    figures[f"create c={concurrency} p50 ms"] = round(took[len(took) // 2] * 1000, 2)
    figures[f"create c={concurrency} p99 ms"] = round(took[len(took) * 99 // 100] * 1000, 2)


async def reads(store: Store, figures: dict[str, float]) -> None:
    for concurrency, count in ((1, 2000), (50, 20_000)):
        numbers = iter(range(count))

        async def work(numbers: Any = numbers) -> None:
            for number in numbers:
                await store.get(_key(f"c1-{number % 1000}"))

        began = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(concurrency)))
        figures[f"fresh get c={concurrency} per s"] = round(count / (time.perf_counter() - began))


async def fan_out(store: Store, figures: dict[str, float]) -> None:
    """`WATCHERS` watchers, 1,000 changes at concurrency 10."""
    changes = 1000
    watches = [await store.watch("", "configmaps") for _ in range(WATCHERS)]

    async def follow(watch: Watch) -> None:
        for _ in range(changes):
            assert await watch.next(30.0) is not None

    async def change(part: int) -> None:
        for number in range(part, changes, 10):
            await store.commit([Change(_key(f"c1-{number}"), lambda body: {**body, "touched": True})])

    began = time.perf_counter()
    await asyncio.gather(*(follow(watch) for watch in watches), *(change(part) for part in range(10)))
    figures[f"watch events to {WATCHERS} watchers per s"] = round(changes * WATCHERS / (time.perf_counter() - began))


async def measure(store: Store) -> dict[str, float]:
    figures: dict[str, float] = {}
    for concurrency, count in WRITES.items():
        await writes(store, concurrency, count, figures)
    await reads(store, figures)
    await fan_out(store, figures)
    return figures


async def main() -> None:
    clock = WallClock()
    results = {"memory": await measure(MemoryStore(clock))}
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as directory:
        async with EmbeddedPostgres(Path(directory) / "pg") as server:
            store = PostgresStore(server.dsn, clock, secret_key_file=Path(directory) / "keys.json")
            await store.start()
            results["postgres"] = await measure(store)
            await store.stop()
            began = time.perf_counter()
            store = PostgresStore(server.dsn, clock, secret_key_file=Path(directory) / "keys.json")
            await store.start()
            results["postgres"]["open with 26,000 objects ms"] = round((time.perf_counter() - began) * 1000)
            await store.stop()
    if "--json" in sys.argv:
        print(json.dumps(results, indent=2))
        return
    for name in results["postgres"]:
        print(f"{name:40} {results['memory'].get(name, ''):>10} {results['postgres'][name]:>10}")


if __name__ == "__main__":
    asyncio.run(main())
