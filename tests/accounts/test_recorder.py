"""The log of the store becomes the history: attempts, waits and ends, once each, whatever happens to the recorder."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from fleet.accounts.models import AttemptRecord, Cursor, JobRecord, WaitRecord
from fleet.accounts.rows import instant
from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_MOVE
from tests.accounts.stories import Kept, from_the_first, job, kept, lived
from tests.controllers.fastloop import EPOCH, eventually, settle
from tests.controllers.world import World, member, policy, tree

SECRET = "hunter2-of-alice"
NEAR_S = 2.0  # the loops see a change in a member a moment later


async def two_after_each_other(world: World) -> None:
    """`one` runs 100 s, then `two`, which the limit of jobs let wait, runs 50 s; both are deleted."""
    await world.apply(tree(), policy(queue=True), job("one", gpus=2), job("two", "bob", gpus=1))
    await world.running("one")
    await settle(100)
    world.members.finish("one", "Succeeded")
    await world.running("two")
    await settle(50)
    world.members.finish("two", "Succeeded")
    await eventually(lambda: world.phase("two") == "Succeed")
    for name in ("one", "two"):
        await world.delete("PyTorchJob", name)
    await eventually(world.nothing_left, within_s=60)


def test_jobs_that_are_gone_are_in_the_history_with_user_queue_waits_and_gpu_time(database_url: str) -> None:
    world = lived(two_after_each_other, member("cfa"))

    async def look(history: Kept) -> None:
        await from_the_first(history)
        one, two = await history.job("one"), await history.job("two")
        assert (one.state, one.user, one.queue, one.gpus, one.pods) == ("Succeeded", "alice", "root/child-2", 6, 3)
        assert (two.state, two.user, two.attempts, two.evictions) == ("Succeeded", "bob", 1, 0)
        assert (one.kind, one.namespace, one.why) == ("PyTorchJob", "default", None)
        assert one.submitted == instant(EPOCH)
        attempt, later = (await history.attempts("one"))[0], (await history.attempts("two"))[0]
        assert (attempt.member, attempt.gpus, attempt.outcome) == ("cfa", 6, "Succeeded")
        assert attempt.gpu_s == pytest.approx(600, abs=6 * NEAR_S)
        assert later.gpu_s == pytest.approx(150, abs=3 * NEAR_S)
        assert later.gpu_s == pytest.approx(3 * (later.ended - later.started).total_seconds())
        waits = await history.waits("two")
        assert waits["MaxJobsReached"] == pytest.approx(100, abs=3 * NEAR_S)
        assert sum(waits.values()) == pytest.approx((later.placed - two.submitted).total_seconds())

    kept(database_url, world.store, look)


async def failing_then_evicted(world: World) -> None:
    """It fails after 40 s in one member, starts anew in another, and is moved 30 s after that, and deleted."""
    await world.apply(tree(), policy(queue=True), job("one", gpus=1))
    first = await world.running("one")
    await settle(40)
    world.members.finish("one", "Failed")
    await eventually(lambda: world.placed("one") not in ("", first), within_s=60)
    await world.running("one")
    await settle(30)
    other = next(name for name in world.members.names() if name not in (first, world.placed("one")))
    await world.edit("PyTorchJob", "one", lambda body: body["metadata"]["annotations"].update({ANNOTATION_MOVE: other}))
    await eventually(lambda: world.placed("one") == other and world.state("one") == "Running", within_s=120)
    await world.delete("PyTorchJob", "one")
    await eventually(world.nothing_left, within_s=60)


def test_attempts_that_failed_or_were_evicted_count_as_lost_work(database_url: str) -> None:
    world = lived(failing_then_evicted, member("cfa"), member("cfb"), member("cfc"))

    async def look(history: Kept) -> None:
        await from_the_first(history)
        one, attempts = await history.job("one"), await history.attempts("one")
        assert [(a.number, a.outcome) for a in attempts] == [(1, "Failed"), (2, "Evicted"), (3, "Deleted")]
        assert attempts[0].member != attempts[1].member
        assert (one.started, one.first_member, one.first_models) == (attempts[0].started, attempts[0].member, [""])
        assert (one.state, one.why, one.attempts, one.evictions) == ("Deleted", "Deleted", 3, 1)
        assert attempts[1].why
        assert attempts[0].gpu_s == pytest.approx(3 * 40, abs=3 * NEAR_S)
        assert one.lost_gpu_s == pytest.approx(attempts[0].gpu_s + attempts[1].gpu_s)
        assert all(a.ended is not None for a in attempts)

    kept(database_url, world.store, look)


def test_a_recorder_that_is_killed_at_any_batch_loses_and_doubles_nothing(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = lived(two_after_each_other, member("cfa"))

    async def whole(history: Kept) -> list[object]:
        await from_the_first(history)
        return [await history.all(model) for model in (JobRecord, AttemptRecord, WaitRecord)]

    expected = kept(database_url, world.store, whole)
    monkeypatch.setattr("fleet.accounts.recorder.BATCH", 3)

    async def torn(history: Kept) -> list[object]:
        await from_the_first(history)
        assert [await history.all(model) for model in (JobRecord, AttemptRecord, WaitRecord)] == expected
        async with history.engine.begin() as connection:
            await connection.execute(sa.text("UPDATE accounts.cursor SET revision = 1"))
            for name in ("jobs", "attempts", "waits"):
                await connection.execute(sa.text(f"DELETE FROM accounts.{name}"))
        advance = history.recorder._advance
        calls = 0

        async def dies(*arguments: Any) -> None:
            nonlocal calls
            calls += 1
            if calls % 2:
                raise RuntimeError("killed before the commit")
            await advance(*arguments)

        monkeypatch.setattr(history.recorder, "_advance", dies)
        going = 1
        while going:
            await history.recorder.begin()
            try:
                going = await history.recorder.step()
            except RuntimeError:
                going = 1
        assert calls > 10
        return [await history.all(model) for model in (JobRecord, AttemptRecord, WaitRecord)]

    assert kept(database_url, world.store, torn) == expected


async def one_runs(world: World) -> None:
    await world.apply(tree(), policy(queue=True), job("one", gpus=2), job("two", gpus=1))
    await world.running("one")
    await settle(100)


class Full(Exception):
    sqlstate = "53100"


def test_a_full_disk_is_no_fault_of_a_job_which_is_recorded_later(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = lived(one_runs, member("cfa"))

    async def full(*_: object) -> None:
        raise DBAPIError("INSERT", {}, Full("No space left on device"))

    async def look(history: Kept) -> None:
        with monkeypatch.context() as patched:
            patched.setattr("fleet.accounts.rows.write", full)
            with pytest.raises(DBAPIError):
                await from_the_first(history)
        assert not history.recorder.unwritten
        await from_the_first(history)
        assert (await history.job("one")).state == "Running"

    kept(database_url, world.store, look)


def test_a_log_that_was_compacted_is_gone_on_from_the_objects_and_told(database_url: str) -> None:
    world = lived(one_runs, member("cfa"))

    async def look(history: Kept) -> None:
        await history.record()
        since, gaps = history.recorder.recorded()
        assert (bool(since), gaps) == (True, [])
        assert {(row.name, row.state) for row in await history.all(JobRecord)} == {
            ("one", "Running"),
            ("two", "Queued"),
        }
        (attempt,) = await history.attempts("one")
        assert attempt.started is not None and abs((attempt.started - instant(EPOCH)).total_seconds()) < 5
        two = next(row for row in await history.all(WaitRecord) if row.since is not None)
        assert (two.reason, two.since) == ("MaxJobsReached", instant(EPOCH))
        async with history.engine.begin() as connection:
            await connection.execute(sa.text("UPDATE accounts.cursor SET revision = 1"))
        await world.store.compact(await world.store.revision())
        await history.record()
        assert len(history.recorder.recorded()[1]) == 1
        assert "does not reach back" in history.recorder.recorded()[1][0]
        assert len(await history.all(JobRecord)) == 2
        assert history.recorder.revision == await world.store.revision()

    kept(database_url, world.store, look)


def test_nothing_of_a_manifest_is_kept(database_url: str) -> None:
    async def story(world: World) -> None:
        body = job("one", gpus=1)
        body["metadata"]["annotations"]["note"] = SECRET
        body["metadata"]["labels"] = {"note": SECRET}
        for replica in body["spec"]["pytorchReplicaSpecs"].values():
            container = replica["template"]["spec"]["containers"][0]
            container.update(env=[{"name": "TOKEN", "value": SECRET}], args=["--token", SECRET], command=[SECRET])
            replica["template"]["metadata"] = {"annotations": {"note": SECRET}, "labels": {"note": SECRET}}
        await world.apply(policy(), body)
        await world.running("one")

    world = lived(story, member("cfa"))

    async def look(history: Kept) -> str:
        await from_the_first(history)
        models = (JobRecord, AttemptRecord, WaitRecord, Cursor)
        return repr([tuple(row) for model in models for row in await history.all(model)])

    everything = kept(database_url, world.store, look)
    assert "alice" in everything
    assert SECRET not in everything


def test_models_of_the_nodes_are_written_with_the_attempt(database_url: str) -> None:
    def models(binding: Body) -> dict[str, int]:
        return {"A100": 4, "H200": 2} if binding["spec"]["resource"]["name"] == "one" else {}

    world = lived(two_after_each_other, member("cfa"))

    async def look(history: Kept) -> None:
        await from_the_first(history)
        found = {row.model: (row.gpus, round(row.gpu_s / row.gpus)) for row in await history.attempts("one")}
        assert found.keys() == {"A100", "H200"}
        assert (found["A100"][0], found["H200"][0]) == (4, 2)
        assert found["A100"][1] == found["H200"][1] == pytest.approx(100, abs=NEAR_S)
        assert [row.model for row in await history.attempts("two")] == [""]
        assert [(await history.job(name)).first_models for name in ("one", "two")] == [["A100", "H200"], [""]]

    kept(database_url, world.store, look, models)
