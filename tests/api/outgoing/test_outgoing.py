"""Requests of the hub to a real server: where they go, what they bear, and what becomes of answers that are wrong."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypedDict

import pytest
from aiohttp import web

from api.outgoing import AllowList, Answer, OutgoingClient, OutgoingError, Reason
from tests.api.outgoing.server import serving
from tests.testbed.pki import Pki, make_pki

LOOPBACK = AllowList.parse(["127.0.0.0/8"])


class Bounds(TypedDict):
    timeout: float
    limit: int


BOUNDS: Bounds = {"timeout": 20.0, "limit": 1000}


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("outgoing") / "pki")


@pytest.fixture(scope="module")
def ca(pki: Pki) -> str:
    return pki.ca.read_text()


@pytest.fixture(scope="module")
def other_ca(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield make_pki(tmp_path_factory.mktemp("outgoing") / "other").ca.read_text()


@asynccontextmanager
async def client(
    allowed: AllowList = LOOPBACK, names: dict[str, list[list[str]]] | None = None
) -> AsyncIterator[OutgoingClient]:
    """`names`: what each name stands for, at each lookup in turn."""

    async def resolve(host: str, port: int) -> list[str]:
        assert names is not None
        return names[host].pop(0)

    async with OutgoingClient(allowed, resolver=resolve if names is not None else None) as outgoing:
        yield outgoing


async def refusal(outgoing: OutgoingClient, url: str, *, timeout: float = 20.0, ca: str | None = None) -> OutgoingError:
    with pytest.raises(OutgoingError) as caught:
        await outgoing.request("POST", url, body=b"{}", ca=ca, timeout=timeout, limit=1000)
    return caught.value


async def echo(request: web.Request) -> web.Response:
    content = await request.read()
    shown = f"{request.method} {request.path_qs} {request.headers.get('x-mark')} ".encode()
    return web.Response(body=shown + content, headers={"X-Reply": "yes", "Set-Cookie": "a=b"})


async def test_a_request_goes_to_an_allowed_server_and_brings_its_answer(pki: Pki, ca: str) -> None:
    async with serving(echo, pki) as port, client() as outgoing:
        answer = await outgoing.request(
            "POST",
            f"https://localhost:{port}/check?timeout=5s",
            body=b"hello",
            headers={"x-mark": "m"},
            ca=ca,
            **BOUNDS,
        )
        assert answer.status == 200 and answer.headers["x-reply"] == "yes"
        assert answer.body == b"POST /check?timeout=5s m hello"


async def test_a_server_may_be_named_by_its_address_and_by_a_name_of_its_certificate(pki: Pki, ca: str) -> None:
    names = {"hooks.corp": [["127.0.0.1"]]}
    async with serving(echo, pki) as port, client(names=names) as outgoing:
        one = await outgoing.request("GET", f"https://127.0.0.1:{port}/a", ca=ca, **BOUNDS)
        two = await outgoing.request(
            "GET", f"https://hooks.corp:{port}/b", ca=ca, server_name="kubernetes.default.svc", **BOUNDS
        )
        assert [one.body, two.body] == [b"GET /a None ", b"GET /b None "]


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "0.0.0.0",
        "[::]",
        "10.0.0.1",
        "169.254.169.254",
        "[fe80::1]",
        "[fe80::1%25lo]",
        "2130706433",
        "0x7f000001",
        "017700000001",
        "127.1",
        "0x7f.1",
        "127.0.0.1.",
        "0",
        "[64:ff9b::7f00:1]",
        "224.0.0.1",
        "①②⑦.0.0.1",
    ],
)
async def test_the_network_within_is_out_of_reach_in_any_spelling(host: str) -> None:
    async with client(AllowList()) as outgoing:
        error = await refusal(outgoing, f"https://{host}:6440/")
        assert error.reason is Reason.REFUSED, str(error)


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "//example.com/",
        "example.com",
        "",
        "https://",
        "https:///path",
        "https://user@example.com/",
        "https://user:secret@example.com/",
        "https://a@127.0.0.1@b/",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://exa mple.com/",
        "https://example.com\\@evil/",
        "https://example.com/\r\nx: y",
        "https://" + "a" * 3000,
    ],
)
async def test_an_address_that_is_no_plain_https_url_is_refused(url: str) -> None:
    async with client() as outgoing:
        error = await refusal(outgoing, url)
        assert error.reason is Reason.REFUSED and "secret" not in str(error)


async def test_the_hubs_own_public_address_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    class Entry:
        family, address = socket.AF_INET, "8.8.4.4"

    monkeypatch.setattr("api.outgoing.reach.psutil.net_if_addrs", lambda: {"eth0": [Entry]})
    async with client(AllowList(), {"me.example": [["8.8.4.4"]]}) as outgoing:
        assert (await refusal(outgoing, "https://me.example/")).reason is Reason.REFUSED
        assert (await refusal(outgoing, "https://8.8.4.4/")).reason is Reason.REFUSED


async def test_a_name_is_looked_up_once_for_check_and_connection(pki: Pki, ca: str) -> None:
    """The second answer of the name server, which would be an address that is not allowed, is not asked for."""
    names = {"hooks.corp": [["127.0.0.1"], ["127.0.0.2"], ["10.0.0.1"]]}
    async with serving(echo, pki) as port, client(AllowList.parse(["127.0.0.1"]), names) as outgoing:
        answer = await outgoing.request("GET", f"https://hooks.corp:{port}/", ca=ca, server_name="localhost", **BOUNDS)
        assert answer.status == 200 and len(names["hooks.corp"]) == 2


async def test_of_several_addresses_only_the_allowed_ones_are_used(pki: Pki, ca: str) -> None:
    names = {"hooks.corp": [["10.255.255.1", "169.254.169.254", "127.0.0.1"]]}
    async with serving(echo, pki) as port, client(names=names) as outgoing:
        answer = await outgoing.request("GET", f"https://hooks.corp:{port}/", ca=ca, server_name="localhost", **BOUNDS)
        assert answer.status == 200


async def test_a_name_without_an_address_is_unreachable() -> None:
    async with client(names={"nobody.corp": [[]]}) as outgoing:
        assert (await refusal(outgoing, "https://nobody.corp/")).reason is Reason.UNREACHABLE


async def test_a_port_that_nobody_serves_is_unreachable() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        async with client() as outgoing:
            error = await refusal(outgoing, f"https://127.0.0.1:{taken.getsockname()[1]}/")
            assert (error.reason, str(error)) == (Reason.UNREACHABLE, "it takes no connection")


async def test_a_redirect_is_not_followed(pki: Pki, ca: str) -> None:
    asked = []

    async def redirect(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response(status=307, headers={"Location": "/elsewhere"})

    async with serving(redirect, pki) as port, client() as outgoing:
        assert (await refusal(outgoing, f"https://127.0.0.1:{port}/first", ca=ca)).reason is Reason.REDIRECTED
        assert asked == ["/first"]


@pytest.mark.parametrize("declared", [True, False], ids=["with its length", "without its length"])
async def test_a_large_answer_is_given_up(pki: Pki, ca: str, declared: bool) -> None:
    async def huge(request: web.Request) -> web.StreamResponse:
        if declared:
            return web.Response(body=b"x" * 2000)
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b"x" * 1000)
        return response

    async with serving(huge, pki) as port, client() as outgoing:
        assert (await refusal(outgoing, f"https://127.0.0.1:{port}/", ca=ca)).reason is Reason.TOO_LARGE


async def test_a_packed_answer_stays_packed(pki: Pki, ca: str) -> None:
    """A megabyte of zeros is a thousand bytes when it is packed: unpacking would pass the bound."""
    packed = gzip.compress(b"0" * 100_000)

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=packed, headers={"content-encoding": "gzip"})

    async with serving(answer, pki) as port, client() as outgoing:
        got: Answer = await outgoing.request("GET", f"https://127.0.0.1:{port}/", ca=ca, **BOUNDS)
        assert got.body == packed


async def test_a_slow_answer_is_given_up(pki: Pki, ca: str) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(3600)
        return web.Response()

    async with serving(slow, pki) as port, client() as outgoing:
        assert (await refusal(outgoing, f"https://127.0.0.1:{port}/", ca=ca, timeout=0.3)).reason is Reason.TIMED_OUT


async def test_a_certificate_of_another_authority_or_another_name_is_not_trusted(
    pki: Pki, ca: str, other_ca: str
) -> None:
    names = {"hooks.corp": [["127.0.0.1"]]}
    async with serving(echo, pki) as port, client(names=names) as outgoing:
        asked = [
            await refusal(outgoing, f"https://127.0.0.1:{port}/", ca=other_ca),
            await refusal(outgoing, f"https://127.0.0.1:{port}/"),
            await refusal(outgoing, f"https://hooks.corp:{port}/", ca=ca),
            await refusal(outgoing, f"https://127.0.0.1:{port}/", ca="no certificate"),
        ]
        assert [error.reason for error in asked] == [Reason.BAD_CERTIFICATE] * 4


async def test_what_a_server_says_that_is_not_http_is_not_shown() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SECRET of another protocol\r\n")
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server, client() as outgoing:
        error = await refusal(outgoing, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        assert error.reason in (Reason.BAD_CERTIFICATE, Reason.UNREACHABLE) and "SECRET" not in str(error)


async def test_a_connection_that_the_server_closed_meanwhile_is_made_again(pki: Pki, ca: str, tmp_path: Path) -> None:
    connections: list[object] = []

    async def closing(request: web.Request) -> web.Response:
        assert request.transport is not None
        connections.append(request.transport)
        if len(connections) == 2:
            request.transport.abort()
        return web.Response(body=b"ok")

    async with serving(closing, pki) as port, client() as outgoing:
        for _ in range(2):
            answer = await outgoing.request("POST", f"https://127.0.0.1:{port}/", body=b"{}", ca=ca, **BOUNDS)
            assert answer.body == b"ok"
        assert len(connections) == 3 and connections[0] is connections[1]
