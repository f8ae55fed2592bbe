"""The embedded server: kept data, adoption, sharing, odd directories."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import asyncpg
import psutil

from fleet.store.embedded import SETTINGS, EmbeddedPostgres
from tests.contract.world import PATIENCE_S, eventually

ROOT = Path(__file__).resolve().parents[2]
START_AND_STAY = """
import asyncio, sys
from pathlib import Path
from fleet.store.embedded import EmbeddedPostgres

async def main():
    server = EmbeddedPostgres(Path(sys.argv[1]))
    print(await server.start(), server.pid, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def ask(dsn: str, question: str) -> object:
    connection = await asyncpg.connect(dsn)
    try:
        return await connection.fetchval(question)
    finally:
        await connection.close()


async def test_data_is_kept_from_one_start_to_the_next(tmp_path: Path) -> None:
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        await ask(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert server.pid is None, "nothing runs after the last user has left"
    started = time.monotonic()
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        assert time.monotonic() - started < 5.0
        assert await ask(server.dsn, "SELECT answer FROM kept") == 42


async def test_the_server_is_durable_and_listens_on_no_network(tmp_path: Path) -> None:
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert await ask(server.dsn, f"SHOW {setting}") == "on"
        assert await ask(server.dsn, "SHOW listen_addresses") == ""
        assert await ask(server.dsn, "SHOW shared_buffers") == SETTINGS["shared_buffers"]
        assert (server.socket / ".s.PGSQL.5432").stat().st_mode & 0o077 == 0


async def test_two_users_share_one_server_and_the_last_one_stops_it(tmp_path: Path) -> None:
    first, second = EmbeddedPostgres(tmp_path / "pg"), EmbeddedPostgres(tmp_path / "pg")
    await first.start()
    await second.start()
    assert first.pid == second.pid is not None
    await first.stop()
    assert await ask(second.dsn, "SELECT 1") == 1
    await second.stop()
    assert second.pid is None


async def test_the_server_of_a_killed_process_is_adopted(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", START_AND_STAY, str(tmp_path / "pg"), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    dsn, pid = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().split()
    await ask(dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    process.kill()
    await process.wait()
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        assert server.pid == int(pid), "the same server goes on"
        assert await ask(server.dsn, "SELECT answer FROM kept") == 42
    assert not psutil.pid_exists(int(pid)) or psutil.Process(int(pid)).status() == psutil.STATUS_ZOMBIE


async def test_a_killed_postmaster_is_started_again_with_its_data(tmp_path: Path) -> None:
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        await ask(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
        killed = server.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        await eventually(lambda: server.pid not in (None, killed))
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    assert await ask(server.dsn, "SELECT answer FROM kept") == 42
                    break
                except (OSError, asyncpg.CannotConnectNowError):
                    await asyncio.sleep(0.05)


async def test_a_stale_pid_file_naming_another_process_is_no_obstacle(tmp_path: Path) -> None:
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        lines = (server.directory / "data" / "postmaster.pid").read_text().splitlines()
    stale = tmp_path / "pg" / "data" / "postmaster.pid"
    stale.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n")
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        assert await ask(server.dsn, "SELECT 1") == 1


async def test_an_initdb_that_was_cut_short_is_done_again(tmp_path: Path) -> None:
    half = tmp_path / "pg" / "data.new"
    half.mkdir(parents=True)
    (half / "PG_VERSION").write_text("18\n")
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        assert await ask(server.dsn, "SELECT 1") == 1


async def test_a_directory_too_long_for_a_socket_path_works(tmp_path: Path) -> None:
    long = tmp_path / ("x" * 120) / "pg"
    async with EmbeddedPostgres(long) as server:
        assert server.socket != server.directory
        assert await ask(server.dsn, "SELECT 1") == 1
    assert not server.socket.exists(), "nothing is left outside the directory"


async def test_a_closed_parent_directory_stays_closed(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    async with EmbeddedPostgres(closed / "pg") as server:
        assert await ask(server.dsn, "SELECT 1") == 1
    assert closed.stat().st_mode & 0o777 == 0o700
