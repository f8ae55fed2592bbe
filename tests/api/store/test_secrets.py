"""Secret bodies cannot be read in the database, nor moved to another name; keys rotate."""

from __future__ import annotations

from pathlib import Path

import asyncpg
import pytest

from api.store.secrets import SecretBox, SecretUnreadable
from fleet.values.ports import Change, Delete, Put
from tests.api.store.world import PostgresWorld, body, key, must, put, take

HIDDEN = "correct horse battery staple"


def secret(name: str) -> Put:
    return Put(key(name, resource="secrets"), body(name, stringData={"password": HIDDEN}))


async def everything(dsn: str) -> bytes:
    """All that the tables hold of bodies and previous states."""
    connection = await asyncpg.connect(dsn)
    try:
        rows = await connection.fetch("SELECT body, ''::bytea AS previous FROM objects")
        rows += await connection.fetch("SELECT body, coalesce(previous, ''::bytea) AS previous FROM events")
        return b"\n".join(row["body"] + row["previous"] for row in rows)
    finally:
        await connection.close()


async def test_no_table_holds_the_text_of_a_secret(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    await must(store, secret("a"), secret("b"))
    await must(store, Change(key("a", resource="secrets"), lambda found: {**found, "more": HIDDEN}))
    await must(store, Delete(key("b", resource="secrets")))
    stored = await everything(postgres.dsn)
    assert HIDDEN.encode() not in stored
    assert b"password" not in stored


async def test_every_process_with_the_key_file_reads_secrets(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    start = await store.revision()
    await must(store, secret("a"))
    other = await postgres.open(max_events=1)
    read = await other.get(key("a", resource="secrets"))
    assert read is not None and read.body["stringData"] == {"password": HIDDEN}
    (event,) = await take(await other.watch("", "secrets", since=start), 1)
    assert event.stored.body["stringData"] == {"password": HIDDEN}


async def test_rotation_rewrites_old_rows_and_keeps_all_readable(postgres: PostgresWorld) -> None:
    store, other = await postgres.open(), await postgres.open()
    await must(store, secret("a"), secret("b"))
    before = await store.revision()
    new = await store.rotate_key()
    await must(store, secret("c"))
    read = await other.get(key("c", resource="secrets"))
    assert read is not None, "a process that does not know the new key reads the key file again"
    assert await store.reencrypt() == 4  # two objects and their two events
    assert await store.reencrypt() == 0
    assert await store.revision() == before + 1, "rewriting is no change"
    late = await postgres.open()
    assert len((await late.list("", "secrets")).items) == 3
    connection = await asyncpg.connect(postgres.dsn)
    assert await connection.fetchval("SELECT array_agg(DISTINCT key_id) FROM objects") == [new]
    await connection.close()


def test_a_body_moved_to_another_name_does_not_open(tmp_path: Path) -> None:
    box = SecretBox(tmp_path / "keys.json")
    key_id, sealed = box.seal(key("a", resource="secrets"), b"{}")
    assert box.open(key("a", resource="secrets"), key_id, sealed) == b"{}"
    with pytest.raises(SecretUnreadable):
        box.open(key("b", resource="secrets"), key_id, sealed)
    with pytest.raises(SecretUnreadable, match="k9"):
        box.open(key("a", resource="secrets"), "k9", sealed)


def test_the_key_file_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    made = SecretBox(path).current
    assert path.stat().st_mode & 0o777 == 0o600
    assert SecretBox(path).current == made, "an existing file is used, not replaced"


async def test_a_lost_key_file_is_named_at_the_start(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    await must(store, secret("a"))
    postgres.key_file.unlink()
    with pytest.raises(SecretUnreadable, match=r"secrets default/a was written with the key k1-\w+, which is not in"):
        await postgres.open()


async def test_a_row_that_was_tampered_with_is_shown_empty_and_costs_the_others_nothing(
    postgres: PostgresWorld,
) -> None:
    store = await postgres.open()
    await must(store, secret("a"), secret("b"), put("c"))
    connection = await asyncpg.connect(postgres.dsn)
    for table in ("objects", "events"):
        await connection.execute(f"UPDATE {table} SET body = '\\x00'::bytea WHERE resource = 'secrets' AND name = 'a'")
    await connection.close()
    other = await postgres.open()
    page = await other.list("", "secrets")
    assert {stored.key.name for stored in page.items} == {"a", "b"}
    unread = await other.get(key("a", resource="secrets"))
    assert unread is not None and HIDDEN not in str(unread.body)
    await must(other, secret("a"))
    again = await postgres.open()
    read = await again.get(key("a", resource="secrets"))
    assert read is not None and HIDDEN in str(read.body)
