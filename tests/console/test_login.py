"""Logins through an issuer: a small one behind HTTPS, asked by the hub's own outgoing client."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from api.access.auth import AnyOf
from api.access.oidc.config import read
from api.access.oidc.metrics import OidcMetrics
from api.access.oidc.tokens import OidcTokens
from api.outgoing import OutgoingClient
from api.outgoing.allowlist import AllowList
from fleet.cli.failure import Failure
from fleet.console.attempts import FAILED_MAX
from fleet.console.login import IssuerClient, Login
from fleet.hub.access import AccessOptions
from fleet.hub.authentication import fetch_by
from fleet.hub.console import post_by
from tests.api.oidc.issuer import AUDIENCE, configuration, entry
from tests.api.oidc.provider import Provider
from tests.api.outgoing.server import serving
from tests.console.hub import World, console_hub
from tests.testbed.pki import Pki, make_pki


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    return make_pki(tmp_path_factory.mktemp("issuer") / "pki")


@asynccontextmanager
async def provided(folder: Path, pki: Pki, secret: str = "") -> AsyncIterator[tuple[World, Provider]]:
    provider = Provider()
    async with serving(provider.answer, pki) as port, OutgoingClient(AllowList.parse(["127.0.0.0/8"])) as outgoing:
        provider.url = f"https://127.0.0.1:{port}"
        authority = pki.ca.read_text()
        source = {"url": provider.url, "audiences": [AUDIENCE], "certificateAuthority": authority}
        users: list[OidcTokens] = []

        def login(store: Any, clock: Any, tokens: Any) -> tuple[Login, Any]:
            oidc = OidcTokens(fetch_by(outgoing), clock, OidcMetrics())
            oidc.configure(read(configuration(entry(issuer=source))))
            users.append(oidc)
            authenticator = AnyOf(tokens, oidc)
            client = IssuerClient(provider.url, AUDIENCE, secret, "", authority)
            return Login(
                client, store, clock, authenticator, fetch_by(outgoing), post_by(outgoing, authority)
            ), authenticator

        async with console_hub(folder, login) as world:
            try:
                yield world, provider
            finally:
                for oidc in users:
                    await oidc.stop()


@pytest.fixture
async def both(tmp_path: Path, pki: Pki) -> AsyncIterator[tuple[World, Provider]]:
    async with provided(tmp_path, pki) as made:
        yield made


async def begun(browser: httpx.AsyncClient, to: str = "/console/jobs?queue=a") -> str:
    """Where the browser is sent to."""
    answer = await browser.get("/console/login/oidc", params={"to": to})
    assert answer.status_code == 303, answer.text
    where: str = answer.headers["location"]
    return where


async def test_a_login_goes_to_the_issuer_and_comes_back_as_a_session(both: tuple[World, Provider]) -> None:
    world, provider = both
    browser = world.browser()
    assert (await browser.get("/console/methods")).json() == {"methods": ["token", "oidc"], "issuer": provider.url}
    where = await begun(browser)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(where).query).items()}
    assert where.startswith(f"{provider.url}/authorize?")
    assert asked["redirect_uri"] == "https://hub/console/callback" and asked["scope"] == "openid email groups"
    assert (asked["response_type"], asked["code_challenge_method"], asked["client_id"]) == ("code", "S256", AUDIENCE)
    assert len({asked["state"], asked["nonce"], asked["code_challenge"]}) == 3
    answer = await browser.get("/console/callback", params=provider.agree(where))
    assert (answer.status_code, answer.headers["location"]) == (303, "/console/jobs?queue=a")
    assert list(browser.cookies) == ["__Host-fleet"]
    session = (await browser.get("/console/session")).json()
    assert session["user"] == {"name": "oidc:ann", "groups": ["oidc:dev", "oidc:ops", "system:authenticated"]}
    assert session["expires"] == "2027-01-15T08:10:00Z"  # a session ends with its token
    world.clock.at += 600
    assert (await browser.get("/console/session")).status_code == 401
    assert provider.heads == [""] and provider.forms[0]["client_id"] == AUDIENCE


@pytest.mark.parametrize("methods", [["client_secret_basic"], ["client_secret_post"]])
async def test_a_secret_goes_the_way_that_the_issuer_names(tmp_path: Path, pki: Pki, methods: list[str]) -> None:
    async with provided(tmp_path, pki, "a secret&") as (world, provider):
        provider.methods = methods
        browser = world.browser()
        answer = await browser.get("/console/callback", params=provider.agree(await begun(browser)))
        assert answer.status_code == 303
        if methods == ["client_secret_basic"]:
            assert b64decode(provider.heads[0].removeprefix("Basic ")) == f"{AUDIENCE}:a+secret%26".encode()
            assert "client_secret" not in provider.forms[0]
        else:
            assert (provider.heads[0], provider.forms[0]["client_secret"]) == ("", "a secret&")


async def test_good_logins_do_not_count_against_their_address(both: tuple[World, Provider]) -> None:
    world, provider = both
    for _ in range(FAILED_MAX + 1):
        browser = world.browser()
        assert (await browser.get("/console/callback", params=provider.agree(await begun(browser)))).status_code == 303


async def test_a_state_is_good_once(both: tuple[World, Provider]) -> None:
    world, provider = both
    browser = world.browser()
    where = await begun(browser)
    cookie = browser.cookies["__Host-fleet-login"]
    assert (await browser.get("/console/callback", params=provider.agree(where))).status_code == 303
    thief = world.browser()
    thief.cookies.set("__Host-fleet-login", cookie)
    answer = await thief.get("/console/callback", params=provider.agree(where))
    assert answer.status_code == 400 and "used already" in answer.json()["message"]
    assert len(world.stored()) == 1 and not world.stored("logins")


async def test_a_state_is_good_in_the_browser_that_began_alone(both: tuple[World, Provider]) -> None:
    """Nobody logs another's browser in with an answer of the issuer's that she got herself."""
    world, provider = both
    attacker, victim = world.browser(), world.browser()
    query = provider.agree(await begun(attacker))
    assert (await victim.get("/console/callback", params=query)).status_code == 400
    await begun(victim)
    assert (await victim.get("/console/callback", params=query)).status_code == 400
    assert not world.stored()


@pytest.mark.parametrize("state", ["", "other", None, "é"])
async def test_another_state_is_refused_and_ends_the_login(both: tuple[World, Provider], state: str | None) -> None:
    world, provider = both
    browser = world.browser()
    query = provider.agree(await begun(browser))
    wrong = {"code": query["code"], **({"state": state} if state is not None else {})}
    answer = await browser.get("/console/callback", params=wrong)
    assert (answer.status_code, answer.json()["kind"]) == (400, "Status")
    assert not provider.forms and "__Host-fleet-login" not in browser.cookies
    assert (await browser.get("/console/callback", params=query)).status_code == 400


async def test_a_login_has_ten_minutes(both: tuple[World, Provider]) -> None:
    world, provider = both
    browser = world.browser()
    query = provider.agree(await begun(browser))
    world.clock.at += 600
    assert (await browser.get("/console/callback", params=query)).status_code == 400


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "other"},
        {"nonce": None},
        {"aud": "another"},
        {"iss": "https://else.example"},
        {"exp": 1.0},
        {"sub": None},
    ],
    ids=["nonce", "no-nonce", "audience", "issuer", "expired", "nobody"],
)
async def test_a_token_that_is_no_answer_to_this_login_opens_nothing(
    both: tuple[World, Provider], claims: dict[str, Any]
) -> None:
    world, provider = both
    provider.claims = claims
    browser = world.browser()
    answer = await browser.get("/console/callback", params=provider.agree(await begun(browser)))
    assert (answer.status_code, answer.json()["reason"]) == (401, "Unauthorized")
    assert not world.stored() and not browser.cookies


async def test_an_issuer_that_refuses_is_said_so(both: tuple[World, Provider]) -> None:
    world, provider = both
    browser = world.browser()
    state = provider.agree(await begun(browser))["state"]
    answer = await browser.get("/console/callback", params={"error": "access_denied", "state": state})
    assert answer.status_code == 401 and "access_denied" in answer.json()["message"]
    provider.refuses = True
    answer = await browser.get("/console/callback", params=provider.agree(await begun(browser)))
    assert answer.status_code == 401 and "no ID token" in answer.json()["message"]


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example",
        "//evil.example/console",
        "/console@evil",
        "/consolex",
        "/api/v1/secrets",
        "",
        "/console/../api/v1",
        "/console//evil.example",
        "/console/\r\nset-cookie: a=b",
        "\\\\evil",
        "/console/ü",
        "/console/%2e%2e/api/v1",
        "/console/.%2E/api/v1",
        "/console/%2f/evil.example",
        "/console/x/%2e%2e%2f%2e%2e/api",
    ],
)
async def test_a_login_comes_back_to_a_page_of_the_console_alone(both: tuple[World, Provider], to: str) -> None:
    world, provider = both
    browser = world.browser()
    answer = await browser.get("/console/callback", params=provider.agree(await begun(browser, to)))
    assert (answer.status_code, answer.headers["location"]) == (303, "/console")


async def test_an_issuer_that_does_not_answer_leaves_the_login_by_token(both: tuple[World, Provider]) -> None:
    world, provider = both
    provider.url = "https://other.example"  # the document is another issuer's now
    browser = world.browser()
    answer = await browser.get("/console/login/oidc")
    assert (answer.status_code, answer.json()["reason"]) == (503, "ServiceUnavailable")
    await world.logged_in()


async def test_a_browser_that_logs_in_too_often_lands_on_the_login_which_says_when_to_try_again(
    both: tuple[World, Provider],
) -> None:
    world, provider = both
    browser = world.browser("10.0.0.8")
    query = provider.agree([await begun(browser) for _ in range(30)][-1])
    world.clock.at += 20
    for path, asked in (("/console/login/oidc", {}), ("/console/callback", query)):
        program = await browser.get(path, params=asked)
        assert (program.status_code, program.headers["retry-after"]) == (429, "41")
        person = await browser.get(path, params=asked, headers={"accept": "text/html,*/*;q=0.8"})
        assert (person.status_code, person.headers["location"]) == (303, "/console?login=TooManyRequests&after=41")
    assert not world.stored()


async def test_logins_that_begin_are_bounded(both: tuple[World, Provider]) -> None:
    world, _ = both
    browser = world.browser("10.0.0.7")
    codes = [(await browser.get("/console/login/oidc")).status_code for _ in range(31)]
    assert codes == [303] * 30 + [429]
    assert len(world.stored("logins")) == 30
    world.clock.at += 601
    await begun(world.browser())
    assert len(world.stored("logins")) == 1


def test_the_flags_make_a_client(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    access = AccessOptions(
        oidc_issuer_url="https://i.example",
        oidc_client_id="fleet",
        oidc_client_secret_file=secret,
        oidc_redirect_url="https://fleet.example/console/callback",
    )
    expected = IssuerClient("https://i.example", "fleet", "s3cret", "https://fleet.example/console/callback", "")
    assert access.client() == expected
    assert "--no-console" in AccessOptions(console=False).words() and AccessOptions().words() == []
    assert AccessOptions().client() is None


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"oidc_redirect_url": "http://h/console/callback"}, "--oidc-redirect-url"),
        ({"oidc_redirect_url": "https://h/elsewhere"}, "not https://HOST/console/callback"),
        ({"oidc_client_secret_file": Path("/no/such/file")}, "--oidc-client-secret-file"),
        ({"oidc_issuer_url": None, "oidc_redirect_url": "https://h/console/callback"}, "--oidc-issuer-url"),
    ],
)
def test_a_client_that_cannot_be_used_is_refused(flags: dict[str, Any], why: str) -> None:
    access = AccessOptions(**{"oidc_issuer_url": "https://i.example", "oidc_client_id": "fleet", **flags})
    with pytest.raises(Failure, match=why):
        access.check()
    assert json.dumps(access.words())  # an option that is refused is still one that can be handed on
