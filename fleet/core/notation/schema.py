"""The notation as JSON Schema (Draft 2020-12), made from the dataclasses themselves: their docstrings and the comments
beside their fields are its descriptions, so it cannot say anything else than the code.

Rules that no schema expresses are checked when a document is decoded and decided: that a tree is one, that names are
there once.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import io
import re
import tokenize
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Any

from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member, Pool
from fleet.core.model.plan import Certificate, Eviction, Head, Placement, RoomClaim, SizeChange
from fleet.core.model.reason import Code
from fleet.core.model.unit import LEAST_PRIORITY, MOST_PRIORITY, Unit
from fleet.core.notation.byhand import GANG, MOST_COUNT, PODS_OF_A_NODE, TREES
from fleet.core.notation.bytype import PLAN_VERSION, VERSION, Json, encode, fields_of
from fleet.core.quota.tree import QuotaNode
from fleet.core.snapshot import Config

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_QUANTITY: Json = {
    "description": 'An integer in base units (millicores of cpu, bytes, GPUs), or a quantity as text: "500m", "64Gi".',
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}
_AMOUNTS: Json = {
    "description": "Resource names with amounts, as in {'nvidia.com/gpu': 8, 'memory': '64Gi'}.",
    "type": "object",
    "additionalProperties": {"$ref": "#/$defs/Quantity"},
}


def schema(kind: str) -> Json:
    """The schema of a document: kind "Snapshot", "Plan" or "Decision"."""
    return _DOCUMENTS[kind]()


def _snapshot() -> Json:
    maker = _Maker()
    properties: Json = {
        "now": {"type": "number", "description": "The epoch second it is of; else the newest time of its units."},
        "members": {"type": "array", "items": _member(maker)},
        "units": {"type": "array", "items": _unit(maker)},
        "tree": _tree(maker),
        "config": maker.of(Config),
    }
    text = "All inputs of one decision. What is left out is empty; a limit that is left out is no limit."
    return _document("Snapshot", text, properties, (), maker)


def _plan() -> Json:
    maker = _Maker()
    return _document("Plan", "The result of one decision.", _plan_properties(maker), (), maker)


def _decision() -> Json:
    maker = _Maker()
    properties: Json = {
        "now": {"type": "number", "description": "When it was decided, in epoch seconds."},
        "seed": {"type": "integer", "description": "Of the solver."},
        "snapshot": {"$ref": "#/$defs/Snapshot"},
        "plan": {"$ref": "#/$defs/Plan"},
    }
    for name, part in (("Snapshot", _snapshot()), ("Plan", _plan())):
        maker.defs.update(part.pop("$defs"))
        maker.defs[name] = {key: value for key, value in part.items() if key != "$schema"}
    text = "All that a decision was given, and what it gave: `fleet decide` makes the same plan of it again."
    return _document("Decision", text, properties, tuple(properties), maker)


_DOCUMENTS: Mapping[str, Callable[[], Json]] = {"Snapshot": _snapshot, "Plan": _plan, "Decision": _decision}
KINDS = tuple(_DOCUMENTS)


def _document(kind: str, text: str, properties: Json, required: tuple[str, ...], maker: _Maker) -> Json:
    return {
        "$schema": DIALECT,
        "title": kind,
        "description": text,
        "type": "object",
        "properties": {
            "version": {"const": VERSION if kind == "Snapshot" else PLAN_VERSION},
            "kind": {"const": kind},
            **properties,
        },
        "required": ["version", *required],
        "additionalProperties": False,
        "$defs": dict(sorted(maker.defs.items())),
    }


def _plan_properties(maker: _Maker) -> Json:
    reason: Json = {
        "description": "Why a unit waits. Programs compare codes; the text is made of code and numbers for people.",
        "type": "object",
        "properties": {
            "code": {"enum": [code.value for code in Code]},
            "numbers": {"type": "object", "additionalProperties": {"type": ["integer", "string"]}},
            "text": {"type": "string"},
        },
        "required": ["code"],
        "additionalProperties": False,
    }
    return {
        "placements": {
            "type": "array",
            "items": maker.of(Placement),
            "description": "Who starts where, in the order to commit.",
        },
        "reasons": {
            "type": "object",
            "additionalProperties": reason,
            "description": "One for each waiting unit that is not placed, by its id.",
        },
        "certificate": _certificate(maker),
        "evictions": {"type": "array", "items": maker.of(Eviction), "description": "Who leaves, and for whom."},
        "claims": {"type": "array", "items": maker.of(RoomClaim), "description": "Room that is kept, and for whom."},
        "heads": {"type": "array", "items": maker.of(Head), "description": "For whom room is collected."},
        "resizes": {"type": "array", "items": maker.of(SizeChange), "description": "Who gets or gives up replicas."},
    }


def _certificate(maker: _Maker) -> Json:
    """Causes, and what has some, with their texts for people."""
    certificate = maker.of(Certificate)
    for name, text in (("Cause", "text"), ("Certificate", "why"), ("VictimSearch", "why")):
        maker.defs[name]["properties"][text] = {"type": "string", "description": "For people; made of the causes."}
    return certificate


def _member(maker: _Maker) -> Json:
    """A member with `pools`, or with `nodes` as people write them."""
    maker.of(Member)
    maker.of(Pool)
    pool = maker.defs["Pool"]["properties"]
    maker.defs["Nodes"] = {
        "description": f"Equal nodes. Every other name is a resource that each has; {PODS_OF_A_NODE} pods unless said.",
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 0, "default": 1},
            "used": {"$ref": "#/$defs/Amounts", "description": "Of each node, by others than the units here."},
            **{name: pool[name] for name in ("labels", "taints", "domain")},
        },
        "additionalProperties": {"$ref": "#/$defs/Quantity"},
    }
    member = maker.defs["Member"]
    member["properties"]["nodes"] = {
        "type": "array",
        "items": {"$ref": "#/$defs/Nodes"},
        "description": "Short for pools: nodes by their count.",
    }
    member["properties"][TREES] = {
        "type": "array",
        "items": {"type": "array", "items": {"type": "string"}},
        "description": "Short for places: the node labels of the levels of each place tree, coarse to fine.",
    }
    member["not"] = {"required": ["nodes", "pools"]}
    potential = member["properties"]["potential"]
    potential["items"] = {"anyOf": [potential["items"], {"$ref": "#/$defs/Nodes"}]}
    return {"$ref": "#/$defs/Member"}


def _unit(made: _Maker) -> Json:
    """A unit with `components`, or with what is short for them."""
    made.of(Unit)
    unit = made.defs["Unit"]
    unit["properties"] |= {
        "gang": {"type": "string", "pattern": GANG, "description": 'Short for components: "4x8" is 4 pods of 8 GPUs.'},
        "requests": {"$ref": "#/$defs/Amounts", "description": "Short for components: of each of `replicas` pods."},
        "replicas": {"type": "integer", "default": 1, "description": "How many pods ask for `requests`."},
        "topology": {"type": "string", "description": "Short for rules: the level of the only one."},
        "count": {
            "type": "integer",
            "minimum": 0,
            "maximum": MOST_COUNT,
            "description": "So many units alike, named ID-1, ID-2, … (ID-01 from ten on).",
        },
    }
    unit["properties"]["priority"] |= {"minimum": LEAST_PRIORITY, "maximum": MOST_PRIORITY}
    unit["properties"]["walltime_s"]["anyOf"][0]["minimum"] = 0
    unit["properties"]["phase"]["description"] = "Placed where `member` is given and this is not, else Waiting."
    unit["required"] = ["id"]
    unit["oneOf"] = [{"required": [name]} for name in ("components", "gang", "requests")]
    unit["dependentRequired"] = {"replicas": ["requests"]}
    unit["not"] = {"required": ["rules", "topology"]}
    return {"$ref": "#/$defs/Unit"}


def _tree(made: _Maker) -> Json:
    """Nodes by path, the same as programs write it, or an ElasticQuotaTree."""
    made.of(QuotaNode)
    node = made.defs["QuotaNode"]
    node.pop("required")
    by_path: Json = {"type": "object", "additionalProperties": {"$ref": "#/$defs/QuotaNode"}}
    return {
        "description": "The quota tree. Without one no quota applies, and no unit may name a leaf.",
        "anyOf": [
            {**by_path, "description": "Nodes by path; name, parent and children follow from the paths."},
            {
                "type": "object",
                "properties": {"root": {"type": "string"}, "nodes": by_path},
                "required": ["nodes"],
                "additionalProperties": False,
            },
            {
                "type": "object",
                "properties": {"spec": {"type": "object"}},
                "required": ["spec"],
                "description": "An ElasticQuotaTree, as kubectl prints it.",
            },
        ],
    }


class _Maker:
    """Collects the definitions of the classes that a document is made of."""

    def __init__(self) -> None:
        self.defs: Json = {"Quantity": _QUANTITY, "Amounts": _AMOUNTS}

    def of(self, kind: Any) -> Json:
        """The schema of values of a type, as `bytype.decode_value` reads it."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.of(option) for option in arguments]}
        if kind is Amounts:
            return {"$ref": "#/$defs/Amounts"}
        if origin is not None and issubclass(origin, Mapping):
            if arguments[1] is int:
                return {"$ref": "#/$defs/Amounts"}
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        if origin is frozenset:
            return {"type": "array", "items": self.of(arguments[0]), "uniqueItems": True}
        if origin is tuple:
            return self._tuple(arguments)
        if isinstance(kind, type) and issubclass(kind, Enum):
            return {"enum": [item.value for item in kind]}
        if dataclasses.is_dataclass(kind):
            return self._dataclass(typing.cast(type, kind))
        return {"type": {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}[kind]}

    def _tuple(self, arguments: tuple[Any, ...]) -> Json:
        if len(arguments) != 2 or arguments[1] is not Ellipsis:
            count = len(arguments)
            items = [self.of(item) for item in arguments]
            return {"type": "array", "prefixItems": items, "minItems": count, "maxItems": count}
        rows: Json = {"type": "array", "items": self.of(arguments[0])}
        pair = typing.get_args(arguments[0])
        if typing.get_origin(arguments[0]) is tuple and len(pair) == 2 and pair[0] is str:
            return {"anyOf": [{"type": "object", "additionalProperties": self.of(pair[1])}, rows]}
        return rows

    def _dataclass(self, cls: type) -> Json:
        name = cls.__name__
        if name not in self.defs:
            self.defs[name] = {}  # stands while its fields are looked at
            described, defaults = described_fields(cls), {f.name: f for f in dataclasses.fields(cls)}
            properties: Json = {}
            for field, (kind, required) in fields_of(cls).items():
                entry = dict(self.of(kind))
                if field in described:
                    entry["description"] = described[field]
                default = defaults[field].default
                if not required and default is not dataclasses.MISSING and default is not None:
                    plain = encode(default)
                    if isinstance(plain, (str, int, float)) and plain != "":
                        entry["default"] = plain
                properties[field] = entry
            self.defs[name] = {
                "description": " ".join((inspect.getdoc(cls) or "").split()),
                "type": "object",
                "properties": properties,
                "required": [field for field, (_, required) in fields_of(cls).items() if required],
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{name}"}


@cache
def described_fields(cls: type) -> Mapping[str, str]:
    """The source's words about each field: the comment at the end of its line, or the string below it."""
    source = inspect.cleandoc("\n" + inspect.getsource(cls))
    body = next(node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)).body
    comments = {
        token.start[0]: re.sub(r"^#\s*", "", token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    }
    descriptions: dict[str, str] = {}
    for index, node in enumerate(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        below = body[index + 1] if index + 1 < len(body) else None
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            descriptions[node.target.id] = " ".join(below.value.value.split())
        elif node.end_lineno in comments:
            descriptions[node.target.id] = comments[node.end_lineno]
    return descriptions
