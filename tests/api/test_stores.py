"""What must hold whichever store is beneath the API."""

from __future__ import annotations

from tests.api.conftest import Hub
from tests.api.rbac import grant
from tests.api.streams import config_map, watching

MAPS = "/api/v1/namespaces/default/configmaps"


async def test_pages_stay_at_one_revision_while_others_write(any_hub: Hub) -> None:
    async with any_hub.client() as client:
        for index in range(6):
            assert (await client.post(MAPS, json=config_map(f"n{index}"))).status_code == 201
        page = (await client.get(MAPS, params={"limit": 2})).json()
        await client.delete(f"{MAPS}/n4")
        await client.post(MAPS, json=config_map("n25"))
        names = [item["metadata"]["name"] for item in page["items"]]
        while page["metadata"].get("continue"):
            page = (await client.get(MAPS, params={"limit": 2, "continue": page["metadata"]["continue"]})).json()
            names += [item["metadata"]["name"] for item in page["items"]]
    assert names == [f"n{index}" for index in range(6)]


async def test_a_list_and_a_watch_from_it_miss_nothing(any_hub: Hub) -> None:
    async with any_hub.client() as client:
        await client.post(MAPS, json=config_map("before"))
        listed = (await client.get(MAPS)).json()
        await client.post(MAPS, json=config_map("between"))
        async with watching(any_hub, MAPS, resourceVersion=listed["metadata"]["resourceVersion"]) as events:
            await client.post(MAPS, json=config_map("after"))
            assert await events.take(2) == [("ADDED", "between"), ("ADDED", "after")]


async def test_a_write_is_seen_by_the_next_read_and_by_a_selector(any_hub: Hub) -> None:
    async with any_hub.client() as client:
        await client.post(MAPS, json=config_map("a", {"x": "1"}))
        assert (await client.get(f"{MAPS}/a")).json()["metadata"]["labels"] == {"x": "1"}
        assert len((await client.get(MAPS, params={"labelSelector": "x=1"})).json()["items"]) == 1
        assert len((await client.get(MAPS, params={"fieldSelector": "metadata.name=a"})).json()["items"]) == 1


async def test_an_object_leaves_a_selector_with_the_labels_it_had(any_hub: Hub) -> None:
    async with any_hub.client() as client:
        created = await client.post(MAPS, json=config_map("a", {"x": "1"}))
        since = created.json()["metadata"]["resourceVersion"]
        async with watching(any_hub, MAPS, resourceVersion=since, labelSelector="x=1") as events:
            body = config_map("a", {"x": "2"})
            assert (await client.put(f"{MAPS}/a", json=body)).status_code == 200
            event = await events.next()
            assert event is not None
            assert (event["type"], event["object"]["metadata"]["labels"]) == ("DELETED", {"x": "1"})


async def test_a_grant_counts_for_the_very_next_request(any_hub: Hub) -> None:
    async with any_hub.client("alice-token") as alice:
        assert (await alice.get(MAPS)).status_code == 403
        await grant(any_hub, "alice", ["list"], ["configmaps"])
        assert (await alice.get(MAPS)).status_code == 200


async def test_a_lost_precondition_is_a_conflict_and_changes_nothing(any_hub: Hub) -> None:
    async with any_hub.client() as client:
        first = (await client.post(MAPS, json=config_map("a"))).json()
        second = (await client.put(f"{MAPS}/a", json={**first, "data": {"x": "1"}})).json()
        lost = await client.put(f"{MAPS}/a", json={**first, "data": {"x": "2"}})
        assert (lost.status_code, lost.json()["reason"]) == (409, "Conflict")
        assert (await client.get(f"{MAPS}/a")).json() == second


async def test_string_data_of_a_secret_becomes_data(any_hub: Hub) -> None:
    path = "/api/v1/namespaces/default/secrets"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "b"}}
    async with any_hub.client() as client:
        created = (await client.post(path, json=secret)).json()
        assert (created["data"], "stringData" in created, created["type"]) == ({"a": "Yg=="}, False, "Opaque")
        headers = {"content-type": "application/strategic-merge-patch+json"}
        answer = await client.patch(f"{path}/s", content=b'{"stringData":{"c":"d"}}', headers=headers)
        assert answer.json()["data"] == {"a": "Yg==", "c": "ZA=="}
        wrong = await client.post(path, json={**secret, "metadata": {"name": "t"}, "stringData": {"a": 1}})
        assert wrong.status_code == 400
