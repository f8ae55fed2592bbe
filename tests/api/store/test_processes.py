"""What only several real processes on a real database can show: one order for all, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest

from api.store.embedded import SOCKET_NAME, USER, EmbeddedPostgres
from api.store.writer import Writer
from fleet.values.ports import ABSENT, Conflict, Delete, EventType, Expect, Put
from tests.api.store.cutting_proxy import COMMIT, STATEMENT, CuttingProxy
from tests.api.store.world import PATIENCE_S, PostgresWorld, body, eventually, key, must, put, take
from tests.conftest import Server

ROOT = Path(__file__).resolve().parents[3]


class WriterProcess:
    """A child that commits; `acknowledged` fills with name -> revision as it reports them."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.acknowledged: dict[str, int] = {}
        self._progress = asyncio.Condition()
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, world: PostgresWorld, prefix: str, count: int, concurrency: int) -> WriterProcess:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.api.store.writer_process",
            world.dsn,
            str(world.key_file),
            prefix,
            str(count),
            str(concurrency),
            cwd=ROOT,
            stdout=asyncio.subprocess.PIPE,
        )
        return cls(process)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            if line.endswith(b"\n"):
                name, revision = line.decode().split()
                async with self._progress:
                    self.acknowledged[name] = int(revision)
                    self._progress.notify_all()
        async with self._progress:
            self._progress.notify_all()

    async def has_written(self, count: int) -> None:
        async with asyncio.timeout(PATIENCE_S), self._progress:
            await self._progress.wait_for(lambda: len(self.acknowledged) >= count)

    async def end(self, timeout: float = 60.0) -> int:
        code = await asyncio.wait_for(self.process.wait(), timeout)
        await self._reading
        return code

    def tell_to_end(self) -> None:
        self.process.terminate()

    def kill(self) -> None:
        self.process.kill()


async def logged(dsn: str) -> list[tuple[int, str]]:
    """(revision, name) of every row of the log."""
    connection = await asyncpg.connect(dsn)
    try:
        return [
            (r["revision"], r["name"]) for r in await connection.fetch("SELECT revision, name FROM events ORDER BY 1")
        ]
    finally:
        await connection.close()


