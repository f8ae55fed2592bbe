"""An open stream ends when the right to it does, cleanly: the next request gets the 401 or 403."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from api.access.recheck import EVERY_S, SLICE, Rechecks
from api.engine.status import unauthorized
from api.store.memory import MemoryStore
from fleet.simulate.wall import WallClock
from fleet.values.ports import StoreUnavailable
from tests.api.conftest import Hub, open_hub
from tests.api.rbac import MAPS, RBAC, binding, grant, post
from tests.api.wait import eventually

EVERY_TEST_S = 0.1
ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_hub(tmp_path, MemoryStore(WallClock())) as opened:
        opened.app._rechecks = Rechecks(EVERY_TEST_S)
        yield opened


@asynccontextmanager
async def watching(
    hub: Hub, token: str, path: str = MAPS, headers: dict[str, str] | None = None
) -> AsyncIterator[asyncio.Task[str]]:
    """A task that is done, with what came, when the watch ends as a whole answer does."""
    async with hub.client(token) as client:

        async def watch() -> str:
            async with client.stream("GET", f"{path}?watch=true", headers=headers) as answer:
                assert answer.status_code == 200, await answer.aread()
                begun.set()
                return "".join([text async for text in answer.aiter_text()])

        begun = asyncio.Event()
        task = asyncio.create_task(watch())
        waiting = asyncio.create_task(begun.wait())
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED, timeout=10)
        assert begun.is_set(), task
        try:
            yield task
        finally:
            task.cancel()
            waiting.cancel()
            await asyncio.gather(task, waiting, return_exceptions=True)


async def unbound(hub: Hub) -> None:
    async with hub.client() as client:
        path = f"{RBAC}/namespaces/default/rolebindings/alice-configmaps-watch"
        assert (await client.delete(path)).status_code == 200


async def weakened(hub: Hub) -> None:
    async with hub.client() as client:
        change = [{"op": "replace", "path": "/rules/0/verbs", "value": ["list"]}]
        answer = await client.patch(
            f"{RBAC}/namespaces/default/roles/alice-configmaps-watch",
            json=change,
            headers={"content-type": "application/json-patch+json"},
        )
        assert answer.status_code == 200


async def revoked(hub: Hub) -> None:
    path = hub.folder / "tokens.csv"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if "alice" not in line))


@pytest.mark.parametrize(("taken", "code"), [(unbound, 403), (weakened, 403), (revoked, 401)])
async def test_a_watch_ends_with_its_right(served: Hub, taken: Callable[[Hub], Awaitable[None]], code: int) -> None:
    await grant(served, "alice", ["watch"], ["configmaps"])
    async with watching(served, "alice-token") as alice, watching(served, "admin-token") as admin:
        await asyncio.sleep(3 * EVERY_TEST_S)
        assert not alice.done()
        await taken(served)
        await asyncio.wait_for(alice, 10)  # the end of the stream, no broken connection
        assert not admin.done()
    async with served.client("alice-token") as client:
        assert (await client.get(f"{MAPS}?watch=true")).status_code == code
    await eventually(lambda: not served.app._rechecks._open, "no stream is followed any more")


async def test_a_watch_ends_with_its_service_account_and_with_its_token(served: Hub) -> None:
    for name in ("gone", "kept"):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        assert (await post(served, ACCOUNTS, account)).status_code == 201
    user = "system:serviceaccount:default:"
    await grant(served, f"{user}gone", ["watch"], ["configmaps"])
    await grant(served, f"{user}kept", ["watch"], ["configmaps"])
    tokens = {}
    for name in ("gone", "kept"):
        answer = await post(served, f"{ACCOUNTS}/{name}/token", {"kind": "TokenRequest", "spec": {}})
        tokens[name] = answer.json()["status"]["token"]
    async with watching(served, tokens["gone"]) as gone, watching(served, tokens["kept"]) as kept:
        async with served.client() as client:
            assert (await client.delete(f"{ACCOUNTS}/gone")).status_code == 200
        await asyncio.wait_for(gone, 10)
        assert not kept.done()
        accounts = served.app._authenticator._authenticators[1]  # type: ignore[attr-defined]
        accounts._clock = Later(7200.0)
        await asyncio.wait_for(kept, 10)


class Later(WallClock):
    """A clock that is ahead."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def now(self) -> float:
        return super().now() + self._seconds


async def test_a_watch_as_somebody_else_ends_with_the_right_to_act(served: Hub) -> None:
    await grant(served, "bob", ["watch"], ["configmaps"])
    rules = [{"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}]
    body: dict[str, Any] = {"kind": "ClusterRole", "metadata": {"name": "act"}, "rules": rules}
    assert (await post(served, f"{RBAC}/clusterroles", body)).status_code == 201
    act = binding("act", "ClusterRoleBinding", "alice", "ClusterRole", "act")
    assert (await post(served, f"{RBAC}/clusterrolebindings", act)).status_code == 201
    async with watching(served, "alice-token", headers={"impersonate-user": "bob"}) as watch:
        async with served.client() as client:
            await client.delete(f"{RBAC}/clusterrolebindings/act")
        await asyncio.wait_for(watch, 10)


async def test_a_hub_looks_again_well_within_half_a_minute() -> None:
    assert EVERY_S <= 15.0


async def test_a_stream_that_cannot_be_checked_ends_but_for_a_database_that_is_away() -> None:
    rechecks = Rechecks(0.01)

    async def unknown() -> None:
        raise StoreUnavailable("the database is away")

    async def broken() -> None:
        raise KeyError("a bug")

    with rechecks.watched(unknown) as kept, rechecks.watched(broken) as ended:
        await asyncio.wait_for(ended.wait(), 10)
        assert not kept.is_set()
    await rechecks.stop()


async def test_thousands_of_streams_are_looked_at_in_slices() -> None:
    rechecks, asked = Rechecks(0.05), 0

    async def check() -> None:
        nonlocal asked
        asked += 1

    async def refused() -> None:
        raise unauthorized()

    with contextlib.ExitStack() as stack:
        events = [stack.enter_context(rechecks.watched(check)) for _ in range(5000)]
        over = stack.enter_context(rechecks.watched(refused))
        most, longest = 0, 0.0
        while asked < 10_000:
            before, began = asked, time.perf_counter()
            await asyncio.sleep(0)
            most, longest = max(most, asked - before), max(longest, time.perf_counter() - began)
        print(f"the longest turn with 5,000 streams: {longest * 1000:.1f} ms")
        assert most <= SLICE
        assert over.is_set() and not any(event.is_set() for event in events)
    assert not rechecks._open
    await rechecks.stop()
