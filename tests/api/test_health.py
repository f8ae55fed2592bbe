"""/readyz, /livez and /healthz, as a kube-apiserver answers them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import httpx
import pytest

from api.access.auth import StaticTokens
from api.access.rbac import AllowAll
from api.engine.registry import Registry
from api.objects.objects import Objects
from api.store.memory import MemoryStore
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.hub.face import hub_app
from fleet.simulate.wall import RandomIds, WallClock
from fleet.values.ports import StoreUnavailable
from tests.api.conftest import Hub

SILENT = "nobody decides since 12:00 (2 min): no controllers process leads"


async def ask(
    path: str, check: Callable[[], str] = lambda: SILENT, store: MemoryStore | None = None
) -> tuple[int, str]:
    clock = WallClock()
    store, registry = store or MemoryStore(clock), Registry(load_kinds())
    app = hub_app(
        Objects(store, registry, clock, RandomIds(), fill=filled),
        store,
        registry,
        clock=clock,
        authorizer=AllowAll(),
        authenticator=StaticTokens({}),
        checks={"controllers": check},
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://hub") as client:
        answer = await client.get(path)
    return answer.status_code, answer.text


@pytest.mark.parametrize("path", ["/readyz", "/livez", "/healthz", "/readyz/", "/readyz/controllers", "/readyz/store"])
async def test_when_all_is_well_it_is_ok(path: str) -> None:
    assert await ask(path, lambda: "") == (200, "ok")


async def test_nobody_decides_and_readyz_says_since_when() -> None:
    status, text = await ask("/readyz")
    assert (status, text) == (
        503,
        f"[+]ping ok\n[+]store ok\n[-]controllers failed: {SILENT}\n[+]shutdown ok\nreadyz check failed\n",
    )
    assert await ask("/readyz/controllers") == (503, SILENT)


async def test_the_process_lives_all_the_same() -> None:
    assert await ask("/livez") == (200, "ok")
    assert await ask("/livez?verbose") == (200, "[+]ping ok\nlivez check passed\n")


async def test_a_check_can_be_left_out() -> None:
    assert await ask("/readyz?exclude=controllers") == (200, "ok")
    status, text = await ask("/readyz?verbose&exclude=controllers&exclude=nothing")
    assert status == 200 and text == (
        "[+]ping ok\n[+]store ok\n[+]controllers excluded: ok\n[+]shutdown ok\n"
        'warn: some health checks cannot be excluded: no matches for "nothing"\nreadyz check passed\n'
    )


async def test_whether_the_process_serves_does_not_depend_on_the_database() -> None:
    """The check of load balancers: where the database is away, each API process answers why, and stays in reach."""

    class Away(MemoryStore):
        async def revision(self, *, alone: bool = False) -> int:
            raise StoreUnavailable("away")

    def asked(path: str) -> Awaitable[tuple[int, str]]:
        return ask(path, lambda: "", Away(WallClock()))

    assert await asked("/readyz/shutdown") == (200, "ok")
    assert await asked("/readyz?exclude=store") == (200, "ok")
    assert await asked("/readyz/store") == (503, "store unavailable")
    assert (await asked("/readyz"))[0] == 503


async def test_a_check_that_there_is_none_is_not_found() -> None:
    assert (await ask("/readyz/etcd"))[0] == 404


async def test_the_checks_are_indicators_too(hub: Hub) -> None:
    async with hub.client() as client:
        answer = await client.get("/metrics/slis")
    assert answer.status_code == 200
    assert 'kubernetes_healthcheck{name="store",type="readyz"} 1.0' in answer.text.splitlines()