async def test_several_processes_share_one_gapless_order_of_commits(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    start = await store.revision()
    watch = await store.watch("", "configmaps", since=start)
    writers = [await WriterProcess.start(postgres, f"w{n}", 300, 5) for n in range(3)]
    await asyncio.gather(*(must(store, put(f"own-{n}")) for n in range(100)))
    assert [await writer.end() for writer in writers] == [0, 0, 0]
    acknowledged = {name: revision for writer in writers for name, revision in writer.acknowledged.items()}
    assert len(acknowledged) == 900
    events = await take(watch, 1000)
    assert [event.revision for event in events] == list(range(start + 1, start + 1001)), "in commit order, no gap"
    seen = {event.stored.key.name: event.revision for event in events}
    assert {name: seen[name] for name in acknowledged} == acknowledged
    assert await logged(postgres.dsn) == [(event.revision, event.stored.key.name) for event in events]


async def test_a_killed_writer_loses_no_acknowledged_write_and_leaves_no_gap(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    start = await store.revision()
    writer = await WriterProcess.start(postgres, "w", 100_000, 10)
    await writer.has_written(200)
    writer.kill()
    await writer.end()
    # The next commit waits until the dead process's transaction, if there is one, has ended.
    after = await must(store, put("after"))
    rows = await logged(postgres.dsn)
    assert [revision for revision, _ in rows] == list(range(start + 1, after.revision + 1))
    found = {name: revision for revision, name in rows}
    assert {name: found.get(name) for name in writer.acknowledged} == writer.acknowledged
    for name in writer.acknowledged:
        assert store.peek(key(name)) is not None


@pytest.fixture
async def own_server(tmp_path: Path) -> AsyncIterator[EmbeddedPostgres]:
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        yield server


async def test_a_killed_postmaster_loses_no_acknowledged_write_and_comes_back(
    own_server: EmbeddedPostgres, tmp_path: Path
) -> None:
    world = PostgresWorld(own_server.dsn, tmp_path / "keys.json")
    try:
        store = await world.open()
        start = await store.revision()
        watch = await store.watch("", "configmaps", since=start)
        writer = await WriterProcess.start(world, "w", 100_000, 10)
        for round_ in (1, 2):
            await writer.has_written(len(writer.acknowledged) + 500)
            pid = own_server.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            # Happens once, in the new server or in what is left of the old one: its processes outlive it by a moment,
            # so only a new postmaster's id says that the server is back.
            await must(store, put(f"through-{round_}"))
            await eventually(lambda old=pid: own_server.pid not in (None, old))
        await writer.has_written(len(writer.acknowledged) + 500)
        writer.tell_to_end()
        assert await writer.end() == 0
        rows = await logged(world.dsn)
        assert [revision for revision, _ in rows] == list(range(start + 1, start + 1 + len(rows)))
        found = {name: revision for revision, name in rows}
        assert len(found) == len(rows), "nothing was written twice"
        assert {name: found.get(name) for name in writer.acknowledged} == writer.acknowledged
        events = await take(watch, len(rows))
        assert [(event.revision, event.stored.key.name) for event in events] == rows
        assert {event.type for event in events} == {EventType.ADDED}
    finally:
        await world.close()


async def _never(_writer: Writer, _commits: object) -> None:
    """Every batch takes four steps, as in a hub of several processes."""


async def test_a_write_of_a_process_that_is_behind_is_judged_on_the_newest_state(postgres: PostgresWorld) -> None:
    one, other = await postgres.open(), await postgres.open()
    first = await must(one, put("a"))
    await other.revision()
    for number in range(30):  # none of them waits until the other process has heard of the write
        committed = await must(one, put("a", data={"number": str(number)}))
        lost = await other.commit([Put(key("a"), body("a"), Expect(revision=committed.revision - 1))])
        assert isinstance(lost, Conflict)
        assert lost.current is not None
        assert lost.current.revision == committed.revision
        taken = await other.commit([Put(key("a"), body("a"), ABSENT)])
        assert isinstance(taken, Conflict)
    gone = await must(one, Delete(key("a")))
    made = await must(other, Put(key("a"), body("a"), ABSENT))
    assert (gone.revision, made.revision) == (first.revision + 31, first.revision + 32)


@pytest.mark.parametrize("commit", [COMMIT, STATEMENT], ids=["in four steps", "in one"])
async def test_a_connection_cut_at_commit_is_answered_with_what_happened(
    postgres: PostgresWorld, postgres_server: Server, commit: tuple[bytes, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    if commit == COMMIT:
        monkeypatch.setattr(Writer, "_at_once", _never)
    store = await postgres.open()
    start = await store.revision()
    database = urlsplit(postgres.dsn).path
    plan = itertools.cycle(["pass", "before", "after", "late", "pass", "late", "after", "before", "before"])
    with tempfile.TemporaryDirectory(prefix="cut-") as short:
        async with CuttingProxy(
            Path(short) / SOCKET_NAME, postgres_server.embedded.socket / SOCKET_NAME, plan, commit
        ) as proxy:
            world = PostgresWorld(f"postgresql://{USER}@{database}?host={short}", postgres.key_file)
            cut = await world.open()
            revisions: list[int] = []
            for n in range(20):
                done = await asyncio.gather(*(must(cut, Put(key(f"a{n}-{m}"), body("a"), ABSENT)) for m in range(3)))
                revisions += [committed.revision for committed in done]
            await world.close()
    assert {"before", "after", "late"} <= set(proxy.cuts)
    assert revisions == list(range(start + 1, start + 61)), "every write happened once, and its caller knows where"
    assert [revision for revision, _ in await logged(postgres.dsn)] == revisions
