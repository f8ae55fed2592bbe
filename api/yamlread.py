"""YAML as Kubernetes reads it: as another spelling of JSON.

PyYAML follows YAML 1.1 to the letter, which turns dates into objects and 80:80 into a number in base 60; Kubernetes
does neither. Keys become strings; a key given twice is a strict error.
"""

from __future__ import annotations

import re
from typing import Any

import yaml


class Loader(yaml.CSafeLoader):  # type: ignore[misc,unused-ignore]
    """A SafeLoader without timestamps and sexagesimal numbers, that keeps a list of duplicate keys."""

    errors: list[str]


Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^(?:[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$"),
    list("-+0123456789"),
)
Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"),
    list("-+0123456789."),
)


def _int(loader: Loader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "").replace("0o", "0")
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("+-").lower()
    if digits.startswith("0b"):
        return sign * int(digits[2:], 2)
    if digits.startswith("0x"):
        return sign * int(digits[2:], 16)
    if len(digits) > 1 and digits.startswith("0"):
        return sign * int(digits, 8)
    return sign * int(digits)


def _mapping(loader: Loader, node: yaml.MappingNode) -> dict[str, Any]:
    loader.flatten_mapping(node)
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, bool):
            key = "true" if key else "false"
        elif isinstance(key, (dict, list)):
            raise ValueError("a key must be a scalar")
        else:
            key = "null" if key is None else str(key)
        if key in result:
            loader.errors.append(f'line {key_node.start_mark.line + 1}: key "{key}" already set in map')
        result[key] = loader.construct_object(value_node, deep=True)
    return result


Loader.add_constructor("tag:yaml.org,2002:int", _int)
Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def load_yaml(data: bytes, errors: list[str]) -> Any:
    """The one document in `data`; strict errors are appended to `errors`. Raises yaml.YAMLError or ValueError."""
    loader = Loader(data.decode("utf-8"))
    loader.errors = errors
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()
