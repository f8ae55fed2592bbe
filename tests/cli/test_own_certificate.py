"""A certificate of one's own: the hub shows it, writes nothing over it, and keeps its own processes reachable."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from prometheus_client import CollectorRegistry

from api.transport.serve import Server, bind
from api.transport.tls import Certificates, Pair, follow
from fleet.cli.datadir import DataDir
from fleet.cli.failure import Failure
from fleet.hub import pki, serving
from fleet.hub.exposition import Exposition
from fleet.hub.firststart import create_root, prepare
from fleet.hub.serving import ServingOptions
from tests.cli.hub import BIN, Up, fleet, refusal, until
from tests.monitoring.readers import Anybody

NAME = "hub.example.com"


class Corporate:
    """An authority that is not the hub's."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.ca, self._key = folder / "corporate.crt", folder / "corporate.key"
        pki.make_ca(self.ca, self._key, now=pki.utcnow())

    def issue(self, pair: Pair, *names: str, days: int = 365) -> bytes:
        """Write a certificate for these names, and return it."""
        now = pki.utcnow() - pki.SERVER_LIFE + timedelta(days=days)
        pki.make_server_certificate(self.ca, self._key, *pair, list(names), now=now)
        return pair.certificate.read_bytes()


def in_place(data: DataDir) -> Pair:
    """Where docs/how-to/run-in-production.md says."""
    data.server_certificate.parent.mkdir(parents=True, exist_ok=True)
    return Pair(data.server_certificate, data.server_key)


def shown_at(port: int, name: str | None, trusted: Path) -> bytes:
    """The certificate (PEM) that a client gets who asks for this name and trusts this authority."""
    context = ssl.create_default_context(cafile=str(trusted))
    context.check_hostname = name is not None
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=name) as secured,
    ):
        shown = secured.getpeercert(binary_form=True)
    assert shown is not None
    return ssl.DER_cert_to_PEM_cert(shown).encode()


