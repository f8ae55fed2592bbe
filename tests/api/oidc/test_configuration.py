"""An AuthenticationConfiguration: what it may say, and each fault by its field; the file that changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from api.access.auth import ISSUER
from api.access.oidc.config import parse, read
from api.access.oidc.metrics import OidcMetrics
from api.access.oidc.tokens import OidcTokens
from api.access.oidc.watchedconfiguration import WatchedConfiguration
from fleet.values.sections import BadConfiguration
from tests.api.oidc.issuer import URL, Hand, Issuer, configuration, entry


def faults(document: Any) -> list[str]:
    with pytest.raises(BadConfiguration) as bad:
        read(document, own_issuers=(ISSUER,))
    return list(bad.value.faults)


def issuer(**more: Any) -> dict[str, Any]:
    return configuration(entry(issuer={"url": URL, "audiences": ["fleet"], **more}))


def mappings(**more: Any) -> dict[str, Any]:
    return configuration(entry(claimMappings={"username": {"claim": "sub", "prefix": "o:"}, **more}))


EMAIL = {"username": {"expression": "claims.email"}}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ([], "(file)"),
        ({"kind": "AuthenticationConfiguration"}, "apiVersion"),
        ({**configuration(), "apiVersion": "apiserver.config.k8s.io/v7"}, "apiVersion"),
        ({**configuration(), "kind": "AuthorizationConfiguration"}, "kind"),
        ({**configuration(), "jwts": []}, "jwts"),
        ({**configuration(), "jwt": {}}, "jwt"),
        ({**configuration(), "anonymous": {"enabled": True}}, "anonymous.enabled"),
        (configuration(entry(), entry()), "jwt[1].issuer.url"),
        (configuration(entry(more=1)), "jwt[0].more"),
        (issuer(url=""), "jwt[0].issuer.url"),
        (issuer(url="http://issuer.example"), "jwt[0].issuer.url"),
        (issuer(url="https://me:you@issuer.example"), "jwt[0].issuer.url"),
        (issuer(url="https://issuer.example?a=b"), "jwt[0].issuer.url"),
        (issuer(url="https://issuer.example#a"), "jwt[0].issuer.url"),
        (issuer(url="https://"), "jwt[0].issuer.url"),
        (issuer(url="https://[::1"), "jwt[0].issuer.url"),
        (issuer(url=ISSUER), "jwt[0].issuer.url"),
        (issuer(discoveryURL=f"{URL}/"), "jwt[0].issuer.discoveryURL"),
        (issuer(discoveryURL="http://elsewhere.example"), "jwt[0].issuer.discoveryURL"),
        (issuer(audiences=[]), "jwt[0].issuer.audiences"),
        (issuer(audiences=["a", "a"], audienceMatchPolicy="MatchAny"), "jwt[0].issuer.audiences[1]"),
        (issuer(audiences=[""]), "jwt[0].issuer.audiences[0]"),
        (issuer(audiences=["a", "b"]), "jwt[0].issuer.audienceMatchPolicy"),
        (issuer(audienceMatchPolicy="MatchAll"), "jwt[0].issuer.audienceMatchPolicy"),
        (issuer(certificateAuthority="no PEM"), "jwt[0].issuer.certificateAuthority"),
        (issuer(egressSelectorType="cluster"), "jwt[0].issuer.egressSelectorType"),
        (mappings(username={}), "jwt[0].claimMappings.username"),
        (mappings(username={"claim": "sub"}), "jwt[0].claimMappings.username.prefix"),
        (mappings(username={"claim": "sub", "prefix": ""}), "jwt[0].claimMappings.username.prefix"),
        (mappings(username={"claim": "sub", "prefix": "system:x"}), "jwt[0].claimMappings.username.prefix"),
        (mappings(username={"claim": "sub", "expression": "claims.sub"}), "jwt[0].claimMappings.username"),
        (mappings(username={"prefix": "a", "expression": "claims.sub"}), "jwt[0].claimMappings.username.prefix"),
        (mappings(username={"expression": "claims.sub +"}), "jwt[0].claimMappings.username.expression"),
        (mappings(username={"expression": "claim.sub"}), "jwt[0].claimMappings.username.expression"),
        (mappings(**EMAIL), "jwt[0].claimMappings.username.expression"),
        (mappings(groups={"claim": "groups"}), "jwt[0].claimMappings.groups.prefix"),
        (mappings(groups={"prefix": "o:"}), "jwt[0].claimMappings.groups.prefix"),
        (mappings(uid={"claim": "a", "expression": "claims.a"}), "jwt[0].claimMappings.uid"),
        (mappings(uid={"claim": 5}), "jwt[0].claimMappings.uid.claim"),
        (mappings(extra=[{"key": "team", "valueExpression": "''"}]), "jwt[0].claimMappings.extra[0].key"),
        (mappings(extra=[{"key": "a.org/Team", "valueExpression": "''"}]), "jwt[0].claimMappings.extra[0].key"),
        (mappings(extra=[{"key": "a.k8s.io/team", "valueExpression": "''"}]), "jwt[0].claimMappings.extra[0].key"),
        (mappings(extra=[{"key": "a.org/team"}]), "jwt[0].claimMappings.extra[0].valueExpression"),
        (mappings(extra=[{"key": "a.org/b", "valueExpression": "''"}] * 2), "jwt[0].claimMappings.extra[1].key"),
        (configuration(entry(claimValidationRules=[{}])), "jwt[0].claimValidationRules[0]"),
        (
            configuration(entry(claimValidationRules=[{"claim": "a", "message": "b"}])),
            "jwt[0].claimValidationRules[0].message",
        ),
        (
            configuration(entry(claimValidationRules=[{"claim": "a", "expression": "true"}])),
            "jwt[0].claimValidationRules[0].claim",
        ),
        (configuration(entry(claimValidationRules=[{"claim": "a"}] * 2)), "jwt[0].claimValidationRules[1].claim"),
        (configuration(entry(userValidationRules=[{"message": "x"}])), "jwt[0].userValidationRules[0].expression"),
        (
            configuration(entry(userValidationRules=[{"expression": "claims.a"}])),
            "jwt[0].userValidationRules[0].expression",
        ),
    ],
)
def test_each_fault_names_its_field(document: Any, field: str) -> None:
    assert [fault.split(": ")[0] for fault in faults(document)] == [field]


def test_an_entry_that_is_no_object() -> None:
    assert faults({**configuration(), "jwt": ["x"]})[0] == "jwt[0]: must be an object"


def test_all_faults_are_named_at_once() -> None:
    found = faults(configuration(entry("http://a"), {"issuer": {"url": "https://b.example"}}))
    assert [fault.split(": ")[0] for fault in found] == [
        "jwt[0].issuer.url",
        "jwt[1].issuer.audiences",
        "jwt[1].claimMappings.username",
    ]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_file_as_a_kube_apiserver_takes_it(version: str) -> None:
    (found,) = parse(
        f"""
