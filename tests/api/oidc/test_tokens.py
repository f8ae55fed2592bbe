"""Which ID tokens are credentials, and whose."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt.warnings import InsecureKeyLengthWarning

from api.access.auth import AUTHENTICATED, ISSUER, LEEWAY_S
from api.access.oidc.config import read
from api.access.oidc.keys import KEYS_MAX, PAUSE_S, REFRESH_S
from api.access.oidc.metrics import OidcMetrics
from api.access.oidc.tokens import OidcTokens
from tests.api.oidc.issuer import NOW, Hand, Issuer, configuration, entry, jwk, signing_key

OTHER = "https://other.example/realm"


class World:
    """An authenticator with one issuer or two."""

    def __init__(self, *issuers: Issuer) -> None:
        self.clock, self.metrics = Hand(), OidcMetrics()
        self.issuers = {issuer.url: issuer for issuer in issuers}
        self.tokens = OidcTokens(self._fetch, self.clock, self.metrics)

    async def _fetch(self, url: str, authority: str) -> bytes:
        return await next(issuer for base, issuer in self.issuers.items() if url.startswith(base)).fetch(url, authority)

    def configure(self, *entries: dict[str, Any]) -> None:
        self.tokens.configure(read(configuration(*(entries or map(entry, self.issuers)))))

    def refused(self, why: str, url: str = "https://issuer.example") -> float:
        return float(self.metrics.refused.labels(url, why)._value.get())

    async def name(self, token: str) -> str:
        """The user's name, "" for nobody."""
        user = await self.tokens.user(token)
        return user.name if user is not None else ""


@pytest.fixture
async def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
async def world(issuer: Issuer) -> AsyncIterator[World]:
    made = World(issuer)
    made.configure()
    yield made
    await made.tokens.stop()


async def test_a_good_token_is_its_user_with_groups_behind_prefixes(world: World, issuer: Issuer) -> None:
    user = await world.tokens.user(issuer.token(jti="7"))
    assert user is not None
    assert (user.name, user.groups) == ("oidc:ann", ("oidc:dev", "oidc:ops", AUTHENTICATED))
    assert user.extra == (("authentication.kubernetes.io/credential-id", ("JTI=7",)),)


_BAD: list[tuple[str, dict[str, Any]]] = [
    ("time", {"exp": NOW}),
    ("time", {"exp": None}),
    ("time", {"exp": "soon"}),
    ("time", {"exp": True}),
    ("time", {"nbf": NOW + LEEWAY_S + 1}),
    ("time", {"nbf": [1]}),
    ("audience", {"aud": "another"}),
    ("audience", {"aud": None}),
    ("audience", {"aud": []}),
    ("audience", {"aud": [{"fleet": 1}]}),
    ("claim", {"sub": None}),
    ("claim", {"sub": ""}),
    ("claim", {"sub": 7}),
    ("claim", {"groups": {"a": 1}}),
    ("claim", {"groups": ["a", 1]}),
    ("algorithm", {"algorithm": "HS256", "key": "x" * 64}),
    ("algorithm", {"head": {"crit": ["exp"]}}),
    ("signature", {"key": signing_key(number=1)}),
    ("key", {"kid": "unknown"}),
    ("key", {"algorithm": "ES256", "key": signing_key("ES256")}),
]


@pytest.mark.parametrize(("why", "claims"), _BAD, ids=[f"{why}-{list(claims)}" for why, claims in _BAD])
async def test_a_token_that_is_wrong_is_nobody(world: World, issuer: Issuer, why: str, claims: dict[str, Any]) -> None:
    assert await world.name(issuer.token()) == "oidc:ann"
    assert await world.name(issuer.token(**claims)) == ""
    assert world.refused(why) == 1


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": ["x", "fleet"]},
        {"nbf": NOW + LEEWAY_S},
        {"kid": None},
        {"algorithm": "PS512"},
        {"algorithm": "RS384"},
        {"groups": None},
        {"groups": "one"},
        {"iat": NOW + 9999},
    ],
    ids=lambda claims: next(iter(claims)),
)
async def test_a_token_may_differ_in_this(world: World, issuer: Issuer, claims: dict[str, Any]) -> None:
    assert await world.name(issuer.token(**claims)) == "oidc:ann"


