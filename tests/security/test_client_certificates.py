"""Client certificates as credentials: of which authority, for whom and for how long."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID

from api.access.auth import AUTHENTICATED
from api.access.certificates import UID, PeerCertificate
from api.store.memory import MemoryStore
from fleet.simulate.wall import WallClock
from tests.api.conftest import KUBECTL, Hub, open_hub
from tests.security.certificate import client_certificate, self_signed

SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
PAST = datetime(2021, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hub")


@pytest.fixture
async def hub(folder: Path) -> AsyncIterator[Hub]:
    async with open_hub(folder, MemoryStore(WallClock())) as opened:
        yield opened


async def whoami(hub: Hub, pair: tuple[Path, Path] | None, token: str = "") -> tuple[int, dict[str, Any]]:
    """The status of the answer, and the user that the hub takes the client for."""
    context = ssl.create_default_context(cafile=str(hub.cert))
    if pair is not None:
        context.load_cert_chain(*pair)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(base_url=hub.server.url, verify=context, headers=headers, timeout=30) as client:
        answer = await client.post(SELF, json={"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
        return answer.status_code, answer.json().get("status", {}).get("userInfo", {}) if answer.is_success else {}


async def test_the_subject_is_the_user_and_the_organisations_are_the_groups(hub: Hub) -> None:
    pair = client_certificate(hub.folder, "ann", ("dev", "ops"), more=(x509.NameAttribute(UID, "7"),))
    status, user = await whoami(hub, pair)
    assert (status, user["username"], user["groups"], user["uid"]) == (201, "ann", ["dev", "ops", AUTHENTICATED], "7")
    (credential,) = user["extra"]["authentication.kubernetes.io/credential-id"]
    assert credential.startswith("X509SHA256=")


async def test_a_certificate_goes_before_a_token(hub: Hub) -> None:
    pair = client_certificate(hub.folder, "ann")
    assert (await whoami(hub, pair, "admin-token"))[1]["username"] == "ann"
    assert (await whoami(hub, pair, "wrong"))[1]["username"] == "ann"
    assert (await whoami(hub, None, "admin-token"))[1]["username"] == "admin"


async def test_a_certificate_without_a_name_is_nobody_s(hub: Hub) -> None:
    pair = client_certificate(hub.folder, "", ("system:masters",))
    assert (await whoami(hub, pair))[0] == 401
    assert (await whoami(hub, pair, "admin-token"))[1]["username"] == "admin"


@pytest.mark.parametrize(
    "more",
    [{"ends": PAST}, {"begins": datetime(2099, 1, 1, tzinfo=UTC)}, {"usage": ExtendedKeyUsageOID.SERVER_AUTH}],
    ids=["over", "not-yet", "of-a-server"],
)
async def test_a_certificate_that_does_not_hold_gets_no_connection(hub: Hub, more: dict[str, Any]) -> None:
    pair = client_certificate(hub.folder, "ann", **more)
    with pytest.raises(httpx.TransportError):
        await whoami(hub, pair)


async def test_a_certificate_of_another_authority_gets_no_connection(hub: Hub, tmp_path: Path) -> None:
    self_signed(tmp_path)
    with pytest.raises(httpx.TransportError):
        await whoami(hub, client_certificate(tmp_path, "admin", ("system:masters",)))


def test_a_certificate_ends_while_its_connection_goes_on(tmp_path: Path) -> None:
    self_signed(tmp_path)
    path, _ = client_certificate(tmp_path, "ann", ends=PAST)
    shown = PeerCertificate(x509.load_pem_x509_certificate(path.read_bytes()).public_bytes(Encoding.DER))
    user = shown.user(PAST.timestamp())
    assert user is not None and user.name == "ann"
    assert shown.user(PAST.timestamp() + 1) is None
    assert shown.user(0.0) is None


@pytest.mark.parametrize("der", [b"", b"rubbish", b"\x30\x03\x02\x01\x00"])
def test_what_is_no_certificate_is_nobody_s(der: bytes) -> None:
    assert PeerCertificate(der).user(1e9) is None


async def test_kubectl_works_with_a_certificate(hub: Hub) -> None:
    certificate, key = client_certificate(hub.folder, "ann", ("dev",))
    flags = (f"--client-certificate={certificate}", f"--client-key={key}", "auth", "whoami", "-o", "json")
    _, out, _ = await hub.kubectl(KUBECTL, *flags, token="")
    assert json.loads(out)["status"]["userInfo"]["username"] == "ann"
