"""From the schemas that kinds carry to what OpenAPI documents say, in version 3 and in version 2.

Kinds carry shared graphs without references (fleet/engine/schemas.py); documents name every built-in type once and
refer to it. Version 2 knows less. Some parts of a schema have no form in it (nullable, anyOf, free-form fields). They
must be left out in a way that keeps kubectl's own validation from refusing a manifest that the hub takes, as a
kube-apiserver does.
"""

from __future__ import annotations

from typing import Any

from fleet.engine.kind import Kind, Schema
from fleet.engine.schemas import INT_OR_STRING, INT_OR_STRING_TYPE, PRESERVE, QUANTITY, SCHEMA_FROM

GVK = "x-kubernetes-group-version-kind"

_SPECIAL = {
    QUANTITY: (
        {"oneOf": [{"type": "string"}, {"type": "number"}], "description": "A quantity: 8, 500m, 64Gi."},
        {"type": "string", "description": "A quantity: 8, 500m, 64Gi."},
    ),
    INT_OR_STRING_TYPE: (
        {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
        {"type": "string", "format": "int-or-string"},
    ),
}
_V2_UNKNOWN = ("nullable", "oneOf", "anyOf", "allOf", "not", "patternProperties", "x-kubernetes-validations")
_NESTED = ("properties", "items", "additionalProperties")


class Components:
    """The schemas of one document, by name; grows while kinds are added. `version` is 2 or 3."""

    def __init__(self, version: int) -> None:
        self.schemas: dict[str, Schema] = {}
        self._version = version
        self._prefix = "#/components/schemas/" if version == 3 else "#/definitions/"

    def add_kind(self, kind: Kind, api_version: str) -> tuple[str, str]:
        """Names of the kind's schema and of its list's, both put in."""
        group, version = api_version.rsplit("/", 1) if "/" in api_version else ("", api_version)
        schema = kind.schema or {"type": "object", PRESERVE: True}
        name = self._name(kind, schema, group, version)
        known = self.schemas.get(name)
        gvks = known.get(GVK, []) if known is not None else []
        gvk = {"group": group, "version": version, "kind": kind.kind}
        if known is None:
            builtin = SCHEMA_FROM in schema
            known = self.schemas[name] = self._children(schema, builtin)
        known[GVK] = [*(g for g in gvks if g != gvk), gvk]
        list_name = f"{name}List"
        self.schemas[list_name] = {
            "type": "object",
            "required": ["items"],
            "description": f"A list of {kind.kind}.",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "items": {"type": "array", "items": {"$ref": self._prefix + name}},
            },
            GVK: [{"group": group, "version": version, "kind": kind.list_kind}],
        }
        return name, list_name

    def add(self, schema: Schema) -> str:
        """A built-in type beside the kinds (DeleteOptions, Status); its name."""
        self.reference(schema)
        return str(schema[SCHEMA_FROM])

    def reference(self, schema: Schema) -> Schema:
        """A reference to a built-in type, which is put in when it is new."""
        name = str(schema[SCHEMA_FROM])
        if name not in self.schemas:
            special = _SPECIAL.get(name)
            if special is not None:
                self.schemas[name] = dict(special[0 if self._version == 3 else 1])
            else:
                self.schemas[name] = {}  # it may come up again below itself
                self.schemas[name] = self._children(schema, builtin=True)
                self.schemas[name].pop(GVK, None)
        return {"$ref": self._prefix + name}

    def _name(self, kind: Kind, schema: Schema, group: str, version: str) -> str:
        if SCHEMA_FROM in schema:
            return str(schema[SCHEMA_FROM])
        return ".".join([*reversed(group.split(".")), version, kind.kind])

    def _schema(self, schema: Schema, builtin: bool) -> Schema:
        if SCHEMA_FROM not in schema:
            return self._children(schema, builtin)
        reference = self.reference(schema)
        description = schema.get("description")
        if not description or description == self.schemas[str(schema[SCHEMA_FROM])].get("description"):
            return reference
        if self._version == 3:
            return {"allOf": [reference], "description": description}
        return {**reference, "description": description}

    def _children(self, schema: Schema, builtin: bool) -> Schema:
        # A keyword of null says nothing, as in a kube-apiserver.
        new: Schema = {key: value for key, value in schema.items() if key not in _NESTED and value is not None}
        new.pop(SCHEMA_FROM, None)
        if isinstance(schema.get("properties"), dict):
            new["properties"] = {n: self._schema(c, builtin) for n, c in schema["properties"].items()}
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                new[key] = self._schema(schema[key], builtin)
            elif schema.get(key) is not None:
                new[key] = schema[key]
        if builtin:
            new.pop("nullable", None)
        if self._version == 2:
            return _second(new, schema, builtin)
        return new


def _second(new: Schema, schema: Schema, builtin: bool) -> Schema:
    """`new` as version 2 can say it."""
    if (schema.get("nullable") and not builtin) or schema.get(INT_OR_STRING):
        for key in ("type", *_NESTED):
            new.pop(key, None)
    if schema.get(PRESERVE):
        new.pop("items", None)
        new.pop("properties", None)
        if not builtin:
            new.pop("type", None)
    for key in _V2_UNKNOWN:
        new.pop(key, None)
    return new


def parameter(version: int, name: str, where: str, kind: str = "string", **more: Any) -> dict[str, Any]:
    """A parameter of an operation."""
    if version == 3:
        return {"name": name, "in": where, "schema": {"type": kind, "uniqueItems": True}, **more}
    return {"name": name, "in": where, "type": kind, "uniqueItems": True, **more}
