"""YAML as Kubernetes reads it: as another spelling of JSON.

PyYAML follows YAML 1.1 to the letter, which turns dates into objects and 80:80 into a number in base 60; Kubernetes
does neither. Keys become strings; a key given twice is a strict error.

Its composer recurses in C, and aliases make much out of little, so the events are counted before anything is composed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import isfinite
from typing import Any

import yaml

from fleet.values.untyped import DEPTH_MAX

NODES_MAX = 100_000  # of a document with its aliases expanded: PyYAML needs some ten microseconds for each
_SEPARATOR = re.compile(rb"^---(?=[ \t\r]|$)", re.MULTILINE)
CHARACTERS_MAX = 3 * 1024 * 1024  # of its scalars, likewise


def yaml_fault(error: Exception) -> str:
    """What is wrong, in one line that begins with its place: the words of PyYAML, without the name of the stream."""
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return " ".join(str(error).split())
    mark = error.problem_mark
    doing = f" ({error.context})" if error.context else ""
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}{doing}"


class YamlLoader(yaml.CSafeLoader):  # type: ignore[misc,unused-ignore]
    """A SafeLoader without timestamps and sexagesimal numbers, that keeps a list of duplicate keys."""

    errors: list[str]


YamlLoader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^(?:[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$"),
    list("-+0123456789"),
)
YamlLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
    list("-+0123456789."),
)


# Go's reader knows the short words of YAML 1.1 too; PyYAML does not.
YamlLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^[yYnN]$"), list("yYnN"))


def _bool(loader: YamlLoader, node: yaml.ScalarNode) -> bool:
    word = str(loader.construct_scalar(node)).lower()
    return word == "y" if word in ("y", "n") else bool(loader.construct_yaml_bool(node))


def _int(loader: YamlLoader, node: yaml.ScalarNode) -> int | float:
    text = str(loader.construct_scalar(node)).replace("_", "").replace("0o", "0")
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-").lower()
    if digits.startswith("0b"):
        return _json_number(sign * int(digits[2:], 2))
    if digits.startswith("0x"):
        return _json_number(sign * int(digits[2:], 16))
    if len(digits) > 1 and digits.startswith("0"):
        return _json_number(sign * int(digits, 8))
    return _json_number(sign * int(digits))


def _json_number(number: int) -> int | float:
    """As in JSON: a number of more than 64 bits is a float. ValueError for one that no float holds."""
    if -(1 << 63) <= number < 1 << 64:
        return number
    try:
        return float(number)
    except OverflowError:
        raise ValueError("a number is too large") from None


def _float(loader: YamlLoader, node: yaml.ScalarNode) -> float:
    number = float(loader.construct_yaml_float(node))
    if not isfinite(number):
        raise ValueError("a number is too large, or none")
    return number


def _mapping(loader: YamlLoader, node: yaml.MappingNode) -> dict[str, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("a mapping is expected")
    loader.flatten_mapping(node)
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        written = loader.construct_object(key_node, deep=True)
        if isinstance(written, bool):
            key = "true" if written else "false"
        elif isinstance(written, (dict, list)):
            raise ValueError("a key must be a scalar")
        else:
            key = "null" if written is None else str(written)
        if key in result:
            shown = f'"{key}"' if isinstance(written, str) else key
            loader.errors.append(f"line {key_node.start_mark.line + 1}: key {shown} already set in map")
        result[key] = loader.construct_object(value_node, deep=True)
    return result


# Tags of what JSON does not have (dates, sets, bytes) are unknown.
_TAGS = (*(f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "str", "seq")), None)
YamlLoader.yaml_constructors = {tag: make for tag, make in yaml.SafeLoader.yaml_constructors.items() if tag in _TAGS}
YamlLoader.add_constructor("tag:yaml.org,2002:bool", _bool)
YamlLoader.add_constructor("tag:yaml.org,2002:int", _int)
YamlLoader.add_constructor("tag:yaml.org,2002:float", _float)
YamlLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def load_yaml(data: bytes, errors: list[str]) -> Any:
    """The one document in `data`; strict errors are appended to `errors`. Raises yaml.YAMLError or ValueError."""
    text = data.decode("utf-8")
    _count(text)
    loader = YamlLoader(text)
    loader.errors = errors
    try:
        return loader.get_single_data()
    except (LookupError, TypeError, AttributeError):
        raise ValueError("a tag does not fit its value") from None
    finally:
        loader.dispose()


def several(data: bytes) -> list[bytes]:
    """The documents of a YAML stream, split where kubectl splits them; those without content are left out."""
    parts = _SEPARATOR.split(data)
    return [part for part in parts if any(line.strip() and line.strip()[:1] != b"#" for line in part.splitlines())]


@dataclass(slots=True)
class _Size:
    """A node with all that is in it, aliases expanded. `height`: collections inside each other, itself included."""

    nodes: int = 1
    characters: int = 0
    height: int = 0
    anchor: str | None = None

    def add(self, inner: _Size) -> None:
        self.nodes += inner.nodes
        self.characters += inner.characters
        self.height = max(self.height, inner.height + 1)


def _count(text: str) -> None:
    """ValueError for a document that is too deep or too large when its aliases are expanded."""
    open_nodes = [_Size(0)]
    anchors: dict[str, _Size] = {}
    documents = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise ValueError("expected a single document")
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append(_Size(height=1, anchor=event.anchor))
            anchors.pop(event.anchor or "", None)
            if len(open_nodes) - 1 > DEPTH_MAX:
                raise _too_deep()
            continue
        if isinstance(event, yaml.CollectionEndEvent):
            size = open_nodes.pop()
        elif isinstance(event, yaml.ScalarEvent):
            size = _Size(1, len(event.value), 0, event.anchor)
        elif isinstance(event, yaml.AliasEvent):
            name = event.anchor or ""
            found = anchors.get(name)
            if found is None:
                raise ValueError(f"there is no node {name[:50]!r} before its alias")
            size = _Size(found.nodes, found.characters, found.height)
            if len(open_nodes) - 1 + size.height > DEPTH_MAX:
                raise _too_deep()
        else:
            continue
        if size.anchor is not None:
            anchors[size.anchor] = size
        whole = open_nodes[-1]
        whole.add(size)
        if whole.nodes > NODES_MAX or whole.characters > CHARACTERS_MAX:
            raise ValueError("it is too large when its aliases are expanded")


def _too_deep() -> ValueError:
    return ValueError(f"it is nested deeper than {DEPTH_MAX} mappings and lists")
