"""The parts of a request that no audit log says, whatever its policy: credentials in bodies, messages and URLs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from api.audit.policy import AuditedRequest, Level

MASK = "***"
# Kinds whose bodies are credentials: their requests are logged at the level Metadata at most.
_RESOURCES = frozenset({("", "secrets"), ("authentication.k8s.io", "tokenreviews")})
_SUBRESOURCES = frozenset({("", "serviceaccounts", "token")})
_PATH = "/fleet/v1/tokens"
_KINDS = ("Secret", "SecretList", "TokenReview", "TokenRequest")
_NAMED = re.compile(r"(?i)token|password|secret|authorization|api[-_]?key")
_QUOTING = (400, 422)  # refusals that quote what was sent


def is_secret(asked: AuditedRequest) -> bool:
    """Whether bodies of this request and of its answer are credentials."""
    return (
        (asked.group, asked.resource) in _RESOURCES
        or (asked.group, asked.resource, asked.subresource) in _SUBRESOURCES
        or asked.path == _PATH
    )


def holds_secret(body: Any) -> bool:
    """Whether a body is a credential by its kind, wherever it was sent: a List and a mistaken path included."""
    if not isinstance(body, Mapping):
        return False
    if body.get("kind") in _KINDS:
        return True
    items = body.get("items")
    return isinstance(items, list) and any(isinstance(item, Mapping) and item.get("kind") in _KINDS for item in items)


def bounded(level: Level, secret: bool) -> Level:
    return min(level, Level.Metadata) if secret else level


def quiet(status: dict[str, Any]) -> dict[str, Any]:
    """The status of a request with a secret, without the words that may quote it."""
    if status.get("code") in _QUOTING:
        return {key: value for key, value in status.items() if key not in ("message", "details")}
    return status


def masked(uri: str) -> str:
    """The URI with the values of parameters that are named like credentials taken out."""
    path, mark, query = uri.partition("?")
    return f"{path}?{'&'.join(map(_shown, query.split('&')))}" if mark else uri


def _shown(parameter: str) -> str:
    parts = []
    for part in parameter.split(";"):  # servers of members may take both for a separator
        name, equals, _ = part.partition("=")
        parts.append(f"{name}={MASK}" if equals and _NAMED.search(unquote(name)) else part)
    return ";".join(parts)
