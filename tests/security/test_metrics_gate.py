"""Access to the controllers' metrics: over TLS, with a token whose user may, also while the event loop is stuck."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from math import inf
from pathlib import Path

import pytest

from api.access.auth import TokenFile
from api.access.rbac import Rbac
from api.access.storedtokens import StoredTokens
from api.engine.registry import Registry
from api.objects.objects import Objects
from api.objects.writing import Options, User
from api.store.memory import MemoryStore
from api.transport.tls import Certificates, Pair
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.controllers.runtime.metrics import Metrics
from fleet.hub import exposition, pki
from fleet.hub.exposition import CONNECTIONS_MAX, Exposition, Gate
from fleet.simulate.wall import RandomIds, WallClock
from fleet.values.ports import Body

ROLES = "rbac.authorization.k8s.io"
ADMIN = Options(User("admin", ("system:masters",)), "test")
ROLE = {"metadata": {"name": "reader"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]}
BINDING = {
    "metadata": {"name": "reader"},
    "roleRef": {"apiGroup": ROLES, "kind": "ClusterRole", "name": "reader"},
    "subjects": [{"apiGroup": ROLES, "kind": "User", "name": "prometheus"}],
}


class Served:
    """Metrics of a process, with the roles of a store in memory."""

    def __init__(self, folder: Path) -> None:
        self.ca, key = folder / "ca.crt", folder / "ca.key"
        pki.make_ca(self.ca, key, now=pki.utcnow())
        server = folder / "server.crt", folder / "server.key"
        pki.make_server_certificate(self.ca, key, *server, ["127.0.0.1"], now=pki.utcnow())
        (folder / "tokens.csv").write_text('root,admin,1,"system:masters"\nprom,prometheus,2\n')
        clock = WallClock()
        store = MemoryStore(clock)
        self.objects = Objects(store, Registry(load_kinds()), clock, RandomIds(), fill=filled)
        self.gate = Gate(TokenFile(folder / "tokens.csv", clock))
        self.rbac = Rbac(store)
        metrics = Metrics()
        metrics.leader.set(1)
        listener = socket.create_server(("127.0.0.1", 0))
        self.exposition = Exposition(metrics.registry, listener, self.gate, Certificates(Pair(*server)))

    def ask(self, token: str | None, path: str = "/metrics") -> tuple[int, str]:
        context = ssl.create_default_context(cafile=str(self.ca))
        headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        request = urllib.request.Request(f"https://127.0.0.1:{self.exposition.port}{path}", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    async def asked(self, token: str | None, path: str = "/metrics") -> tuple[int, Body | str]:
        status, text = await asyncio.to_thread(self.ask, token, path)
        return status, json.loads(text) if status != 200 else text

    async def create(self, kind: str, body: Body) -> None:
        found = self.objects.registry.kind(ROLES, kind)
        assert found is not None
        await self.objects.create(found, "", {"apiVersion": f"{ROLES}/v1", "kind": kind, **body}, ADMIN)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    found = Served(tmp_path)
    await found.rbac.start()
    yield found
    await asyncio.to_thread(found.exposition.stop)
    await found.rbac.stop()


@pytest.mark.parametrize("token", [None, "", "wrong", "x" * 20_000, "root\x7f"])
async def test_nobody_without_a_token_that_is_good(served: Served, token: str | None) -> None:
    served.gate.rbac = served.rbac  # without a store nobody knows whose tokens it has
    status, body = await served.asked(token)
    assert status == 401 and isinstance(body, dict) and (body["kind"], body["reason"]) == ("Status", "Unauthorized")


async def test_an_administrator_may_and_another_with_a_role(served: Served) -> None:
    assert "fleet_leader 1.0" in (await served.asked("root"))[1]
    assert (await served.asked("prom"))[0] == 503  # no store to read roles from yet
    served.gate.rbac = served.rbac
    status, body = await served.asked("prom")
    assert status == 403 and isinstance(body, dict)
    assert body["message"] == 'forbidden: User "prometheus" cannot get path "/metrics"'
    await served.create("ClusterRole", ROLE)
    await served.create("ClusterRoleBinding", BINDING)
    async with asyncio.timeout(20):
        while (await served.asked("prom"))[0] != 200:  # noqa: ASYNC110  # roles are followed
            await asyncio.sleep(0.05)
    assert (await served.asked("prom", "/other"))[0] == 404
    assert (await served.asked("nobody", "/other"))[0] == 401


async def test_a_token_of_the_database_counts(served: Served) -> None:
    served.gate.rbac = served.rbac
    served.gate.tokens = tokens = StoredTokens(served.objects.store, served.objects.clock)
    _, root = await tokens.add("ops", ("system:masters",), inf)
    name, other = await tokens.add("ann", (), inf)
    assert [(await served.asked(token))[0] for token in (root, other)] == [200, 403]
    await tokens.end(name.id)
    assert (await served.asked(other))[0] == 401


async def test_an_event_loop_that_is_stuck_keeps_no_administrator_out(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exposition, "ASK_S", 0.2)
    served.gate.rbac = served.rbac
    asking = [asyncio.get_running_loop().run_in_executor(None, served.ask, token) for token in ("root", "prom")]
    time.sleep(3.0)  # nothing else runs on the loop meanwhile  # noqa: ASYNC251
    assert [status for status, _ in await asyncio.gather(*asking)] == [200, 503]


async def test_connections_are_bounded_and_speak_tls(served: Served) -> None:
    address = ("127.0.0.1", served.exposition.port)
    held = [socket.create_connection(address, timeout=15) for _ in range(CONNECTIONS_MAX)]
    try:
        await asyncio.sleep(0.5)
        with socket.create_connection(address, timeout=15) as one_more:
            assert await asyncio.to_thread(_ended, one_more)
        held[0].sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\n\r\n")
        assert await asyncio.to_thread(_ended, held[0])
    finally:
        for one in held:
            one.close()


def _ended(connection: socket.socket) -> bool:
    """Whether the server ends it without an answer in HTTP."""
    try:
        return not connection.recv(65536).startswith(b"HTTP")
    except ConnectionResetError:
        return True
