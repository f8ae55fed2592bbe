"""Reading: order, pages at one revision, freshness between processes."""

from __future__ import annotations

import pytest

from api.store import labels as labels_module
from fleet.values.ports import Body, Delete, ExpiredRevision, HintedSelector, Put, StoredObject
from tests.api.store.world import PostgresWorld, World, body, eventually, key, must, names, put


async def _fill(world: World, count: int = 10) -> list[str]:
    store = await world.open()
    wanted = [f"a{i:02}" for i in range(count)]
    for name in reversed(wanted):
        await must(store, put(name, labels={"even": str(int(name[1:]) % 2 == 0)}))
    return wanted


async def test_a_list_is_in_order_of_namespace_and_name(world: World) -> None:
    store = await world.open()
    for namespace, name in (("b", "x"), ("a-b", "y"), ("a", "z"), ("a", "b"), ("", "root")):
        await must(store, Put(key(name, namespace=namespace), body(name, namespace=namespace)))
    page = await store.list("", "configmaps")
    assert [(item.key.namespace, item.key.name) for item in page.items] == [
        ("", "root"),
        ("a", "b"),
        ("a", "z"),
        ("a-b", "y"),
        ("b", "x"),
    ]
    assert names((await store.list("", "configmaps", namespace="a")).items) == ["b", "z"]
    assert page.revision == await store.revision()
    assert [stored.key.name for stored in store.scan("", "configmaps", namespace="a")] == ["b", "z"]


async def test_pages_show_one_revision_while_objects_come_and_go(world: World) -> None:
    wanted = await _fill(world)
    store = await world.open()
    page = await store.list("", "configmaps", limit=3)
    first = page.revision
    seen = names(page.items)
    assert page.remaining == 7
    step = 0
    while page.next_start is not None:
        await must(
            store, put(f"new{step}"), put(f"a{step:02}", data={"changed": "yes"}), Delete(key(f"a{9 - step:02}"))
        )
        step += 1
        page = await store.list("", "configmaps", limit=3, start=page.next_start, at=first)
        assert page.revision == first
        assert all("data" not in item.body for item in page.items)
        seen += names(page.items)
    assert seen == wanted
    assert page.remaining == 0


async def test_a_limit_counts_what_the_selector_chose(world: World) -> None:
    await _fill(world)
    store = await world.open()

    def even(found: dict[str, object]) -> bool:
        metadata = found["metadata"]
        assert isinstance(metadata, dict)
        return bool(metadata["labels"]["even"] == "True")

    page = await store.list("", "configmaps", selector=even, limit=2)
    assert names(page.items) == ["a00", "a02"]
    rest = await store.list("", "configmaps", selector=even, start=page.next_start, at=page.revision)
    assert names(rest.items) == ["a04", "a06", "a08"]


def _coloured(*colours: str) -> HintedSelector:
    def test(found: Body) -> bool:
        return (found["metadata"].get("labels") or {}).get("colour") in colours

    return HintedSelector(test, "colour", frozenset(colours), alone=True)


async def test_a_list_by_label_follows_every_change(world: World) -> None:
    store = await world.open()
    for number, colour in enumerate(("red", "blue", "red", "green")):
        await must(store, put(f"a{number}", labels={"colour": colour}))
    await must(store, put("plain"), Put(key("a9", namespace="else"), body("a9", namespace="else")))

    async def listed(*colours: str) -> list[str]:
        return names((await store.list("", "configmaps", namespace="default", selector=_coloured(*colours))).items)

    assert await listed("red") == ["a0", "a2"]
    assert await listed("green", "blue", "none") == ["a1", "a3"]
    await must(store, put("a0", labels={"colour": "blue"}), put("a4", labels={"colour": "red"}), Delete(key("a2")))
    assert await listed("red") == ["a4"]
    assert await listed("blue") == ["a0", "a1"]
    await must(store, put("a4"), put("plain", labels={"colour": "red"}))
    assert await listed("red") == ["plain"]
    assert await listed("none") == []


async def test_a_list_by_a_label_of_any_value_has_all_that_have_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels_module, "MAX_VALUES", 3)
    store = await world.open()
    with_label = HintedSelector(lambda found: "colour" in (found["metadata"].get("labels") or {}), "colour", alone=True)
    colours = ("red", "blue", "red", "green", "blue", "white", "black")
    listed: list[list[str]] = []
    for number, colour in enumerate(colours):  # four of them are more than are put together
        await must(store, put(f"a{9 - number}", labels={"colour": colour}), put(f"b{number}"))
        listed.append(names((await store.list("", "configmaps", selector=with_label)).items))
    assert listed == [[f"a{9 - last}" for last in range(count, -1, -1)] for count in range(len(colours))]


