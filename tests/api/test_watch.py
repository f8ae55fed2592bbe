"""What a watcher sees, over HTTP."""

from __future__ import annotations

import asyncio
import json

import pytest

from api.store.memory import MemoryStore
from fleet.values.ports import Key, Put
from tests.api.conftest import Hub
from tests.api.streams import config_map, watching

PATH = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def create(hub: Hub, name: str, labels: dict[str, str] | None = None) -> int:
    async with hub.client() as client:
        answer = await client.post(PATH, json=config_map(name, labels))
    assert answer.status_code == 201, answer.text
    return int(answer.json()["metadata"]["resourceVersion"])


async def patch(hub: Hub, name: str, body: object) -> None:
    async with hub.client() as client:
        headers = {"content-type": "application/merge-patch+json"}
        answer = await client.patch(f"{PATH}/{name}", content=json.dumps(body), headers=headers)
    assert answer.status_code == 200, answer.text


async def delete(hub: Hub, name: str) -> None:
    async with hub.client() as client:
        assert (await client.delete(f"{PATH}/{name}")).status_code == 200


@pytest.mark.parametrize("start", [{}, {"resourceVersion": "0"}], ids=["unset", "zero"])
async def test_a_watch_from_nothing_begins_with_what_there_is(hub: Hub, start: dict[str, str]) -> None:
    await create(hub, "a")
    async with watching(hub, PATH, **start) as events:
        assert await events.take(1) == [("ADDED", "a")]
        await create(hub, "b")
        await patch(hub, "a", {"data": {"x": "y"}})
        await delete(hub, "b")
        assert await events.take(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


async def test_a_watch_from_a_revision_sees_every_later_change_once_and_in_order(hub: Hub) -> None:
    first = await create(hub, "a")
    names = [f"n{i}" for i in range(50)]
    for name in names:
        await create(hub, name)
    async with watching(hub, PATH, resourceVersion=str(first)) as events:
        assert await events.take(50) == [("ADDED", name) for name in names]


async def test_an_object_enters_and_leaves_a_label_selector(hub: Hub) -> None:
    since = await create(hub, "a", {"tier": "gold"})
    async with watching(hub, PATH, resourceVersion=str(since), labelSelector="tier=gold") as events:
        await create(hub, "other")
        await patch(hub, "a", {"metadata": {"labels": {"tier": "silver"}}})
        await patch(hub, "a", {"data": {"unseen": "1"}})
        await patch(hub, "a", {"metadata": {"labels": {"tier": "gold"}}})
        await patch(hub, "a", {"data": {"seen": "1"}})
        left = await events.next()
        assert left is not None
        assert (left["type"], left["object"]["metadata"]["labels"]) == ("DELETED", {"tier": "gold"})
        assert int(left["object"]["metadata"]["resourceVersion"]) > since
        assert await events.take(2) == [("ADDED", "a"), ("MODIFIED", "a")]
        await delete(hub, "other")
        await delete(hub, "a")
        assert await events.take(1) == [("DELETED", "a")]


async def test_a_field_selector_names_one_object(hub: Hub) -> None:
    since = await create(hub, "a")
    async with watching(hub, PATH, resourceVersion=str(since), fieldSelector="metadata.name=b") as events:
        await create(hub, "c")
        await create(hub, "b")
        await delete(hub, "a")
        await delete(hub, "b")
        assert await events.take(2) == [("ADDED", "b"), ("DELETED", "b")]


async def test_bookmarks_carry_the_revision_that_has_been_delivered(hub: Hub) -> None:
    await create(hub, "a")
    async with watching(hub, PATH, allowWatchBookmarks="true") as events:
        assert await events.take(1) == [("ADDED", "a")]
        revision = await create(hub, "b")
        assert (await events.take(1))[0] == ("ADDED", "b")
        bookmark = await events.next()
        assert bookmark is not None and bookmark["type"] == "BOOKMARK"
        assert set(bookmark["object"]) == {"kind", "apiVersion", "metadata"}
        assert int(bookmark["object"]["metadata"]["resourceVersion"]) >= revision


async def test_a_watch_list_says_when_the_initial_events_are_over(hub: Hub) -> None:
    await create(hub, "a")
    asked = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    async with watching(hub, PATH, **asked) as events:
        assert await events.take(1) == [("ADDED", "a")]
        bookmark = await events.next()
        assert bookmark is not None and bookmark["type"] == "BOOKMARK"
        assert bookmark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await create(hub, "b")
        assert await events.take(1) == [("ADDED", "b")]


async def test_the_first_table_of_a_watch_carries_the_columns_and_later_ones_do_not(hub: Hub) -> None:
    await create(hub, "a")
    async with watching(hub, PATH, accept=TABLE) as events:
        await create(hub, "b")
        first, second = await events.next(), await events.next()
        assert first is not None and second is not None
        assert [c["name"] for c in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
        assert second["object"]["columnDefinitions"] is None
        assert second["object"]["rows"][0]["cells"][:2] == ["b", 0]
        assert second["object"]["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


async def test_a_watch_ends_when_its_time_is_over(hub: Hub) -> None:
    async with watching(hub, PATH, timeoutSeconds="1") as events:
        assert await events.next() is None


async def test_a_revision_that_is_no_longer_kept_is_expired(hub: Hub) -> None:
    since = await create(hub, "a")
    last = await create(hub, "b")
    await hub.store.compact(last)
    async with hub.client() as client:
        answer = await client.get(PATH, params={"watch": "true", "resourceVersion": str(since)})
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


async def test_a_watcher_that_falls_behind_gets_an_error_event(hub: Hub) -> None:
    since = await create(hub, "a")
    async with watching(hub, PATH, resourceVersion=str(since)) as events:
        # Between two turns of the loop nothing is delivered: what the watcher needs is gone when it wakes.
        assert isinstance(hub.store, MemoryStore)
        log = hub.store._log
        await create(hub, "b")
        assert await events.take(1) == [("ADDED", "b")]
        key = Key("", "configmaps", "default", "c")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default", "uid": "u"}}
        await hub.store.commit([Put(key, body)])
        log.forget(log.revision)
        event = await events.next()
        assert event is not None
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert await events.next() is None


async def test_a_future_revision_is_a_timeout_with_its_cause(hub: Hub) -> None:
    async with hub.client() as client:
        answer = await client.get(PATH, params={"watch": "true", "resourceVersion": "999999"})
    status = answer.json()
    assert (answer.status_code, status["reason"]) == (504, "Timeout")
    assert status["details"]["causes"][0]["message"] == "Too large resource version"


@pytest.mark.parametrize(
    "params",
    [
        {"sendInitialEvents": "true"},
        {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
        {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "1"},
    ],
    ids=["no match", "wrong match", "match without initial events"],
)
async def test_watch_parameters_that_mean_nothing_are_422(hub: Hub, params: dict[str, str]) -> None:
    async with hub.client() as client:
        answer = await client.get(PATH, params={"watch": "true", **params})
    assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")


async def test_a_watch_from_what_is_no_revision_is_a_bad_request(hub: Hub) -> None:
    async with hub.client() as client:
        answer = await client.get(PATH, params={"watch": "true", "resourceVersion": "abc"})
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")


async def test_many_watchers_see_the_same_and_open_watches_do_not_hold_a_stopping_server(hub: Hub) -> None:
    contexts = [watching(hub, PATH) for _ in range(20)]
    opened = [await context.__aenter__() for context in contexts]
    try:
        await create(hub, "a")
        for events in opened:
            assert await events.take(1) == [("ADDED", "a")]
        async with asyncio.timeout(30):
            await hub.server.stop()
        for events in opened:
            assert await events.next() is None
    finally:
        for context in contexts:
            await context.__aexit__(None, None, None)


async def test_the_time_from_a_commit_to_its_watcher_is_measured(hub: Hub) -> None:
    def measured() -> float:
        return hub.app.metrics.registry.get_sample_value("fleet_api_watch_lag_seconds_count") or 0.0

    since = await create(hub, "a")
    async with watching(hub, PATH, resourceVersion=str(since - 1)) as events:
        assert await events.take(1) == [("ADDED", "a")]
        await create(hub, "b")
        assert await events.take(1) == [("ADDED", "b")]
        deadline = asyncio.get_running_loop().time() + 60
        while not measured():
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.01)
