"""The browser of a user with a client certificate does nothing for other sites: it shows the certificate to whatever
page asks."""

from __future__ import annotations

import ssl
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from api.store.memory import MemoryStore
from fleet.simulate.wall import WallClock
from tests.api.conftest import KUBECTL, Hub, open_hub
from tests.security.certificate import client_certificate

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
OTHERS = [
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site", "origin": "https://other.hub"},
    {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
    {"origin": "https://evil.example", "authorization": "Basic YTpi"},
]
WEBSOCKET = {
    "connection": "upgrade",
    "upgrade": "websocket",
    "sec-websocket-version": "13",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    async with open_hub(tmp_path, MemoryStore(WallClock())) as opened:
        yield opened


@asynccontextmanager
async def browser(hub: Hub) -> AsyncIterator[httpx.AsyncClient]:
    """One that shows the certificate of an administrator."""
    context = ssl.create_default_context(cafile=str(hub.cert))
    context.load_cert_chain(*client_certificate(hub.folder, "ann", ("system:masters",)))
    async with httpx.AsyncClient(base_url=hub.server.url, verify=context, timeout=30) as client:
        yield client


def refused(answer: httpx.Response) -> bool:
    status = answer.json()
    return (answer.status_code, status["kind"], status["reason"]) == (403, "Status", "Forbidden") and (
        "another site" in status["message"]
    )


@pytest.mark.parametrize("headers", OTHERS)
async def test_another_site_does_nothing_with_the_certificate(hub: Hub, headers: dict[str, str]) -> None:
    async with browser(hub) as client:
        for path in ("/api/v1/secrets", "/api/v1/secrets?watch=1", "/apis", "/metrics", "/nothing"):
            assert refused(await client.get(path, headers=headers)), path
        named = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
        maps = "/api/v1/namespaces/default/configmaps"
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS"):
            assert refused(await client.request(method, maps, json=named, headers=headers)), method
        assert (await client.get(maps)).json()["items"] == []


@pytest.mark.parametrize("headers", OTHERS)
async def test_another_site_opens_no_websocket_with_the_certificate(hub: Hub, headers: dict[str, str]) -> None:
    async with browser(hub) as client:
        assert refused(await client.get("/api/v1/secrets?watch=1", headers={**headers, **WEBSOCKET}))


async def test_pages_of_the_hub_and_programs_go_on_with_the_certificate(hub: Hub) -> None:
    proxied = {"origin": "http://localhost:8001", "sec-fetch-site": "same-origin"}  # through kubectl proxy
    for headers in ({}, {"origin": hub.server.url}, {"sec-fetch-site": "none"}, proxied):
        async with browser(hub) as client:
            answer = await client.post(SELF, json=REVIEW, headers=headers)
            assert answer.json()["status"]["userInfo"]["username"] == "ann"
    certificate, key = client_certificate(hub.folder, "ann", ("system:masters",))
    flags = (f"--client-certificate={certificate}", f"--client-key={key}", "get", "secrets")
    code, _, errors = await hub.kubectl(KUBECTL, *flags, token="")
    assert code == 0, errors


async def test_a_token_of_the_page_s_own_counts_and_the_certificate_does_not(hub: Hub) -> None:
    """Nobody can attach a token that she does not know."""
    async with browser(hub) as client:
        for token, status in (("alice-token", 201), ("wrong", 401)):
            headers = {"origin": "https://headlamp.example", "authorization": f"Bearer {token}"}
            answer = await client.post(SELF, json=REVIEW, headers=headers)
            assert answer.status_code == status
            if status == 201:
                assert answer.json()["status"]["userInfo"]["username"] == "alice"
        offered = urlsafe_b64encode(b"wrong").decode().rstrip("=")
        protocols = f"base64url.bearer.authorization.k8s.io.{offered}, base64.binary.k8s.io"
        headers = {"origin": "https://evil.example", **WEBSOCKET, "sec-websocket-protocol": protocols}
        assert (await client.get("/api/v1/secrets?watch=1", headers=headers)).status_code == 401


async def test_nothing_of_an_answer_runs_in_a_browser_with_a_certificate(hub: Hub) -> None:
    async with browser(hub) as client:
        assert "sandbox" in (await client.get("/api/v1/pods")).headers["content-security-policy"]
