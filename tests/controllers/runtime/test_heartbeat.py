"""The leader shows life, and everybody else sees when it does not."""

from __future__ import annotations

import pytest

from fleet.bindings.heartbeat import LEASE, report_of, silence_of
from fleet.values.ports import CommitResult, Conflict
from fleet.values.times import rfc3339
from tests.controllers.fastloop import eventually, settle
from tests.controllers.world import hub, member, policy, pytorchjob, tree


async def test_a_quiet_hub_shows_life_and_says_when_it_last_decided() -> None:
    async with hub(member("cfa")) as world, world.beating():
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await world.running("one")
        decided = world.clock.now()
        await settle(600)
        assert silence_of(world.store, world.clock.now()) == ""
        stored = world.store.peek(LEASE)
        assert stored is not None
        told = report_of(stored.body)
        assert told["decided"] <= rfc3339(decided) < told["looked"]
        assert told["members"] == {"cfa": {"ready": True, "silent_s": 0}}
        assert (told["failing"], told["aside"]) == ([], {"count": 0, "first": []})
        await world.kill()
        await settle(30)
        assert "nobody decides since" in silence_of(world.store, world.clock.now())


async def test_a_renewal_that_fails_by_a_bug_is_counted_as_the_loops() -> None:
    async with hub(member("cfa")) as world, world.beating() as heartbeat:

        async def refuses(*_: object, **__: object) -> CommitResult | Conflict:
            raise ValueError("a bug")

        with pytest.raises(ValueError, match="a bug"):
            await heartbeat.beat(refuses)
        with pytest.raises(ValueError, match="a bug"):
            await heartbeat.run()


async def test_a_decider_that_fails_each_time_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hub(member("cfa")) as world, world.beating():
        await eventually(lambda: silence_of(world.store, world.clock.now()) == "")

        def fails(*_: object) -> None:
            raise ValueError("a bug")

        monkeypatch.setattr("fleet.controllers.decide.snapshot.SnapshotBuilder.build", fails)
        await settle(120)
        assert "has not finished a look" in silence_of(world.store, world.clock.now())
        stored = world.store.peek(LEASE)
        assert stored is not None and report_of(stored.body)["failing"][0]["loop"] == "decide"
