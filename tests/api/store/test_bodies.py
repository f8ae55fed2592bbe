"""The bounds of the memory of bodies: what is packed reads as it was written."""

from __future__ import annotations

import pytest

from api.store.bodies import Bodies
from fleet.values.ports import Delete, Key, StoredObject
from tests.api.store.world import PostgresWorld, key, must, names, put


def _stored(number: int, resource: str = "configmaps", size: int = 200) -> StoredObject:
    name = f"item-{number:04}"
    raw = b'{"metadata":{"name":"%s"},"data":{"key":"%s"}}' % (name.encode(), b"x" * size)
    return StoredObject(Key("", resource, "default", name), f"uid-{number}", number, raw)


def _plain(stored: StoredObject) -> bool:
    return stored.packed is None


def test_the_oldest_bytes_are_packed_and_read_as_before() -> None:
    bodies = Bodies(plain_bytes=2_000)
    objects = [_stored(number, ("configmaps", "secrets")[number % 2]) for number in range(100)]
    before = [stored.raw for stored in objects]
    for stored in objects:
        bodies.keep(stored)
    room = 2_000 // len(before[0])
    assert [_plain(stored) for stored in objects] == [False] * (100 - room) + [True] * room
    assert sum(len(stored.packed or b"") for stored in objects) < 100 * 40, "objects alike take little room"
    assert [stored.raw for stored in objects] == before
    assert [stored.body["metadata"]["name"] for stored in objects] == [stored.key.name for stored in objects]


def test_what_was_read_is_plain_until_others_were_read() -> None:
    bodies = Bodies(plain_bytes=1_000)
    objects = [_stored(number) for number in range(20)]
    for stored in objects:
        bodies.keep(stored)
    first = objects[0].raw
    assert objects[0].raw is first, "read again, it is not unpacked again"
    for stored in objects[1:10]:
        assert stored.raw
    assert objects[0].raw is not first
    assert objects[0].raw == first


def test_an_object_larger_than_all_the_room_is_read_too() -> None:
    bodies = Bodies(plain_bytes=100)
    large = _stored(1, size=300_000)
    raw = large.raw
    bodies.keep(large)
    assert not _plain(large)
    assert large.raw == raw


def test_an_object_that_is_past_is_not_packed_any_more() -> None:
    bodies = Bodies(plain_bytes=1_000)
    past = _stored(0)
    bodies.keep(past)
    bodies.release(past)
    for number in range(1, 20):
        bodies.keep(_stored(number))
    assert _plain(past)
    assert past.raw.startswith(b"{")


def test_parsed_forms_have_a_bound_of_their_own() -> None:
    bodies = Bodies(parsed_bytes=4_000)
    objects = [_stored(number) for number in range(20)]
    for stored in objects:
        bodies.keep(stored)
    first, last = objects[0].body, objects[-1].body
    assert objects[0].body is first
    for stored in objects[1:19]:
        assert stored.body
    assert objects[0].body is not first
    assert objects[0].body == first
    assert last == objects[-1].body


def test_a_missing_attribute_is_an_error() -> None:
    with pytest.raises(AttributeError, match="wrong"):
        _ = getattr(_stored(1), "wrong")  # noqa: B009


async def test_a_store_with_little_room_reads_lists_and_follows_as_any_other(postgres: PostgresWorld) -> None:
    store = await postgres.open(plain_bytes=1_500, parsed_bytes=2_000, max_log_bytes=10_000)
    wanted = [f"a{number:03}" for number in range(60)]
    for name in wanted:
        await must(store, put(name, data={"of": name}))
    watch = await store.watch("", "configmaps", since=await store.revision() - 60)
    page = await store.list("", "configmaps", limit=20)
    await must(store, put("a000", data={"of": "another"}), Delete(key("a001")))
    rest = await store.list("", "configmaps", start=page.next_start, at=page.revision)
    assert names((*page.items, *rest.items)) == wanted
    assert [stored.body["data"] for stored in (*page.items, *rest.items)] == [{"of": name} for name in wanted]
    events = [await watch.next(10) for _ in range(62)]
    assert [event.stored.body["data"]["of"] for event in events if event] == [*wanted, "another", "a001"]
    await watch.aclose()
    again = await postgres.open(plain_bytes=1_500)
    listed = (await again.list("", "configmaps")).items
    assert names(listed) == ["a000", *wanted[2:]]
    assert [stored.body["data"]["of"] for stored in listed] == ["another", *wanted[2:]]
