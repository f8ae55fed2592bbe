"""Changes inside a text field that holds a JSON or YAML document of its own, as Karmada's fieldOverrider means them.
Pure.

The text is the user's. A YAML text with aliases may stand for a document a million times its size, and a large one
takes seconds to read, so both are refused. The parser in C dies of deep nesting and takes the process with it, so the
depth is looked at before. An error never quotes the text, since the text may come from a Secret.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jsonpatch
import yaml

from fleet.values.untyped import rows

JSON_MAX = 1 << 20  # characters of a document
YAML_MAX = 1 << 16
DEPTH_MAX = 100  # of a YAML document
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class BadDocument(ValueError):
    """The patches do not fit the text; the message names the flaw."""


class _Texts(_Loader):  # type: ignore[misc]
    """Dates stay the text that they are."""

    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [entry for entry in entries if entry[0] != _TIMESTAMP]
        for first, entries in _Loader.yaml_implicit_resolvers.items()
    }


def document_changed(text: object, entry: Mapping[str, Any]) -> str:
    """The text after the patches of `entry`: those of `yaml` when it has any, else those of `json`. Raises
    BadDocument."""
    if not isinstance(text, str):
        raise BadDocument("is no text")
    as_yaml = bool(rows(entry.get("yaml")))
    document = _read(text, as_yaml=as_yaml)
    for patch in rows(entry.get("yaml" if as_yaml else "json")):
        what = f"{patch['operator']} {patch['subPath']}"
        operation = {"op": patch["operator"], "path": patch["subPath"]}
        if "value" in patch:
            operation["value"] = patch["value"]
        try:
            document = jsonpatch.apply_patch(document, [operation])
        except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException, TypeError, RecursionError) as error:
            raise BadDocument(f"{what} does not fit the document there") from error
    try:
        if as_yaml:
            return str(yaml.dump(document, Dumper=_Dumper, allow_unicode=True))
        return json.dumps(document, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    except (ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        raise BadDocument("cannot be written again") from error


def _read(text: str, *, as_yaml: bool) -> Any:
    name, most = ("YAML", YAML_MAX) if as_yaml else ("JSON", JSON_MAX)
    if len(text) > most:
        raise BadDocument(f"is longer than {most} characters")
    try:
        if not as_yaml:
            return json.loads(text)
        _look_through(text)
        # Keys of a YAML mapping may be numbers; a path names them as text.
        return json.loads(json.dumps(yaml.load(text, Loader=_Texts), allow_nan=False))
    except BadDocument:
        raise
    except (ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        raise BadDocument(f"is no {name} document") from error


def _look_through(text: str) -> None:
    """Raises BadDocument for a text that the parser must not see."""
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise BadDocument("has YAML aliases, which are not followed")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH_MAX:
            raise BadDocument(f"is nested more than {DEPTH_MAX} deep")
