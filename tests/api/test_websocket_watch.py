"""Watches over WebSocket, as a kube-apiserver answers them."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from tests.api.conftest import Hub
from tests.api.rbac import binding, cluster_role
from tests.api.streams import config_map
from tests.api.wait import eventually
from tests.testbed.member import RealMember

PATH = "/api/v1/namespaces/default/configmaps"
SECONDS = 30.0
Socket = aiohttp.ClientWebSocketResponse


@asynccontextmanager
async def socket(
    hub: Hub | RealMember, query: str = "", token: str = "admin-token", accept: str = "application/json", **more: Any
) -> AsyncIterator[Socket]:
    """A watch of ConfigMaps. `token` "": no header says who asks."""
    url, ca = (hub.server.url, hub.cert) if isinstance(hub, Hub) else (hub.url, hub.pki.ca)
    headers = {"accept": accept, "origin": url, **({"authorization": f"Bearer {token}"} if token else {})}
    async with (
        aiohttp.ClientSession() as session,
        session.ws_connect(
            f"{url}{PATH}?watch=1{query}", headers=headers, ssl=ssl.create_default_context(cafile=str(ca)), **more
        ) as opened,
    ):
        yield opened


async def create(hub: Hub, name: str) -> None:
    async with hub.client() as client:
        answer = await client.post(PATH, json=config_map(name))
    assert answer.status_code == 201, answer.text


async def event(opened: Socket) -> tuple[str, str]:
    message = await opened.receive(SECONDS)
    assert message.type is aiohttp.WSMsgType.TEXT, message
    read = json.loads(message.data)
    return read["type"], read["object"]["metadata"]["name"]


async def test_events_are_messages_of_text_one_each(hub: Hub) -> None:
    await create(hub, "a")
    await create(hub, "b")
    async with socket(hub) as opened:
        assert {await event(opened), await event(opened)} == {("ADDED", "a"), ("ADDED", "b")}
        await create(hub, "c")
        assert await event(opened) == ("ADDED", "c")


async def test_what_the_client_says_is_passed_over_and_its_end_ends_the_watch(hub: Hub) -> None:
    async with socket(hub) as opened:
        await opened.send_str("anything")
        await opened.send_bytes(b"\0" * 1000)
        await create(hub, "a")
        assert await event(opened) == ("ADDED", "a")
        assert hub.app._rechecks._open
    await eventually(lambda: not hub.app._rechecks._open, "the watch is over")


async def test_a_watch_ends_after_its_time(hub: Hub) -> None:
    async with socket(hub, "&timeoutSeconds=1") as opened:
        message = await opened.receive(SECONDS)
    assert message.type is aiohttp.WSMsgType.CLOSE


async def test_a_token_may_be_a_subprotocol(hub: Hub) -> None:
    def offered(token: str) -> str:
        return "base64url.bearer.authorization.k8s.io." + urlsafe_b64encode(token.encode()).decode().rstrip("=")

    await create(hub, "a")
    async with socket(hub, token="", protocols=(offered("admin-token"), "x.example")) as opened:
        assert opened.protocol == "x.example"
        assert await event(opened) == ("ADDED", "a")
    for protocols in ((offered("admin-token"),), (offered("wrong"), "x.example"), (offered("admin-token") + "!", "x")):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            async with socket(hub, token="", protocols=protocols):
                pass
        assert refused.value.status == 401


async def test_a_watch_without_the_right_is_refused_and_ends_with_it(hub: Hub) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with socket(hub, token="alice-token"):
            pass
    assert refused.value.status == 403
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"]}
    hub.app._rechecks._every_s = 0.2
    async with hub.client() as admin:
        await admin.post(f"{rbac}/clusterroles", json=cluster_role("see", [rule]))
        bound = binding("see", "ClusterRoleBinding", "alice", "ClusterRole", "see")
        await admin.post(f"{rbac}/clusterrolebindings", json=bound)
        async with socket(hub, token="alice-token") as opened:
            assert (await admin.delete(f"{rbac}/clusterrolebindings/see")).status_code == 200
            assert (await opened.receive(SECONDS)).type is aiohttp.WSMsgType.CLOSE


async def test_a_wrong_handshake_opens_nothing(hub: Hub) -> None:
    async with hub.client() as client:
        answer = await client.get(
            PATH, params={"watch": "1"}, headers={"connection": "Upgrade", "upgrade": "websocket"}
        )
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")
    assert not hub.app._rechecks._open


async def _seen(server: Hub | RealMember, accept: str, protocols: tuple[str, ...]) -> tuple[Any, ...]:
    """The kind of message, the subprotocol, and the beginning of an event of a ConfigMap `likeness`."""
    query = "&fieldSelector=metadata.name%3Dlikeness"
    async with socket(server, query, accept=accept, protocols=protocols) as opened:
        async with asyncio.timeout(SECONDS):
            message = await opened.receive()
        if message.type is aiohttp.WSMsgType.TEXT:
            read = json.loads(message.data)
            return "text", opened.protocol, message.data[-1], read["type"], sorted(read["object"])
        return "bytes", opened.protocol, message.data[:8]


@pytest.mark.xdist_group("real-apiserver")
@pytest.mark.parametrize("accept", ["application/json", "application/vnd.kubernetes.protobuf;stream=watch"])
@pytest.mark.parametrize("protocols", [(), ("base64.binary.k8s.io",)], ids=["none", "one"])
async def test_like_a_kube_apiserver(
    hub: Hub, real_apiserver: RealMember, accept: str, protocols: tuple[str, ...]
) -> None:
    if "likeness" not in real_apiserver.names(PATH):
        real_apiserver.post(PATH, config_map("likeness", x="y"))
    async with hub.client() as client:
        assert (await client.post(PATH, json=config_map("likeness", x="y"))).status_code == 201
    assert await _seen(hub, accept, protocols) == await _seen(real_apiserver, accept, protocols)