async def test_pages_by_label_show_one_revision(world: World) -> None:
    await _fill(world)
    store = await world.open()
    even = HintedSelector(
        lambda found: found["metadata"].get("labels") == {"even": "True"}, "even", frozenset({"True"})
    )
    page = await store.list("", "configmaps", selector=even, limit=2)
    assert names(page.items) == ["a00", "a02"]
    same = await store.list("", "configmaps", selector=even, start=page.next_start, at=page.revision)
    await must(store, put("a04", labels={"even": "False"}), put("a01", labels={"even": "True"}))
    rest = await store.list("", "configmaps", selector=even, start=page.next_start, at=page.revision)
    assert names(same.items) == names(rest.items) == ["a04", "a06", "a08"]
    assert names((await store.list("", "configmaps", selector=even)).items) == ["a00", "a01", "a02", "a06", "a08"]


async def test_a_list_by_label_finds_keys_that_were_not_asked_for_lately(world: World) -> None:
    store = await world.open()
    await must(store, put("one", labels={f"key-{number}": "yes" for number in range(12)}))
    for number in (*range(12), 0):
        selector = HintedSelector(lambda _: True, f"key-{number}", frozenset({"yes"}))
        assert names((await store.list("", "configmaps", selector=selector)).items) == ["one"]


async def test_pages_of_a_compacted_revision_are_expired(world: World) -> None:
    await _fill(world)
    store = await world.open()
    page = await store.list("", "configmaps", limit=3)
    await must(store, put("later"))
    await store.compact(await store.revision())
    with pytest.raises(ExpiredRevision):
        await store.list("", "configmaps", limit=3, start=page.next_start, at=page.revision)


async def test_a_past_revision_is_served_while_its_resource_has_not_changed(world: World) -> None:
    wanted = await _fill(world)
    store = await world.open()
    at = await store.revision()
    await must(store, Put(key("elsewhere", resource="secrets"), body("elsewhere")))
    page = await store.list("", "configmaps", at=at)
    assert (page.revision, names(page.items)) == (at, wanted)


async def test_another_process_serves_the_pages_that_follow(postgres: PostgresWorld) -> None:
    wanted = await _fill(postgres)
    store, other = await postgres.open(), await postgres.open()
    page = await store.list("", "configmaps", limit=3)
    at, seen = page.revision, names(page.items)
    await must(store, put("new"), put("a05", data={"changed": 1}), put("a05", data={"changed": 2}), Delete(key("a07")))
    await must(store, put("a07", data={"again": "yes"}), put("passing"), Delete(key("passing")), Delete(key("a02")))
    for server in (other, await postgres.open(), other):
        page = await server.list("", "configmaps", limit=3, start=page.next_start, at=at)
        assert page.revision == at
        assert all("data" not in item.body for item in page.items)
        seen += names(page.items)
    assert seen == wanted
    current = await other.list("", "configmaps")
    assert names(current.items) == sorted({*wanted, "new"} - {"a02"})


async def test_pages_that_the_log_cannot_explain_are_expired(postgres: PostgresWorld) -> None:
    await _fill(postgres)
    store, other = await postgres.open(), await postgres.open()
    page = await store.list("", "configmaps", limit=3)
    await store.compact(page.revision)  # the log no longer says what anything was at this revision
    await must(store, put("a05", data={"changed": "yes"}))
    await other.revision()  # it has seen the change now
    with pytest.raises(ExpiredRevision):
        await other.list("", "configmaps", limit=3, start=page.next_start, at=page.revision)
    rest = await store.list("", "configmaps", start=page.next_start, at=page.revision)
    assert len(rest.items) == 7, "the process of the first page remembers"


async def test_a_fresh_read_sees_every_acknowledged_write_of_other_processes(world: World) -> None:
    writer, reader = await world.open(), await world.open()
    for i in range(100):
        committed = await must(writer, put("a", data={"i": i}))
        read = await reader.get(key("a"))
        assert read is not None and read.body["data"] == {"i": i}
        assert (await reader.list("", "configmaps")).revision >= committed.revision
    assert await reader.revision() == committed.revision


async def test_a_process_sees_its_own_writes_without_asking(world: World) -> None:
    store = await world.open()
    await must(store, put("a"))
    assert store.peek(key("a")) is not None
    assert await store.get(key("a"), fresh=False) is not None
    await must(store, Delete(key("a")))
    assert store.peek(key("a")) is None
    assert (await store.list("", "configmaps", fresh=False)).items == ()


async def test_other_processes_hear_of_a_write_by_themselves(world: World) -> None:
    writer, reader = await world.open(), await world.open()
    await must(writer, put("a"))
    await eventually(lambda: reader.peek(key("a")) is not None)


async def test_many_resources_do_not_mix(world: World) -> None:
    store = await world.open()
    await must(store, put("a"), Put(key("a", group="x.io"), body("a", data={"of": "x"})))
    found: StoredObject | None = await store.get(key("a", group="x.io"))
    assert found is not None and found.body["data"] == {"of": "x"}
    await must(store, Delete(key("a")))
    assert await store.get(key("a", group="x.io")) is not None
    assert (await store.list("none", "such")).items == ()
