"""The causes of a refusal, in the words of Kubernetes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api.engine.status import Cause, cut
from api.engine.validate import exact


def _shown(value: Any) -> str:
    return "null" if value is None else cut(exact(value))


def invalid(path: str, value: Any, why: str) -> Cause:
    return Cause(path, f"Invalid value: {_shown(value)}: {why}", "FieldValueInvalid")


def required(path: str, why: str = "") -> Cause:
    return Cause(path, f"Required value: {why}" if why else "Required value", "FieldValueRequired")


def forbidden(path: str, why: str) -> Cause:
    return Cause(path, f"Forbidden: {why}", "FieldValueForbidden")


def duplicate(path: str, value: Any) -> Cause:
    return Cause(path, f"Duplicate value: {_shown(value)}", "FieldValueDuplicate")


def not_found(path: str, value: Any) -> Cause:
    return Cause(path, f"Not found: {_shown(value)}", "FieldValueNotFound")


def unsupported(path: str, value: Any, supported: Sequence[str]) -> Cause:
    listed = ", ".join(exact(text) for text in supported)
    return Cause(path, f"Unsupported value: {_shown(value)}: supported values: {listed}", "FieldValueNotSupported")
