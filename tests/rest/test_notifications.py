"""The notifications under /fleet/v1: who sees and retries which, their pages and their states."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from fleet.accounts.schema import engine_of, prepare
from fleet.core.model.notificationevent import NotificationEvent
from fleet.notify import outbox
from fleet.notify.happening import Happening
from fleet.rest.historydb import HistoryDatabase
from fleet.rest.historymodels import NotificationList, Retried
from tests.rest.rest import Rest, causes, rest

LOOK = {"apiGroups": ["config.fleet.io"], "resources": ["notificationreceivers"], "verbs": ["list"]}
WRITE = {**LOOK, "verbs": ["update"]}
FAILED = Happening(
    NotificationEvent.FAILED, 1000.0, "5e1", "team", "train", "PyTorchJob", number=2, user="ada", submitted=100.0
)
REFUSED = "it answers HTTP 503"


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    """Of `team`: one that is delivered, one that fails and one given up; of `theirs`: one that nobody has tried."""
    await prepare(database_url)
    made = engine_of(database_url)
    async with made.begin() as connection:
        for number, name in enumerate(("fine", "slow", "over")):
            await outbox.enter(connection, [("team", "chat", replace(FAILED, name=name, uid=name))], 2000.0 + number)
        fine, slow, over = await outbox.due(connection, 3000.0, 10)
        await outbox.close(connection, fine.id, outbox.DELIVERED, 2001.0)
        await outbox.failed(connection, slow, REFUSED, 2001.0)
        await outbox.failed(connection, replace(over, tries=outbox.TRIES_MAX - 1), REFUSED, 2002.0)
        await outbox.enter(connection, [("theirs", "mail", replace(FAILED, namespace="theirs", uid="t"))], 2010.0)
    yield made
    await made.dispose()


@pytest.fixture
async def hub(database_url: str, engine: AsyncEngine) -> AsyncIterator[Rest]:
    history = HistoryDatabase(database_url)
    spaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("team", "theirs")]
    async with rest(start=False, objects=spaces, history=history) as face:
        yield face
    await history.aclose()


def states(found: Any) -> list[tuple[str, str]]:
    return [(item["job"]["name"], item["state"]) for item in found["items"]]


async def test_all_are_listed_with_their_states_the_newest_first(hub: Rest) -> None:
    found = await hub.get("/notifications")
    NotificationList.model_validate(found)
    assert (found["partial"], found["continue"]) == (False, None)
    assert states(found) == [("train", "Pending"), ("over", "GaveUp"), ("slow", "Retrying"), ("fine", "Delivered")]
    slow = found["items"][2]
    assert (slow["tries"], slow["error"], slow["event"], slow["over"]) == (1, REFUSED, "Failed", None)
    assert (slow["at"], slow["nextTry"]) == ("1970-01-01T00:16:40Z", "1970-01-01T00:33:26Z")
    assert states(await hub.get("/notifications", state=["GaveUp", "Retrying"], namespace="team")) == [
        ("over", "GaveUp"),
        ("slow", "Retrying"),
    ]
    assert states(await hub.get("/notifications", receiver="mail")) == [("train", "Pending")]


async def test_pages_of_notifications_follow_each_other(hub: Rest) -> None:
    first = await hub.get("/notifications", limit=3)
    second = await hub.get("/notifications", **{"limit": 3, "continue": first["continue"]})
    assert (len(first["items"]), states(second), second["continue"]) == (3, [("fine", "Delivered")], None)


async def test_a_namespace_admin_sees_and_retries_her_own_alone(hub: Rest, engine: AsyncEngine) -> None:
    assert (await hub.refused("GET", "/notifications", "alice-token"))["code"] == 403
    await hub.grant("alice", LOOK, "team")
    found = await hub.get("/notifications", "alice-token")
    assert (len(found["items"]), found["partial"]) == (3, True)
    assert (await hub.get("/notifications", "alice-token", namespace="team"))["partial"] is False
    refused = await hub.refused("GET", "/notifications", "alice-token", params={"namespace": "theirs"})
    assert refused["code"] == 403 and 'cannot list resource "notificationreceivers"' in refused["message"]
    assert (await hub.refused("POST", "/notifications/retry", "alice-token"))["code"] == 403
    await hub.grant("alice", WRITE, "team")
    answer = await hub.client("alice-token").post("/fleet/v1/notifications/retry")
    Retried.model_validate(answer.json())
    assert answer.json() == {"notifications": 2}
    async with engine.connect() as connection:
        due = await outbox.due(connection, hub.world.clock.now() + 1, 10)
    assert sorted((one.happening.name, one.tries) for one in due) == [("over", 0), ("slow", 1), ("train", 0)]


async def test_a_retry_may_name_some(hub: Rest) -> None:
    [over] = (await hub.get("/notifications", state="GaveUp"))["items"]
    [fine] = (await hub.get("/notifications", state="Delivered"))["items"]
    ids = {"id": [over["id"], fine["id"]]}
    answer = await hub.client().post("/fleet/v1/notifications/retry", params=ids)
    assert answer.json() == {"notifications": 1}, "what was delivered is not sent again"
    assert states(await hub.get("/notifications", state="Pending")) == [("train", "Pending"), ("over", "Pending")]


async def test_what_makes_no_sense_is_refused_by_its_name(hub: Rest) -> None:
    for params, field in (({"state": "Lost"}, "state.0"), ({"continue": "x"}, "continue"), ({"job": "x"}, "job")):
        refused = await hub.refused("GET", "/notifications", params=params)
        assert refused["code"] == 422 and field in causes(refused)
    refused = await hub.refused("POST", "/notifications/retry", params={"id": "x"})
    assert refused["code"] == 422 and "id.0" in causes(refused)
