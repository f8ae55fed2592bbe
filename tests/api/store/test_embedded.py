"""The embedded server: kept data, sharing, users that are killed, odd directories."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import psutil
import pytest

from api.store.embedded import SETTINGS, EmbeddedPostgres
from tests.api.store.world import PATIENCE_S, eventually

ROOT = Path(__file__).resolve().parents[3]
START_AND_STAY = """
import asyncio, sys
from pathlib import Path
from api.store.embedded import EmbeddedPostgres

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


async def answers(dsn: str) -> None:
    """Returns when the server has its data again."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                assert await ask(dsn, "SELECT answer FROM kept") == 42
                return
            except (OSError, asyncpg.CannotConnectNowError):
                await asyncio.sleep(0.05)


async def test_data_is_kept_from_one_start_to_the_next(tmp_path: Path) -> None:
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        await ask(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
    assert server.pid is None, "nothing runs after the last user has left"
    async with EmbeddedPostgres(tmp_path / "pg") as server:
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


@contextlib.asynccontextmanager
async def another_process(directory: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """A process that uses the server in `directory`, and the server's process id."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", START_AND_STAY, str(directory), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        dsn, pid = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().split()
        await ask(dsn, "CREATE TABLE IF NOT EXISTS kept AS SELECT 42 AS answer")
        yield process, int(pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def test_the_server_goes_on_for_others_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    server = EmbeddedPostgres(tmp_path / "pg")
    async with another_process(tmp_path / "pg") as (process, pid):
        await server.start()
        process.kill()
    assert server.pid == pid
    assert await ask(server.dsn, "SELECT answer FROM kept") == 42
    await server.stop()
    assert ended(pid)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_the_server_ends_with_a_killed_process_that_was_its_last_user(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with another_process(tmp_path / "pg") as (process, pid):
        process.send_signal(number)
    await eventually(lambda: ended(pid))
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        assert await ask(server.dsn, "SELECT answer FROM kept") == 42
    assert "not properly shut down" not in (tmp_path / "pg" / "postgres.log").read_text()


async def test_the_server_ends_when_its_last_user_and_its_watchdog_are_killed_at_once(tmp_path: Path) -> None:
    async with another_process(tmp_path / "pg") as (process, pid):
        os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)
        process.kill()
    await eventually(lambda: ended(pid))
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        assert await ask(server.dsn, "SELECT answer FROM kept") == 42


async def test_the_server_ends_with_its_directory(tmp_path: Path) -> None:
    async with another_process(tmp_path / "pg") as (process, pid):
        process.kill()
        shutil.rmtree(tmp_path / "pg", ignore_errors=True)
    await eventually(lambda: ended(pid))


async def test_a_server_whose_watchdog_was_killed_is_started_again(tmp_path: Path) -> None:
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        await ask(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
        killed = server.pid
        assert killed is not None
        os.kill(psutil.Process(killed).ppid(), signal.SIGKILL)
        await eventually(lambda: server.pid not in (None, killed))
        await answers(server.dsn)


async def test_a_killed_postmaster_is_started_again_with_its_data(tmp_path: Path) -> None:
    async with EmbeddedPostgres(tmp_path / "pg") as server:
        await ask(server.dsn, "CREATE TABLE kept AS SELECT 42 AS answer")
        killed = server.pid
        assert killed is not None
        os.kill(killed, signal.SIGKILL)
        await eventually(lambda: server.pid not in (None, killed))
        await answers(server.dsn)


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


@pytest.mark.parametrize("name", ["a,b", "it's 100% mine"])
async def test_a_directory_with_signs_in_its_name_works(tmp_path: Path, name: str) -> None:
    async with EmbeddedPostgres(tmp_path / name / "pg") as server:
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
