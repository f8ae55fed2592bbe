"""The user that the claims of a token make."""

from __future__ import annotations

from typing import Any

import pytest

from api.access.auth import AUTHENTICATED
from api.access.oidc.claims import TokenRefusal, user_of
from api.access.oidc.config import read
from api.objects.writing import User
from tests.api.oidc.issuer import configuration, entry

CLAIMS: dict[str, Any] = {"sub": "ann", "groups": ["dev"], "email": "ann@example.org", "team": {"name": "blue"}}


def mapped(claims: dict[str, Any] | None = None, **more: Any) -> User:
    (issuer,) = read(configuration(entry(**more)))
    return user_of(issuer, {**CLAIMS, **(claims or {})})


def username(expression: str, **more: Any) -> dict[str, Any]:
    return {"username": {"expression": expression}, **more}


def test_expressions_make_names_groups_uid_and_extra() -> None:
    user = mapped(
        claimMappings={
            "username": {"expression": "'sso:' + claims.team.name + ':' + claims.sub"},
            "groups": {"expression": "claims.groups.map(group, 'sso:' + group)"},
            "uid": {"expression": "claims.sub"},
            "extra": [
                {"key": "example.org/team", "valueExpression": "claims.team.name"},
                {"key": "example.org/none", "valueExpression": "has(claims.nothing) ? claims.nothing : ''"},
            ],
        }
    )
    assert user.name == "sso:blue:ann" and user.uid == "ann"
    assert user.groups == ("sso:dev", AUTHENTICATED)
    assert user.extra == (("example.org/team", ("blue",)),)


def test_a_uid_by_claim() -> None:
    found = {"username": {"claim": "sub", "prefix": "o:"}, "uid": {"claim": "email"}}
    assert mapped(claimMappings=found).uid == "ann@example.org"
    with pytest.raises(TokenRefusal, match="uid"):
        mapped({"email": 5}, claimMappings=found)


@pytest.mark.parametrize(("verified", "good"), [(True, True), (None, False), (False, False), ("true", False)])
def test_an_email_is_a_name_unless_it_is_said_to_be_unverified(verified: Any, good: bool) -> None:
    mappings = {"username": {"claim": "email", "prefix": "o:"}}
    assert mapped(claimMappings=mappings).name == "o:ann@example.org"
    if good:
        assert mapped({"email_verified": verified}, claimMappings=mappings).name == "o:ann@example.org"
    else:
        with pytest.raises(TokenRefusal, match="not verified"):
            mapped({"email_verified": verified}, claimMappings=mappings)


@pytest.mark.parametrize(
    ("claims", "mappings"),
    [
        ({"sub": "system:admin"}, username("claims.sub")),
        ({"groups": ["system:masters"]}, username("'o:' + claims.sub", groups={"expression": "claims.groups"})),
        ({"groups": "system:masters"}, username("'o:' + claims.sub", groups={"expression": "claims.groups"})),
        ({"sub": "tem:kube-scheduler"}, {"username": {"claim": "sub", "prefix": "sys"}}),
        (
            {"groups": ["tem:masters"]},
            {"username": {"claim": "sub", "prefix": "o:"}, "groups": {"claim": "groups", "prefix": "sys"}},
        ),
    ],
)
def test_no_claim_makes_a_name_of_the_hub(claims: dict[str, Any], mappings: dict[str, Any]) -> None:
    with pytest.raises(TokenRefusal) as refused:
        mapped(claims, claimMappings=mappings)
    assert refused.value.why == "system"


@pytest.mark.parametrize(
    ("rules", "good"),
    [
        ([{"claim": "hd", "requiredValue": "example.org"}], True),
        ([{"claim": "hd", "requiredValue": "other.org"}], False),
        ([{"claim": "missing", "requiredValue": ""}], False),
        ([{"expression": "claims.hd == 'example.org'"}], True),
        ([{"expression": "claims.hd == 'other.org'", "message": "not of us"}], False),
        ([{"expression": "claims.missing == 'x'"}], False),
        ([{"expression": "claims.hd"}], False),
    ],
)
def test_rules_about_claims(rules: list[dict[str, Any]], good: bool) -> None:
    if good:
        assert mapped({"hd": "example.org"}, claimValidationRules=rules).name == "oidc:ann"
    else:
        with pytest.raises(TokenRefusal):
            mapped({"hd": "example.org"}, claimValidationRules=rules)


@pytest.mark.parametrize(
    ("expression", "good"),
    [
        ("!user.username.startsWith('x')", True),
        ("user.groups.all(group, group.startsWith('oidc:'))", True),
        ("user.groups.exists(group, group == 'oidc:ops')", False),
        ("size(user.extra) == 0 && user.uid == ''", True),
    ],
)
def test_rules_about_the_user(expression: str, good: bool) -> None:
    rules = [{"expression": expression, "message": "not this user"}]
    if good:
        assert mapped(userValidationRules=rules).name == "oidc:ann"
    else:
        with pytest.raises(TokenRefusal, match="not this user"):
            mapped(userValidationRules=rules)


def test_expressions_have_a_bound() -> None:
    loops = "claims.many.all(a, claims.many.all(b, claims.many.all(c, a + b + c >= 0)))"
    with pytest.raises(TokenRefusal) as refused:
        mapped({"many": list(range(500))}, claimValidationRules=[{"expression": loops}])
    assert refused.value.why == "expression"
