"""One leader at a time, and a fence for the one that was (I11)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from fleet.ports import Fenced
from tests.contract.world import PATIENCE_S, PostgresWorld, World, key, must, put

ROOT = Path(__file__).resolve().parents[2]


async def test_the_second_candidate_waits_until_the_first_gives_up(world: World) -> None:
    await world.open()
    first, second = world.candidate(), world.candidate()
    epoch = await first.acquire("controllers", "one")
    waiting = asyncio.create_task(second.acquire("controllers", "two"))
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done
    await first.release()
    assert await asyncio.wait_for(waiting, PATIENCE_S) > epoch


async def test_a_commit_under_an_epoch_that_is_over_changes_nothing(world: World) -> None:
    store = await world.open()
    first, second = world.candidate(), world.candidate()
    old = await first.acquire("controllers", "one")
    await must(store, put("a"), epoch=old)
    await first.release()
    new = await second.acquire("controllers", "two")
    before = await store.revision()
    with pytest.raises(Fenced):
        await store.commit([put("b")], epoch=old)
    assert await store.revision() == before
    assert await store.get(key("b")) is None
    await must(store, put("b"), epoch=new)


async def test_fenced_commits_do_not_hold_up_others_of_the_same_batch(world: World) -> None:
    store = await world.open()
    candidate = world.candidate()
    epoch = await candidate.acquire("controllers", "one")
    outcomes = await asyncio.gather(
        store.commit([put("a")], epoch=epoch + 1),
        store.commit([put("b")], epoch=epoch),
        store.commit([put("c")]),
        return_exceptions=True,
    )
    assert isinstance(outcomes[0], Fenced)
    assert [await store.get(key(name)) is not None for name in ("a", "b", "c")] == [False, True, True]


async def test_a_leader_is_sure_only_while_it_shows_life(postgres: PostgresWorld) -> None:
    """What it does outside the database is not fenced: stopped and woken, it must know that it may be replaced."""
    await postgres.open()
    leader = postgres.candidate(takeover_s=2.0)
    assert not leader.sure()
    await leader.acquire("controllers", "one")
    assert leader.sure()
    time.sleep(2.1)  # stopped: its loop does not turn meanwhile  # noqa: ASYNC251
    assert not leader.sure()
    await asyncio.wait_for(_until(leader.sure), PATIENCE_S)
    await leader.release()
    assert not leader.sure()


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def test_two_names_have_two_leaders_with_different_epochs(world: World) -> None:
    store = await world.open()
    epochs = [await world.candidate().acquire(name, "me") for name in ("controllers", "decider")]
    assert len(set(epochs)) == 2
    for epoch in epochs:
        await must(store, put(f"by-{epoch}"), epoch=epoch)


async def test_a_leader_whose_connection_is_cut_learns_that_it_lost(postgres: PostgresWorld) -> None:
    await postgres.open()
    leader = postgres.candidate()
    await leader.acquire("controllers", "one")
    connection = await asyncpg.connect(postgres.dsn)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'fleet: leader controllers'"
    )
    await connection.close()
    await asyncio.wait_for(leader.lost(), PATIENCE_S)
    assert await asyncio.wait_for(postgres.candidate().acquire("controllers", "two"), PATIENCE_S) > 0


async def test_a_stopped_leader_is_taken_over_and_changes_nothing_when_it_wakes(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.contract.leader_process", postgres.dsn, str(postgres.key_file),
        cwd=ROOT, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        first = int(await asyncio.wait_for(process.stdout.readline(), PATIENCE_S))
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE_S) == b"wrote\n"
        os.kill(process.pid, signal.SIGSTOP)
        epoch = await asyncio.wait_for(postgres.candidate(takeover_s=1.5).acquire("controllers", "two"), PATIENCE_S)
        assert epoch > first
        before = (await must(store, put("by-the-new-leader"), epoch=epoch)).revision
        os.kill(process.pid, signal.SIGCONT)
        rest = await asyncio.wait_for(process.stdout.read(), PATIENCE_S)
        assert rest.splitlines()[-1] == b"fenced"
        assert await asyncio.wait_for(process.wait(), PATIENCE_S) == 3
        assert await store.revision() == before, "the old leader changed nothing"
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
