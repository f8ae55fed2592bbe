"""Writing: revisions, preconditions, several objects at once."""

from __future__ import annotations

import asyncio

import orjson
import pytest

from fleet.values.ports import ABSENT, ANY, EXISTS, Body, Change, CommitResult, Conflict, Delete, Expect, Put
from tests.api.store.world import World, body, key, must, must_not, put


async def test_revisions_follow_each_other_without_a_gap(world: World) -> None:
    store = await world.open()
    first = await store.revision()
    revisions = [(await must(store, put(f"a{i}"))).revision for i in range(5)]
    assert revisions == [first + 1, first + 2, first + 3, first + 4, first + 5]
    assert await store.revision() == first + 5


async def test_the_first_revision_of_an_empty_store_is_not_zero(world: World) -> None:
    store = await world.open()
    assert await store.revision() > 0
    assert (await store.list("", "configmaps")).revision > 0


async def test_what_is_stored_carries_its_revision(world: World) -> None:
    store = await world.open()
    given = body("a", data={"x": "ü"})
    committed = await must(store, Put(key("a"), given))
    read = await store.get(key("a"))
    assert read is not None
    assert read.revision == committed.revision
    assert read.body == {**given, "metadata": {**given["metadata"], "resourceVersion": str(committed.revision)}}
    assert orjson.loads(read.raw) == read.body
    assert read.uid == "uid-of-a"
    assert "resourceVersion" not in given["metadata"], "the caller's body is the caller's"


async def test_a_write_that_lost_its_precondition_uses_no_revision(world: World) -> None:
    store = await world.open()
    before = await must(store, put("a"))
    conflict = await must_not(store, Put(key("a"), body("a", data={"lost": "yes"}), ABSENT))
    assert conflict.index == 0
    assert conflict.current is not None and conflict.current.revision == before.revision
    assert await store.revision() == before.revision
    assert (await must(store, put("b"))).revision == before.revision + 1


@pytest.mark.parametrize(
    ("expect", "holds"),
    [
        pytest.param(ANY, True, id="anything holds"),
        pytest.param(EXISTS, True, id="it exists"),
        pytest.param(ABSENT, False, id="it is not absent"),
        pytest.param(Expect(uid="uid-of-a"), True, id="the uid is right"),
        pytest.param(Expect(uid="another"), False, id="the uid is wrong"),
        pytest.param(Expect(generation=1), True, id="the generation is right"),
        pytest.param(Expect(generation=2), False, id="the generation is wrong"),
        pytest.param(Expect(revision=1), False, id="the revision is old"),
        pytest.param(Expect(uid="uid-of-a", generation=2), False, id="one of two is wrong"),
    ],
)
async def test_a_precondition_on_an_existing_object(world: World, expect: Expect, holds: bool) -> None:
    store = await world.open()
    await must(store, put("a"))
    for write in (Put(key("a"), body("a"), expect), Change(key("a"), lambda b: b, expect), Delete(key("a"), expect)):
        outcome = await store.commit([write])
        assert isinstance(outcome, CommitResult if holds else Conflict)


@pytest.mark.parametrize("expect", [EXISTS, Expect(revision=1), Expect(uid="x"), Expect(generation=0)])
async def test_every_condition_but_absence_fails_for_a_missing_object(world: World, expect: Expect) -> None:
    store = await world.open()
    assert (await must_not(store, Put(key("a"), body("a"), expect))).current is None
    assert await store.get(key("a")) is None


async def test_a_stale_revision_is_refused_and_the_current_one_accepted(world: World) -> None:
    store = await world.open()
    first = (await must(store, put("a"))).revision
    second = (await must(store, Put(key("a"), body("a", data={"v": "2"}), Expect(revision=first)))).revision
    await must_not(store, Put(key("a"), body("a", data={"v": "3"}), Expect(revision=first)))
    await must(store, Delete(key("a"), Expect(revision=second)))
    assert await store.get(key("a")) is None


async def test_several_objects_are_written_all_or_none(world: World) -> None:
    store = await world.open()
    await must(store, put("there"))
    before = await store.revision()
    conflict = await must_not(store, put("new"), Put(key("there"), body("there"), ABSENT), put("other"))
    assert conflict.index == 1
    assert await store.revision() == before
    assert await store.get(key("new")) is None and await store.get(key("other")) is None
    committed = await must(store, put("new"), Delete(key("there")), put("other"))
    assert committed.revision == before + 3
    assert [stored.revision for stored in committed.stored] == [before + 1, before + 2, before + 3]
    assert await store.get(key("there")) is None and await store.get(key("other")) is not None


async def test_a_later_write_of_one_commit_sees_the_earlier_one(world: World) -> None:
    store = await world.open()
    await must(store, put("a", data={"n": 1}), Change(key("a"), _increment), Change(key("a"), _increment))
    read = await store.get(key("a"))
    assert read is not None and read.body["data"] == {"n": 3}
    await must(store, Delete(key("a")), Put(key("a"), body("a"), ABSENT))
    await must_not(store, Delete(key("a")), Change(key("a"), _increment))
    assert await store.get(key("a")) is not None


