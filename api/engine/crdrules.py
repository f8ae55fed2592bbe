"""What is wrong with the rules in CEL of a CRD's schema: their texts, their types, and what they could cost.

The words and the limits are those of a kube-apiserver (apiextensions-apiserver, pkg/apis/apiextensions/validation).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from api.engine.crdparts import invalid
from api.engine.fieldpath import BadFieldPath, field_path
from api.engine.kind import Schema
from api.engine.rules import CelRule, compile_rules
from api.engine.status import Cause, cut
from api.engine.validate import value_text
from fleet.values.cel.estimate import estimate
from fleet.values.cel.program import Program
from fleet.values.cel.shapes import REQUEST_BYTES, least, type_of_schema
from fleet.values.untyped import mapping

RULE_COST_MAX = 10_000_000  # of one rule, for all of its places in the largest object
SCHEMA_COST_MAX = 100_000_000  # of all rules of a schema
_NAMED_MAX = 4  # rules that a refusal of the whole schema names
_INF = (1 << 64) - 1
_HTML = re.compile("[<>&]")
_LINES = re.compile(r"[\n\r]")
_REASONS = ("FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired")
_HINT = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"  # noqa: E501
_RULE_KEYS = {
    "rule": "Rule",
    "message": "Message",
    "messageExpression": "MessageExpression",
    "reason": "Reason",
    "fieldPath": "FieldPath",
    "optionalOldSelf": "OptionalOldSelf",
}
_NULLABLE = ("reason", "optionalOldSelf")


def text_flaws(place: str, rules: list[Any], schema: Schema) -> Iterator[Cause]:
    """The flaws of the rules of one place that need no compiling. Their values have the right types."""
    for index, raw in enumerate(rules):
        where = f"{place}[{index}]"
        text, message = str(raw.get("rule") or ""), str(raw.get("message") or "")
        if not text.strip():
            yield Cause(f"{where}.rule", "Required value: rule is not specified", "FieldValueRequired")
        elif message and not message.strip():
            yield invalid(f"{where}.message", message, "must be non-empty if specified")
        elif _LINES.search(message.strip()):
            yield invalid(f"{where}.message", message, "must not contain line breaks")
        elif _LINES.search(text.strip()) and not message.strip():
            detail = "Required value: message must be specified if rule contains line breaks"
            yield Cause(f"{where}.message", detail, "FieldValueRequired")
        expression = raw.get("messageExpression")
        if expression and not expression.strip():
            detail = "Required value: messageExpression must be non-empty if specified"
            yield Cause(f"{where}.messageExpression", detail, "FieldValueRequired")
        if raw.get("reason") is not None and raw["reason"] not in _REASONS:
            allowed = ", ".join(f'"{one}"' for one in _REASONS)
            detail = f"Unsupported value: {value_text(raw['reason'])}: supported values: {allowed}"
            yield Cause(f"{where}.reason", detail, "FieldValueNotSupported")
        yield from _path_flaws(f"{where}.fieldPath", raw.get("fieldPath") or "", schema)


def _path_flaws(where: str, path: str, schema: Schema) -> Iterator[Cause]:
    if not path:
        return
    if not path.strip():
        yield invalid(where, path, "must be non-empty if specified")
    if _LINES.search(path):
        yield invalid(where, path, "must not contain line breaks")
    try:
        field_path(path, schema)
    except BadFieldPath:
        yield invalid(where, path, "must be a valid path")


@dataclass(slots=True)
class _Total:
    """The costs of a whole schema, and the rules that cost most."""

    cost: int = 0
    largest: list[tuple[int, str]] = field(default_factory=list)

    def add(self, where: str, cost: int) -> None:
        self.cost = min(_INF, self.cost + cost)
        if cost < SCHEMA_COST_MAX // 100:
            return
        self.largest = sorted([*self.largest, (cost, where)], reverse=True)[:_NAMED_MAX]


@dataclass(frozen=True, slots=True)
class _Spot:
    """`times`: how many values of the place an object can hold; None without a bound. `apart`: the place around that
    has no old values to compare with."""

    place: str
    schema: Schema
    root: bool
    times: int | None
    apart: str


def rule_flaws(where: str, schema: Schema) -> Iterator[Cause]:
    """The flaws of all rules in a schema that has no others."""
    total = _Total()
    pending = [_Spot(where, schema, True, 1, "")]
    while pending:
        spot = pending.pop()
        if spot.schema.get("x-kubernetes-validations"):
            yield from _flaws_at(spot, total)
        pending += reversed(list(_below(spot)))
    if total.cost > SCHEMA_COST_MAX:
        said = "Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
        for _, place in total.largest:
            yield Cause(place, said, "FieldValueForbidden")
        whole = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
        yield Cause(where, f"Forbidden: {_over(whole, total.cost, SCHEMA_COST_MAX)}", "FieldValueForbidden")


def _below(spot: _Spot) -> Iterator[_Spot]:
    schema, place, times = spot.schema, spot.place, spot.times

    def inner(place: str, child: Schema, most: Any, apart: str) -> _Spot:
        count = None if times is None or not isinstance(most, int) else min(_INF, times * max(0, most))
        return _Spot(place, child, bool(child.get("x-kubernetes-embedded-resource")), count, apart)

    for name, child in mapping(schema.get("properties")).items():
        yield inner(f"{place}.properties[{name}]", child, 1, spot.apart)
    additional, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(additional, dict):
        yield inner(f"{place}.additionalProperties", additional, schema.get("maxProperties"), spot.apart)
    if isinstance(items, dict):
        apart = spot.apart or ("" if schema.get("x-kubernetes-list-type") == "map" else place)
        yield inner(f"{place}.items", items, schema.get("maxItems"), apart)


def _flaws_at(spot: _Spot, total: _Total) -> Iterator[Cause]:
    self_type = type_of_schema(spot.schema, root=spot.root)
    times = spot.times
    if times is None and self_type is not None:
        times = REQUEST_BYTES // (least(self_type) + 1)
    for index, rule in enumerate(compile_rules(spot.schema, spot.root)):
        where = f"{spot.place}.x-kubernetes-validations[{index}]"
        raw = spot.schema["x-kubernetes-validations"][index]
        cost = _cost(rule.program, self_type)
        cost = min(_INF, cost * (times or 0))
        if cost > RULE_COST_MAX:
            detail = f"Forbidden: {_over('estimated rule cost', cost, RULE_COST_MAX)}"
            yield Cause(f"{where}.rule", detail, "FieldValueForbidden")
        total.add(f"{where}.rule", cost)
        if rule.error:
            yield Cause(f"{where}.rule", f"Invalid value: {_as_printed(raw)}: {rule.error}")
        if rule.message_error:
            detail = f"Invalid value: {_as_printed(raw)}: {rule.message_error}"
            yield Cause(f"{where}.messageExpression", detail)
        elif rule.message_expression is not None:
            cost = _cost(rule.message_expression, self_type)
            if cost > RULE_COST_MAX:
                detail = f"Forbidden: {_over('estimated messageExpression cost', cost, RULE_COST_MAX)}"
                yield Cause(f"{where}.messageExpression", detail, "FieldValueForbidden")
            total.add(f"{where}.messageExpression", cost)
        yield from _old_self_flaws(where, raw, rule, spot.apart)


def _old_self_flaws(where: str, raw: Mapping[str, Any], rule: CelRule, apart: str) -> Iterator[Cause]:
    if rule.transition and apart:
        said = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {apart}"
        yield invalid(f"{where}.rule", rule.text, said)
    elif not rule.transition and raw.get("optionalOldSelf") is not None:
        said = "may not be set if oldSelf is not used in rule"
        yield invalid(f"{where}.optionalOldSelf", raw["optionalOldSelf"], said)


def _cost(program: Program | None, self_type: Any) -> int:
    return estimate(program.tree, self_type) if program is not None and self_type is not None else 0


def _over(what: str, cost: int, most: int) -> str:
    factor = cost / most
    said = "more than 100x" if factor > 100 else f"{factor:f}x" if factor < 1.5 else f"{factor:.1f}x"
    return f"{what} exceeds budget by factor of {said} {_HINT}"


def _as_printed(raw: Mapping[str, Any]) -> str:
    """A rule as a refusal of a kube-apiserver prints it: with the names that Go has for its fields, and as Go's JSON
    escapes it."""
    fields = {key: raw.get(name, None if name in _NULLABLE else "") for name, key in _RULE_KEYS.items()}
    return cut(_HTML.sub(lambda match: f"\\u{ord(match[0]):04x}", orjson.dumps(fields).decode()))
