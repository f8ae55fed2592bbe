"""The flags of a kube-apiserver for one issuer: the same meaning as a file, and each fault by its flag."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from api.access.auth import ISSUER
from api.access.oidc.config import read
from api.access.oidc.flags import Flags, issuers
from api.access.oidc.metrics import OidcMetrics
from api.access.oidc.tokens import OidcTokens
from fleet.cli.failure import Failure
from fleet.hub.access import AccessOptions
from fleet.values.sections import BadConfiguration
from tests.api.oidc.issuer import URL, Hand, Issuer, configuration, entry, jwk, signing_key

FLAGS = Flags(URL, "fleet")


def test_flags_mean_what_a_file_means() -> None:
    flags = replace(
        FLAGS,
        username_claim="email",
        username_prefix="o:",
        groups_claim="roles",
        groups_prefix="g:",
        required_claims=("hd=example.org", "x=a=b"),
        signing_algs=("ES256", "RS256"),
    )
    (found,) = issuers(flags)
    (written,) = read(
        configuration(
            entry(
                issuer={"url": URL, "audiences": ["fleet"]},
                claimMappings={
                    "username": {"claim": "email", "prefix": "o:"},
                    "groups": {"claim": "roles", "prefix": "g:"},
                },
                claimValidationRules=[
                    {"claim": "hd", "requiredValue": "example.org"},
                    {"claim": "x", "requiredValue": "a=b"},
                ],
            )
        )
    )
    assert found == replace(written, algorithms=frozenset({"ES256", "RS256"}))


def test_names_have_the_issuer_before_them_where_no_flag_says_otherwise() -> None:
    (found,) = issuers(FLAGS)
    assert (found.username.claim, found.username.prefix) == ("sub", f"{URL}#")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"issuer_url": ""}, "--oidc-issuer-url: Required value"),
        ({"client_id": ""}, "--oidc-client-id: Required value"),
        ({"issuer_url": "http://idp.example"}, "--oidc-issuer-url: URL scheme must be https"),
        ({"issuer_url": ISSUER}, "--oidc-issuer-url: 'https://fleet.hub' is the issuer of the hub's own tokens"),
        ({"username_prefix": "-"}, "--oidc-username-prefix: Required value"),
        ({"username_claim": "email"}, "--oidc-username-prefix: Required value"),
        ({"username_prefix": "system:"}, "--oidc-username-prefix: names that begin with system:"),
        ({"username_claim": "", "username_prefix": "o:"}, "--oidc-username-claim: Required value"),
        ({"groups_claim": "roles"}, "--oidc-groups-prefix: Required value"),
        ({"groups_prefix": "g:"}, "--oidc-groups-prefix: may not be given without --oidc-groups-claim"),
        ({"ca": "no PEM"}, "--oidc-ca-file: holds no certificates in PEM"),
        ({"required_claims": ("hd",)}, "--oidc-required-claim: 'hd' is not CLAIM=VALUE"),
        ({"required_claims": ("hd=a", "hd=b")}, "--oidc-required-claim: Duplicate value: 'hd'"),
        ({"signing_algs": ("HS256",)}, "--oidc-signing-algs: 'HS256' is none of"),
        ({"signing_algs": ("none",)}, "--oidc-signing-algs: 'none' is none of"),
    ],
)
def test_a_fault_names_its_flag(change: dict[str, Any], fault: str) -> None:
    with pytest.raises(BadConfiguration) as bad:
        issuers(replace(FLAGS, **change), own_issuers=(ISSUER,))
    assert any(text.startswith(fault) for text in bad.value.faults), bad.value.faults


async def test_tokens_are_signed_with_an_algorithm_of_the_flag() -> None:
    elliptic = signing_key("ES256")
    issuer, clock, metrics = Issuer(keys=[jwk(signing_key(), "first"), jwk(elliptic, "other")]), Hand(), OidcMetrics()
    tokens = OidcTokens(issuer.fetch, clock, metrics)
    tokens.configure(issuers(FLAGS))
    try:
        good = await tokens.user(issuer.token())
        assert good is not None and good.name.startswith(f"{URL}#")
        assert await tokens.user(issuer.token(key=elliptic, kid="other", algorithm="ES256")) is None
    finally:
        await tokens.stop()
    assert metrics.refused.labels(URL, "algorithm")._value.get() == 1


def test_flags_and_a_file_exclude_each_other(tmp_path: Path) -> None:
    access = AccessOptions(authentication_config=tmp_path / "file", oidc_issuer_url=URL)
    with pytest.raises(Failure, match="exclude each other"):
        access.issuers()


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_an_authority_that_cannot_be_read_is_said(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "ca.crt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(Failure, match="--oidc-ca-file"):
        AccessOptions(oidc_issuer_url=URL, oidc_client_id="fleet", oidc_ca_file=path).check()


def test_flags_reach_the_api_process(tmp_path: Path) -> None:
    access = AccessOptions(oidc_issuer_url=URL, oidc_client_id="fleet", oidc_required_claim=["a=b", "c=d"])
    assert access.words() == [
        "--oidc-issuer-url",
        URL,
        "--oidc-client-id",
        "fleet",
        "--oidc-required-claim",
        "a=b",
        "--oidc-required-claim",
        "c=d",
    ]
    assert [issuer.source.url for issuer in access.issuers()] == [URL]
    assert AccessOptions().issuers() == ()
