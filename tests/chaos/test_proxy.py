"""The faults of the proxy as a client meets them: the harness shows nothing where a fault does not strike."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from fleet.hub import pki
from tests.chaos.proxy import Mode, Proxy, ProxyThread

pytestmark = pytest.mark.xdist_group("chaos")

QUICK_S = 1.0


class Hello(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    """Before a small HTTPS server."""
    ca, ca_key, certificate, key = (tmp_path / name for name in ("ca.crt", "ca.key", "s.crt", "s.key"))
    now = pki.utcnow()
    pki.make_ca(ca, ca_key, now=now)
    pki.make_server_certificate(ca, ca_key, certificate, key, ["127.0.0.1"], now=now)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hello)
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(certificate, key)
    server.socket = trust.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    thread = ProxyThread()
    try:
        yield thread.add(Proxy("cfa", server.server_address[1], certificate=certificate, key=key, seed=1))
    finally:
        thread.stop()
        server.shutdown()
        server.server_close()


@pytest.fixture
def new_client(proxy: Proxy, tmp_path: Path) -> Iterator[Callable[[], httpx.Client]]:
    made: list[httpx.Client] = []

    def make() -> httpx.Client:
        trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
        made.append(httpx.Client(base_url=f"https://127.0.0.1:{proxy.port}", verify=trust, timeout=QUICK_S))
        return made[-1]

    yield make
    for client in made:
        client.close()


NewClient = Callable[[], httpx.Client]


def test_bytes_pass_and_slow_ones_arrive(proxy: Proxy, new_client: NewClient) -> None:
    client = new_client()
    assert client.get("/").text == "hello"
    proxy.set_mode(Mode.SLOW)
    assert client.get("/", timeout=10).text == "hello"
    assert proxy.struck == 1


@pytest.mark.parametrize("mode", [Mode.REFUSE, Mode.BLACKHOLE])
def test_a_partition_strikes_old_and_new_connections_and_ends(proxy: Proxy, new_client: NewClient, mode: Mode) -> None:
    old, new = new_client(), new_client()
    assert old.get("/").text == "hello"
    proxy.set_mode(mode)
    fails = httpx.TimeoutException if mode is Mode.BLACKHOLE else (httpx.RemoteProtocolError, httpx.NetworkError)
    with pytest.raises(fails):
        old.get("/")
    with pytest.raises(httpx.TransportError):
        new.get("/")
    proxy.set_mode(Mode.PASS)
    assert (new_client().get("/").text, old.get("/").text) == ("hello", "hello")


def test_a_half_open_connection_hangs_while_a_new_one_works(proxy: Proxy, new_client: NewClient) -> None:
    old = new_client()
    assert old.get("/").text == "hello"
    proxy.set_mode(Mode.HALF_OPEN)
    with pytest.raises(httpx.ReadTimeout):
        old.get("/")
    assert new_client().get("/").text == "hello"


def test_a_cut_resets_what_exists_once(proxy: Proxy) -> None:
    with socket.create_connection(("127.0.0.1", proxy.port), QUICK_S) as stream:
        stream.sendall(b"\x16\x03\x01")  # the beginning of a handshake, so that the proxy has taken it
        wait = threading.Event()
        while not proxy._moving:
            wait.wait(0.01)
        proxy.set_mode(Mode.CUT)
        with pytest.raises(ConnectionResetError):
            stream.recv(1)
    assert proxy.struck == 1


def test_errors_are_answers_of_a_server_or_broken_answers(proxy: Proxy, new_client: NewClient) -> None:
    proxy.set_mode(Mode.ERRORS)
    client, seen = new_client(), set()
    for _ in range(40):
        try:
            seen.add(client.get("/").status_code)
        except httpx.RemoteProtocolError:
            seen.add(0)
    assert seen == {0, 429, 500, 502, 503, 504}


def test_an_expiry_answers_watches_with_410_and_the_rest_with_503(proxy: Proxy, new_client: NewClient) -> None:
    proxy.set_mode(Mode.EXPIRE)
    client = new_client()
    assert client.get("/api/v1/pods?watch=true").status_code == 410
    assert client.get("/api/v1/pods").json()["code"] == 503
    proxy.set_mode(Mode.PASS)
    assert new_client().get("/").text == "hello"
