"""clusters/NAME/proxy leads to that member, as the hub, and nowhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from api.store.memory import MemoryStore
from api.transport.serve import Server
from api.wire.http import Receive, Scope, Send
from fleet.simulate.wall import WallClock
from tests.api.conftest import Hub, open_hub
from tests.api.proxy import PROXY, join


@dataclass
class Seen:
    """What reached the member's side: paths as they were sent, and headers."""

    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_hub(tmp_path, MemoryStore(WallClock())) as opened:
        yield opened


@pytest.fixture
async def seen(served: Hub) -> AsyncIterator[Seen]:
    """Every request that reaches the member's side: a gateway that has several members below paths of its own."""
    requests = Seen()

    async def gateway(scope: Scope, receive: Receive, send: Send) -> None:
        requests.paths.append(scope["raw_path"].decode())
        requests.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["raw_path"] + b"?" + scope["query_string"]})

    server = Server(gateway)
    await server.start()
    await join(served, f"{server.url}/clusters/c-1")
    yield requests
    await server.stop()


async def ask(hub: Hub, target: str, headers: dict[str, str] | None = None) -> httpx.Response:
    """The path goes out as it stands."""
    async with hub.client() as client:
        request = client.build_request("GET", "/", headers=headers, extensions={"target": target.encode()})
        return await client.send(request)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/api/v1/pods", "/clusters/c-1/api/v1/pods"),
        ("/api/v1/pods?limit=5&x=%2e%2e", "/clusters/c-1/api/v1/pods?limit=5&x=%2e%2e"),
        ("", "/clusters/c-1/"),
        ("/", "/clusters/c-1/"),
        ("/api/v1/nodes/n/proxy/metrics", "/clusters/c-1/api/v1/nodes/n/proxy/metrics"),
        ("/api/v1/namespaces/a%20b", "/clusters/c-1/api/v1/namespaces/a%20b"),
        ("/api/v1/...", "/clusters/c-1/api/v1/..."),
        ("//api/v1", "/clusters/c-1/api/v1"),
    ],
)
async def test_a_path_goes_to_the_member_as_it_is(served: Hub, seen: Seen, path: str, expected: str) -> None:
    answer = await ask(served, PROXY + path)
    assert (answer.status_code, answer.text.removesuffix("?")) == (200, expected)


@pytest.mark.parametrize(
    "path",
    [
        "/../c-2/api",
        "/api/../../c-2",
        "/%2e%2e/c-2",
        "/%2E./c-2",
        "/.%2e/c-2",
        "/..%2fc-2/api",
        "/a%2f..%2f..%2fc-2",
        "/..%5cc-2",
        "/./api",
        "/%2e",
        "/api/..",
        "/..",
    ],
)
async def test_a_path_does_not_lead_out_of_the_member(served: Hub, seen: Seen, path: str) -> None:
    answer = await ask(served, PROXY + path)
    assert answer.status_code == 400 and "'..'" in answer.json()["message"]
    assert not seen.paths


async def test_an_encoded_word_before_the_path_changes_nothing(served: Hub, seen: Seen) -> None:
    answer = await ask(served, PROXY.replace("/proxy", "/%70roxy") + "/api/v1/nodes/n/proxy/x")
    assert answer.text == "/clusters/c-1/api/v1/nodes/n/proxy/x?"
    assert (await ask(served, PROXY.replace("/clusters/", "%2Fclusters/") + "/api/v1/pods")).status_code == 400


async def test_headers_of_trust_and_of_the_connection_stay_here(served: Hub, seen: Seen) -> None:
    headers = {
        "connection": "keep-alive, x-hop",
        "x-hop": "1",
        "x-remote-user": "root",
        "x-remote-group": "system:masters",
        "x-remote-extra-a": "b",
        "x-forwarded-for": "1.2.3.4",
        "x-forwarded-proto": "http",
        "cookie": "a=b",
        "accept": "application/json",
        "x-own": "kept",
    }
    assert (await ask(served, PROXY + "/api", headers)).status_code == 200
    sent = seen.headers[0]
    assert (
        sent["authorization"] == "Bearer member-token"
        and sent["x-own"] == "kept"
        and sent["accept"] == "application/json"
    )
    assert not [name for name in sent if name in headers and name not in ("x-own", "accept", "connection")]


async def test_who_acts_as_another_needs_the_right_to_and_is_the_hub_in_the_member(served: Hub, seen: Seen) -> None:
    refused = await ask(served, PROXY + "/api", {"impersonate-user": "alice"})
    assert refused.status_code == 403 and not seen.paths
    headers = {"impersonate-user": "alice", "impersonate-group": "system:masters"}
    assert (await ask(served, PROXY + "/api", headers)).status_code == 200
    assert not [name for name in seen.headers[0] if name.startswith("impersonate-")]
