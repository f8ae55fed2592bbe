"""Connections to members that break in the middle of their TLS handshake, on the loop that production runs on.

Such a connection must give its socket back once. Closed a second time, its number means another socket by then, that of
the database for instance, and that one is closed instead.
"""

from __future__ import annotations

import asyncio
import gc
import random
import socket
import ssl
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
import uvloop

from fleet.hub import pki
from fleet.hub.eventloop import EventLoop
from tests.chaos.proxy import Mode, Proxy, ProxyThread

pytestmark = pytest.mark.xdist_group("chaos")

CLIENTS, HURT_S = 20, 4.0


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """A CA, and a server certificate of it."""
    made = {name: tmp_path / name for name in ("ca", "ca_key", "certificate", "key")}
    pki.make_ca(made["ca"], made["ca_key"], now=pki.utcnow())
    hosts = ["127.0.0.1", "localhost"]
    pki.make_server_certificate(made["ca"], made["ca_key"], made["certificate"], made["key"], hosts, now=pki.utcnow())
    return made


@pytest.fixture
def proxies() -> Iterator[ProxyThread]:
    thread = ProxyThread()
    yield thread
    thread.stop()


async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(asyncio.IncompleteReadError, OSError):
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")


async def ask(session: aiohttp.ClientSession, url: str, dice: random.Random, answers: list[int]) -> None:
    with suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(dice.uniform(0.02, 0.4)), session.get(url) as answer:
            await answer.read()
            answers.append(answer.status)


async def hurt(files: dict[str, Path], proxies: ProxyThread) -> tuple[list[int], int]:
    """Clients that give up early, through a proxy that resets and refuses; the statuses of all answers, and the port of
    the proxy."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(files["certificate"], files["key"])
    server = await asyncio.start_server(hello, "127.0.0.1", 0, ssl=serving)
    port = server.sockets[0].getsockname()[1]
    add = Proxy("cfa", port, certificate=files["certificate"], key=files["key"], seed=1)
    proxy = await asyncio.to_thread(proxies.add, add)
    tls, dice = ssl.create_default_context(cafile=str(files["ca"])), random.Random(1)
    answers: list[int] = []
    end = asyncio.get_running_loop().time() + HURT_S

    async def client(session: aiohttp.ClientSession) -> None:
        while asyncio.get_running_loop().time() < end:
            await ask(session, f"https://127.0.0.1:{proxy.port}/", dice, answers)
            await asyncio.sleep(0.01)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, ssl=tls)) as session:
        clients = [asyncio.create_task(client(session)) for _ in range(CLIENTS)]
        while asyncio.get_running_loop().time() < end:
            for mode in (dice.choice((Mode.CUT, Mode.REFUSE, Mode.ERRORS)), Mode.PASS):
                await asyncio.to_thread(proxy.set_mode, mode)
                await asyncio.sleep(dice.uniform(0.05, 0.2))
        await asyncio.gather(*clients)
    gc.collect()
    server.close()
    return answers, proxy.port


def test_handshakes_that_break_leave_no_socket_to_the_garbage_collector(
    files: dict[str, Path], proxies: ProxyThread, caplog: pytest.LogCaptureFixture
) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        answers, port = uvloop.run(hurt(files, proxies), loop_factory=EventLoop)
    assert 200 in answers
    unclosed = [text for each in told if "unclosed" in (text := str(each.message))]
    assert [text for text in unclosed if f"raddr=('127.0.0.1', {port})" in text] == []
    assert [text for text in caplog.messages if "SSLProtocol.connection_made" in text] == []


def test_a_handshake_that_succeeds_makes_a_connection_as_ever(files: dict[str, Path]) -> None:
    async def scenario() -> bytes:
        serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        serving.load_cert_chain(files["certificate"], files["key"])
        server = await asyncio.start_server(hello, "127.0.0.1", 0, ssl=serving)
        given = await asyncio.to_thread(socket.create_connection, server.sockets[0].getsockname())
        tls = ssl.create_default_context(cafile=str(files["ca"]))
        reader, writer = await asyncio.open_connection(sock=given, ssl=tls, server_hostname="localhost")
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        said = await reader.readuntil(b"hello")
        writer.close()
        server.close()
        return said

    assert uvloop.run(scenario(), loop_factory=EventLoop).startswith(b"HTTP/1.1 200 OK")
