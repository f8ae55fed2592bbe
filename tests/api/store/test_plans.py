"""How PostgreSQL finds what the store asks for."""

from __future__ import annotations

import re

import pytest

from api.store import sql
from tests.api.store.world import PostgresWorld, must, put


@pytest.mark.parametrize("statement", [sql.WRITE, sql.WRITE_AT_ONCE], ids=["four steps", "one"])
async def test_a_write_that_was_planned_on_a_small_table_finds_objects_by_their_keys(
    postgres: PostgresWorld, statement: str
) -> None:
    store = await postgres.open()
    await must(store, *(put(f"a{n}") for n in range(9)))
    async with store._writer.link.use() as connection:  # the settings are those of the connection that writes
        arguments = [None] * max(map(int, re.findall(r"\$(\d+)", statement)))
        await connection.execute("ANALYZE objects")
        rows = await connection.fetch(f"EXPLAIN (GENERIC_PLAN) {statement}", *arguments)
    plan = "\n".join(str(row[0]) for row in rows)
    assert "Index Scan using objects_pkey on objects" in plan
    assert "Seq Scan on objects" not in plan
