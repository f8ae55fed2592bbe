"""The log: every change once, in order, from any revision that is still kept."""

from __future__ import annotations

import asyncio

import pytest

from api.store.log import CROWD
from fleet.values.ports import Body, Change, Delete, EventType, ExpiredRevision, FutureRevision, Put, Watch
from tests.api.store.world import PATIENCE_S, PostgresWorld, World, body, eventually, key, must, put, take


async def test_a_watcher_sees_every_change_once_in_order(world: World) -> None:
    store, other = await world.open(), await world.open()
    watch = await store.watch("", "configmaps", since=await store.revision())
    writes = [must(one, put(f"{who}-{i}")) for i in range(100) for who, one in (("a", store), ("b", other))]
    committed = await asyncio.gather(*writes)
    events = await take(watch, 200)
    assert [event.revision for event in events] == sorted(c.revision for c in committed)
    assert len({event.stored.key for event in events}) == 200
    assert await watch.next(0.01) is None


async def test_a_watch_may_resume_from_any_revision(world: World) -> None:
    store = await world.open()
    start = await store.revision()
    for i in range(10):
        await must(store, put(f"a{i}"))
    for seen in range(11):
        watch = await store.watch("", "configmaps", since=start + seen)
        events = await take(watch, 10 - seen)
        assert [event.stored.key.name for event in events] == [f"a{i}" for i in range(seen, 10)]
        assert await watch.next(0.001) is None
        await watch.aclose()


async def test_events_say_what_happened_and_what_was_before(world: World) -> None:
    store = await world.open()
    watch = await store.watch("", "configmaps")
    await must(store, put("a", labels={"team": "x"}, data={"v": 1}))
    await must(store, put("a", labels={"team": "y"}, data={"v": 2}))
    await must(store, Delete(key("a")))
    added, modified, deleted = await take(watch, 3)
    assert (added.type, added.previous) == (EventType.ADDED, None)
    assert modified.type is EventType.MODIFIED
    assert modified.previous is not None and modified.previous["metadata"]["labels"] == {"team": "x"}
    assert modified.previous["metadata"]["name"] == "a"
    assert deleted.type is EventType.DELETED
    assert deleted.stored.body["data"] == {"v": 2}, "a deletion carries the last state"
    assert deleted.stored.body["metadata"]["resourceVersion"] == str(deleted.revision)
    assert deleted.previous is not None and deleted.previous["metadata"]["labels"] == {"team": "y"}


async def test_a_previous_state_keeps_what_field_selectors_ask_about(world: World) -> None:
    store = await world.open()
    where = key("p", resource="pods")
    await must(store, Put(where, body("p", spec={"nodeName": "n1", "x": 1}, status={"phase": "Pending"})))
    watch = await store.watch("", "pods")

    def run(found: Body) -> Body:
        found["status"]["phase"] = "Running"
        return found

    await must(store, Change(where, run))
    (event,) = await take(watch, 1)
    assert event.previous is not None
    assert event.previous["status"] == {"phase": "Pending"}
    assert event.previous["spec"] == {"nodeName": "n1"}


async def test_a_watch_is_of_one_resource_and_one_namespace(world: World) -> None:
    store = await world.open()
    here = await store.watch("", "configmaps", namespace="here")
    everywhere = await store.watch("", "configmaps")
    await must(store, Put(key("a", namespace="there"), body("a", namespace="there")))
    await must(store, Put(key("a", resource="secrets"), body("a")))
    await must(store, Put(key("a", group="other.io"), body("a")))
    await must(store, Put(key("b", namespace="here"), body("b", namespace="here")))
    assert [event.stored.key.name for event in await take(here, 1)] == ["b"]
    assert [event.stored.key.namespace for event in await take(everywhere, 2)] == ["there", "here"]
    assert await here.next(0.01) is None and await everywhere.next(0.01) is None


