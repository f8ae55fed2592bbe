"""What a process keeps of many objects: sums that follow the log, and answers that are made once for all who ask."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from api.objects import changes
from api.store.memory import MemoryStore
from fleet.rest.aggregates import RecentAnswers, SharedAnswer, Sums
from fleet.simulate.wall import WallClock
from fleet.values.ports import Delete, Key, Put, StoredObject

THINGS, OWNERS = ("test", "things"), ("test", "owners")


def key(name: str, resource: tuple[str, str] = THINGS) -> Key:
    return Key(*resource, "default", name)


def thing(name: str, group: str, **amounts: int) -> Put:
    return Put(key(name), {"metadata": {"name": name, "uid": name}, "group": group, "amounts": amounts})


def counted(stored: StoredObject) -> tuple[str, Mapping[str, int]] | None:
    return (stored.body["group"], stored.body["amounts"]) if stored.body["group"] else None


@pytest.fixture
async def store() -> AsyncIterator[MemoryStore]:
    made = MemoryStore(WallClock())
    await made.start()
    yield made
    await made.stop()


async def plain(sums: Sums, store: MemoryStore, generation: int = 0) -> dict[str, dict[str, int]]:
    found = await sums.at(await store.revision(), generation)
    return {group: dict(amounts) for group, amounts in found.items()}


async def test_sums_follow_what_is_made_changed_and_deleted(store: MemoryStore) -> None:
    sums = Sums(store, THINGS, counted)
    assert await plain(sums, store) == {}
    await store.commit([thing("one", "a", gpus=2, jobs=1), thing("two", "a", gpus=3, jobs=1), thing("none", "", x=1)])
    assert await plain(sums, store) == {"a": {"gpus": 5, "jobs": 2}}
    await store.commit([thing("two", "b", jobs=1)])
    assert await plain(sums, store) == {"a": {"gpus": 2, "jobs": 1}, "b": {"jobs": 1}}
    await store.commit([Delete(key("two"))])
    assert await plain(sums, store) == {"a": {"gpus": 2, "jobs": 1}}


async def test_a_thing_that_cannot_be_counted_costs_its_own_part_alone(store: MemoryStore) -> None:
    sums = Sums(store, THINGS, counted)
    await store.commit([thing("one", "a", gpus=2), Put(key("bad"), {"metadata": {"name": "bad", "uid": "bad"}})])
    assert await plain(sums, store) == {"a": {"gpus": 2}}


async def test_a_change_of_another_object_counts_its_owner_again(store: MemoryStore) -> None:
    def by_other(stored: StoredObject) -> tuple[str, Mapping[str, int]] | None:
        other = store.peek(key(stored.key.name, OWNERS))
        return (other.body["group"], {"jobs": 1}) if other is not None else None

    sums = Sums(store, THINGS, by_other, OWNERS, owner=lambda one: key(one.name))
    await store.commit([thing("one", "")])
    assert await plain(sums, store) == {}
    await store.commit([Put(key("one", OWNERS), {"metadata": {"name": "one", "uid": "o"}, "group": "x"})])
    assert await plain(sums, store) == {"x": {"jobs": 1}}


async def test_sums_are_made_anew_after_very_many_changes_and_in_another_generation(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "CHANGES", 3)
    groups = {"one": "a"}
    sums = Sums(store, THINGS, lambda stored: (groups.get(stored.key.name, "b"), {"jobs": 1}))
    await store.commit([thing("one", "")])
    assert await plain(sums, store) == {"a": {"jobs": 1}}
    for number in range(5):
        await store.commit([thing(f"more-{number}", "")])
    assert await plain(sums, store) == {"a": {"jobs": 1}, "b": {"jobs": 5}}
    groups.clear()
    assert await plain(sums, store, generation=1) == {"b": {"jobs": 6}}


async def test_one_answer_is_made_for_all_who_ask_at_once_and_a_newer_one_after_a_change(store: MemoryStore) -> None:
    made: list[int] = []

    async def make(revision: int) -> bytes:
        made.append(revision)
        await asyncio.sleep(0)
        return str(revision).encode()

    shared = SharedAnswer(store, make)
    await store.commit([thing("one", "a")])
    answers = await asyncio.gather(*(shared.now() for _ in range(50)))
    assert len(made) == 1 and set(answers) == {str(made[0]).encode()}
    await store.commit([thing("two", "a")])
    newer = int(await shared.now())
    assert newer == await store.revision() and len(made) == 2


async def test_a_recent_answer_is_shared_and_a_failure_is_not_kept() -> None:
    asked: list[str] = []

    async def make() -> int:
        asked.append("x")
        await asyncio.sleep(0)
        if len(asked) == 1:
            raise ValueError("not now")
        return len(asked)

    recent = RecentAnswers[int](keep_s=3600.0)
    failed = await asyncio.gather(*(recent.of("a", make) for _ in range(3)), return_exceptions=True)
    assert [type(one) for one in failed] == [ValueError] * 3
    assert await asyncio.gather(*(recent.of("a", make) for _ in range(3))) == [2, 2, 2]
    assert await recent.of("b", make) == 3 and await recent.of("a", make) == 2


async def test_recent_answers_are_bounded_in_number_and_in_age() -> None:
    asked: list[str] = []

    async def make() -> int:
        asked.append("x")
        return len(asked)

    few = RecentAnswers[int](keep_s=3600.0, most=2)
    assert [await few.of(name, make) for name in ("a", "b", "c", "a")] == [1, 2, 3, 4]
    brief = RecentAnswers[int](keep_s=0.0)
    assert [await brief.of("a", make), await brief.of("a", make)] == [5, 6]
