"""The metrics of a store: its own figures, and failures of its connections, over a real PostgreSQL."""

from __future__ import annotations

import asyncpg
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from api.store.link import Link
from api.store.metrics import StoreMetrics
from tests.api.store.world import PostgresWorld, must, put
from tests.controllers.runtime.metric_names import faults
from tests.controllers.runtime.metrics_page import assert_told, listed_metrics, stated_rows


async def test_figures_follow_what_the_process_commits_and_the_page_lists_them(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    registry = CollectorRegistry()
    StoreMetrics(store).show(registry)
    said = registry.get_sample_value
    assert said("fleet_store_database_bytes") is None, "nobody has looked yet"
    await must(store, put("a"), put("b"))
    committed = await must(store, put("c"))
    assert (said("fleet_store_commits_total"), said("fleet_store_writes_total")) == (2, 3)
    assert said("fleet_store_batch_seconds_count") == 2 and (said("fleet_store_batch_seconds_sum") or 0) > 0
    assert said("fleet_store_revision") == committed.revision and said("fleet_store_commits_waiting") == 0
    await store._maintenance.tidy()
    assert (said("fleet_store_database_bytes") or 0) > 1 << 20
    assert said("fleet_store_connections", {"connection": "write"}) == 1
    listed = {name: row for name, row in listed_metrics().items() if name.startswith("fleet_store_")}
    assert_told(generate_latest(registry).decode(), listed)
    metrics = list(registry.collect())
    assert {metric.name: list(faults(metric)) for metric in metrics if list(faults(metric))} == {}
    rows = {metric.name: len(metric.samples) for metric in metrics if metric.type != "counter"}
    assert {name: count for name, count in rows.items() if count > stated_rows()[name]} == {}


async def test_uses_that_fail_are_counted_and_the_connection_comes_back(database_url: str) -> None:
    link = Link(database_url, "test")
    with pytest.raises(asyncpg.PostgresError):
        async with link.use() as connection:
            await connection.execute("SELECT 1 / 0")
    assert (link.failures, link.open) == (1, False)
    async with link.use() as connection:
        assert await connection.fetchval("SELECT 1") == 1 and link.open
    with pytest.raises(LookupError):
        async with link.use():
            raise LookupError("no fault of the database")
    assert link.failures == 1
    await link.close()


async def test_a_database_that_is_not_there_is_a_failure_too() -> None:
    link = Link("postgresql://nobody@127.0.0.1:1/none", "test")
    with pytest.raises(OSError):
        async with link.use():
            raise AssertionError("nothing listens there")
    assert (link.failures, link.open) == (1, False)
