"""One leader at a time, and a fence for the one that was (I11)."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from api.store.leadership import PostgresLeadership, Sign
from api.store.life import Patience
from fleet.values.ports import Change, CommitResult, Conflict, StaleEpoch
from tests.api.store.world import PATIENCE_S, PostgresWorld, World, key, must, put

ROOT = Path(__file__).resolve().parents[3]


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
    with pytest.raises(StaleEpoch):
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
    assert isinstance(outcomes[0], StaleEpoch)
    assert [await store.get(key(name)) is not None for name in ("a", "b", "c")] == [False, True, True]


async def test_a_leader_is_sure_only_while_it_shows_life(postgres: PostgresWorld) -> None:
    """What it does outside the database is not fenced: stopped and woken, it must know that it may be replaced."""
    await postgres.open()
    leader = postgres.candidate(takeover_s=2.0, alive_every_s=0.1, turned_s=0.5)
    assert not leader.sure()
    await leader.acquire("controllers", "one")
    assert leader.sure()
    time.sleep(2.5)  # its loop does not turn meanwhile, so its thread shows no life  # noqa: ASYNC251
    assert not leader.sure()
    await asyncio.wait_for(_until(leader.sure), PATIENCE_S)
    await leader.release()
    assert not leader.sure()


async def _until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


QUICK = {"alive_every_s": 0.1, "turned_s": 1.0, "stands_s": 3.0, "takeover_s": 1.0}


async def test_a_loop_that_is_slow_keeps_the_leadership(postgres: PostgresWorld) -> None:
    """Half the time after which it would show no life, at a time: with the real times, five seconds."""
    await postgres.open()
    leader, other = postgres.candidate(**QUICK), Candidate(postgres.dsn, QUICK)
    epoch = await leader.acquire("controllers", "one")
    other.start()
    for _ in range(12):
        time.sleep(0.5)  # noqa: ASYNC251
        assert leader.sure()
        await asyncio.sleep(0)
    assert not await asyncio.to_thread(other.leads, 0.0)
    await leader.release()
    assert await asyncio.to_thread(other.leads, PATIENCE_S)
    assert other.epoch > epoch
    other.stop()


async def test_a_loop_that_stands_loses_the_leadership_and_changes_nothing_when_it_turns(
    postgres: PostgresWorld,
) -> None:
    store = await postgres.open()
    patience = {**QUICK, "takeover_s": 60.0}  # nobody deposes it: it gives up by itself
    leader, other = postgres.candidate(**patience), Candidate(postgres.dsn, patience)
    old = await leader.acquire("controllers", "one")
    other.start()
    assert other.leads(PATIENCE_S), "this holds the loop until the other leads"
    assert not leader.sure()
    before = await store.revision()
    with pytest.raises(StaleEpoch):
        await store.commit([put("a")], epoch=old)
    assert await store.revision() == before
    await asyncio.wait_for(leader.lost(), PATIENCE_S)
    other.stop()
    assert await asyncio.wait_for(leader.acquire("controllers", "one"), PATIENCE_S) > other.epoch, "it stands again"


async def test_a_loop_that_is_late_is_deposed_where_another_stands_by(postgres: PostgresWorld) -> None:
    await postgres.open()
    patience = {**QUICK, "stands_s": 600.0}
    leader, other = postgres.candidate(**patience), Candidate(postgres.dsn, patience)
    await leader.acquire("controllers", "one")
    other.start()
    assert other.leads(PATIENCE_S)
    assert not leader.sure()
    await asyncio.wait_for(leader.lost(), PATIENCE_S)
    other.stop()


async def test_another_sign_is_given_while_the_loop_turns_and_closed_with_the_leadership(
    postgres: PostgresWorld,
) -> None:
    store = await postgres.open()
    leader, writer = postgres.candidate(**QUICK), store.apart()
    epoch = await leader.acquire("controllers", "one")
    given = list[float]()
    closed = asyncio.Event()
    home = asyncio.get_running_loop()

    async def give() -> None:
        given.append(time.monotonic())
        await writer.commit([put("sign")], epoch=epoch)

    async def close() -> None:
        await writer.close()
        home.call_soon_threadsafe(closed.set)

    leader.show(Sign(give, 0.05, close))
    await _until(lambda: store.peek(key("sign")) is not None)
    held_at = time.monotonic()
    time.sleep(2.0)  # noqa: ASYNC251
    assert held_at + 0.5 < max(given) < held_at + 1.5, "for a second after the last turn, and no longer"
    await _until(lambda: max(given) > held_at + 2.0)
    await leader.release()
    await asyncio.wait_for(closed.wait(), PATIENCE_S)


async def test_a_commit_apart_is_evaluated_and_fenced_like_any_other(postgres: PostgresWorld) -> None:
    store = await postgres.open()
    leader, writer = postgres.candidate(), store.apart()
    epoch = await leader.acquire("controllers", "one")
    assert isinstance(await writer.commit([Change(key("a"), lambda body: body)], epoch=epoch), Conflict)
    first = await writer.commit([put("a")], epoch=epoch)
    assert isinstance(first, CommitResult) and first.revision == await store.revision()
    changed = await writer.commit([Change(key("a"), lambda body: {**body, "data": {"a": "b"}})], epoch=epoch)
    assert isinstance(changed, CommitResult) and changed.revision == first.revision + 1
    stored = await store.get(key("a"))
    assert stored is not None and stored.body["data"] == {"a": "b"}
    with pytest.raises(StaleEpoch):
        await writer.commit([put("b")], epoch=epoch + 1)
    assert await store.revision() == changed.revision
    await writer.close()


class Candidate:
    """Stands for election in a thread with a loop of its own, as another process would."""

    def __init__(self, dsn: str, patience: dict[str, float]) -> None:
        self._leadership = PostgresLeadership(dsn, patience=Patience(**patience))
        self._leads, self._stop = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self.epoch = 0
        self.start = self._thread.start

    def leads(self, within_s: float) -> bool:
        return self._leads.wait(within_s)

    def stop(self) -> None:
        """Give the leadership up."""
        self._stop.set()
        self._thread.join(PATIENCE_S)

    async def _run(self) -> None:
        self.epoch = await self._leadership.acquire("controllers", "two")
        self._leads.set()
        await asyncio.to_thread(self._stop.wait)
        await self._leadership.release()


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
        sys.executable,
        "-m",
        "tests.api.store.leader_process",
        postgres.dsn,
        str(postgres.key_file),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
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