async def test_progress_grows_with_changes_that_are_not_delivered(world: World) -> None:
    store = await world.open()
    watch = await store.watch("", "configmaps", namespace="here")
    committed = await must(store, Put(key("a", resource="secrets"), body("a")))
    assert await watch.next(0.01) is None
    assert watch.progress == committed.revision
    await must(store, Put(key("b", namespace="here"), body("b", namespace="here")))
    later = await must(store, Put(key("c", namespace="here"), body("c", namespace="here")))
    assert watch.progress == committed.revision, "what has not been read is not progress"
    await take(watch, 2)
    assert watch.progress == later.revision


async def test_a_watch_from_a_revision_to_come_is_refused_after_a_bounded_wait(world: World) -> None:
    store = await world.open()
    now = await store.revision()
    with pytest.raises(FutureRevision) as refused:
        await store.watch("", "configmaps", since=now + 1000)
    assert (refused.value.revision, refused.value.current) == (now + 1000, now)
    with pytest.raises(FutureRevision):
        await store.list("", "configmaps", at=now + 1000)


async def test_a_watch_from_before_a_compaction_is_expired(world: World) -> None:
    store = await world.open()
    start = await store.revision()
    for i in range(5):
        await must(store, put(f"a{i}"))
    reading = await store.watch("", "configmaps", since=start)
    await store.compact(start + 3)
    with pytest.raises(ExpiredRevision):
        await store.watch("", "configmaps", since=start + 2)
    with pytest.raises(ExpiredRevision):
        await reading.next(1.0)
    watch = await store.watch("", "configmaps", since=start + 3)
    assert [event.stored.key.name for event in await take(watch, 2)] == ["a3", "a4"]


async def test_revisions_that_are_left_out_are_never_used(world: World) -> None:
    store, other = await world.open(), await world.open()
    await must(store, put("a"))
    start = await store.revision()
    reading, waiting = await other.watch("", "configmaps", since=start), await store.watch("", "configmaps")
    await store.raise_to(start + 1000)
    assert await other.revision() == start + 1000
    for late in (reading, waiting):
        with pytest.raises(ExpiredRevision):
            await late.next(PATIENCE_S)
    for since in (start, start + 500):  # the second is one that a client may have from a future that was undone
        with pytest.raises(ExpiredRevision):
            await store.watch("", "configmaps", since=since)
    watch = await other.watch("", "configmaps", since=start + 1000)
    committed = await must(store, put("b"))
    assert committed.revision == start + 1001
    assert [event.stored.key.name for event in await take(watch, 1)] == ["b"]
    assert [stored.key.name for stored in (await other.list("", "configmaps")).items] == ["a", "b"]


async def test_a_store_that_is_past_the_revision_leaves_nothing_out(world: World) -> None:
    store = await world.open()
    await must(store, put("a"))
    watch = await store.watch("", "configmaps")
    before = await store.revision()
    await store.raise_to(before - 1)
    assert (await must(store, put("b"))).revision == before + 1
    assert [event.stored.key.name for event in await take(watch, 1)] == ["b"]


async def test_objects_survive_the_compaction_of_their_events(world: World) -> None:
    store = await world.open()
    await must(store, put("a"))
    await store.compact(await store.revision())
    assert await store.get(key("a")) is not None
    again = await world.open()
    assert len((await again.list("", "configmaps")).items) == 1


async def test_a_closed_watch_ends(world: World) -> None:
    store = await world.open()
    watch = await store.watch("", "configmaps")
    waiting = asyncio.create_task(watch.next(PATIENCE_S))
    await asyncio.sleep(0)
    await watch.aclose()
    assert await asyncio.wait_for(waiting, PATIENCE_S / 2) is None
    assert [event async for event in watch] == []


async def test_a_watch_can_be_iterated(world: World) -> None:
    store = await world.open()
    watch = await store.watch("", "configmaps")
    await must(store, put("a"), put("b"))
    seen = []
    async for event in watch:
        seen.append(event.stored.key.name)
        if len(seen) == 2:
            await watch.aclose()
    assert seen == ["a", "b"]


async def test_a_reader_that_fell_behind_the_memory_window_is_expired_in_memory() -> None:
    from tests.api.store.world import MemoryWorld

    store = await MemoryWorld().open(max_events=10)
    watch = await store.watch("", "configmaps")
    for i in range(30):
        await must(store, put(f"a{i}"))
    with pytest.raises(ExpiredRevision):
        await watch.next(1.0)


