"""An AuthenticationConfiguration (apiserver.config.k8s.io/v1) as values.

The file means what it means to a kube-apiserver, with one rule more: a claim that becomes a user name or a group has a
prefix that is not empty, so that no issuer can name a user of another source. An expression is its author's own care.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from api.access.oidc.expressions import ClaimExpression, compiled
from fleet.values.cel.tree import BadExpression
from fleet.values.names import subdomain_problems
from fleet.values.sections import BadConfiguration, Section, load

GROUP = "apiserver.config.k8s.io"
VERSIONS = ("v1", "v1beta1")
KIND = "AuthenticationConfiguration"
ISSUERS_MAX = 64
SYSTEM = "system:"
NO_PREFIX = "Required value: a prefix that is not empty keeps users of other sources apart"
_RESERVED = ("kubernetes.io", "k8s.io")


@dataclass(frozen=True, slots=True)
class Mapping:
    """Where a value comes from: a claim behind a prefix, or an expression; nothing when both are empty."""

    claim: str = ""
    prefix: str = ""
    expression: ClaimExpression | None = None


@dataclass(frozen=True, slots=True)
class TokenCondition:
    """A condition that a token or its user must meet."""

    expression: ClaimExpression
    message: str


@dataclass(frozen=True, slots=True)
class KeySource:
    """Where the keys of an issuer are."""

    url: str
    discovery_url: str
    certificate_authority: str

    @property
    def document_url(self) -> str:
        return self.discovery_url or f"{self.url.rstrip('/')}/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class Issuer:
    """One entry of `jwt`. `raw` tells two states of the file apart."""

    source: KeySource
    audiences: frozenset[str]
    username: Mapping
    groups: Mapping
    uid: Mapping
    extra: tuple[tuple[str, ClaimExpression], ...]
    required: tuple[tuple[str, str], ...]
    claim_rules: tuple[TokenCondition, ...]
    user_rules: tuple[TokenCondition, ...]
    raw: Any = field(compare=False, default=None)
    algorithms: frozenset[str] | None = None  # that its tokens may be signed with; None: all that the hub knows


def parse(text: bytes, *, own_issuers: Iterable[str] = ()) -> tuple[Issuer, ...]:
    """The issuers of a file. Raises BadConfiguration."""
    return read(load(text), own_issuers=own_issuers)


def read(document: Any, *, own_issuers: Iterable[str] = ()) -> tuple[Issuer, ...]:
    """As `parse`, of a document that is read already. `own_issuers`: names that the hub signs with itself."""
    if not isinstance(document, dict):
        raise BadConfiguration(["(file): must be an object"])
    faults: list[str] = []
    top = Section(document, "", faults)
    version, kind = top.text("apiVersion", required=True), top.text("kind", required=True)
    if version and version not in {f"{GROUP}/{known}" for known in VERSIONS}:
        top.fault("apiVersion", f"{version!r} is none of {', '.join(f'{GROUP}/{known}' for known in VERSIONS)}")
    if kind and kind != KIND:
        top.fault("kind", f"{kind!r} is not {KIND}")
    if top.has("anonymous"):
        anonymous = top.section("anonymous")
        if anonymous.flag("enabled"):
            anonymous.fault("enabled", "the hub knows no anonymous users")
        if anonymous.sections("conditions"):
            anonymous.fault("conditions", "enabled should be set to true when conditions are defined")
        anonymous.end()
    entries = top.sections("jwt")
    top.end()
    if len(entries) > ISSUERS_MAX:
        top.fault("jwt", f"must have at most {ISSUERS_MAX} items")
    issuers = [_issuer(entry, own_issuers) for entry in entries]
    _apart(issuers, faults)
    if faults:
        raise BadConfiguration(faults)
    return tuple(issuers)


def _apart(issuers: list[Issuer], faults: list[str]) -> None:
    urls: set[str] = set()
    documents: set[str] = set()
    for number, issuer in enumerate(issuers):
        if issuer.source.url in urls:
            faults.append(f"jwt[{number}].issuer.url: Duplicate value: {issuer.source.url!r}")
        urls.add(issuer.source.url)
        if issuer.source.discovery_url in documents:
            faults.append(f"jwt[{number}].issuer.discoveryURL: Duplicate value: {issuer.source.discovery_url!r}")
        documents |= {issuer.source.discovery_url} - {""}


def _issuer(entry: Section, own_issuers: Iterable[str]) -> Issuer:
    source, audiences = _source(entry.section("issuer"), own_issuers)
    required: list[tuple[str, str]] = []
    claim_rules: list[TokenCondition] = []
    for rule in entry.sections("claimValidationRules"):
        _claim_rule(rule, required, claim_rules)
    mappings = entry.section("claimMappings")
    username = _prefixed(mappings.section("username"), needed=True)
    groups = _prefixed(mappings.section("groups"), needed=False)
    uid = _uid(mappings.section("uid"))
    extra = _extra(mappings.sections("extra"))
    mappings.end()
    user_rules = [_validation(rule, "user") for rule in entry.sections("userValidationRules")]
    entry.end()
    if username.expression is not None and username.expression.uses_email:
        others = [username.expression, *(value for _, value in extra), *(rule.expression for rule in claim_rules)]
        if not any(other.uses_email_verified for other in others):
            mappings.fault(
                "username.expression",
                "claims.email_verified must be used in claimMappings.username.expression or"
                " claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is"
                " used in claimMappings.username.expression",
            )
    return Issuer(
        source,
        audiences,
        username,
        groups,
        uid,
        extra,
        tuple(required),
        tuple(claim_rules),
        tuple(rule for rule in user_rules if rule is not None),
        entry.raw,
    )


def _source(issuer: Section, own_issuers: Iterable[str]) -> tuple[KeySource, frozenset[str]]:
    url, discovery = issuer.text("url", required=True), issuer.text("discoveryURL")
    authority, policy = issuer.text("certificateAuthority"), issuer.text("audienceMatchPolicy")
    audiences = issuer.texts("audiences")
    if issuer.text("egressSelectorType"):
        issuer.fault("egressSelectorType", "the hub has no egress selectors")
    if url:
        _check_url(issuer, "url", url)
    if url in own_issuers:
        issuer.fault("url", f"{url!r} is the issuer of the hub's own tokens")
    if discovery:
        _check_url(issuer, "discoveryURL", discovery)
        if discovery.rstrip("/") == url.rstrip("/"):
            issuer.fault("discoveryURL", "discoveryURL must be different from URL")
    if not audiences:
        issuer.fault("audiences", "Required value: at least one audience is required")
    for number, audience in enumerate(audiences):
        if not audience:
            issuer.fault(f"audiences[{number}]", "Required value")
        elif audience in audiences[:number]:
            issuer.fault(f"audiences[{number}]", f"Duplicate value: {audience!r}")
    if policy not in ("", "MatchAny"):
        issuer.fault("audienceMatchPolicy", f"{policy!r} is not MatchAny")
    elif len(audiences) > 1 and not policy:
        issuer.fault("audienceMatchPolicy", "audienceMatchPolicy must be MatchAny for multiple audiences")
    if authority:
        try:
            ssl.create_default_context(cadata=authority)
        except (ssl.SSLError, ValueError):
            issuer.fault("certificateAuthority", "holds no certificates in PEM")
    issuer.end()
    return KeySource(url, discovery, authority), frozenset(audiences)


def _check_url(issuer: Section, name: str, url: str) -> None:
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError as error:
        issuer.fault(name, str(error))
        return
    if parts.scheme != "https":
        issuer.fault(name, "URL scheme must be https")
    if not host:
        issuer.fault(name, "URL must have a host")
    if parts.username is not None or parts.password is not None:
        issuer.fault(name, "URL must not contain a username or password")
    if "?" in url:
        issuer.fault(name, "URL must not contain a query")
    if "#" in url:
        issuer.fault(name, "URL must not contain a fragment")


def _expression(section: Section, name: str, text: str, variable: str) -> ClaimExpression | None:
    try:
        return compiled(text, variable)
    except BadExpression as error:
        section.fault(name, f"{text!r}: {error}")
        return None


def _claim_rule(rule: Section, required: list[tuple[str, str]], rules: list[TokenCondition]) -> None:
    if rule.has("expression"):
        for other in ("claim", "requiredValue"):
            if rule.text(other):
                rule.fault(other, "may not be specified when expression is set")
        found = _validation(rule, "claims")
        if found is not None:
            rules.append(found)
        return
    claim, value = rule.text("claim"), rule.text("requiredValue")
    if not claim:
        rule.fault("", "Required value: claim or expression is required")
    elif claim in dict(required):
        rule.fault("claim", f"Duplicate value: {claim!r}")
    if rule.text("message"):
        rule.fault("message", "may not be specified when claim is set")
    rule.end()
    required.append((claim, value))


def _validation(rule: Section, variable: str) -> TokenCondition | None:
    text, message = rule.text("expression", required=True), rule.text("message")
    rule.end()
    expression = _expression(rule, "expression", text, variable) if text else None
    return TokenCondition(expression, message or f"failed rule: {text}") if expression is not None else None


def _prefixed(section: Section, *, needed: bool) -> Mapping:
    claim, text = section.text("claim"), section.text("expression")
    has_prefix, prefix = section.has("prefix"), section.text("prefix")
    section.end()
    if claim and text:
        section.fault("", "claim and expression can't both be set")
    elif text:
        if has_prefix:
            section.fault("prefix", "may not be specified when expression is set")
        return Mapping(expression=_expression(section, "expression", text, "claims"))
    elif claim:
        if not prefix:
            section.fault("prefix", NO_PREFIX)
        if prefix.startswith(SYSTEM):
            section.fault("prefix", f"names that begin with {SYSTEM} are the hub's own")
    elif needed:
        section.fault("", "Required value: claim or expression is required")
    elif has_prefix:
        section.fault("prefix", "may not be specified without a claim")
    return Mapping(claim, prefix)


def _uid(section: Section) -> Mapping:
    claim, text = section.text("claim"), section.text("expression")
    section.end()
    if claim and text:
        section.fault("", "claim and expression can't both be set")
    return Mapping(claim, expression=_expression(section, "expression", text, "claims") if text else None)


def _extra(sections: list[Section]) -> tuple[tuple[str, ClaimExpression], ...]:
    expressions: dict[str, ClaimExpression] = {}
    for section in sections:
        key, text = section.text("key", required=True), section.text("valueExpression", required=True)
        section.end()
        domain, _, path = key.partition("/")
        if key and (not path or subdomain_problems(domain)):
            section.fault("key", f"{key!r} is no path behind a domain, such as example.org/foo")
        if key != key.lower():
            section.fault("key", "must be lowercase")
        if any(domain == reserved or domain.endswith(f".{reserved}") for reserved in _RESERVED):
            section.fault("key", "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use")
        if key in expressions:
            section.fault("key", f"Duplicate value: {key!r}")
        expression = _expression(section, "valueExpression", text, "claims") if text else None
        if expression is not None:
            expressions[key] = expression
    return tuple(expressions.items())
