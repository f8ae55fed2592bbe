"""One issuer as flags of a kube-apiserver name it (`--oidc-issuer-url` and others).

The flags become the document that an AuthenticationConfiguration would have, so that both mean the same and are checked
by the same code. A fault names the flag in the place of the field.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from api.access.oidc.config import GROUP, KIND, NO_PREFIX, VERSIONS, Issuer, read
from api.access.oidc.keys import ALGORITHMS
from fleet.values.sections import BadConfiguration

DEFAULT_ALGORITHMS = ("RS256",)
_FIELDS = (
    ("jwt[0].issuer.url", "--oidc-issuer-url"),
    ("jwt[0].issuer.certificateAuthority", "--oidc-ca-file"),
    ("jwt[0].issuer.audiences", "--oidc-client-id"),
    ("jwt[0].claimMappings.username.prefix", "--oidc-username-prefix"),
    ("jwt[0].claimMappings.username", "--oidc-username-claim"),
    ("jwt[0].claimMappings.groups.prefix", "--oidc-groups-prefix"),
    ("jwt[0].claimMappings.groups", "--oidc-groups-claim"),
    ("jwt[0].claimValidationRules", "--oidc-required-claim"),
)


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags, without `--oidc-`. `ca`: the content of the file."""

    issuer_url: str = ""
    client_id: str = ""
    username_claim: str = "sub"
    username_prefix: str = ""
    groups_claim: str = ""
    groups_prefix: str = ""
    ca: str = ""
    required_claims: tuple[str, ...] = ()
    signing_algs: tuple[str, ...] = ()


def issuers(flags: Flags, *, own_issuers: Iterable[str] = ()) -> tuple[Issuer, ...]:
    """The issuer that the flags name. Raises BadConfiguration."""
    faults = [
        f"{flag}: Required value"
        for flag, setting in (
            ("--oidc-issuer-url", flags.issuer_url),
            ("--oidc-client-id", flags.client_id),
        )
        if not setting
    ]
    algorithms = flags.signing_algs or DEFAULT_ALGORITHMS
    if unknown := set(algorithms) - ALGORITHMS:
        known = ", ".join(sorted(ALGORITHMS))
        faults.append(f"--oidc-signing-algs: {', '.join(sorted(unknown))[:100]!r} is none of {known}")
    rules = []
    for pair in flags.required_claims:
        claim, equals, value = pair.partition("=")
        if not equals or not claim:
            faults.append(f"--oidc-required-claim: {pair[:100]!r} is not CLAIM=VALUE")
        rules.append({"claim": claim, "requiredValue": value})
    if flags.groups_prefix and not flags.groups_claim:
        faults.append("--oidc-groups-prefix: may not be given without --oidc-groups-claim")
    if faults:
        raise BadConfiguration(faults)
    username = {"claim": flags.username_claim, "prefix": _username_prefix(flags)}
    groups = {"groups": {"claim": flags.groups_claim, "prefix": flags.groups_prefix}} if flags.groups_claim else {}
    entry = {
        "issuer": {"url": flags.issuer_url, "audiences": [flags.client_id], "certificateAuthority": flags.ca},
        "claimMappings": {"username": username, **groups},
        "claimValidationRules": rules,
    }
    try:
        found = read({"apiVersion": f"{GROUP}/{VERSIONS[0]}", "kind": KIND, "jwt": [entry]}, own_issuers=own_issuers)
    except BadConfiguration as error:
        raise BadConfiguration([_by_flag(fault) for fault in error.faults]) from None
    return tuple(replace(issuer, algorithms=frozenset(algorithms)) for issuer in found)


def _username_prefix(flags: Flags) -> str:
    """As a kube-apiserver: without the flag the issuer's name, but for emails; "-" would be none, which the hub
    refuses."""
    if flags.username_prefix == "-":
        raise BadConfiguration([f"--oidc-username-prefix: {NO_PREFIX}"])
    if flags.username_prefix or flags.username_claim == "email":
        return flags.username_prefix
    return f"{flags.issuer_url}#"


def _by_flag(fault: str) -> str:
    """The fault with its flag in place of its field."""
    field, _, text = fault.partition(": ")
    for begins, flag in _FIELDS:
        if field.startswith(begins):
            return f"{flag}: {text}"
    return fault
