"""A client that reads slowly costs little memory, and not for ever."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import api.wire.unsentbytes
from api.transport.edge import Bounds
from api.transport.serve import Server
from api.wire.http import AT_HAND_BYTES, JSON, as_read
from api.wire.joining import JOINED_BYTES, joined
from api.wire.stream import until_gone
from tests.security.hub import Hub, open_hub

MAPS = "/api/v1/namespaces/default/configmaps"
PROTOBUF = "application/vnd.kubernetes.protobuf"
COUNT, BYTES = 40, 200_000


async def filled(hub: Hub) -> None:
    for number in range(COUNT):
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"m{number}"}}
        await hub.create("configmaps", {**body, "data": {"k": "x" * BYTES}}, namespace="default")


async def test_the_pieces_of_a_long_list_are_made_as_its_client_reads() -> None:
    made = 0

    async def items() -> AsyncIterator[Sequence[bytes]]:
        nonlocal made
        for _ in range(3000):
            made += 1
            yield [b"1" * 9_999]

    answer = await as_read(joined(b'{"items":[', items()), JSON)
    assert made * 9_999 < AT_HAND_BYTES + 2 * JOINED_BYTES
    sent: list[bytes] = []
    taken = asyncio.Semaphore(8)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.body":
            await taken.acquire()
            sent.append(bytes(message["body"]))

    sending = asyncio.create_task(answer.send(send))
    for _ in range(200):  # whoever wanted to make more would have made it
        await asyncio.sleep(0)
    assert len(sent) == 8
    assert made * 9_999 < sum(map(len, sent)) + AT_HAND_BYTES + 2 * JOINED_BYTES
    for _ in range(10_000):
        taken.release()
    await sending
    assert b"".join(sent) == b'{"items":[' + b",".join([b"1" * 9_999] * 3000) + b"]}"


async def test_nothing_is_made_for_a_client_that_has_gone() -> None:
    left = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        for number in itertools.count():
            if number == 5:
                left.set()
            yield b"x"
            await asyncio.sleep(0)

    async def receive() -> Any:
        await left.wait()
        return {"type": "http.disconnect"}

    assert len([piece async for piece in until_gone(pieces(), receive)]) < 10


@pytest.mark.parametrize("count", [0, 1, 100])
async def test_a_list_says_the_same_however_many_pieces_it_has(count: int) -> None:
    async def items() -> AsyncIterator[Sequence[bytes]]:
        yield []
        for number in range(count):
            yield [b"%d" % number + b"1" * 20_000]

    pieces = [piece async for piece in joined(b"<", items(), first=b"(", comma=b"|", end=b">")]
    inner = b"|".join(b"%d" % number + b"1" * 20_000 for number in range(count))
    assert b"".join(pieces) == b"<" + (b"(" if count else b"") + inner + b">"


async def test_a_client_that_reads_below_the_least_rate_is_cut_off_after_a_grace(tmp_path: Path) -> None:
    """It took 128 KiB within each span of 30 s, and so it kept a list of 30 MB for hours."""
    async with open_hub() as hub:
        await filled(hub)
        bounds = Bounds(send_s=2.0, send_rate=64 << 20)
        server = Server(hub.app, close_streams=hub.app.close_streams, bounds=bounds, metrics=hub.app.metrics.edge)
        await server.start()
        try:
            head = f"GET {MAPS} HTTP/1.1\r\nhost: h\r\nauthorization: Bearer admin-token\r\n\r\n".encode()
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=64 * 1024)
            writer.write(head)
            read = 0
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                while True:
                    read += len(await reader.readexactly(100_000))
                    await asyncio.sleep(0.1)  # 1 MB/s: each pause is far shorter than send_s
            assert read < COUNT * BYTES
            assert hub.app.metrics.registry.get_sample_value("fleet_api_slow_readers_total") == 1
            writer.close()
        finally:
            await server.stop()


async def test_answers_that_wait_to_be_read_are_bounded_by_user_and_the_others_have_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(api.wire.unsentbytes, "OF_USER_BYTES", COUNT * BYTES * 3 // 2)
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "reader"}}
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "nobody"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
    }
    async with open_hub() as hub:
        await hub.create("clusterroles", {**role, "rules": [rule]}, group="rbac.authorization.k8s.io")
        await hub.create("clusterrolebindings", binding, group="rbac.authorization.k8s.io")
        await filled(hub)
        stuck, begun = asyncio.Event(), asyncio.Event()

        async def ask(token: str, send: Any) -> None:
            scope = {
                "type": "http",
                "asgi": {"version": "3.0"},
                "http_version": "1.1",
                "method": "GET",
                "scheme": "https",
                "path": MAPS,
                "raw_path": MAPS.encode(),
                "root_path": "",
                "state": {},
                "query_string": b"",
                "client": ("127.0.0.1", 1),
                "server": ("127.0.0.1", 2),
                "headers": [(b"authorization", f"Bearer {token}".encode()), (b"accept", PROTOBUF.encode())],
            }
            await hub.app(scope, asyncio.Event().wait, send)  # type: ignore[arg-type]

        async def hold(message: Any) -> None:
            if message["type"] == "http.response.body":
                begun.set()
                await stuck.wait()

        held = asyncio.create_task(ask("admin-token", hold))
        await begun.wait()
        statuses: list[int] = []

        async def note(message: Any) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])

        await ask("admin-token", note)
        await ask("nobody-token", note)
        stuck.set()
        await held
        await ask("admin-token", note)
        assert statuses == [429, 200, 200]
        assert hub.app.metrics.registry.get_sample_value("fleet_api_unsent_bytes") == 0
