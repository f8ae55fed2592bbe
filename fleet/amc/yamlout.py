"""Objects as YAML and JSON the way kubectl prints them: sorted keys, no managedFields, its choice of quotes."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from fleet.amc.terminal import UNSAFE

# Text that another YAML reader would take for something else than a string gets double quotes, as kubectl gives them.
_AMBIGUOUS = re.compile(r"[-+]?(\d[\d_]*)?\.?\d+([eE][-+]?\d+)?|[-+]?\d[\d:_]*(\.\d*)?|0[xob][0-9a-fA-F_]+|[yYnN]|~")

Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Dumper(Dumper):  # type: ignore[misc]
    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: Any, value: str) -> Any:
    style = None
    if "\n" in value and not UNSAFE.search(value):
        style = "|"
    elif UNSAFE.search(value) or _AMBIGUOUS.fullmatch(value) or _resolves(dumper, value):
        style = '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


def _resolves(dumper: Any, value: str) -> bool:
    """Whether `value`, unquoted, would be read as a number, a date, true, null …"""
    tag = dumper.resolve(yaml.ScalarNode, value, (True, False))
    return value != "" and tag != "tag:yaml.org,2002:str"


def _empty(dumper: Any, value: str) -> Any:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"')


_Dumper.add_representer(str, lambda dumper, value: _text(dumper, value) if value else _empty(dumper, value))


def without_managed_fields(body: dict[str, Any]) -> dict[str, Any]:
    metadata = body.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return body
    return {**body, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}


def as_yaml(body: Any) -> str:
    text = yaml.dump(body, Dumper=_Dumper, default_flow_style=False, sort_keys=True, allow_unicode=True, width=80)
    return _escaped(text)


def as_json(body: Any) -> str:
    return _escaped(json.dumps(body, indent=4, sort_keys=True, ensure_ascii=False)) + "\n"


def _escaped(text: str) -> str:
    """The document, which says the same, without characters that steer a terminal: they stand in quotes alone."""
    return UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
