"""The stream of changes: what it says, to whom, how often, and what ends it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from api.wire.places import Places
from fleet.rest.changes import KINDS, PATH, TOGETHER_S, ChangeStreams
from fleet.values.ports import Key, Put
from fleet.wellknown import CLUSTER, CONFIG, KUBEFLOW, POLICY, QUEUE
from tests.console.hub import World

LIMIT_S = 30.0
JOB = Key(KUBEFLOW, "pytorchjobs", "team-a", "a")


async def write(world: World, *keys: Key) -> None:
    await world.store.commit(
        [Put(key, {"metadata": {"name": key.name, "namespace": key.namespace, "uid": str(key)}}) for key in keys]
    )


@asynccontextmanager
async def stream(url: str, token: str = "admin-token", **headers: str) -> AsyncIterator[AsyncIterator[dict[str, str]]]:
    """The blocks of an open stream, the first one taken."""
    asked = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx.AsyncClient(timeout=LIMIT_S) as client,
        client.stream("GET", f"{url}{PATH}", headers={**asked, **headers}) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/event-stream"
        found = blocks(answer)
        first = await anext(found)
        assert first["retry"] == "1000" and first["id"].isdigit()
        yield found


async def blocks(answer: httpx.Response) -> AsyncIterator[dict[str, str]]:
    fields: dict[str, str] = {}
    async for line in answer.aiter_lines():
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield fields
            fields = {}


async def kinds(found: AsyncIterator[dict[str, str]]) -> list[str]:
    async with asyncio.timeout(LIMIT_S):
        block = await anext(found)
    assert block["event"] == "changed"
    body: dict[str, list[str]] = json.loads(block["data"])
    return body["kinds"]


async def test_each_kind_of_change_is_named(world: World) -> None:
    async with world.served() as url, stream(url) as found:
        await write(world, JOB)
        assert await kinds(found) == ["jobs"]
        await write(world, Key(CLUSTER, "clusters", "", "m"), Key("", "configmaps", "team-a", "c"))
        assert await kinds(found) == ["members"]
        await write(world, Key(POLICY, "propagationpolicies", "team-a", "p"), Key(QUEUE, "queues", "kube-queue", "q"))
        named: set[str] = set()
        while not named >= {"queues", "policies", "decisions"}:  # together or one by one, as the machine has time
            named |= set(await kinds(found))
        assert named == {"queues", "policies", "decisions"}
        await write(world, Key(CONFIG, "notificationreceivers", "team-a", "r"))
        assert await kinds(found) == ["receivers"]


async def test_many_changes_are_one_message(world: World) -> None:
    async with world.served() as url, stream(url) as found:
        began, messages, written = time.monotonic(), 0, 0
        while time.monotonic() - began < 1.2:
            await write(world, JOB._replace(name=f"j{written}"))
            written += 1
            await asyncio.sleep(0.01)

        async def count() -> None:
            nonlocal messages
            while True:
                assert await kinds(found) == ["jobs"]
                messages += 1

        try:
            async with asyncio.timeout(1.0):
                await count()
        except TimeoutError:
            pass
        assert 1 <= messages <= (time.monotonic() - began) / TOGETHER_S + 2


async def test_streams_that_open_together_share_one_look_at_the_log(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def later() -> int:  # as a database answers
        await asyncio.sleep(0.05)
        return 1

    monkeypatch.setattr(world.store, "revision", later)
    async with world.served() as url, contextlib.AsyncExitStack() as stack:
        await asyncio.gather(*(stack.enter_async_context(stream(url)) for _ in range(5)))
        assert [task.get_name() for task in asyncio.all_tasks()].count("changes") == 1


async def test_a_user_hears_of_what_she_may_list_alone(world: World) -> None:
    await grant(world, "alice", "team-a")
    async with world.served() as url, stream(url, "alice-token") as found:
        await write(world, JOB._replace(namespace="team-b"), Key(CLUSTER, "clusters", "", "m"))
        await write(world, Key(POLICY, "clusterpropagationpolicies", "", "p"))
        await asyncio.sleep(1.0)
        await write(world, JOB)
        assert await kinds(found) == ["jobs"]


async def test_a_browser_that_comes_back_hears_of_everything_once(world: World) -> None:
    async with world.served() as url:
        async with stream(url) as found:
            await write(world, JOB)
            assert await kinds(found) == ["jobs"]
        async with stream(url, **{"last-event-id": "1"}) as found:
            assert await kinds(found) == list(KINDS)
        async with stream(url, **{"last-event-id": "rubbish"}) as found:
            assert await kinds(found) == list(KINDS)


async def test_one_user_leaves_streams_for_the_others(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    face = next(mounted for prefix, mounted in world.app._mounts if prefix == PATH)
    assert isinstance(face, ChangeStreams)
    monkeypatch.setattr(face, "_places", Places(2, 1, "streams of changes"))
    async with world.served() as url, httpx.AsyncClient(base_url=url) as client:
        for _ in range(2):  # a stream that has ended gives its place back
            async with stream(url, "alice-token"):
                headers = {"authorization": "Bearer alice-token"}
                assert (await client.get(PATH, headers=headers)).status_code == 429
                async with stream(url, "admin-token"):
                    pass
            async with asyncio.timeout(LIMIT_S):
                while len(face._places):  # noqa: ASYNC110  # the server sees the end of a stream a moment later
                    await asyncio.sleep(0.01)


async def test_a_stream_needs_a_user_and_get(world: World) -> None:
    browser = world.browser()
    assert (await browser.get(PATH)).status_code == 401
    answer = await browser.post(PATH, headers={"authorization": "Bearer admin-token"})
    assert answer.status_code == 405


async def test_a_stream_ends_with_its_session_and_with_the_server(world: World) -> None:
    opened = await world.sessions.open("admin-token")
    assert opened is not None
    cookie = f"__Host-fleet={opened[0]}"
    async with world.served() as url:
        async with stream(url, "", cookie=cookie) as found:
            await world.sessions.end(opened[0])
            async with asyncio.timeout(LIMIT_S):
                assert [block async for block in found] == []
        async with stream(url) as found:
            world.app.close_streams()
            async with asyncio.timeout(LIMIT_S):
                assert [block async for block in found] == []


async def grant(world: World, user: str, namespace: str) -> None:
    """`user` may list jobs of the namespace."""
    group = "rbac.authorization.k8s.io"
    meta: dict[str, Any] = {"name": "jobs", "namespace": namespace, "uid": "1"}
    rules = [{"verbs": ["list"], "apiGroups": [KUBEFLOW], "resources": ["*"]}]
    subject = {"kind": "User", "name": user, "apiGroup": group}
    role = {"kind": "Role", "name": "jobs", "apiGroup": group}
    await world.store.commit(
        [
            Put(Key(group, "roles", namespace, "jobs"), {"metadata": meta, "rules": rules}),
            Put(
                Key(group, "rolebindings", namespace, "jobs"),
                {"metadata": meta, "subjects": [subject], "roleRef": role},
            ),
        ]
    )
    world.app.authorizer.invalidate()
