"""Schemas of built-in types, made from the definitions that an installed package carries.

The definitions are JSON schema as the Kubernetes project publishes it, loosened by their packager (optional fields may
be null). The engine needs a structural OpenAPI v3 schema without references. Expanding every reference would make
hundreds of megabytes of copies. So a resolved schema is a *shared* graph: a definition is converted once, and all
references to it have the same dict. A resolved schema may not be changed.

Every dict made from a definition keeps its name under SCHEMA_FROM. The same key in a schema by hand (a kind file, a
CRD) asks for that definition: `expand` puts it in, and `collapse` takes it out again, so that a CRD with a pod template
is a few kilobytes and not half a megabyte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from api.engine.kind import Schema

SCHEMA_FROM = "x-fleet-schema-from"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"

OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING_TYPE = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"

_REF_PREFIX = "#/$defs/"
_COPIED = (
    "description",
    "format",
    "required",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "default",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-embedded-resource",
    INT_OR_STRING,
    PRESERVE,
    "x-kubernetes-group-version-kind",
)
# Types that contain themselves. Below them any value is accepted; code checks the rules there (api/engine/crd.py).
_RECURSIVE = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"


class Definitions:
    """Resolved schemas by definition name, each made when it is first asked for.

    `raw` maps a name such as "io.k8s.api.core.v1.ConfigMap" to its JSON schema, with `$ref`s between them.
    """

    def __init__(self, raw: Mapping[str, Any]) -> None:
        self._raw = raw
        self._resolved: dict[str, Schema] = {}
        self._open: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._raw

    def resolve(self, name: str) -> Schema:
        """The definition as a structural schema, shared. LookupError when there is none of that name."""
        known = self._resolved.get(name)
        if known is not None:
            return known
        if name not in self._raw:
            raise LookupError(f"no definition {name}")
        if name in self._open or name == _RECURSIVE:
            return {"type": "object", "nullable": True, PRESERVE: True}
        self._open.add(name)
        schema = self._named(name)
        schema[SCHEMA_FROM] = name
        self._open.discard(name)
        self._resolved[name] = schema
        return schema

    def expand(self, schema: Schema) -> Schema:
        """`schema` with every node that names a definition replaced by it; the node's own description stays."""
        name = schema.get(SCHEMA_FROM)
        if isinstance(name, str) and name in self._raw:
            return _described(self.resolve(name), schema.get("description"))
        expanded = dict(schema)
        for key in ("properties", "patternProperties"):
            children = schema.get(key)
            if isinstance(children, dict):
                expanded[key] = {n: self.expand(c) if isinstance(c, dict) else c for n, c in children.items()}
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                expanded[key] = self.expand(schema[key])
        return expanded

    def _named(self, name: str) -> Schema:
        if name == QUANTITY:  # numbers and strings; whether they parse, admission says
            return {PRESERVE: True, "format": "quantity"}
        if name == INT_OR_STRING_TYPE:
            return {INT_OR_STRING: True, "nullable": True}
        schema = self._convert(self._raw[name])
        if "x-kubernetes-group-version-kind" in schema:  # one kind may be served under other groups than its own
            for field in ("apiVersion", "kind"):
                if field in schema.get("properties", {}):
                    schema["properties"][field].pop("enum", None)
        return schema

    def _convert(self, raw: Mapping[str, Any]) -> Schema:
        ref = raw.get("$ref")
        if isinstance(ref, str):
            return _described(self.resolve(ref.removeprefix(_REF_PREFIX)), raw.get("description"))
        schema: Schema = {key: raw[key] for key in _COPIED if key in raw}
        kind = raw.get("type")
        if isinstance(kind, list):
            schema["nullable"] = "null" in kind
            kind = next(t for t in kind if t != "null")
        if kind is not None:
            schema["type"] = kind
        if "properties" in raw:
            schema["properties"] = {name: self._convert(child) for name, child in raw["properties"].items()}
        if isinstance(raw.get("additionalProperties"), dict):
            schema["additionalProperties"] = self._convert(raw["additionalProperties"])
        if "items" in raw:
            schema["items"] = self._convert(raw["items"])
        if kind is None or (kind == "object" and "properties" not in schema and "additionalProperties" not in schema):
            schema[PRESERVE] = True
        return schema


def collapse(schema: Schema) -> Schema:
    """The opposite of `expand`: definitions become a node that names them, which takes any object."""
    name = schema.get(SCHEMA_FROM)
    if isinstance(name, str):
        node: Schema = {SCHEMA_FROM: name, PRESERVE: True}
        if "type" in schema:
            node["type"] = schema["type"]
        if "description" in schema:
            node["description"] = schema["description"]
        return node
    collapsed = dict(schema)
    if isinstance(schema.get("properties"), dict):
        collapsed["properties"] = {n: collapse(c) for n, c in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            collapsed[key] = collapse(schema[key])
    return collapsed


def whole_object(schema: Schema | None, definitions: Definitions) -> Schema:
    """A custom kind's schema as the engine wants it: definitions expanded, type and object metadata typed."""
    expanded = definitions.expand(schema or {"type": "object", PRESERVE: True})
    metadata = definitions.resolve(OBJECT_META) if OBJECT_META in definitions else {"type": "object", PRESERVE: True}
    own = expanded.get("properties", {})
    expanded["properties"] = {
        **own,
        "apiVersion": {"type": "string", **_text(own.get("apiVersion"))},
        "kind": {"type": "string", **_text(own.get("kind"))},
        "metadata": metadata,
    }
    expanded.setdefault("type", "object")
    return expanded


def _text(schema: Schema | None) -> Schema:
    return {"description": schema["description"]} if schema and "description" in schema else {}


def _described(schema: Schema, description: str | None) -> Schema:
    """The shared schema under another description: a shallow copy, everything below stays shared."""
    if not description or schema.get("description") == description:
        return schema
    return {**schema, "description": description}
