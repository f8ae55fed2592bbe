"""Wrong types in the words of Go, which decodes or converts before a kube-apiserver validates."""

from __future__ import annotations

import re

from api.engine.kind import Kind
from api.engine.status import Cause
from api.engine.validate import BASE64
from fleet.values.times import RFC3339, moment

_GO_KINDS = {"integer": "int64", "number": "float64", "boolean": "bool", "array": "slice", "object": "map"}
GO_TYPES = {
    str: "string",
    int: "int64",
    float: "float64",
    bool: "bool",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


def undecodable(kind: Kind, cause: Cause) -> str:
    """Return a wrong type in a body as Go's JSON decoder puts it.

    The names of Go's nested structs are not known here: the name of the kind stands in for them.
    """
    if cause.message.startswith(BASE64):
        return cause.message
    path = re.sub(r"\[\d+\]", "", cause.field)
    words = cause.message.split('"')
    if "-time: " in cause.message and RFC3339.fullmatch(words[-2]) and moment(words[-2]) is None:
        return f'parsing time "{words[-2]}": {cause.field} is out of range'
    if cause.message.endswith("date-time: " + words[-2].join('""')):
        value = words[-2]
        return f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse "{value}" as "2006"'
    if cause.message.endswith("micro-time: " + words[-2].join('""')):
        return _unparsed_micro_time(words[-2])
    got = {"integer": "number", "boolean": "bool"}.get(words[1], words[1])
    go_type = cause.message.split("must be of type ")[1].split(":")[0]
    if go_type == "object" and path in ("metadata.labels", "metadata.annotations", f"{kind.kind}.data", "data"):
        go_type = "map[string]string"
    go_type = {"boolean": "bool", "array": "[]string", "integer": "int32", "number": "float64"}.get(go_type, go_type)
    if path.startswith("metadata."):
        go_type = "int64" if go_type == "int32" else go_type
        if path.startswith(("metadata.labels.", "metadata.annotations.")):
            path = ".".join(path.split(".")[:2])
        return f"json: cannot unmarshal {got} into Go struct field ObjectMeta.{path[9:]} of type {go_type}"
    if path.startswith(("data.", "binaryData.", "stringData.")):  # a map's field is named without its key
        path = path.split(".", 1)[0]
    return f"json: cannot unmarshal {got} into Go struct field {kind.kind}.{path} of type {go_type}"


def _unparsed_micro_time(text: str) -> str:
    """Go wants exactly six decimals, and says at which part of its own form it gave up."""
    form = "2006-01-02T15:04:05.000000Z07:00"
    found = re.match(r"\d{4}-\d\d-\d\d([Tt]\d\d:\d\d:\d\d(\.\d{6})?)?", text)
    rest, wanted = (text, "2006") if found is None else (text[found.end() :], "T")
    if found is not None and found[1]:
        wanted = "Z07:00" if found[2] else ".000000"
    return f'parsing time "{text}" as "{form}": cannot parse "{rest}" as "{wanted}"'


def unconvertible(cause: Cause) -> str:
    """Return a wrong type in a strategic patch as a kube-apiserver puts it.

    There the maps are merged first, and converted to Go types then.
    """
    words = cause.message.split('"')
    if "must be of type " not in cause.message or cause.message.startswith(BASE64):
        return cause.message
    got = _GO_KINDS.get(words[1], words[1])
    wanted = cause.message.split("must be of type ")[1].split(":")[0]
    if wanted == "array":
        return f"cannot restore slice from {got}"
    if wanted == "object":
        return f"cannot restore map from {got}"
    return f"cannot convert {got} to {_GO_KINDS.get(wanted, wanted)}"