def _unsigned(issuer: Issuer, algorithm: str) -> str:
    head = base64.urlsafe_b64encode(json.dumps({"alg": algorithm, "kid": "first"}).encode()).rstrip(b"=").decode()
    return f"{head}.{issuer.token().split('.')[1]}."


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", "RS256"])
async def test_a_token_without_a_signature_is_nobody(world: World, issuer: Issuer, algorithm: str) -> None:
    assert await world.name(_unsigned(issuer, algorithm)) == ""


async def test_the_public_key_is_no_shared_secret(world: World, issuer: Issuer) -> None:
    """The attack on libraries that take the algorithm from the token."""
    signed = ".".join(_unsigned(issuer, "HS256").split(".")[:2])
    public = signing_key().public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    mac = base64.urlsafe_b64encode(hmac.digest(public, signed.encode(), "sha256")).rstrip(b"=").decode()
    assert await world.name(f"{signed}.{mac}") == ""
    assert world.refused("algorithm") == 1


@pytest.mark.parametrize(
    "token", ["", "a", "a.b.c", "....", "e30.e30.e30", "e30.W10.", "é.b.c", "." * 3000, "e30.bnVsbA."]
)
async def test_rubbish_is_nobody_and_nobody_is_asked(world: World, issuer: Issuer, token: str) -> None:
    assert await world.name(token) == ""
    deep = base64.urlsafe_b64encode(b"[" * 9000).decode().rstrip("=")
    assert await world.name(f"{deep}.{deep}.{deep}") == ""


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES512"])
async def test_a_key_of_a_curve_signs_with_its_algorithm_alone(algorithm: str) -> None:
    key = signing_key(algorithm)
    issuer = Issuer(keys=[jwk(key, "curve")])
    world = World(issuer)
    world.configure()
    assert await world.name(issuer.token(key=key, kid="curve", algorithm=algorithm)) == "oidc:ann"
    assert await world.name(issuer.token(kid="curve")) == ""


@pytest.mark.parametrize(
    "published",
    [
        {"use": "enc"},
        {"alg": "RS512"},
        {"alg": "HS256"},
        {"alg": 5},
        {"n": "AQAB"},
        {"n": "!"},
        {"e": None},
        {"kty": "oct", "k": "c2VjcmV0"},
        {"kty": None},
        {"kid": 5},
        {"d": "AQAB"},
    ],
    ids=lambda more: "-".join(more),
)
async def test_a_published_key_that_does_not_fit_signs_nothing(published: dict[str, Any]) -> None:
    issuer = Issuer(keys=[{**jwk(signing_key(), "first"), **published}, jwk(signing_key(number=1), "good")])
    world = World(issuer)
    world.configure()
    assert await world.name(issuer.token()) == ""
    assert await world.name(issuer.token(kid="good", key=signing_key(number=1))) == "oidc:ann"


async def test_a_weak_key_signs_nothing() -> None:
    weak = signing_key(bits=1024)
    issuer = Issuer(keys=[jwk(weak, "first"), jwk(signing_key(), "good")])
    world = World(issuer)
    world.configure()
    with pytest.warns(InsecureKeyLengthWarning):
        token = issuer.token(key=weak)
    assert await world.name(token) == ""


async def test_keys_beyond_the_bound_are_left_out() -> None:
    issuer = Issuer(keys=[jwk(signing_key(), f"k{number}") for number in range(KEYS_MAX + 1)])
    world = World(issuer)
    world.configure()
    assert await world.name(issuer.token(kid=f"k{KEYS_MAX - 1}")) == "oidc:ann"
    assert await world.name(issuer.token(kid=f"k{KEYS_MAX}")) == ""


async def test_an_unknown_key_is_asked_for_once(world: World, issuer: Issuer) -> None:
    assert await world.name(issuer.token()) == "oidc:ann"
    assert len(issuer.asked) == 2
    world.clock.at += PAUSE_S
    for number in range(5):
        assert await world.name(issuer.token(kid=f"invented-{number}")) == ""
    assert len(issuer.asked) == 4


async def test_a_new_key_works_at_once_and_a_withdrawn_one_ends(world: World, issuer: Issuer) -> None:
    old, new = issuer.token(), issuer.token(key=signing_key(number=1), kid="second")
    assert await world.name(old) == "oidc:ann"
    issuer.keys = [jwk(signing_key(number=1), "second")]
    assert await world.name(new) == ""  # so soon after a fetch nobody is asked
    world.clock.at += PAUSE_S
    assert await world.name(new) == "oidc:ann"
    assert await world.name(old) == ""