async def test_a_deletion_answers_with_the_last_state_at_its_own_revision(world: World) -> None:
    store = await world.open()
    written = await must(store, put("a", data={"x": "y"}))
    deleted = await must(store, Delete(key("a")))
    assert deleted.stored[0].body["data"] == {"x": "y"}
    assert deleted.stored[0].revision == written.revision + 1
    assert deleted.stored[0].body["metadata"]["resourceVersion"] == str(written.revision + 1)


async def test_a_change_that_does_nothing_succeeds_without_a_revision(world: World) -> None:
    store = await world.open()
    written = await must(store, put("a"))
    committed = await must(store, Change(key("a"), lambda _: None))
    assert committed.revision == written.revision
    assert committed.stored[0].revision == written.revision


async def test_a_change_gets_a_copy_that_it_may_spoil(world: World) -> None:
    store = await world.open()
    await must(store, put("a", data={"x": "1"}))

    def spoil(found: Body) -> None:
        found["data"]["x"] = "spoilt"

    await must(store, Change(key("a"), spoil))
    read = await store.get(key("a"))
    assert read is not None and read.body["data"] == {"x": "1"}


class Refused(Exception):
    """An exception of a change is no matter of the store."""


async def test_a_refusal_by_a_change_reaches_only_its_own_caller(world: World) -> None:
    store = await world.open()
    await must(store, put("a"))

    def refuse(_: Body) -> Body:
        raise Refused("not today")

    refused, other = await asyncio.gather(
        store.commit([put("b"), Change(key("a"), refuse)]), store.commit([put("c")]), return_exceptions=True
    )
    assert isinstance(refused, Refused)
    assert isinstance(other, CommitResult)
    assert await store.get(key("b")) is None and await store.get(key("c")) is not None


async def test_changes_of_one_object_at_once_are_all_kept(world: World) -> None:
    store, other = await world.open(), await world.open()
    await must(store, put("a", data={"n": 0}))
    await asyncio.gather(*(must(one, Change(key("a"), _increment)) for one in (store, other) for _ in range(50)))
    read = await store.get(key("a"))
    assert read is not None and read.body["data"] == {"n": 100}


async def test_of_many_creations_of_one_name_at_once_one_wins(world: World) -> None:
    store, other = await world.open(), await world.open()
    before = await store.revision()
    outcomes = await asyncio.gather(
        *(one.commit([Put(key("a"), body("a"), ABSENT)]) for one in (store, other) for _ in range(20))
    )
    assert sum(isinstance(outcome, CommitResult) for outcome in outcomes) == 1
    assert await store.revision() == before + 1


async def test_concurrent_commits_share_batches(world: World) -> None:
    store = await world.open()
    committed = await asyncio.gather(*(must(store, put(f"a{i}")) for i in range(200)))
    assert sorted(c.revision for c in committed) == list(range(committed[0].revision, committed[0].revision + 200))
    stats = store.stats  # type: ignore[attr-defined]
    assert (stats.commits, stats.writes, stats.by_resource) == (200, 200, {"configmaps": 200})
    assert stats.batches <= 200


async def test_large_commits_at_once_all_arrive(world: World) -> None:
    store = await world.open()
    committed = await asyncio.gather(*(must(store, put(f"a{n}", data={"x": "y" * 1_500_000})) for n in range(30)))
    assert len({c.revision for c in committed}) == 30
    assert len((await store.list("", "configmaps")).items) == 30


async def test_a_body_that_cannot_be_encoded_fails_alone(world: World) -> None:
    store = await world.open()
    outcomes = await asyncio.gather(
        *(store.commit([put(name)]) for name in ("a", "b")),
        store.commit([Put(key("bad"), {**body("bad"), "data": object()})]),
        return_exceptions=True,
    )
    assert isinstance(outcomes[2], TypeError)
    assert isinstance(outcomes[0], CommitResult) and isinstance(outcomes[1], CommitResult)


async def test_history_comes_newest_first_and_by_kind(world: World) -> None:
    store = await world.open()
    ids = [await store.history("decision", {"number": number}) for number in range(5)]
    await store.history("unit", {"number": 99})
    newest = await store.read_history("decision", limit=2)
    assert [row["number"] for row in newest] == [4, 3]
    assert [row["id"] for row in newest] == ids[:2:-1]
    older = await store.read_history("decision", before=newest[-1]["id"])
    assert [row["number"] for row in older] == [2, 1, 0]
    assert all(row["at"] > 0 for row in older)


async def test_history_that_keeps_one_row_keeps_the_newest_of_its_kind(world: World) -> None:
    store = await world.open()
    await store.history("decision", {"number": 99})
    for number in range(3):
        await store.history("snapshot", {"number": number}, keep=1)
    assert [row["number"] for row in await store.read_history("snapshot")] == [2]
    assert [row["number"] for row in await store.read_history("decision")] == [99]


def _increment(found: Body) -> Body:
    found["data"]["n"] += 1
    return found