def of(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


@pytest.mark.parametrize(("names", "days"), [((NAME,), 365), ((NAME,), 5), (("another.example.com",), -3)])
def test_a_certificate_that_was_put_in_place_is_never_written_over(
    tmp_path: Path, names: tuple[str, ...], days: int
) -> None:
    """It was replaced, with its key, at the first start, and whenever a name lacked or under 30 days were left."""
    data, corporate = DataDir(tmp_path / "hub"), Corporate(tmp_path)
    mine = corporate.issue(in_place(data), *names, days=days)
    key = data.server_key.read_bytes()
    for _ in range(2):
        create_root(data)
        prepare(data, NAME)
        assert (data.server_certificate.read_bytes(), data.server_key.read_bytes()) == (mine, key)
        assert serving.own(data) == (data.local_certificate, data.local_key)
        assert pki.signed_by(data.local_certificate, data.ca_certificate)
    said = serving.lacks(data, ServingOptions(), [NAME])
    assert ("does not name hub.example.com" in said) == (NAME not in names)
    assert ("it ends on" in said) == (days < 30)
    assert said == "" or said.startswith(f"{data.server_certificate} is not of the hub's CA and stays as it is: ")


def test_the_hubs_own_certificate_is_renewed_as_before(tmp_path: Path) -> None:
    data = DataDir(tmp_path / "hub")
    create_root(data)
    prepare(data, "127.0.0.1")
    first = data.server_certificate.read_bytes()
    prepare(data, "127.0.0.1")
    assert data.server_certificate.read_bytes() == first
    prepare(data, NAME)
    assert data.server_certificate.read_bytes() != first
    assert serving.lacks(data, ServingOptions(), ["no.such.name"]) == "" and not data.local_certificate.exists()
    assert not pki.flaws(data.server_certificate, [NAME, "localhost"], now=pki.utcnow())


def test_a_wildcard_names_a_host(tmp_path: Path) -> None:
    pair = Pair(tmp_path / "a.crt", tmp_path / "a.key")
    Corporate(tmp_path).issue(pair, "*.example.com")
    assert pki.flaws(pair.certificate, [NAME], now=pki.utcnow()) == []
    assert pki.flaws(pair.certificate, ["a.b.example.com", "example.com"], now=pki.utcnow()) == [
        "it does not name a.b.example.com, example.com"
    ]


@pytest.mark.parametrize("which", ["one option alone", "no such file", "another key"])
def test_files_that_cannot_be_served_with_are_refused(tmp_path: Path, which: str) -> None:
    pair, other = (Pair(tmp_path / f"{name}.crt", tmp_path / f"{name}.key") for name in ("a", "b"))
    for one in (pair, other):
        Corporate(tmp_path).issue(one, NAME)
    given = {
        "one option alone": ServingOptions(pair.certificate),
        "no such file": ServingOptions(pair.certificate, tmp_path / "none.key"),
        "another key": ServingOptions(pair.certificate, other.key),
    }[which]
    with pytest.raises(Failure, match="--tls-cert-file"):
        given.check()


async def echo(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def test_a_changed_file_is_shown_to_the_next_connection(tmp_path: Path) -> None:
    corporate, pair = Corporate(tmp_path), Pair(tmp_path / "a.crt", tmp_path / "a.key")
    local = Pair(tmp_path / "local.crt", tmp_path / "local.key")
    first, own = corporate.issue(pair, NAME), corporate.issue(local, "localhost")
    certificates = Certificates(pair, local)
    server = Server(echo, certificates=certificates)
    await server.start()
    listener = bind("127.0.0.1", 0)
    listener.listen()
    exposition = Exposition(CollectorRegistry(), listener, Anybody(), certificates)
    used = asyncio.Event()

    def changed() -> None:
        server.renew()
        exposition.renew()
        used.set()

    following = asyncio.create_task(follow(certificates.files, changed))
    try:
        for port in (server.port, exposition.port):
            assert of(await asyncio.to_thread(shown_at, port, NAME, corporate.ca)) == of(first)
            assert of(await asyncio.to_thread(shown_at, port, "localhost", corporate.ca)) == of(own)
            assert of(await asyncio.to_thread(shown_at, port, None, corporate.ca)) == of(first)
        pair.key.write_text("no key")  # half of a change
        with pytest.raises(ssl.SSLError):
            server.renew()
        assert of(await asyncio.to_thread(shown_at, server.port, NAME, corporate.ca)) == of(first)
        second = corporate.issue(pair, NAME, "more.example.com")
        await asyncio.wait_for(used.wait(), 60)
        for port in (server.port, exposition.port):
            assert of(await asyncio.to_thread(shown_at, port, "more.example.com", corporate.ca)) == of(second)
    finally:
        following.cancel()
        exposition.stop()
        await server.stop()


def metrics_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_a_hub_with_a_certificate_of_its_own_starts_restarts_and_takes_a_new_one(tmp_path: Path) -> None:
    folder, corporate = tmp_path / "hub", Corporate(tmp_path)
    data, given = DataDir(folder), Pair(tmp_path / "tls.crt", tmp_path / "tls.key")
    in_pki = corporate.issue(in_place(data), NAME, days=5)
    up = Up(folder)
    try:
        assert "it ends on" in up.errors.read_text()
        port = int(yaml.safe_load(data.kubeconfig.read_text())["clusters"][0]["cluster"]["server"].rpartition(":")[2])
        assert of(shown_at(port, NAME, corporate.ca)) == of(in_pki)
        up.hub.request("GET", "/readyz")  # by the kubeconfig of the directory
    finally:
        assert up.stop() == 0
    assert data.server_certificate.read_bytes() == in_pki

    first, metrics = corporate.issue(given, NAME), metrics_port()
    options = ["--tls-cert-file", str(given.certificate), "--tls-private-key-file", str(given.key)]
    up = Up(folder, *options, "--metrics-listen", f"127.0.0.1:{metrics}")
    try:
        port = int(yaml.safe_load(data.kubeconfig.read_text())["clusters"][0]["cluster"]["server"].rpartition(":")[2])
        up.hub.request("GET", "/readyz")
        assert [of(shown_at(at, NAME, corporate.ca)) for at in (port, metrics)] == [of(first)] * 2
        second = corporate.issue(given, NAME)
        for at in (port, metrics):
            until("the new certificate is shown", lambda at=at: of(shown_at(at, NAME, corporate.ca)) == of(second))
        made = fleet("token", "create", "ann", "-o", "kubeconfig", "--data-dir", str(folder))
        cluster = yaml.safe_load(made.stdout)["clusters"][0]["cluster"]
        assert cluster["tls-server-name"] == "localhost"
        where = ["--server", f"https://{NAME}", "--certificate-authority", str(corporate.ca)]
        made = fleet("token", "create", "ann", "-o", "kubeconfig", *where, "--data-dir", str(folder))
        cluster = yaml.safe_load(made.stdout)["clusters"][0]["cluster"]
        assert "tls-server-name" not in cluster
        assert yaml.safe_load(made.stdout)["clusters"][0]["cluster"]["server"] == f"https://{NAME}"
    finally:
        assert up.stop() == 0


def test_an_api_process_shows_a_certificate_that_lies_in_the_directory_before_its_first_start(tmp_path: Path) -> None:
    data, corporate = DataDir(tmp_path / "hub"), Corporate(tmp_path)
    mine, port = corporate.issue(in_place(data), NAME), metrics_port()
    with (tmp_path / "stderr").open("w") as errors:
        process = subprocess.Popen(
            [str(BIN / "fleet"), "api", "--data-dir", str(data.root), "--listen", f"127.0.0.1:{port}"],
            stderr=errors,
            stdin=subprocess.DEVNULL,
        )
    try:

        def shows() -> bool:
            assert process.poll() is None, (tmp_path / "stderr").read_text()
            try:
                return of(shown_at(port, NAME, corporate.ca)) == of(mine)
            except ConnectionRefusedError:
                return False

        until("the certificate is shown", shows)
        assert of(shown_at(port, "localhost", data.ca_certificate)) == of(data.local_certificate.read_bytes())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert data.server_certificate.read_bytes() == mine


def test_a_certificate_of_another_key_is_refused_before_anything_starts(tmp_path: Path) -> None:
    one, two = (Pair(tmp_path / f"{name}.crt", tmp_path / f"{name}.key") for name in ("a", "b"))
    for pair in (one, two):
        Corporate(tmp_path).issue(pair, NAME)
    options = ["--tls-cert-file", str(one.certificate), "--tls-private-key-file", str(two.key)]
    for command in ("up", "api", "controllers"):
        said = refusal(fleet(command, "--data-dir", str(tmp_path / "hub"), *options))
        assert "--tls-cert-file" in said and "--tls-private-key-file" in said
    assert not (tmp_path / "hub").exists()
