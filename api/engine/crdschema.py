"""The rules for the schema in a CRD before a kind is made of it: keywords of the right types and a structural form. No
part of it may make a write of its objects take long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from api.engine.crdparts import invalid
from api.engine.crdrules import rule_flaws, text_flaws
from api.engine.kind import Schema
from api.engine.schemas import INT_OR_STRING, PRESERVE, SCHEMA_FROM
from api.engine.status import Cause, cut
from api.engine.validate import value_text
from fleet.values.pattern import BadPattern, Pattern
from fleet.values.untyped import mapping, rows

NODES_MAX = 200_000  # of one schema
PATTERN_CHARACTERS_MAX = 256 * 1024  # of all patterns of one schema
RULE_CHARACTERS_MAX = 32 * 1024  # of all rules of one schema: a kilobyte takes the library milliseconds to read
TYPES = ("object", "array", "string", "integer", "number", "boolean")

_NUMBER = (int, float)
KEYWORDS: dict[str, tuple[type, ...]] = {
    "type": (str,),
    "format": (str,),
    "title": (str,),
    "description": (str,),
    "nullable": (bool,),
    "pattern": (str,),
    "properties": (dict,),
    "additionalProperties": (dict, bool),
    "items": (dict,),
    "required": (list,),
    "enum": (list,),
    "minimum": _NUMBER,
    "maximum": _NUMBER,
    "multipleOf": _NUMBER,
    "exclusiveMinimum": (bool,),
    "exclusiveMaximum": (bool,),
    "minLength": (int,),
    "maxLength": (int,),
    "minItems": (int,),
    "maxItems": (int,),
    "minProperties": (int,),
    "maxProperties": (int,),
    "uniqueItems": (bool,),
    "allOf": (list,),
    "anyOf": (list,),
    "oneOf": (list,),
    "not": (dict,),
    PRESERVE: (bool,),
    INT_OR_STRING: (bool,),
    "x-kubernetes-embedded-resource": (bool,),
    "x-kubernetes-list-type": (str,),
    "x-kubernetes-list-map-keys": (list,),
    "x-kubernetes-map-type": (str,),
    "x-kubernetes-validations": (list,),
    SCHEMA_FROM: (str,),
    "x-kubernetes-patch-strategy": (str,),
    "x-kubernetes-patch-merge-key": (str,),
}
_TEXTS = ("required", "x-kubernetes-list-map-keys")
_SCHEMAS = ("allOf", "anyOf", "oneOf")
_RULE = {
    "rule": (str,),
    "message": (str,),
    "messageExpression": (str,),
    "reason": (str,),
    "fieldPath": (str,),
    "optionalOldSelf": (bool,),
}

Place = tuple[str, Any, bool]  # path, schema, whether it must be structural (a value validation need not be)


def flaws(where: str, schema: Schema) -> Iterator[Cause]:
    """The flaws that stop a kind from being made of the schema: also asked of stored ones."""
    pending: list[Place] = [(where, schema, True)]
    left = NODES_MAX
    while pending:
        place, node, structural = pending.pop()
        left -= 1
        if left == 0:
            yield Cause(where, f"Too many: a schema has at most {NODES_MAX} nodes", "FieldValueTooMany")
            return
        if not isinstance(node, dict):
            yield invalid(place, node, "must be a schema")
            continue
        wrong = list(_wrong_types(place, node))
        yield from wrong
        if structural and not wrong:
            yield from _structural(place, node)
        pending += _below(place, node, structural)


def costs(where: str, schema: Schema) -> Iterator[Cause]:
    """The parts that would make writes of its objects slow, or that cannot be done: patterns that RE2 does not take,
    rules that cost more than any write may. `schema` has no flaws."""
    patterns = rules = 0
    pending: list[Place] = [(where, schema, True)]
    while pending:
        place, node, structural = pending.pop()
        pending += _below(place, node, structural)
        pattern = node.get("pattern")
        if pattern is not None:
            patterns += len(pattern)
            try:
                Pattern(pattern)
            except BadPattern as error:
                yield invalid(f"{place}.pattern", pattern, f"must be a regular expression that RE2 takes: {error}")
        for rule in rows(node.get("x-kubernetes-validations")):
            rules += len(rule.get("rule") or "") + len(rule.get("messageExpression") or "")
        if patterns > PATTERN_CHARACTERS_MAX or rules > RULE_CHARACTERS_MAX:
            break
    if patterns > PATTERN_CHARACTERS_MAX:
        text = f"Too long: all patterns together may not be more than {PATTERN_CHARACTERS_MAX} characters"
        yield Cause(where, text, "FieldValueTooLong")
    elif rules > RULE_CHARACTERS_MAX:
        text = f"Too long: all validation rules together may not be more than {RULE_CHARACTERS_MAX} characters"
        yield Cause(where, text, "FieldValueTooLong")
    elif rules:
        yield from rule_flaws(where, schema)


def _below(place: str, node: Any, structural: bool) -> Iterator[Place]:
    if not isinstance(node, dict):
        return
    for name, child in mapping(node.get("properties")).items():
        yield f"{place}.properties[{cut(name, 100)}]", child, structural
    for key in ("additionalProperties", "items"):
        if isinstance(node.get(key), dict):
            yield f"{place}.{key}", node[key], structural
    for key in _SCHEMAS:
        for index, child in enumerate(node[key] if isinstance(node.get(key), list) else ()):
            yield f"{place}.{key}[{index}]", child, False
    if isinstance(node.get("not"), dict):
        yield f"{place}.not", node["not"], False


def _wrong_types(place: str, node: Schema) -> Iterator[Cause]:
    for keyword, types in KEYWORDS.items():
        value = node.get(keyword)
        if value is not None and not _is_one_of(value, types):
            yield invalid(f"{place}.{keyword}", value, f"must be of type {' or '.join(map(_named, types))}")
        elif keyword in _TEXTS and value is not None and not all(isinstance(item, str) for item in value):
            yield invalid(f"{place}.{keyword}", value, "must be a list of strings")
        elif keyword == "x-kubernetes-validations":
            wrong = list(_wrong_rules(f"{place}.{keyword}", value or []))
            yield from wrong or text_flaws(f"{place}.{keyword}", value or [], node)


def _wrong_rules(place: str, given: list[Any]) -> Iterator[Cause]:
    for index, rule in enumerate(given):
        if not isinstance(rule, dict):
            yield invalid(f"{place}[{index}]", rule, "must be an object")
            continue
        for key, types in _RULE.items():
            if rule.get(key) is not None and not _is_one_of(rule[key], types):
                yield invalid(f"{place}[{index}].{key}", rule[key], f"must be of type {_named(types[0])}")


def _is_one_of(value: Any, types: tuple[type, ...]) -> bool:
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def _named(type_: type) -> str:
    return {str: "string", bool: "boolean", dict: "object", list: "array", int: "integer", float: "number"}[type_]


def _structural(place: str, node: Schema) -> Iterator[Cause]:
    """The rules of a structural schema: a type everywhere, and no references."""
    if "$ref" in node:
        yield Cause(f"{place}.$ref", "Forbidden: references are not supported", "FieldValueForbidden")
    kind = node.get("type") or None
    free = node.get(INT_OR_STRING) or node.get(PRESERVE) or SCHEMA_FROM in node
    if kind is None and not free:
        text = "Required value: must not be empty for specified object fields"
        yield Cause(f"{place}.type", text, "FieldValueRequired")
    elif kind is not None and kind not in TYPES:
        allowed = ", ".join(f'"{name}"' for name in TYPES)
        text = f"Unsupported value: {value_text(kind)}: supported values: {allowed}"
        yield Cause(f"{place}.type", text, "FieldValueNotSupported")
    if node.get("properties") and isinstance(node.get("additionalProperties"), dict):
        message = "Forbidden: additionalProperties and properties are mutual exclusive"
        yield Cause(f"{place}.additionalProperties", message, "FieldValueForbidden")
    if kind == "array" and not isinstance(node.get("items"), dict):
        yield Cause(f"{place}.items", "Required value: must be specified for an array", "FieldValueRequired")
