"""`watch_objects`: resumed where it was, listed anew where the log does not reach back, and through a restart."""

from __future__ import annotations

import asyncio
import json
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from fleet.client import AsyncFleet, Fleet, Forbidden
from fleet.client.watching import RENEW_S
from tests.cli.hub import Up, until
from tests.client.conftest import BOTH, Face, faces, is_ready
from tests.client.faulty import Asked, Said, faulty, refusal
from tests.client.scripts import KINDS, LOST


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.client.steps.FIRST_WAIT_S", 0.01)
    monkeypatch.setattr("fleet.client.watching.AGAIN_S", 0.05)


def config(name: str, revision: int, uid: str = "") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": uid or name, "resourceVersion": str(revision)}}


def listed(revision: int, *items: dict[str, Any]) -> Said:
    return Said(200, {"metadata": {"resourceVersion": str(revision)}, "items": list(items)})


def events(*told: tuple[str, dict[str, Any]], cut: int | None = None) -> Said:
    lines = [json.dumps({"type": type_, "object": body}) for type_, body in told]
    return Said(200, "".join(line + "\n" for line in lines).encode(), cut=cut)


async def first(face: Face, count: int, kind: str = "ConfigMap") -> list[tuple[str, str, str]]:
    """The first changes of a watch, which is left then."""
    found: list[Any] = []
    if isinstance(face.client, Fleet):
        changes = face.client.watch_objects("v1", kind)
        found = await asyncio.to_thread(lambda: list(islice(changes, count)))
    else:
        async for change in face.client.watch_objects("v1", kind):
            found.append(change)
            if len(found) == count:
                break
    return [(one.type, one.object["metadata"]["name"], one.object["metadata"]["uid"]) for one in found]


def watched_from(asked: list[Asked]) -> list[str]:
    queries = [parse_qs(urlparse(one.path).query) for one in asked]
    assert all(query["timeoutSeconds"] == [str(RENEW_S)] for query in queries if "watch" in query)
    return [query["resourceVersion"][0] for query in queries if "watch" in query]


@BOTH
async def test_a_watch_goes_on_where_it_was_and_lists_again_where_the_log_ends(which: str, tmp_path: Path) -> None:
    answers = (
        *KINDS,
        listed(10, config("a", 5), config("m", 6)),
        events(("ADDED", config("b", 11)), ("BOOKMARK", {"metadata": {"resourceVersion": "12"}})),
        Said(cut=0),  # the connection is lost
        Said(503, refusal(503, "ServiceUnavailable", "later")),
        events(("MODIFIED", config("b", 13)), cut=0),
        Said(410, LOST),
        listed(30, config("b", 20), config("m", 21, "another")),
        events(("ERROR", LOST)),
        listed(31, config("b", 20), config("m", 21, "another")),
        events(("DELETED", config("b", 32)), ("ADDED", config("c", 33))),
    )
    with faulty(tmp_path, *answers) as server:
        async for face in faces(which, server=server.url, token="t", ca=server.ca, tries=1):
            found = await asyncio.wait_for(first(face, 9), 60)
        assert found == [
            ("ADDED", "a", "a"),
            ("ADDED", "m", "m"),
            ("ADDED", "b", "b"),
            ("DELETED", "a", "a"),
            ("DELETED", "m", "m"),
            ("MODIFIED", "b", "b"),
            ("ADDED", "m", "another"),
            ("DELETED", "b", "b"),
            ("ADDED", "c", "c"),
        ]
        assert watched_from(server.asked) == ["10", "12", "12", "12", "12", "30", "31"]


@BOTH
async def test_a_refusal_ends_the_watch_and_so_does_a_hub_that_was_never_there(which: str, tmp_path: Path) -> None:
    with faulty(tmp_path, *KINDS, listed(1), Said(403, refusal(403, "Forbidden", "cannot watch"))) as server:
        async for face in faces(which, server=server.url, token="t", ca=server.ca):
            with pytest.raises(Forbidden, match="cannot watch"):
                await asyncio.wait_for(first(face, 1), 60)


async def test_a_hub_that_restarts_loses_no_change(up: Up) -> None:
    maps = "/api/v1/namespaces/default/configmaps"
    seen: list[tuple[str, str]] = []

    def restart() -> None:
        killed = up.child("api")
        killed.kill()
        killed.wait(30)
        until("another API process answers", lambda: is_ready(up))
        up.hub.put_object(maps, {"metadata": {"name": "after", "labels": {"watched": "map"}}})
        up.hub.request("DELETE", f"{maps}/before")

    await asyncio.to_thread(up.hub.put_object, maps, {"metadata": {"name": "before", "labels": {"watched": "map"}}})
    async with AsyncFleet(data_dir=up.folder) as fleet, asyncio.timeout(180):
        restarting: asyncio.Task[None] | None = None
        async for change in fleet.watch_objects("v1", "ConfigMap", labels="watched=map"):
            assert change.object["kind"] == "ConfigMap"
            seen.append((change.type, change.object["metadata"]["name"]))
            if restarting is None:
                restarting = asyncio.create_task(asyncio.to_thread(restart))
            if len(seen) == 3:
                break
        assert restarting is not None
        await restarting
    assert seen == [("ADDED", "before"), ("ADDED", "after"), ("DELETED", "before")]
