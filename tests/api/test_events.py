"""Events of core/v1 and of events.k8s.io/v1 are the same objects under other names of fields."""

from __future__ import annotations

import json
from typing import Any

from tests.api.conftest import Hub

CORE = "/api/v1/namespaces/default/events"
NEW = "/apis/events.k8s.io/v1/namespaces/default/events"
ABOUT = {"apiVersion": "v1", "kind": "ConfigMap", "name": "settings", "namespace": "default"}
WRITTEN = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "one"},
    "regarding": ABOUT,
    "note": "it changed",
    "reason": "Changed",
    "type": "Normal",
    "action": "Change",
    "eventTime": "2026-11-23T09:00:00.000000Z",
    "reportingController": "tests",
    "reportingInstance": "tests-1",
    "deprecatedCount": 3,
}
NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedCount": "count",
}


async def ask(hub: Hub, method: str, path: str, body: Any = None, media: str = "application/json") -> Any:
    async with hub.client() as client:
        content = None if body is None else json.dumps(body)
        answer = await client.request(method, path, content=content, headers={"content-type": media})
    assert answer.status_code < 300, answer.text
    return answer.json()


async def test_one_that_is_written_in_one_group_is_read_in_both(hub: Hub) -> None:
    made = await ask(hub, "POST", NEW, WRITTEN)
    assert {key: made[key] for key in WRITTEN if key != "metadata"} == {
        key: value for key, value in WRITTEN.items() if key != "metadata"
    }
    core = await ask(hub, "GET", f"{CORE}/one")
    assert (core["apiVersion"], core["metadata"]["uid"]) == ("v1", made["metadata"]["uid"])
    assert {name: core[stored] for name, stored in NAMES.items()} == {name: WRITTEN[name] for name in NAMES}
    assert not NAMES.keys() & core.keys()
    listed = await ask(hub, "GET", "/apis/events.k8s.io/v1/events")
    assert [(item["metadata"]["name"], item["note"]) for item in listed["items"]] == [("one", "it changed")]
    assert (listed["kind"], listed["apiVersion"]) == ("EventList", "events.k8s.io/v1")


async def test_fields_are_selected_by_the_names_of_the_group(hub: Hub) -> None:
    await ask(hub, "POST", NEW, WRITTEN)
    for path, selector in (
        (NEW, "regarding.name=settings,reportingController=tests"),
        (CORE, "involvedObject.name=settings,source=tests"),
    ):
        found = await ask(hub, "GET", f"{path}?fieldSelector={selector}")
        assert len(found["items"]) == 1, selector
        none = await ask(hub, "GET", f"{path}?fieldSelector={selector.replace('settings', 'other')}")
        assert none["items"] == [], selector


async def test_patches_use_the_names_of_the_group(hub: Hub) -> None:
    await ask(hub, "POST", NEW, WRITTEN)
    merged = await ask(hub, "PATCH", f"{NEW}/one", {"note": "merged"}, "application/merge-patch+json")
    assert merged["note"] == "merged"
    operations = [
        {"op": "test", "path": "/note", "value": "merged"},
        {"op": "copy", "from": "/reason", "path": "/note"},
    ]
    assert (await ask(hub, "PATCH", f"{NEW}/one", operations, "application/json-patch+json"))["note"] == "Changed"
    strategic = "application/strategic-merge-patch+json"
    assert (await ask(hub, "PATCH", f"{CORE}/one", {"message": "again"}, strategic))["message"] == "again"
    assert (await ask(hub, "GET", f"{NEW}/one"))["note"] == "again"


async def test_both_groups_watch_the_same(hub: Hub) -> None:
    begun = (await ask(hub, "GET", CORE))["metadata"]["resourceVersion"]
    await ask(hub, "POST", NEW, WRITTEN)
    async with hub.client() as client:
        for path, field in ((NEW, "note"), (CORE, "message")):
            answer = await client.get(f"{path}?watch=true&resourceVersion={begun}&timeoutSeconds=1")
            events = [json.loads(line) for line in answer.text.splitlines()]
            assert [(event["type"], event["object"][field]) for event in events] == [("ADDED", "it changed")], path
    await ask(hub, "DELETE", f"{CORE}/one")
    assert (await ask(hub, "GET", NEW))["items"] == []
