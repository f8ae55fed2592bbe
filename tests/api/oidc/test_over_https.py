"""An issuer behind HTTPS, asked by the API as it is composed; and commands that refuse a bad configuration."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest

from api.access.auth import AnyOf
from api.access.oidc.keys import FetchFailure
from api.engine.registry import Registry
from api.objects.objects import Objects
from api.outgoing import OutgoingClient
from api.store.memory import MemoryStore
from fleet.admission.filling import filled
from fleet.cli.datadir import DataDir
from fleet.cli.failure import Failure
from fleet.hub.access import AccessOptions
from fleet.hub.authentication import fetch_by, users_of
from fleet.hub.compose import CommonParts
from fleet.hub.firststart import create_root, prepare
from fleet.simulate.wall import RandomIds, WallClock
from tests.api.oidc.issuer import AUDIENCE, Issuer, configuration, entry
from tests.api.outgoing.server import serving
from tests.cli.hub import fleet, refusal
from tests.testbed.pki import Pki, make_pki


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("issuer") / "pki")


@asynccontextmanager
async def published(pki: Pki) -> AsyncIterator[Issuer]:
    issuer = Issuer()

    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=await issuer.fetch(f"{issuer.url}{request.path}", ""))

    async with serving(answer, pki) as port:
        issuer.url = f"https://127.0.0.1:{port}"
        yield issuer


@asynccontextmanager
async def composed(folder: Path, access: AccessOptions) -> AsyncIterator[tuple[AnyOf, CollectorRegistry, DataDir]]:
    data, clock, ids = DataDir(folder / "data"), WallClock(), RandomIds()
    create_root(data)
    prepare(data, "127.0.0.1")
    store, registry, shown = MemoryStore(clock), Registry([]), CollectorRegistry()
    hub = CommonParts(data, "", clock, ids, store, registry, Objects(store, registry, clock, ids, fill=filled))  # type: ignore[arg-type]
    outgoing = OutgoingClient(access.allowed())
    try:
        async with users_of(hub, access, outgoing) as users:
            users.show(shown)
            yield users.authenticator, shown, data
    finally:
        await outgoing.aclose()


def file_of(folder: Path, issuer: Issuer, authority: str = "") -> Path:
    path = folder / "authentication.yaml"
    source = {"url": issuer.url, "audiences": [AUDIENCE], "certificateAuthority": authority}
    path.write_text(yaml.safe_dump(configuration(entry(issuer=source))))
    return path


async def test_a_token_of_an_issuer_behind_https_is_a_user(pki: Pki, tmp_path: Path) -> None:
    async with published(pki) as issuer:
        access = AccessOptions(None, file_of(tmp_path, issuer, pki.ca.read_text()), ["127.0.0.0/8"])
        async with composed(tmp_path, access) as (users, shown, data):
            user = await users.user(issuer.token(exp=time.time() + 600))
            assert user is not None and user.name == "oidc:ann"
            admin = await users.user(data.admin_token())
            assert admin is not None and admin.name == "admin"
            assert await users.user(issuer.token(exp=time.time() - 1)) is None
            text = generate_latest(shown).decode()
    assert "fleet_api_authentication_config_good 1.0" in text
    assert f'fleet_api_oidc_fetches_total{{issuer="{issuer.url}",outcome="fetched"}} 1.0' in text
    assert f'fleet_api_oidc_refused_total{{issuer="{issuer.url}",why="time"}} 1.0' in text


@pytest.mark.parametrize(("trusted", "allowed"), [(False, ["127.0.0.0/8"]), (True, [])], ids=["no-ca", "private"])
async def test_an_issuer_that_cannot_be_trusted_or_reached_has_no_users(
    pki: Pki, tmp_path: Path, trusted: bool, allowed: list[str]
) -> None:
    async with published(pki) as issuer:
        authority = pki.ca.read_text() if trusted else ""
        access = AccessOptions(None, file_of(tmp_path, issuer, authority), allowed)
        async with composed(tmp_path, access) as (users, shown, _):
            assert await users.user(issuer.token(exp=time.time() + 600)) is None
            assert 'outcome="failed"} 1.0' in generate_latest(shown).decode()
        assert issuer.asked == []


async def test_an_answer_that_is_no_success_gives_no_keys(pki: Pki) -> None:
    async def missing(request: web.Request) -> web.Response:
        return web.Response(status=404, body=b"{}")

    async with serving(missing, pki) as port:
        outgoing = OutgoingClient(AccessOptions(outgoing_allow=["127.0.0.0/8"]).allowed())
        try:
            with pytest.raises(FetchFailure, match="HTTP 404"):
                await fetch_by(outgoing)(f"https://127.0.0.1:{port}/x", pki.ca.read_text())
        finally:
            await outgoing.aclose()


@pytest.mark.parametrize(
    ("option", "text", "why"),
    [
        ("--authentication-config", "kind: Other", "apiVersion: Required value"),
        ("--authentication-config", None, "No such file"),
        ("--client-ca-file", "no PEM", "no certificates in PEM"),
        ("--client-ca-file", None, "No such file"),
        ("--outgoing-allow", "300.1.2.3/8", "neither a network nor HOST"),
    ],
)
def test_a_hub_refuses_an_option_that_cannot_be_used(tmp_path: Path, option: str, text: str | None, why: str) -> None:
    path = tmp_path / "file"
    access = AccessOptions(outgoing_allow=[text or ""])
    if option != "--outgoing-allow":
        access = AccessOptions(path) if option == "--client-ca-file" else AccessOptions(None, path)
        if text is not None:
            path.write_text(text)
    with pytest.raises(Failure, match=option) as failure:
        access.check()
    assert why in str(failure.value)


def test_fleet_up_says_so_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("jwt: []")
    done = fleet("up", "--data-dir", str(tmp_path / "data"), "--authentication-config", str(tmp_path / "file"))
    assert "apiVersion: Required value" in refusal(done)
    assert not (tmp_path / "data").exists()


def test_every_option_reaches_the_api_process(tmp_path: Path) -> None:
    access = AccessOptions(tmp_path / "ca", tmp_path / "config", ["10.0.0.0/8", "idp.example"])
    assert access.words() == [
        "--client-ca-file",
        str(tmp_path / "ca"),
        "--authentication-config",
        str(tmp_path / "config"),
        "--outgoing-allow",
        "10.0.0.0/8",
        "--outgoing-allow",
        "idp.example",
    ]
