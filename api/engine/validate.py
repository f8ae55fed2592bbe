"""Validation against the schema, with every refusal worded as a kube-apiserver words it.

Users and their tools match on these texts, so the wording is a contract; the tables in tests/api/engine hold it. Rules
in CEL run only where the types are those of the schema, since they may assume them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import orjson

from api.engine.kind import Body
from api.engine.rules import RuleBudget
from api.engine.rulewalk import by_keys, compared_fields, keys_of, run_rules
from api.engine.schema import Node
from api.engine.status import CAUSES_MAX, VALUE_CHARACTERS_MAX, Cause, cut
from fleet.values.times import is_rfc3339

RULES_NOT_CHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
# After one of these a rule could meet types that it does not expect.
_BLOCKING = frozenset(
    {"FieldValueRequired", "FieldValueTypeInvalid", "FieldValueNotSupported", "FieldValueTooLong", "FieldValueTooMany"}
)
# Steps that patterns (instructions × characters) and alternatives (anyOf, oneOf, allOf, not) of one write may take.
WORK_MAX = 50_000_000
_STEPS_OF_ALTERNATIVE = 2_000  # the cost of a look at one alternative, in steps of a pattern
BASE64 = "illegal base64 data"
_BASE64_PART = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_FORMS: dict[str, Callable[[str], bool]] = {
    "date-time": is_rfc3339,
    "micro-time": partial(is_rfc3339, micro=True),
    "date": lambda text: is_rfc3339(f"{text}T00:00:00Z"),
}


def wrong_types(node: Node, value: Any, path: str, old: Any = None) -> list[Cause]:
    """Only what has another type than the schema says, at and below `value`; not in what is as in `old`."""
    walk = _Flaws()
    _check(node, value, path, walk, old)
    return [cause for cause in walk.causes if cause.reason == "FieldValueTypeInvalid"]


class _Flaws:
    """The flaws that one walk over an object finds. `work` is left of what matching and combining may cost; walks that
    try an alternative share it. `by_index`: items of lists are compared with the old ones of the same index, whatever
    the kind of list."""

    __slots__ = ("by_index", "causes", "work")

    def __init__(self, causes: Iterable[Cause] = (), work: list[int] | None = None, by_index: bool = True) -> None:
        self.causes = list(causes)
        self.by_index = by_index
        self.work = [WORK_MAX] if work is None else work

    def spend(self, cost: int, path: str, what: str) -> bool:
        """False, with a cause, when the object costs more than an object may."""
        if self.work[0] < 0:
            return False
        self.work[0] -= cost
        if self.work[0] >= 0:
            return True
        text = f"Too many: validation budget exceeded: {what} would take too long"
        self.causes.append(Cause(path or "<nil>", text, "FieldValueTooMany"))
        return False


def unchanged_fields(node: Node, value: Body, old: Body | None) -> frozenset[str]:
    """The top-level fields that a write leaves as they were stored. These fields are not looked at again: their values
    were valid when they were written, and a schema that has grown stricter since must not lock a status out."""
    if old is None or node.rules or node.all_of or node.any_of or node.one_of or node.own_defaults:
        return frozenset()
    return frozenset(k for k, v in value.items() if k in old and old[k] == v and old[k].__class__ is v.__class__)


def validate(
    node: Node, value: Body, old: Body | None = None, causes: Iterable[Cause] = (), *, changes: bool = False
) -> list[Cause]:
    """The flaws of an object, after the `causes` in its metadata. `old` is its stored state. Of a custom kind a value
    keeps the flaws that it had there, as in a kube-apiserver: a field, or an item of a list that is known by its keys.
    `changes`: only what differs from that state counts, for any kind, and in lists by the index (for the hub's own
    writes, which change little of an object)."""
    walk = _Flaws(causes, by_index=changes)
    same = unchanged_fields(node, value, old)
    _check_object(node, value, "", walk, same, old if changes or not node.builtin else None)
    if node.all_of or node.any_of or node.one_of or node.negated is not None:
        _check_combined(node, value, "", walk)
    if node.builtin or not node.ruled:
        return walk.causes
    if any(cause.reason in _BLOCKING for cause in walk.causes):
        walk.causes.append(Cause("<nil>", f"Invalid value: null: {RULES_NOT_CHECKED}"))
    else:
        passed = same - compared_fields(node, same)
        asked = {k: v for k, v in value.items() if k not in passed} if passed else value
        run_rules(node, asked, old, "", walk.causes, RuleBudget(), (value, old))
    return walk.causes


def value_text(value: Any) -> str:
    """A value as the field errors of Kubernetes print it, or its beginning."""
    if value.__class__ is str:
        return exact(value) if len(value) <= VALUE_CHARACTERS_MAX else exact(value[:VALUE_CHARACTERS_MAX])[:-1] + '…"'
    return cut(exact(value))


def exact(value: Any) -> str:
    """The same, whole: equal texts are equal values."""
    if value is None:
        return '"null"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return orjson.dumps(value).decode()
    if isinstance(value, int | float):
        return str(value)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _wrong_type(path: str, wanted: str, value: Any) -> Cause:
    got = _type_name(value)
    return Cause(
        path, f'Invalid value: "{got}": {path} in body must be of type {wanted}: "{got}"', "FieldValueTypeInvalid"
    )


def _invalid(path: str, value: Any, text: str) -> Cause:
    return Cause(path, f"Invalid value: {value_text(value)}: {path} in body {text}")


def _check(node: Node, value: Any, path: str, walk: _Flaws, old: Any = None) -> None:
    """`old`: a checked value of this place; None for none. Parts that are as in it are passed over."""
    cls = value.__class__
    if value is None:
        if not node.nullable and (node.type or node.int_or_string):
            walk.causes.append(_wrong_type(path, node.type or "integer,string", value))
        return
    types = node.types
    if types is not None and cls not in types:
        if not (cls is float and node.type == "integer" and value.is_integer()):
            walk.causes.append(_wrong_type(path, node.type, value))
            if cls is float and node.type == "integer":
                walk.causes.append(_wrong_format(path, node.format))
            return
    elif node.int_or_string and cls is not int and cls is not str:
        walk.causes.append(_wrong_type(path, "integer,string", value))
        return
    if node.enum is not None and not _among(node, value):
        given = node.enum[:CAUSES_MAX]
        supported = ", ".join(value_text(v if isinstance(v, str) else json.dumps(v)) for v in given)
        walk.causes.append(
            Cause(
                path, f"Unsupported value: {value_text(value)}: supported values: {supported}", "FieldValueNotSupported"
            )
        )
    if cls is dict:
        _check_object(node, value, path, walk, old=old)
    elif cls is list:
        _check_array(node, value, path, walk, old)
    elif cls is str:
        _check_string(node, value, path, walk)
    elif cls is not bool:
        _check_number(node, value, path, walk)
    if node.all_of or node.any_of or node.one_of or node.negated is not None:
        _check_combined(node, value, path, walk)


def _among(node: Node, value: Any) -> bool:
    """Is the value one of the enum? 3.0 is 3, and true is not 1."""
    if value.__class__ is float and value.is_integer():
        value = int(value)
    return (value.__class__ is str and value in node.enum_texts) or exact(value) in node.enum_others


def _check_object(
    node: Node, value: dict[str, Any], path: str, walk: _Flaws, skip: frozenset[str] = frozenset(), old: Any = None
) -> None:
    for key in node.required:
        if len(walk.causes) > CAUSES_MAX:
            return
        if key not in value:
            walk.causes.append(Cause(f"{path}.{key}" if path else key, "Required value", "FieldValueRequired"))
    if node.max_properties is not None and len(value) > node.max_properties:
        walk.causes.append(_too_many(path, len(value), node.max_properties))
    if node.min_properties is not None and len(value) < node.min_properties:
        walk.causes.append(_invalid(path, len(value), f"should have at least {node.min_properties} properties"))
    if node.open:
        return
    prefix = path + "." if path else ""
    child_of = node.child
    was = None
    known = old if old.__class__ is dict else None
    for key, inner in value.items():
        if known is not None:
            was = known.get(key)
            if was is not None and was.__class__ is inner.__class__ and was == inner:
                continue
        child = child_of(key)
        if child is not None and key not in skip:
            _check(child, inner, prefix + key, walk, was)
            if len(walk.causes) > CAUSES_MAX:
                return


def _check_array(node: Node, value: list[Any], path: str, walk: _Flaws, old: Any = None) -> None:
    if node.max_items is not None and len(value) > node.max_items:
        walk.causes.append(_too_many(path, len(value), node.max_items))
    if node.min_items is not None and len(value) < node.min_items:
        walk.causes.append(_invalid(path, len(value), f"should have at least {node.min_items} items"))
    if node.unique and len({exact(item) for item in value}) < len(value):
        walk.causes.append(_invalid(path, value, "shouldn't contain duplicates"))
    items = node.items
    if items is None:
        return
    if node.associative and not node.loose:
        _check_identities(node, items, value, path, walk)
    if items.simple and items.types is not None and items.types.issuperset(map(type, value)):
        return
    old_items = old if old.__class__ is list else []
    keyed = None if walk.by_index else by_keys(node, old_items)
    for index, inner in enumerate(value):
        if len(walk.causes) > CAUSES_MAX:
            return
        if keyed is None:
            was = old_items[index] if index < len(old_items) else None
        else:
            was = keyed.get(keys_of(node, inner)) if keyed else None
        if was is not None and was.__class__ is inner.__class__ and was == inner:
            continue
        if inner is None and items.builtin and (items.type or items.int_or_string):
            # Go decodes a null item as an empty one; here a null is no value that a client could mean.
            walk.causes.append(Cause(f"{path}[{index}]", "Required value: must not be null", "FieldValueRequired"))
        else:
            _check(items, inner, f"{path}[{index}]", walk, was)


def _check_string(node: Node, value: str, path: str, walk: _Flaws) -> None:
    if node.max_length is not None and len(value) > node.max_length:
        walk.causes.append(Cause(path, f"Too long: may not be more than {node.max_length} bytes", "FieldValueTooLong"))
    elif node.min_length is not None and len(value) < node.min_length:
        walk.causes.append(_invalid(path, value, f"should be at least {node.min_length} chars long"))
    elif (
        node.pattern is not None
        and walk.spend(node.pattern.cost(value), path, "matching a pattern")
        and not node.pattern.matches(value)
    ):
        walk.causes.append(_invalid(path, value, f"should match '{cut(node.pattern.text)}'"))
    if node.format == "byte" and node.builtin and (bad := _not_base64(value)) is not None:
        walk.causes.append(Cause(path, f"{BASE64} at input byte {bad}", "FieldValueTypeInvalid"))
    form = _FORMS.get(node.format)
    if form is not None and not form(value):
        text = f"Invalid value: {value_text(value)}: {path} in body must be of type {node.format}: {value_text(value)}"
        walk.causes.append(Cause(path, text, "FieldValueTypeInvalid"))


def _not_base64(value: str) -> int | None:
    """Where base64 stops being base64, as Go says it; None when it does not. Go skips the ends of lines."""
    text = value.replace("\r", "").replace("\n", "")
    whole = _BASE64_PART.match(text)
    end = whole.end() if whole else 0
    if end < len(text):
        return end
    return None if end % 4 == 0 else end - end % 4


def _check_number(node: Node, value: float, path: str, walk: _Flaws) -> None:
    if node.minimum is not None and (value <= node.minimum if node.exclusive_min else value < node.minimum):
        than = "greater than" if node.exclusive_min else "greater than or equal to"
        walk.causes.append(_invalid(path, value, f"should be {than} {node.minimum}"))
    if node.maximum is not None and (value >= node.maximum if node.exclusive_max else value > node.maximum):
        than = "less than" if node.exclusive_max else "less than or equal to"
        walk.causes.append(_invalid(path, value, f"should be {than} {node.maximum}"))
    if node.multiple_of and value % node.multiple_of:
        walk.causes.append(_invalid(path, value, f"should be a multiple of {node.multiple_of}"))
    if node.type == "integer":
        low, high = (-(2**31), 2**31 - 1) if node.format == "int32" else (-(2**63), 2**63 - 1)
        if not low <= value <= high:
            walk.causes.append(_wrong_format(path, node.format))


def _wrong_format(path: str, name: str) -> Cause:
    said = f"with format {name}" if name else "(default format)"
    return Cause("<nil>", f'Invalid value: "": Checked value must be of type integer {said} in {path}')


def _check_combined(node: Node, value: Any, path: str, walk: _Flaws) -> None:
    def fits(part: Node) -> list[Cause]:
        inner = _Flaws(work=walk.work)
        if walk.spend(_STEPS_OF_ALTERNATIVE, path, "trying the alternatives of the schema"):
            _check(part, value, path, inner)
        return inner.causes

    causes = walk.causes
    if walk.work[0] < 0:  # the fault is named already, and each item of a list would try everything again
        return
    for part in node.all_of:
        causes.extend(fits(part))
    if node.any_of:
        tried = [fits(part) for part in node.any_of]
        if all(tried):
            causes.append(_nowhere(f'"{path}" must validate at least one schema (anyOf)'))
            causes.extend(_nearest(tried))
    if node.one_of:
        tried = [fits(part) for part in node.one_of]
        valid = sum(not t for t in tried)
        if valid != 1:
            found = "Found none valid" if valid == 0 else f"Found {valid} valid alternatives"
            causes.append(_nowhere(f'"{path}" must validate one and only one schema (oneOf). {found}'))
            if valid == 0:
                causes.extend(_nearest(tried))
    if node.negated is not None and not fits(node.negated):
        causes.append(_nowhere(f'"{path}" must not validate the schema (not)'))


def _nowhere(text: str) -> Cause:
    """A cause whose field is named in its text only, as a kube-apiserver gives it."""
    return Cause("<nil>", f'Invalid value: "": {text}')


def _nearest(tried: list[list[Cause]]) -> list[Cause]:
    """The alternative that was missed by least: its complaints tell the user most."""
    return min(tried, key=lambda causes: len(causes))


def _too_many(path: str, actual: int, allowed: int) -> Cause:
    word = "item" if allowed == 1 else "items"
    return Cause(path, f"Too many: {actual}: must have at most {allowed} {word}", "FieldValueTooMany")


def _check_identities(node: Node, items: Node, value: list[Any], path: str, walk: _Flaws) -> None:
    """Sets and map lists hold each item once."""
    identities: set[str] = set()
    for index, item in enumerate(value):
        identity: Any = item
        if node.list_type == "map":
            if item.__class__ is not dict:
                continue
            identity = {}
            for key in node.list_map_keys:
                if key in item:
                    identity[key] = item[key]
                elif (child := items.child(key)) is not None and child.has_default:
                    identity[key] = child.default
        text = exact(identity)
        if text in identities:
            walk.causes.append(Cause(f"{path}[{index}]", f"Duplicate value: {cut(text)}", "FieldValueDuplicate"))
            if len(walk.causes) > CAUSES_MAX:
                return
        identities.add(text)
