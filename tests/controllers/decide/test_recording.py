"""Decisions are recorded whole, so that each can be replayed; events repeat by counting and end by age."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from fleet.controllers.decide.latest import KIND as SNAPSHOT
from fleet.controllers.decide.latest import PAUSE_MIN_S, LatestSnapshot
from fleet.controllers.decide.record import KIND, RECORD, RowPacker, unpack
from fleet.controllers.runtime.events import COMBINED, SIMILAR_FOR_S, SIMILAR_MAX, EventRecorder, EventRetention
from fleet.core.model.member import Member
from fleet.core.model.plan import Certificate, Plan
from fleet.core.model.unit import Phase, Unit
from fleet.core.notation.codec import decode_plan, decode_snapshot, encode_record, replay
from fleet.core.snapshot import Snapshot, SnapshotChanges
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import hub, member, policy, pytorchjob


async def test_a_decision_that_placed_something_is_recorded_and_replays_to_the_same_plan() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        (row,) = await world.store.read_history(KIND)
        (kept,) = await world.store.read_history(RECORD)
        record = unpack(kept)
        assert (row["placed"], row["claimed"], row["evicted"], row["record"]) == (1, 0, 0, kept["id"])
        assert row["starts"] == [{"kind": "PyTorchJob", "job": "default/one", "member": "cfa"}]
        assert (row["gap"], row["why"], row["tookMs"]) == (None, "no solver was asked", 0)
        assert replay(record).placements == decode_plan(record["plan"]).placements


def test_a_row_says_what_its_snapshot_says_whatever_is_kept_of_the_row_before() -> None:
    packer = RowPacker()
    units = {name: Unit(name, name, (), None, enqueued_at=1.0) for name in ("a", "b", "c")}
    members = {"m": Member("m")}
    plan = Plan((), {}, Certificate("greedy"))
    snapshots = [Snapshot(None, units, members)]
    snapshots.append(
        snapshots[0].apply(SnapshotChanges(put_units=(replace(units["b"], priority=7),), removed_units=("c",)))
    )
    snapshots.append(
        snapshots[1].apply(SnapshotChanges(put_units=(units["c"],), put_members=(Member("m", ready=False),)))
    )
    for number, snapshot in enumerate(snapshots):
        record = unpack(packer.pack(snapshot, plan, float(number), 1))
        assert record == json.loads(json.dumps(encode_record(snapshot, plan, now=float(number), seed=1)))
        assert decode_snapshot(record["snapshot"]) == snapshot


async def test_decisions_that_change_nothing_are_not_recorded() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("large", workers=99))
        await eventually(lambda: world.events("large", "ScheduleBindingFailed"))
        await settle(30)
        assert list(await world.store.read_history(KIND)) == []


async def test_the_newest_snapshot_can_be_read_and_replaces_the_one_before() -> None:
    async with hub(member("cfa")) as world:
        await world.apply(policy(), pytorchjob("one"))
        await world.running("one")
        await world.apply(pytorchjob("two", workers=99))
        await eventually(lambda: world.events("two", "ScheduleBindingFailed"))
        await settle(30)
        (row,) = await world.store.read_history(SNAPSHOT)
        document = json.loads(zlib.decompress(base64.b64decode(row["snapshot"])))
        phases = {unit.name: unit.phase for unit in decode_snapshot(document).units.values()}
        assert phases == {"default/one": Phase.PLACED, "default/two": Phase.WAITING}
        assert document["now"] == row["now"]


async def test_a_snapshot_that_does_not_change_is_written_once() -> None:
    async with hub(member("cfa"), start=False) as world:
        latest = LatestSnapshot(world.hub, RowPacker())
        for _ in range(3):
            latest.offer(lambda: Snapshot(members={"m": Member("m")}), 1.0)
            await settle(100)
        latest.offer(lambda: Snapshot(members={"m": Member("n")}), 2.0)
        await settle(100)
        assert latest.rows == 2


async def test_snapshots_that_change_all_the_time_are_written_at_a_bounded_rate() -> None:
    async with hub(member("cfa"), start=False) as world:
        latest = LatestSnapshot(world.hub, RowPacker())
        for number in range(50):
            latest.offer(partial(Snapshot, members={"m": Member("m", price=number)}), float(number))
            await settle(PAUSE_MIN_S / 10)
        await settle(PAUSE_MIN_S)
        assert latest.rows <= 7
        (row,) = await world.store.read_history(SNAPSHOT)
        assert row["now"] == 49.0


async def test_a_snapshot_is_not_written_later_because_the_store_was_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub(member("cfa"), start=False) as world:
        history = world.store.history

        async def slow(*args: Any, **named: Any) -> int:
            await settle(3 * PAUSE_MIN_S)
            return await history(*args, **named)

        monkeypatch.setattr(world.store, "history", slow)
        latest = LatestSnapshot(world.hub, RowPacker())
        for number in range(2):
            latest.offer(partial(Snapshot, members={"m": Member("m", price=number)}), float(number))
            await settle(5 * PAUSE_MIN_S)
        assert latest.rows == 2


async def test_an_event_that_repeats_raises_the_count_of_the_one_there_is() -> None:
    async with hub(member("cfa"), start=False) as world:
        await world.apply(pytorchjob("one"))
        job = world.see("PyTorchJob", "one") or {}
        recorder = EventRecorder(world.hub)
        for _ in range(3):
            await recorder.record(job, "SyncFailed", "no", warning=True)
        await recorder.record(job, "SyncFailed", "another", warning=True)
        assert sorted((e["message"], e["count"]) for e in world.events("one")) == [("another", 1), ("no", 3)]


async def test_events_that_differ_in_their_numbers_alone_are_combined_beyond_ten() -> None:
    async with hub(member("cfa"), start=False) as world:
        await world.apply(pytorchjob("one"))
        job = world.see("PyTorchJob", "one") or {}
        recorder = EventRecorder(world.hub)
        for number in range(40):
            await recorder.record(job, "ScheduleBindingFailed", f"short by {number}", warning=True)
        await recorder.record(job, "ScheduleBindingFailed", "short by 3", warning=True)
        await recorder.record(job, "SyncFailed", "no", warning=True)
        told = {event["message"]: event["count"] for event in world.events("one")}
        first = {f"short by {number}": 1 for number in range(SIMILAR_MAX)} | {"short by 3": 2}
        assert told == first | {f"{COMBINED}short by 39": 30, "no": 1}
        await settle(SIMILAR_FOR_S + 1)
        await recorder.record(job, "ScheduleBindingFailed", "short by 50", warning=True)
        assert "short by 50" in {event["message"] for event in world.events("one")}


async def test_events_end_an_hour_after_they_were_last_seen() -> None:
    async with hub(member("cfa"), start=False) as world:
        await world.apply(pytorchjob("one"))
        job = world.see("PyTorchJob", "one") or {}
        recorder, retention = EventRecorder(world.hub), EventRetention(world.hub)
        await recorder.record(job, "SyncFailed", "old")
        await settle(3000)
        await recorder.record(job, "SyncFailed", "young")
        await settle(700)
        assert await retention.trim() == 1
        assert [e["message"] for e in world.events("one")] == ["young"]