apiVersion: apiserver.config.k8s.io/{version}
kind: AuthenticationConfiguration
anonymous:
  enabled: false
jwt:
- issuer:
    url: https://issuer.example/realm
    discoveryURL: https://inside.example/openid
    audiences: [one, two]
    audienceMatchPolicy: MatchAny
  claimValidationRules:
  - claim: hd
    requiredValue: example.org
  - expression: has(claims.email_verified) && claims.email_verified
    message: email must be verified
  claimMappings:
    username: {{expression: "'sso:' + claims.email"}}
    groups: {{claim: groups, prefix: 'sso:'}}
    uid: {{claim: sub}}
    extra:
    - {{key: example.org/team, valueExpression: claims.team}}
  userValidationRules:
  - expression: "!user.username.startsWith('system:')"
    message: names of the system are taken
""".encode()
    )
    assert found.source.document_url == "https://inside.example/openid"
    assert found.audiences == {"one", "two"} and found.required == (("hd", "example.org"),)
    assert found.groups.prefix == "sso:" and found.uid.claim == "sub"
    assert [rule.message for rule in found.user_rules] == ["names of the system are taken"]


@pytest.mark.parametrize("text", [b"a: [", b"\xff\xfe\x00", b"[" * 600, b"x: " + b"y" * (1 << 20)])
def test_a_file_that_is_no_yaml(text: bytes) -> None:
    with pytest.raises(BadConfiguration, match="file"):
        parse(text)


async def test_a_changed_file_counts_and_a_bad_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "authentication.yaml"
    path.write_text(yaml.safe_dump(configuration(entry())))
    made, metrics = Issuer(), OidcMetrics()
    tokens = OidcTokens(made.fetch, Hand(), metrics)
    watched = WatchedConfiguration(path, tokens, metrics, check_every_s=3600)
    await watched.start()
    token = made.token()

    async def name() -> str:
        user = await tokens.user(token)
        return user.name if user is not None else ""

    def counted() -> tuple[float, float, float]:
        outcomes = [metrics.reloads.labels(outcome)._value.get() for outcome in ("used", "failed")]
        return (outcomes[0], outcomes[1], metrics.good._value.get())

    assert await name() == "oidc:ann"
    with capture_logs() as logs:
        path.write_text(yaml.safe_dump(configuration(entry("http://bad.example"))))
        await watched.look()
        await watched.look()
    assert await name() == "oidc:ann" and counted() == (0, 1, 0)
    assert [line["log_level"] for line in logs] == ["error"] and "jwt[0].issuer.url" in logs[0]["why"]
    path.unlink()
    await watched.look()
    assert await name() == "oidc:ann" and counted() == (0, 2, 0)
    path.write_text(json.dumps(configuration(entry(claimMappings={"username": {"claim": "sub", "prefix": "n:"}}))))
    await watched.look()
    assert await name() == "n:ann" and counted() == (1, 2, 1)
    await watched.stop()


@pytest.mark.parametrize("text", ["jwt: 5", None])
async def test_a_hub_does_not_start_with_a_bad_file(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "authentication.yaml"
    if text is not None:
        path.write_text(text)
    metrics = OidcMetrics()
    with pytest.raises(BadConfiguration):
        await WatchedConfiguration(path, OidcTokens(Issuer().fetch, Hand(), metrics), metrics).start()
