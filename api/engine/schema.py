"""Structural OpenAPI v3 schemas, compiled once into nodes that the passes over an object can walk fast.

A raw schema answers "what is known of this field" with a dozen dictionary look-ups at every step, and a pod template
has some two thousand fields. A `Node` holds the answers as attributes, along with flags ("nothing below has a default")
that let a pass skip whole subtrees. Compiling is lazy below the root, so that schemas may be large and may refer to
themselves, and it is remembered per schema dictionary: a schema may not change once a kind carries it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from api.engine.kind import Kind, Schema
from api.engine.rules import CelRule, compile_rules
from fleet.values.pattern import BadPattern, Pattern

_CACHE_MAX = 4096

_TYPES: dict[str, frozenset[type]] = {
    "object": frozenset({dict}),
    "array": frozenset({list}),
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
}

_SAYS_NOTHING = frozenset({"type", "description", "title", "nullable", "example", "default"})
_SCHEMA_FROM = "x-fleet-schema-from"
_MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"  # a time of exactly six decimals
_STRING: Schema = {"type": "string"}
_STRINGS: Schema = {"type": "object", "additionalProperties": _STRING}

META_SCHEMA: Schema = {
    "type": "object",
    "properties": {
        "name": _STRING,
        "generateName": _STRING,
        "namespace": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
        "resourceVersion": _STRING,
        "generation": {"type": "integer"},
        "creationTimestamp": {"type": "string", "format": "date-time"},
        "deletionTimestamp": {"type": "string", "format": "date-time"},
        "deletionGracePeriodSeconds": {"type": "integer"},
        "labels": _STRINGS,
        "annotations": _STRINGS,
        "ownerReferences": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "uid",
            "items": {
                "type": "object",
                "x-kubernetes-map-type": "atomic",
                "properties": {
                    "apiVersion": _STRING,
                    "kind": _STRING,
                    "name": _STRING,
                    "uid": _STRING,
                    "controller": {"type": "boolean"},
                    "blockOwnerDeletion": {"type": "boolean"},
                },
            },
        },
        "finalizers": {
            "type": "array",
            "items": _STRING,
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
        },
        "managedFields": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "manager": _STRING,
                    "operation": _STRING,
                    "apiVersion": _STRING,
                    "time": {"type": "string", "format": "date-time"},
                    "fieldsType": _STRING,
                    "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    "subresource": _STRING,
                },
            },
        },
    },
}


def _pattern(text: Any) -> Pattern | None:
    """A pattern that was stored before the check that it can be read checks nothing."""
    if not isinstance(text, str):
        return None
    try:
        return Pattern(text)
    except BadPattern:
        return None


class Node:
    """The schema of one place in an object. Children are compiled when first asked for."""

    __slots__ = (
        "_additional",
        "_compares",
        "_items",
        "_props",
        "_raw_props",
        "_ruled",
        "all_of",
        "any_of",
        "atomic",
        "builtin",
        "default",
        "default_size",
        "enum",
        "enum_others",
        "enum_texts",
        "exclusive_max",
        "exclusive_min",
        "format",
        "has_default",
        "int_or_string",
        "list_map_keys",
        "list_type",
        "loose",
        "max_items",
        "max_length",
        "max_properties",
        "maximum",
        "merge_key",
        "min_items",
        "min_length",
        "min_properties",
        "minimum",
        "multiple_of",
        "negated",
        "nullable",
        "one_of",
        "open",
        "own_defaults",
        "patch_strategy",
        "pattern",
        "pattern_text",
        "preserve",
        "raw",
        "required",
        "rules",
        "simple",
        "type",
        "types",
        "unique",
    )

    def __init__(self, raw: Schema, builtin: bool, root: bool = False, loose: bool = False) -> None:
        """`loose`: of a kind whose required fields code names (Kind.checked)."""
        self.raw = raw
        self.loose = loose
        # A definition of a built-in type inside a custom kind's schema (a pod template) is as built-in as the type.
        self.builtin = builtin or _SCHEMA_FROM in raw
        get = raw.get
        self.type: str = get("type", "")
        self.int_or_string = bool(get("x-kubernetes-int-or-string")) or get("format") == "int-or-string"
        if self.int_or_string:
            self.type = ""
        self.types = _TYPES.get(self.type)
        self.nullable = bool(get("nullable"))
        embedded = root or bool(get("x-kubernetes-embedded-resource"))
        self._compares: bool | None = None
        self._ruled: bool | None = None
        self._read_children(raw, embedded)
        self._read_defaults(raw)
        self._read_enum(raw)
        self.pattern_text: str | None = get("pattern")
        self.pattern = _pattern(self.pattern_text)
        self._read_bounds(raw)
        self._read_merging(raw)
        self._read_combined(raw)
        self.rules: tuple[CelRule, ...] = compile_rules(raw, embedded)
        # A scalar of which only the type is asked: long lists of them are checked at once.
        self.simple = self.type in ("string", "boolean") and raw.keys() <= _SAYS_NOTHING

    def _read_children(self, raw: Schema, embedded: bool) -> None:
        """What may be and what must be below. `embedded`: it is a whole object."""
        get = raw.get
        self._raw_props: dict[str, Schema] = dict(get("properties") or {})
        if embedded:
            self._raw_props |= {"apiVersion": _STRING, "kind": _STRING, "metadata": META_SCHEMA}
        self._props: dict[str, Node] = {}
        additional = get("additionalProperties")
        self.preserve = bool(get("x-kubernetes-preserve-unknown-fields")) or additional is True
        bare = not self._raw_props and not isinstance(additional, dict)
        if bare and (self.builtin or not raw) and self.type in ("object", ""):
            self.preserve = True  # RawExtension, FieldsV1 and JSON among the built-in types say no more than that
        self._additional: Any = additional if isinstance(additional, dict) else None
        self._items: Any = get("items")
        # Nothing to prune, default or look into: free-form content, or a scalar.
        self.open = self.preserve and bare and not self._items
        self.required: tuple[str, ...] = () if self.loose else tuple(get("required") or ())
        if get("x-kubernetes-embedded-resource"):
            self.required = tuple(dict.fromkeys((*self.required, "apiVersion", "kind")))

    def _read_defaults(self, raw: Schema) -> None:
        """The default of the place, and the fields that have one."""
        self.default = raw.get("default")
        self.has_default = "default" in raw
        self.default_size = len(orjson.dumps(self.default)) if self.has_default else 0
        self.own_defaults: tuple[str, ...] = tuple(k for k, s in self._raw_props.items() if "default" in s)

    def _read_enum(self, raw: Schema) -> None:
        """The values that are allowed, and the same to look one up."""
        enum = raw.get("enum")
        self.enum: list[Any] | None = list(enum) if enum else None
        self.enum_texts = frozenset(v for v in enum or () if isinstance(v, str))
        self.enum_others = frozenset(orjson.dumps(v, option=orjson.OPT_SORT_KEYS).decode() for v in enum or ())

    def _read_merging(self, raw: Schema) -> None:
        """How lists and maps are merged."""
        get = raw.get
        self.list_type: str = get("x-kubernetes-list-type") or "atomic"
        self.list_map_keys: tuple[str, ...] = tuple(get("x-kubernetes-list-map-keys") or ())
        self.atomic = get("x-kubernetes-map-type") == "atomic"
        self.patch_strategy: frozenset[str] = frozenset((get("x-kubernetes-patch-strategy") or "").split(",")) - {""}
        self.merge_key: str = get("x-kubernetes-patch-merge-key") or ""

    def _read_combined(self, raw: Schema) -> None:
        """The schemas of which one, any, all or none must hold."""

        def nodes(key: str) -> tuple[Node, ...]:
            return tuple(Node(schema, True) for schema in raw.get(key) or ()) if not self.int_or_string else ()

        self.one_of, self.any_of, self.all_of = nodes("oneOf"), nodes("anyOf"), nodes("allOf")
        negated = raw.get("not")
        self.negated = Node(negated, True) if negated is not None else None

    def _read_bounds(self, raw: Schema) -> None:
        """The bounds of a value: its format, and how large or long it may be."""
        get = raw.get
        self.format: str = "micro-time" if get(_SCHEMA_FROM) == _MICRO_TIME else get("format") or ""
        self.minimum = get("minimum")
        self.maximum = get("maximum")
        self.exclusive_min = bool(get("exclusiveMinimum"))
        self.exclusive_max = bool(get("exclusiveMaximum"))
        self.multiple_of = get("multipleOf")
        self.min_length = get("minLength")
        self.max_length = get("maxLength")
        self.min_items = get("minItems")
        self.max_items = get("maxItems")
        self.min_properties = get("minProperties")
        self.max_properties = get("maxProperties")
        self.unique = bool(get("uniqueItems"))

    def child(self, key: str) -> Node | None:
        """The node of a field or map key; None when the schema does not know it."""
        node = self._props.get(key)
        if node is not None:
            return node
        raw = self._raw_props.get(key)
        if raw is not None:
            node = self._props[key] = Node(raw, self.builtin or raw is META_SCHEMA, loose=self.loose)
            return node
        return self.additional

    def is_field(self, key: str) -> bool:
        """Is the key a declared field, rather than the key of a map?"""
        return key in self._raw_props

    @property
    def additional(self) -> Node | None:
        found = self._additional
        if found is None or found.__class__ is Node:
            return found
        node = self._additional = Node(found, self.builtin, loose=self.loose)
        return node

    @property
    def compares(self) -> bool:
        """Does a rule here or below read `oldSelf`?"""
        if self._compares is None:
            self._compares = _has_rule(self.raw, "oldSelf")
        return self._compares

    @property
    def ruled(self) -> bool:
        """Is there a rule here or below?"""
        if self._ruled is None:
            self._ruled = _has_rule(self.raw)
        return self._ruled

    @property
    def items(self) -> Node | None:
        found = self._items
        if found is None or found.__class__ is Node:
            return found
        node = self._items = Node(found, self.builtin, loose=self.loose)
        return node

    def fields(self) -> Iterator[tuple[str, Node]]:
        for key in self._raw_props:
            node = self.child(key)
            assert node is not None
            yield key, node

    @property
    def associative(self) -> bool:
        """A list whose items have an identity: a map list or a set."""
        return self.list_type == "set" or (self.list_type == "map" and bool(self.list_map_keys))


def _has_rule(schema: Schema, reading: str = "") -> bool:
    """`reading`: a name that the text of the rule has."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if _SCHEMA_FROM in node:  # built-in types have no rules
            continue
        if any(reading in str(rule.get("rule")) for rule in node.get("x-kubernetes-validations") or ()):
            return True
        pending += (node.get("properties") or {}).values()
        pending += [child for key in ("items", "additionalProperties") if isinstance(child := node.get(key), dict)]
    return False


ANYTHING = Node({"x-kubernetes-preserve-unknown-fields": True}, True)
META = Node(META_SCHEMA, True)

_cache: dict[tuple[int, bool, bool], tuple[Schema, Node]] = {}
_SCHEMALESS: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def compiled(kind: Kind) -> Node:
    """The root node of a kind's schema; `apiVersion`, `kind` and `metadata` are always those of every object."""
    schema = kind.schema if kind.schema is not None else _SCHEMALESS
    key = (id(schema), kind.builtin, kind.checked)
    found = _cache.get(key)
    # The entry holds the schema, so its id cannot be given to another one while the entry lives.
    if found is not None:
        return found[1]
    node = Node(schema, kind.builtin, root=True, loose=kind.checked)
    if len(_cache) >= _CACHE_MAX:
        _cache.pop(next(iter(_cache)))
    _cache[key] = (schema, node)
    return node