async def test_keys_in_use_are_fetched_again_in_the_background(world: World, issuer: Issuer) -> None:
    token = issuer.token(exp=NOW + 10 * REFRESH_S)
    assert await world.name(token) == "oidc:ann"
    issuer.keys = [jwk(signing_key(number=1), "second")]
    world.clock.at += REFRESH_S + 1
    assert await world.name(token) == "oidc:ann"
    await settled()
    assert await world.name(token) == ""


async def settled() -> None:
    """A fetch in the background has had its turns: nothing in it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_token_ends_while_it_is_remembered(world: World, issuer: Issuer) -> None:
    token = issuer.token(nbf=NOW)
    assert await world.name(token) == "oidc:ann"
    world.clock.at = NOW + 599
    assert await world.name(token) == "oidc:ann"
    world.clock.at = NOW + 600
    assert await world.name(token) == ""


async def test_an_issuer_that_is_down_is_left_alone_for_a_growing_time() -> None:
    issuer = Issuer(down=True)
    world = World(issuer)
    world.configure()
    assert await world.name(issuer.token()) == ""
    assert len(issuer.asked) == 1
    assert await world.name(issuer.token()) == ""
    assert len(issuer.asked) == 1
    world.clock.at += 1
    assert await world.name(issuer.token()) == ""
    world.clock.at += 1
    assert await world.name(issuer.token()) == ""
    assert len(issuer.asked) == 2
    issuer.down = False
    world.clock.at += 1
    assert await world.name(issuer.token()) == "oidc:ann"


async def test_keys_that_are_known_outlive_their_issuer(world: World, issuer: Issuer) -> None:
    token = issuer.token(exp=NOW + 10 * REFRESH_S)
    assert await world.name(token) == "oidc:ann"
    issuer.down = True
    world.clock.at += REFRESH_S + 1
    assert await world.name(token) == "oidc:ann"
    await settled()
    assert len(issuer.asked) == 3
    assert await world.name(token) == "oidc:ann"
    assert await world.name(issuer.token(sub="bob", exp=NOW + 10 * REFRESH_S)) == "oidc:bob"


async def test_a_document_of_another_issuer_gives_no_keys() -> None:
    issuer = Issuer(named="https://evil.example")
    world = World(issuer)
    world.configure()
    assert await world.name(issuer.token()) == ""


async def test_one_issuer_that_hangs_delays_nobody_of_another() -> None:
    slow, quick = Issuer(hangs=True), Issuer(url=OTHER, keys=[jwk(signing_key(number=1), "first")])
    world = World(slow, quick)
    world.configure()
    waiting = [asyncio.create_task(world.name(slow.token())) for _ in range(20)]
    assert await asyncio.wait_for(world.name(quick.token(key=signing_key(number=1))), 10) == "oidc:ann"
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    assert len(slow.asked) == 1
    for task in waiting:
        task.cancel()
    await world.tokens.stop()


async def test_no_issuer_signs_for_another() -> None:
    first, second = Issuer(), Issuer(url=OTHER, keys=[jwk(signing_key(number=1), "first")])
    world = World(first, second)
    world.configure(entry(), entry(OTHER, claimMappings={"username": {"claim": "sub", "prefix": "other:"}}))
    assert await world.name(first.token()) == "oidc:ann"
    assert await world.name(second.token(key=signing_key(number=1))) == "other:ann"
    assert await world.name(first.token(iss=OTHER)) == ""
    assert await world.name(first.token(iss="https://nobody.example")) == ""
    assert await world.name(first.token(iss=["https://issuer.example"])) == ""


async def test_a_token_is_for_this_server_and_no_other(world: World, issuer: Issuer) -> None:
    found = await world.tokens.checked(issuer.token(), ())
    assert found is not None and found.audiences == (ISSUER,)
    assert await world.tokens.checked(issuer.token(), ("https://elsewhere.example",)) is None


async def test_a_changed_configuration_counts_for_remembered_tokens(world: World, issuer: Issuer) -> None:
    token = issuer.token()
    assert await world.name(token) == "oidc:ann"
    world.configure(entry(claimMappings={"username": {"claim": "sub", "prefix": "sso:"}}))
    assert await world.name(token) == "sso:ann"
    assert len(issuer.asked) == 2  # the keys are those of the same issuer
    world.tokens.configure(())
    assert await world.name(token) == ""
