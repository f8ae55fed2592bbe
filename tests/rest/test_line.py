"""The line before the queues: kept from request to request, and always the same as one that is made anew."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random

import pytest

from api.objects import changes
from api.store.memory import MemoryStore
from fleet.rest import line as lines
from fleet.rest.line import Lines
from fleet.simulate.wall import WallClock
from fleet.values.ports import Body, Change, Delete, Key, Put, StoredObject, Write
from fleet.values.times import rfc3339
from fleet.wellknown import ANNOTATION_ENQUEUED, QUEUE, WORK, binding_name, unit_name
from tests.rest.rest import waiting_jobs

NOW = 1_800_000_000.0
JOBS = 30


class Watched(MemoryStore):
    """Counts how often all units are gone through."""

    scans = 0

    def scan(self, group: str, resource: str, *, namespace: str | None = None) -> Sequence[StoredObject]:
        self.scans += (group, resource) == lines.UNITS
        return super().scan(group, resource, namespace=namespace)


def binding_of(number: int) -> Key:
    return Key(WORK, "resourcebindings", "default", binding_name("PyTorchJob", f"job-{number:05}"))


def unit_of(number: int) -> Key:
    return Key(QUEUE, "queueunits", "default", unit_name(binding_of(number).name))


async def queued(count: int = JOBS) -> Watched:
    store = Watched(WallClock())
    await store.commit(waiting_jobs(count, NOW))
    return store


def edit(key: Key, part: str, **fields: object) -> Change:
    def edited(body: Body) -> Body:
        return {**body, part: {**body.get(part, {}), **fields}}

    return Change(key, edited)


def reason(number: int, tier: str) -> Change:
    return edit(unit_of(number), "status", reason={"code": "NoMemberFits", "numbers": {"tier": tier}})


def enqueued(number: int, at: float) -> Change:
    return edit(binding_of(number), "metadata", annotations={ANNOTATION_ENQUEUED: rfc3339(at)})


async def places(store: MemoryStore, kept: Lines) -> dict[str, list[tuple[str, int | None]]]:
    """Of each queue its units in order, with their positions."""
    line = await kept.at(await store.revision())
    return {
        queue: [(entry.unit.key.name, line.position(entry.unit.body)) for entry in waiting]
        for queue, waiting in line.waiting.items()
        if waiting
    }


CHANGES: tuple[Callable[[int, Random], Write], ...] = (
    lambda number, dice: edit(unit_of(number), "spec", priority=dice.randrange(3)),
    lambda number, dice: edit(unit_of(number), "spec", queue=dice.choice(("root-big", "root-other", ""))),
    lambda number, dice: edit(unit_of(number), "spec", active=dice.random() < 0.5),
    lambda number, dice: edit(unit_of(number), "status", phase=dice.choice(("Enqueued", "TimeoutBackoff", "Running"))),
    lambda number, dice: reason(number, dice.choice(("Guaranteed", "Share", "Borrowed"))),
    lambda number, dice: enqueued(number, NOW + dice.randrange(5)),
)


@pytest.mark.parametrize("seed", range(5))
async def test_a_line_that_follows_the_changes_is_the_one_that_is_made_anew(seed: int) -> None:
    dice, store = Random(seed), await queued()
    kept, left = Lines(store), set(range(JOBS))
    for _ in range(60):
        number = dice.choice(sorted(left))
        if dice.random() < 0.1:
            await store.commit([Delete(dice.choice((unit_of, binding_of))(number))])
            left.remove(number)
        else:
            await store.commit([dice.choice(CHANGES)(number, dice)])
        if dice.random() < 0.5:
            assert await places(store, kept) == await places(store, Lines(store))
    assert await places(store, kept) == await places(store, Lines(store))


async def test_after_a_change_no_other_unit_is_looked_at() -> None:
    store = await queued()
    kept = Lines(store)
    assert (await places(store, kept))["root-big"][0] == (unit_of(JOBS - 1).name, 1)
    await store.commit([reason(0, "Guaranteed")])
    assert (await places(store, kept))["root-big"][0] == (unit_of(0).name, 1)
    assert store.scans == 1


async def test_a_line_is_made_anew_where_the_log_does_not_reach_back() -> None:
    store = await queued()
    kept = Lines(store)
    await places(store, kept)
    await store.commit([reason(0, "Guaranteed")])
    await store.compact(await store.revision())
    assert (await places(store, kept))["root-big"][0] == (unit_of(0).name, 1)
    assert store.scans == 2


async def test_a_line_is_made_anew_after_very_many_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "CHANGES", 5)
    store = await queued()
    kept = Lines(store)
    await places(store, kept)
    await store.commit([reason(number, "Guaranteed") for number in range(5)])
    assert (await places(store, kept))["root-big"][0] == (unit_of(4).name, 1)
    assert store.scans == 2


async def test_a_request_that_is_broken_off_leaves_the_changes_to_the_next() -> None:
    store = await queued(300)
    kept = Lines(store)
    await places(store, kept)
    await store.commit([reason(number, "Guaranteed") for number in range(300)])
    await store.commit([edit(unit_of(number), "spec", priority=300 - number) for number in range(300)])
    asked = asyncio.ensure_future(places(store, kept))
    await asyncio.sleep(0)  # it has taken in the first of the changes
    asked.cancel()
    assert await asyncio.wait([asked]) == ({asked}, set()) and asked.cancelled()
    assert await places(store, kept) == await places(store, Lines(store))


async def test_a_unit_of_the_same_name_as_one_before_has_a_place_of_its_own() -> None:
    store = await queued()
    kept = Lines(store)
    line = await kept.at(await store.revision())
    past = store.peek(unit_of(3))
    assert past is not None and line.position(past.body) == JOBS - 3
    again = {**past.body, "metadata": {**past.body["metadata"], "uid": "another"}}
    await store.commit([Delete(unit_of(3))])
    await store.commit([Put(unit_of(3), again)])
    line = await kept.at(await store.revision())
    assert (line.position(past.body), line.position(again), line.position(None)) == (None, JOBS - 3, None)
