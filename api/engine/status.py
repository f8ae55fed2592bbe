"""Refusals as Kubernetes clients know them: a `Status` with code, reason and the field that is wrong.

A refusal unwinds through several layers (schema, admission, store) to the caller, so it travels as an exception that
carries its Status as a value. Its text is a contract (see docs/decisions). Bugs are never a StatusError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MESSAGE_CHARACTERS_MAX = 10_000  # of a refusal: the client's own input comes back in it
CAUSES_MAX = 100  # of a refusal; a client with more mistakes corrects these first
CAUSE_CHARACTERS_MAX = 5_000
VALUE_CHARACTERS_MAX = 500  # of a value that a message quotes


def cut(text: str, limit: int = VALUE_CHARACTERS_MAX) -> str:
    """`text`, or its beginning and how much there is of it."""
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that is wrong. `field` is a path such as spec.root.children[0].min; `reason` one of FieldValueInvalid,
    FieldValueRequired, FieldValueNotSupported, FieldValueForbidden, FieldValueDuplicate, FieldValueTypeInvalid, …"""

    field: str
    message: str
    reason: str = "FieldValueInvalid"


class StatusError(Exception):
    """A request that is refused; `status()` is the body to answer with."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        *,
        group: str = "",
        kind: str = "",
        name: str = "",
        uid: str = "",
        causes: Sequence[Cause] = (),
        retry_after_s: int | None = None,
        go_on: str = "",
    ) -> None:
        """`go_on`: the token with which a client may read the rest of a list whose state is gone."""
        message = cut(message, MESSAGE_CHARACTERS_MAX)
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message
        self.group, self.kind, self.name, self.uid = group, kind, name, uid
        self.causes = tuple(causes[:CAUSES_MAX])
        self.retry_after_s, self.go_on = retry_after_s, go_on

    def status(self) -> dict[str, Any]:
        details: dict[str, Any] = {}
        if self.name:
            details["name"] = self.name
        if self.group:
            details["group"] = self.group
        if self.kind:
            details["kind"] = self.kind
        if self.uid:
            details["uid"] = self.uid
        if self.causes:
            details["causes"] = [_shown(cause) for cause in self.causes]
        if self.retry_after_s is not None:
            details["retryAfterSeconds"] = self.retry_after_s
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {"continue": self.go_on} if self.go_on else {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:  # an error that a kube-apiserver has no name for has none
            body["reason"] = self.reason
        if details:
            body["details"] = details
        body["code"] = self.code
        return body


def _shown(cause: Cause) -> dict[str, str]:
    shown = {"reason": cause.reason, "message": cut(cause.message, CAUSE_CHARACTERS_MAX), "field": cut(cause.field)}
    return {key: value for key, value in shown.items() if value or key == "message"}


def _qualified(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def not_found(group: str, resource: str, name: str) -> StatusError:
    message = f'{_qualified(group, resource)} "{name}" not found'
    return StatusError(404, "NotFound", message, group=group, kind=resource, name=name)


def already_exists(group: str, resource: str, name: str, *, generated: bool = False) -> StatusError:
    """`generated`: the server drew the name, and the client may ask again."""
    message = f'{_qualified(group, resource)} "{name}" already exists'
    if generated:
        message += ", the server was not able to generate a unique name for the object"
    return StatusError(
        409, "AlreadyExists", message, group=group, kind=resource, name=name, retry_after_s=1 if generated else None
    )


def conflict(group: str, resource: str, name: str, why: str = "") -> StatusError:
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {_qualified(group, resource)} "{name}": {why}'
    return StatusError(409, "Conflict", message, group=group, kind=resource, name=name)


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> StatusError:
    """422, as `field: message` for one cause and a bracketed list for several. Here `kind` is the Kind."""
    texts = [f"{cut(c.field)}: {cut(c.message, CAUSE_CHARACTERS_MAX)}" for c in causes[:CAUSES_MAX]]
    if len(causes) > CAUSES_MAX:
        texts.append(f"and {len(causes) - CAUSES_MAX} more")
    text = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    qualified = f"{kind}.{group}" if group else kind
    message = f'{qualified} "{name}" is invalid: {text}'
    return StatusError(422, "Invalid", message, group=group, kind=kind, name=name, causes=causes)


def forbidden(group: str, resource: str, name: str, why: str) -> StatusError:
    named = f'"{name}" ' if name else ""
    message = f"{_qualified(group, resource)} {named}is forbidden: {why}"
    return StatusError(403, "Forbidden", message, group=group, kind=resource, name=name)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def internal(why: str) -> StatusError:
    """A failure of the server, or of another that it asked."""
    return StatusError(500, "InternalError", f"Internal error occurred: {why}", causes=[Cause("", why, "")])


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def unsupported_media_type(message: str) -> StatusError:
    return StatusError(415, "UnsupportedMediaType", message)


def expired(message: str = "The resourceVersion for the provided watch is too old.") -> StatusError:
    return StatusError(410, "Expired", message)


def unavailable(message: str, retry_after_s: int = 1) -> StatusError:
    return StatusError(503, "ServiceUnavailable", message, retry_after_s=retry_after_s)
