"""A watch that is far behind reads the log from the database in parts of bounded size, and misses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.store import postgres
from api.store.postgres import PostgresStore
from fleet.simulate.wall import WallClock
from fleet.values.ports import Key, Put

EVENTS = 40


async def test_no_more_is_read_at_once_than_the_bound_and_one_event(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres, "OLDER_BYTES", 50_000)
    store = PostgresStore(database_url, WallClock(), secret_key_file=tmp_path / "keys.json", max_events=1)
    await store.start()
    try:
        since = await store.revision()
        for number in range(EVENTS):
            name = f"m{number:03}"
            body = {
                "metadata": {"name": name, "namespace": "a", "uid": name},
                "data": {"k": "x" * 1000 * (number % 20)},
            }
            await store.commit([Put(Key("", "configmaps", "a", name), body)])
        parts, read = [], since
        while read < await store.revision():
            events, read = await store._older("", "configmaps", read)
            parts.append(events)
            assert sum(len(event.stored.raw) for event in events[:-1]) < 50_000
        assert len(parts) > 5
        watch = await store.watch("", "configmaps", since=since)
        seen = [event.stored.key.name for event in [await watch.next(5.0) for _ in range(EVENTS)] if event is not None]
        await watch.aclose()
        assert seen == [f"m{number:03}" for number in range(EVENTS)]
        assert seen == [event.stored.key.name for events in parts for event in events]
    finally:
        await store.stop()