@pytest.mark.parametrize("limits", [{"max_events": 10}, {"max_log_bytes": 4000}], ids=["by count", "by bytes"])
async def test_a_reader_that_fell_behind_the_memory_window_is_served_from_the_database(
    postgres: PostgresWorld, limits: dict[str, int]
) -> None:
    store = await postgres.open(**limits)
    start = await store.revision()
    open_before = await store.watch("", "configmaps")
    for i in range(60):
        await must(store, put(f"a{i}"), Put(key(f"b{i}", resource="secrets"), body(f"b{i}")))
    opened_late = await store.watch("", "configmaps", since=start)
    for watch in (open_before, opened_late):
        assert [event.stored.key.name for event in await take(watch, 60)] == [f"a{i}" for i in range(60)]
    await must(store, put("last"))
    for watch in (open_before, opened_late):
        assert [event.stored.key.name for event in await take(watch, 1)] == ["last"]
        assert await watch.next(0.01) is None


async def test_a_store_that_was_just_opened_serves_watches_from_before(postgres: PostgresWorld) -> None:
    first = await postgres.open()
    start = await first.revision()
    for i in range(5):
        await must(first, put(f"a{i}"))
    await must(first, Delete(key("a2")))
    late = await postgres.open()
    events = await take(await late.watch("", "configmaps", since=start), 6)
    assert [event.type for event in events] == [EventType.ADDED] * 5 + [EventType.DELETED]


async def test_a_process_that_slept_past_a_compaction_reads_everything_again(postgres: PostgresWorld) -> None:
    store, sleeper = await postgres.open(), await postgres.open()
    await must(store, put("gone"), put("kept", data={"v": 1}))
    await sleeper.revision()
    watch = await sleeper.watch("", "configmaps")
    # The sleeper hears and asks nothing while the others go on.
    follower = sleeper._tasks[1]
    follower.cancel()
    await asyncio.wait([follower])
    await must(store, Delete(key("gone")), put("kept", data={"v": 2}), put("new"))
    await store.compact(await store.revision())
    assert [stored.key.name for stored in (await sleeper.list("", "configmaps")).items] == ["kept", "new"]
    with pytest.raises(ExpiredRevision):
        await watch.next(1.0)
    await must(sleeper, put("goes on"))
    await eventually(lambda: store.peek(key("goes on")) is not None)


async def test_a_crowd_of_watchers_gets_every_event_in_order(world: World) -> None:
    store = await world.open()
    watches = [await store.watch("", "configmaps") for _ in range(CROWD + 5)]

    async def follow(watch: Watch) -> list[str]:
        return [event.stored.key.name for event in await take(watch, 30)]

    following = [asyncio.create_task(follow(watch)) for watch in watches]
    await asyncio.sleep(0)
    wanted = [f"a{number:02}" for number in range(30)]
    for name in wanted:
        await must(store, put(name))
    assert await asyncio.gather(*following) == [wanted] * len(watches)
    for watch in watches:
        await watch.aclose()


async def test_the_log_of_some_resources_is_read_in_order_and_in_pieces(world: World) -> None:
    store = await world.open(max_events=5)
    wanted = [("", "configmaps"), ("", "secrets")]
    start = await store.revision()
    for number in range(6):
        for resource in ("configmaps", "leases", "secrets"):
            await must(store, Put(key(f"o{number}", resource=resource), body(f"o{number}")))
    reader = await world.open()  # as in another process, whose memory has none of it
    await reader.revision()
    since = start if isinstance(world, PostgresWorld) else start + 13
    seen, first = [], since
    while True:
        events, since = await reader.events(wanted, since=since, limit=3)
        seen += [(event.revision, event.stored.key.resource, event.at > 0) for event in events]
        if not events:
            break
    assert since == await store.revision()
    kinds = ("configmaps", "leases", "secrets")
    every = [(start + 1 + n, kinds[n % 3], True) for n in range(18)]
    assert seen == [entry for entry in every if entry[0] > first and entry[1] != "leases"]
    await store.compact(start + 15)
    with pytest.raises(ExpiredRevision):
        await reader.events(wanted, since=start + 14, limit=3)
