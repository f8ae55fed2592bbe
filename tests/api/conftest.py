"""An API on a memory store, served over TLS on a free port, for real kubectl and raw HTTP."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from api.access.auth import AnyOf, Authenticator, ServiceAccountTokens, TokenFile
from api.access.rbac import Rbac
from api.audit.face import Audit
from api.engine.registry import Registry
from api.objects.objects import Objects
from api.objects.writing import Options, User
from api.server.app import Api, SubresourceHandler
from api.server.openapi import OpenApi
from api.store.memory import MemoryStore
from api.store.postgres import PostgresStore
from api.transport.serve import Server
from api.wire.http import ASGIApp, Face
from fleet.admission import rules
from fleet.admission.filling import filled
from fleet.admission.kindfiles import load_kinds
from fleet.console.face import Console
from fleet.hub.face import hub_app
from fleet.simulate.wall import RandomIds, WallClock
from fleet.values.ports import Store
from tests.testbed.bed import Bed
from tests.testbed.build import parts
from tests.testbed.kubectls import OWN, kubectls
from tests.testbed.member import RealMember

Routes = Mapping[tuple[str, str, str], SubresourceHandler]
ADMIN = User("admin", ("system:masters",))
KUBECTLS = kubectls()
KUBECTL = KUBECTLS[OWN]
TOKENS = 'admin-token,admin,1,"system:masters"\nalice-token,alice,2,"dev"\nbob-token,bob,3,""\n'


def key_pem() -> bytes:
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def self_signed(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that is its own authority: (certificate, key)."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime(2020, 1, 1, tzinfo=UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=36500))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    cert_path, key_path = folder / "tls.crt", folder / "tls.key"
    cert_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    key_path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return cert_path, key_path


@dataclass
class Hub:
    """A served API with everything that it is made of."""

    app: Api
    server: Server
    objects: Objects
    store: Store
    registry: Registry
    cert: Path
    folder: Path

    def client(self, token: str = "admin-token") -> httpx.AsyncClient:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(
            base_url=self.server.url,
            headers=headers,
            verify=ssl.create_default_context(cafile=str(self.cert)),
            timeout=20,
        )

    def options(self) -> Options:
        return Options(ADMIN, "test")

    def kubeconfig(self, token: str = "admin-token") -> Path:
        path = self.folder / f"kubeconfig-{sha256(token.encode()).hexdigest()[:16]}"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "hub",
            "clusters": [
                {"name": "hub", "cluster": {"server": self.server.url, "certificate-authority": str(self.cert)}}
            ],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "user"}}],
        }
        path.write_text(yaml.safe_dump(document))
        return path

    def start_kubectl(
        self, binary: str, arguments: Sequence[str], *, token: str = "admin-token", env: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        command = [binary, f"--kubeconfig={self.kubeconfig(token)}", f"--cache-dir={self.folder}/cache", *arguments]
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(env or {})},
        )

    async def kubectl(
        self,
        binary: str,
        *arguments: str,
        stdin: str = "",
        token: str = "admin-token",
        env: dict[str, str] | None = None,
        ok: bool = True,
    ) -> tuple[int, str, str]:
        """Run kubectl to its end: (exit status, stdout, stderr). With `ok` a failure fails the test."""
        process = self.start_kubectl(binary, arguments, token=token, env=env)
        out, err = await asyncio.to_thread(process.communicate, stdin, 60)
        if ok:
            assert process.returncode == 0, f"kubectl {' '.join(arguments)}: {out}{err}"
        return process.returncode, out, err


@asynccontextmanager
async def open_hub(
    folder: Path,
    store: Store,
    audit: Audit | None = None,
    parts: Mapping[str, Callable[[], str]] | None = None,
    routes: Callable[[Objects], Routes] | None = None,
    mounts: Callable[[Objects], Mapping[str, ASGIApp | Face]] | None = None,
    console: Callable[[Authenticator], Console] | None = None,
) -> AsyncIterator[Hub]:
    """Serve the API over a store that is not started yet, with all kinds and rules of the hub. `routes`, `mounts` and
    `console`: more of it."""
    clock = WallClock()
    registry = Registry(load_kinds())
    objects = Objects(store, registry, clock, RandomIds(), rules=rules(), fill=filled)
    tokens_path = folder / "tokens.csv"
    tokens_path.write_text(TOKENS)
    tokens = ServiceAccountTokens(key_pem(), store, clock)
    authenticator = AnyOf(TokenFile(tokens_path, clock), tokens)
    app = hub_app(
        objects,
        store,
        registry,
        clock=clock,
        authenticator=authenticator,
        console=console(authenticator) if console is not None else None,
        authorizer=Rbac(store),
        openapi=OpenApi(registry),
        tokens=tokens,
        bookmark_every_s=0.3,
        parts=parts,
        audit=audit,
        extra_routes=routes(objects) if routes is not None else None,
        mounts=mounts(objects) if mounts is not None else None,
    )
    cert, key = self_signed(folder)
    server = Server(
        app, cert=cert, key=key, close_streams=app.close_streams, metrics=app.metrics.edge, client_authorities=(cert,)
    )
    await store.start()
    try:
        await app.start()
        await server.start()
        hub = Hub(app, server, objects, store, registry, cert, folder)
        for name in ("default", "kube-system"):
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            await objects.create(registry.need("", "namespaces"), "", body, hub.options())
        yield hub
    finally:
        await server.stop()
        await app.stop()
        await store.stop()


@pytest.fixture(scope="session")
def real_apiserver() -> Iterator[RealMember]:
    """A real kube-apiserver with its etcd, for all modules of the xdist group "real-apiserver"."""
    with tempfile.TemporaryDirectory(prefix="fleet-like-") as folder:
        bed = Bed(Path(folder) / "bed", parts())
        try:
            etcd = bed._etcd()
            member = RealMember("like", bed.folder / "like", bed._built, bed._pki, bed.processes, etcd)
            bed.members["like"] = member
            member.start_apiserver()
            member.wait_apiserver()
            yield member
        finally:
            bed.stop()


def real_client(real: RealMember) -> httpx.AsyncClient:
    """A client of the real kube-apiserver, as its administrator."""
    trust, headers = ssl.create_default_context(cafile=str(real.pki.ca)), {"authorization": "Bearer admin-token"}
    return httpx.AsyncClient(base_url=real.url, headers=headers, verify=trust, timeout=60)


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    """On a memory store."""
    async with open_hub(tmp_path, MemoryStore(WallClock())) as opened:
        yield opened


@pytest.fixture(params=["memory", "postgres"])
async def any_hub(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Hub]:
    """On each of the two stores."""
    store: Store
    if request.param == "memory":
        store = MemoryStore(WallClock())
    else:
        store = PostgresStore(
            request.getfixturevalue("database_url"), WallClock(), secret_key_file=tmp_path / "keys.json"
        )
    async with open_hub(tmp_path, store) as opened:
        yield opened
