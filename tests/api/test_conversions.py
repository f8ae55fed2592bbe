"""Conversion webhooks on a hub: how often they are asked, and what a bad one costs the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.admission.dynamic import DynamicAdmission
from api.objects import converting
from api.objects.converting import Conversions
from api.objects.crds import follow_crds
from api.outgoing import AllowList, OutgoingClient
from api.store.memory import MemoryStore
from fleet.simulate.wall import RandomIds, WallClock
from tests.api.conftest import Hub, open_hub
from tests.api.converters import GROUP, Converters, converter_server, hooked_crd
from tests.api.hooks import Hooks, configuration, hook_server
from tests.api.streams import watching
from tests.api.version_cases import CRDS
from tests.api.wait import eventually
from tests.testbed.pki import make_pki

WITHIN_S = 20.0
TRIES = 1000


@dataclass(frozen=True)
class World:
    hub: Hub
    client: httpx.AsyncClient
    converters: Converters
    hooks: Hooks

    async def bring(self, path: str) -> None:
        """The CRD whose objects are converted at the path; returns when the hub serves it."""
        (await self.client.post(CRDS, json=hooked_crd(self.converters, path))).raise_for_status()
        for _ in range(TRIES):
            if (await self.client.get(at(path, "v2"))).status_code == 200:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{path} is not served")

    async def create(self, path: str, name: str, **metadata: Any) -> None:
        body = {"metadata": {"name": name, **metadata}, "spec": {"host": name}}
        (await self.client.post(at(path, "v1"), json=body)).raise_for_status()

    def calls(self, path: str) -> list[int]:
        """The number of objects of each question at the path."""
        return [count for asked, count in self.converters.asked if asked == path]


def at(path: str, version: str, name: str = "") -> str:
    return f"/apis/{GROUP}/{version}/{path.replace('-', '')}s" + (f"/{name}" if name else "")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    pki = make_pki(tmp_path / "pki")
    async with (
        converter_server(pki) as converters,
        hook_server(pki) as hooks,
        open_hub(tmp_path, MemoryStore(WallClock())) as hub,
        OutgoingClient(AllowList.parse([f"127.0.0.1:{server.port}" for server in (converters, hooks)])) as outgoing,
        hub.client() as client,
    ):
        hub.objects.versions.converter = Conversions(outgoing, hub.store, RandomIds())
        hub.objects.hooks = DynamicAdmission(hub.store, hub.registry, RandomIds(), outgoing)
        following = asyncio.create_task(follow_crds(hub.store, hub.registry))
        yield World(hub, client, converters, hooks)
        following.cancel()


async def test_a_list_asks_once_for_many_objects_and_never_twice_about_one_state(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converting, "OBJECTS_MAX", 10)
    await world.bring("good")
    for number in range(25):
        await world.create("good", f"n{number:02}")
    assert world.calls("good") == []
    first, second = [(await world.client.get(at("good", "v2"))).json()["items"] for _ in range(2)]
    assert [item["spec"]["address"] for item in first] == [f"n{number:02}:80" for number in range(25)]
    assert second == first
    assert world.calls("good") == [10, 10, 5]


async def test_a_selector_and_a_limit_hold_for_converted_objects(world: World) -> None:
    await world.bring("good")
    for number in range(4):
        await world.create("good", f"n{number}", labels={"even": str(number % 2 == 0)})
    page = (await world.client.get(at("good", "v2"), params={"labelSelector": "even=True", "limit": "3"})).json()
    assert [item["metadata"]["name"] for item in page["items"]] == ["n0", "n2"]
    rest = {"labelSelector": "even=True", "limit": "3", "continue": page["metadata"]["continue"]}
    assert (await world.client.get(at("good", "v2"), params=rest)).json()["items"] == []


async def test_a_watch_shows_each_change_in_its_version(world: World) -> None:
    await world.bring("good")
    await world.create("good", "a")
    async with watching(world.hub, at("good", "v2")) as events:
        first = await events.next(WITHIN_S)
        await world.create("good", "b")
        second = await events.next(WITHIN_S)
        await world.client.delete(at("good", "v1", "b"))
        third = await events.next(WITHIN_S)
    seen = [(event["type"], event["object"]) for event in (first, second, third) if event is not None]
    assert [(kind, body["apiVersion"], body["spec"]) for kind, body in seen] == [
        ("ADDED", f"{GROUP}/v2", {"address": "a:80"}),
        ("ADDED", f"{GROUP}/v2", {"address": "b:80"}),
        ("DELETED", f"{GROUP}/v2", {"address": "b:80"}),
    ]


async def test_watchers_of_one_version_ask_about_an_event_together(world: World) -> None:
    await world.bring("good")
    async with AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(watching(world.hub, at("good", "v2"))) for _ in range(8)]
        await world.create("good", "a")
        events = [await events.next(WITHIN_S) for events in opened]
    assert [event["object"]["spec"]["address"] for event in events if event is not None] == ["a:80"] * 8
    assert world.calls("good") == [1]


async def test_a_watch_ends_with_the_refusal_of_a_webhook_that_fails(world: World) -> None:
    await world.bring("failed")
    async with watching(world.hub, at("failed", "v2")) as events:
        await world.create("failed", "a")
        event = await events.next(WITHIN_S)
    assert event is not None and event["type"] == "ERROR"
    message = f"conversion webhook for {GROUP}/v1, Kind=Failed failed: no way"
    assert event["object"]["message"] == message and event["object"]["code"] == 500
    listed = await world.client.get(at("failed", "v2"))
    assert listed.status_code == 500 and listed.json()["message"] == message


async def test_a_webhook_that_does_not_answer_keeps_nobody_else(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.bring("slow")
    for name in ("a", "b", "c"):
        await world.create("slow", name)
    reading = asyncio.create_task(world.client.get(at("slow", "v2", "a"), timeout=60))
    writing = asyncio.create_task(
        world.client.patch(
            at("slow", "v2", "b"),
            json={"spec": {}},
            timeout=60,
            headers={"content-type": "application/merge-patch+json"},
        )
    )
    await eventually(lambda: len(world.calls("slow")) == 2, "both are asked", WITHIN_S)
    await world.create("slow", "d")
    assert (await world.client.get(at("slow", "v1", "b"))).status_code == 200
    assert not reading.done() and not writing.done()
    reading.cancel()
    writing.cancel()
    monkeypatch.setattr(converting, "TIMEOUT_S", 0.2)
    answer = await world.client.get(at("slow", "v2", "c"), timeout=60)
    assert answer.status_code == 500 and answer.json()["message"].endswith(": context deadline exceeded")


async def test_an_answer_that_is_too_large_is_not_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    await world.bring("good")
    await world.create("good", "a")
    monkeypatch.setattr(converting, "ANSWER_BYTES_MAX", 100)
    answer = await world.client.get(at("good", "v2", "a"))
    assert answer.status_code == 500 and answer.json()["message"].endswith("is larger than 100 bytes")


async def test_an_address_that_is_not_allowed_is_not_asked(world: World) -> None:
    await world.bring("good")
    await world.create("good", "a")
    async with OutgoingClient(AllowList.parse([])) as outgoing:
        world.hub.objects.versions.converter = Conversions(outgoing, world.hub.store, RandomIds())
        answer = await world.client.get(at("good", "v2", "a"))
    assert answer.status_code == 500 and world.calls("good") == []


async def test_an_admission_webhook_sees_and_changes_the_version_that_its_rule_names(world: World) -> None:
    await world.bring("good")
    rules = [{"operations": ["CREATE"], "apiGroups": [GROUP], "apiVersions": ["v1"], "resources": ["goods"]}]
    hook = world.hooks.hook("label-one", rules=rules)
    configured = await world.client.post(
        "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", json=configuration("Mutating", "m", hook)
    )
    configured.raise_for_status()
    body = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"address": "h:1"}}
    made = await world.client.post(at("good", "v2"), json=body)
    assert made.status_code == 201, made.text
    [seen] = world.hooks.calls("label-one")
    assert (seen["kind"]["version"], seen["requestKind"]["version"]) == ("v1", "v2")
    assert seen["object"]["apiVersion"] == f"{GROUP}/v1"
    assert (seen["object"]["spec"]["host"], seen["object"]["spec"]["port"]) == ("h", "1")
    assert made.json()["spec"]["address"] == "h:1" and made.json()["metadata"]["labels"] == {"x": "y", "one": "set"}
