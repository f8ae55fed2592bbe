"""From the schemas that kinds carry to what OpenAPI documents say, in version 3 and in version 2.

Kinds carry shared graphs without references (api/engine/schemas.py); documents name every built-in type once and
refer to it. Version 2 knows less. Some parts of a schema have no form in it (nullable, anyOf, free-form fields). They
must be left out in a way that keeps kubectl's own validation from refusing a manifest that the hub takes, as a
kube-apiserver does.
"""

from __future__ import annotations

from typing import Any

from api.engine.crdschema import KEYWORDS
from api.engine.kind import Kind, Schema
from api.engine.schemas import INT_OR_STRING, INT_OR_STRING_TYPE, PRESERVE, QUANTITY, SCHEMA_FROM
from api.objects.definitions import definitions

GVK = "x-kubernetes-group-version-kind"
EMBEDDED = "x-kubernetes-embedded-resource"

_EXAMPLE = "io.k8s.api.core.v1.Pod"  # its fields are described as those of every object
_CONVENTIONS = "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
_EMBEDDED_TEXTS = {
    "apiVersion": f"apiVersion defines the versioned schema of this representation of an object. More info: {_CONVENTIONS}#resources",  # noqa: E501
    "kind": f"kind is a string value representing the type of this object. In CamelCase. More info: {_CONVENTIONS}#types-kinds",  # noqa: E501
}

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
_V2_UNKNOWN = ("nullable", "oneOf", "anyOf", "allOf", "not", "patternProperties", "default")
_SHOWN = frozenset((*KEYWORDS, "default"))  # of a custom kind
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
        entry = self.schemas.get(name)
        gvks = entry.get(GVK, []) if entry is not None else []
        gvk = {"group": group, "version": version, "kind": kind.kind}
        if entry is None:
            entry = self.schemas[name] = (
                self._children(schema, True) if schema.get(SCHEMA_FROM) else self._custom(schema)
            )
        entry[GVK] = [*(g for g in gvks if g != gvk), gvk]
        return name, self._list(kind, name, {"group": group, "version": version, "kind": kind.list_kind})

    def _list(self, kind: Kind, name: str, gvk: dict[str, str]) -> str:
        """The name of the schema of a list of the kind, which is put in."""
        list_name = f"{name}List"
        items = f"List of {kind.resource}. More info: {_CONVENTIONS}"
        self.schemas[list_name] = {
            "type": "object",
            "required": ["items"],
            "description": f"{kind.list_kind} is a list of {kind.kind}",
            "properties": {
                **self._type_meta(),
                "metadata": self._described_as("metadata", f"{_EXAMPLE}List"),
                "items": {"type": "array", "description": items, "items": {"$ref": self._prefix + name}},
            },
            GVK: [gvk],
        }
        return list_name

    def _custom(self, schema: Schema) -> Schema:
        """The root of a custom kind."""
        if self._version == 2 and schema.get(PRESERVE):  # beside any property, kubectl refuses those that it lacks
            return {"type": "object"}
        new = self._children(schema, builtin=False)
        metadata = self._described_as("metadata", _EXAMPLE)
        new["properties"] = {**new.get("properties", {}), **self._type_meta(), "metadata": metadata}
        return new

    def _type_meta(self) -> dict[str, Schema]:
        return {key: self._described_as(key, _EXAMPLE) for key in ("apiVersion", "kind")}

    def _described_as(self, key: str, definition: str) -> Schema:
        """A field as a built-in type has it."""
        return self._schema(definitions().resolve(definition)["properties"][key], builtin=True)

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
                # `schema` may be a copy with the description of one field.
                self.schemas[name] = self._children(definitions().resolve(name), builtin=True)
                self.schemas[name].pop(GVK, None)
        return {"$ref": self._prefix + name}

    def _name(self, kind: Kind, schema: Schema, group: str, version: str) -> str:
        if schema.get(SCHEMA_FROM):
            return str(schema[SCHEMA_FROM])
        return ".".join([*reversed(group.split(".")), version, kind.kind])

    def _schema(self, schema: Schema, builtin: bool) -> Schema:
        if not schema.get(SCHEMA_FROM):
            return self._children(schema, builtin)
        reference = self.reference(schema)
        description = schema.get("description")
        if not description or description == self.schemas[str(schema[SCHEMA_FROM])].get("description"):
            return reference
        if self._version == 3:
            return {"allOf": [reference], "description": description}
        return {**reference, "description": description}

    def _children(self, schema: Schema, builtin: bool) -> Schema:
        # A keyword of null says nothing, as in a kube-apiserver; one that the hub does not know may be of any type.
        # Go reads an empty list or map, and does not write it again.
        new: Schema = {
            key: value
            for key, value in schema.items()
            if (builtin or key in _SHOWN or key.startswith("x-kubernetes"))
            and key not in _NESTED
            and value is not None
            and (value not in ([], {}) or key == "default")
        }
        new.pop(SCHEMA_FROM, None)
        if schema.get("properties") and isinstance(schema["properties"], dict):
            new["properties"] = {n: self._schema(c, builtin) for n, c in schema["properties"].items()}
        for key in ("items", "additionalProperties"):
            if isinstance(schema.get(key), dict):
                new[key] = self._schema(schema[key], builtin)
            elif schema.get(key) is not None:
                new[key] = schema[key]
        if builtin:
            new.pop("nullable", None)
        elif schema.get(EMBEDDED) and not (self._version == 2 and schema.get(PRESERVE)):
            self._embed(new)
        if self._version == 2:
            return _second(new, schema, builtin)
        if schema.get(INT_OR_STRING) and not builtin:
            new.setdefault("anyOf", [{"type": "integer"}, {"type": "string"}])
        return new

    def _embed(self, new: Schema) -> None:
        """What every object has, in a place for a whole object."""
        texts = {key: {"type": "string", "description": text} for key, text in _EMBEDDED_TEXTS.items()}
        metadata = self._described_as("metadata", _EXAMPLE)
        new["properties"] = {**new.get("properties", {}), **texts, "metadata": metadata}
        required = new.get("required") or []
        new["required"] = [*required, *(key for key in ("kind", "apiVersion") if key not in required)]


def _second(new: Schema, schema: Schema, builtin: bool) -> Schema:
    """`new` as version 2 can say it."""
    nullable = not builtin and schema.get("nullable")
    if nullable or schema.get(PRESERVE) or schema.get(INT_OR_STRING):
        new.pop("items", None)
        new.pop("properties", None)
    if nullable or schema.get(INT_OR_STRING) or (not builtin and schema.get(PRESERVE)):
        new.pop("type", None)
    if not builtin and "required" in new:
        may_be_null = {name for name, child in (schema.get("properties") or {}).items() if child.get("nullable")}
        new["required"] = [name for name in new["required"] if name not in may_be_null]
        if not new["required"]:
            del new["required"]
    for key in _V2_UNKNOWN:
        new.pop(key, None)
    return new


def parameter(version: int, name: str, where: str, kind: str = "string", **more: Any) -> dict[str, Any]:
    """A parameter of an operation."""
    if version == 3:
        return {"name": name, "in": where, "schema": {"type": kind, "uniqueItems": True}, **more}
    return {"name": name, "in": where, "type": kind, "uniqueItems": True, **more}
