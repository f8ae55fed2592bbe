"""The claims of a good token as a user, as a kube-apiserver maps them."""

from __future__ import annotations

from typing import Any

from api.access.auth import AUTHENTICATED, CREDENTIAL, credential_of
from api.access.oidc.config import SYSTEM, Issuer, Mapping
from api.access.oidc.expressions import STEPS_MAX, ExpressionFailure
from api.objects.writing import User
from fleet.values.cel.program import Budget

Claims = dict[str, Any]


class TokenRefusal(Exception):
    """A token that is no credential here. `why` is one of a few words; the text names no content of the token."""

    def __init__(self, why: str, text: str) -> None:
        super().__init__(text)
        self.why = why


def user_of(issuer: Issuer, claims: Claims) -> User:
    """Raises TokenRefusal."""
    budget = Budget(STEPS_MAX)
    try:
        name = _name(issuer.username, claims, budget)
        groups = _texts(issuer.groups, claims, budget, "groups")
        uid = _uid(issuer.uid, claims, budget)
        extra = _extra(issuer, claims, budget)
        _check_claims(issuer, claims, budget)
        for group in (name, *groups):
            if group.startswith(SYSTEM):
                raise TokenRefusal("system", f"the name {group[:100]!r} begins with {SYSTEM}, which is the hub's own")
        user = User(name, tuple(dict.fromkeys((*groups, AUTHENTICATED))), uid, extra=extra)
        if issuer.user_rules:
            document = {
                "username": name,
                "uid": uid,
                "groups": list(groups),
                "extra": {key: list(values) for key, values in extra},
            }
            for rule in issuer.user_rules:
                if rule.expression.value(document, budget) is not True:
                    raise TokenRefusal("rule", rule.message)
    except ExpressionFailure as error:
        raise TokenRefusal("expression", str(error)) from None
    return user


def _name(mapping: Mapping, claims: Claims, budget: Budget) -> str:
    if mapping.expression is not None:
        value = mapping.expression.value(claims, budget)
    else:
        value = claims.get(mapping.claim)
        if mapping.claim == "email" and claims.get("email_verified", True) is not True:
            raise TokenRefusal("claim", "the email is not verified")
    if not isinstance(value, str) or not value:
        raise TokenRefusal("claim", f"the user name is no text: {mapping.claim or 'claimMappings.username.expression'}")
    return mapping.prefix + value


def _texts(mapping: Mapping, claims: Claims, budget: Budget, what: str) -> tuple[str, ...]:
    if mapping.expression is not None:
        return _list(mapping.expression.value(claims, budget), what)
    if not mapping.claim:
        return ()
    value = claims.get(mapping.claim)
    return tuple(mapping.prefix + group for group in _list(value, what))


def _list(value: Any, what: str) -> tuple[str, ...]:
    """A text or a list of texts; empty ones count for nothing."""
    found = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise TokenRefusal("claim", f"the {what} are neither a text nor a list of texts")
    return tuple(item for item in found if item)


def _uid(mapping: Mapping, claims: Claims, budget: Budget) -> str:
    if mapping.expression is None and not mapping.claim:
        return ""
    value = mapping.expression.value(claims, budget) if mapping.expression is not None else claims.get(mapping.claim)
    if not isinstance(value, str):
        raise TokenRefusal("claim", "the uid is no text")
    return value


def _extra(issuer: Issuer, claims: Claims, budget: Budget) -> tuple[tuple[str, tuple[str, ...]], ...]:
    extra: dict[str, tuple[str, ...]] = {}
    credential = claims.get("jti")
    if isinstance(credential, str) and credential:
        extra[CREDENTIAL] = (credential_of(credential),)
    for key, expression in issuer.extra:
        values = _list(expression.value(claims, budget), f"values of {key}")
        if values:
            extra[key] = values
    return tuple(sorted(extra.items()))


def _check_claims(issuer: Issuer, claims: Claims, budget: Budget) -> None:
    for claim, wanted in issuer.required:
        if claims.get(claim) != wanted:
            raise TokenRefusal("rule", f"the required claim {claim} is missing or has another value")
    for rule in issuer.claim_rules:
        if rule.expression.value(claims, budget) is not True:
            raise TokenRefusal("rule", rule.message)
