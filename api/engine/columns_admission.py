"""Webhook configurations, admission policies and their bindings as kubectl shows them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from api.engine.kind import Body
from fleet.values.untyped import mapping

_UNSET = "<unset>"


def _length(*path: str) -> Callable[[Body, float], int]:
    def count(body: Body, now: float) -> int:
        found: Any = body
        for step in path:
            found = mapping(found).get(step)
        return len(found or ())

    return count


def param_kind(body: Body, now: float) -> str:
    kind = mapping(body.get("spec")).get("paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else _UNSET


def param_ref(body: Body, now: float) -> str:
    ref = mapping(body.get("spec")).get("paramRef")
    if not ref:
        return _UNSET
    if ref.get("name"):
        return f"{ref.get('namespace') or '*'}/{ref['name']}"
    return _go_selector(ref["selector"]) if ref.get("selector") is not None else _UNSET


def _go_selector(selector: Body) -> str:
    """A LabelSelector as the `String` method of its Go type prints it."""
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    expressions = "".join(
        "LabelSelectorRequirement{"
        f"Key:{item.get('key', '')},Operator:{item.get('operator', '')},Values:[{' '.join(item.get('values') or ())}],"
        "},"
        for item in selector.get("matchExpressions") or ()
    )
    listed = f"[]LabelSelectorRequirement{{{expressions}}}"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:{listed},}}"


ADMISSION: dict[str, Callable[[Body, float], Any]] = {
    "webhooks": _length("webhooks"),
    "policy_validations": _length("spec", "validations"),
    "policy_mutations": _length("spec", "mutations"),
    "policy_param_kind": param_kind,
    "policy_param_ref": param_ref,
}
