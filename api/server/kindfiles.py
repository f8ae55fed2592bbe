"""Reads files of kinds, one kind each: api/kinds has those of Kubernetes.

A file says everything that is particular to its kind, and nothing else: group, names, scope, columns, subresources.
Schemas of built-in kinds are named (`schemaFrom`), never copied; those of other kinds stand in the file, and a
node `x-fleet-schema-from: NAME` in them stands for a built-in type, such as a pod template, and `x-fleet-part: NAME`
for a piece of `_parts.yaml` that several kinds share.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from api.engine import autoscaling
from api.engine.crd import family_of
from api.engine.kind import VERBS, Column, Family, Kind, Scale
from api.engine.schemas import PRESERVE, Definitions, whole_object
from api.objects.definitions import definitions

FOLDER = Path(__file__).resolve().parent.parent / "kinds"
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_CONVERSIONS = {("autoscaling", "horizontalpodautoscalers"): autoscaling.converted}
_PARTS = "_parts.yaml"
_PART = "x-fleet-part"
_DEPTH = "x-fleet-depth"


@cache
def _parsed(*folders: Path) -> tuple[Kind, ...]:
    texts = {
        file.name: yaml.load(file.read_bytes(), Loader=_Loader) for folder in folders for file in folder.glob("*.yaml")
    }
    parts = texts.pop(_PARTS, {})
    return tuple(_kind(text, parts, definitions()) for _, text in sorted(texts.items()))


def load_kinds(*more: Path) -> list[Kind]:
    """Every kind of api/kinds and of these folders, ready for a Registry. Kinds are immutable and shared; the list is
    the caller's."""
    return list(_parsed(FOLDER, *more))


def _with_parts(node: Any, parts: dict[str, Any], depths: dict[str, int]) -> Any:
    """`node` with every `x-fleet-part` put in. Its neighbours (a description) win over the part's own."""
    if isinstance(node, list):
        return [_with_parts(item, parts, depths) for item in node]
    if not isinstance(node, dict):
        return node
    name = node.get(_PART)
    if name is None:
        return {key: _with_parts(value, parts, depths) for key, value in node.items() if key != _DEPTH}
    part = parts[name]
    left = depths.get(name, part.get(_DEPTH, 1))
    if left == 0:
        return {"type": "object", PRESERVE: True}
    own = {key: value for key, value in node.items() if key != _PART}
    expanded: dict[str, Any] = _with_parts(part, parts, {**depths, name: left - 1})
    return {**expanded, **own}


def _kind(text: dict[str, Any], parts: dict[str, Any], types: Definitions) -> Kind:
    if "schemaFrom" in text:
        schema = types.resolve(text["schemaFrom"])
    else:
        schema = whole_object(_with_parts(text["schema"], parts, {}), types)
    subresources = text.get("subresources") or {}
    scale = subresources.get("scale")
    kind = Kind(
        group=text["group"],
        version=text["version"],
        kind=text["kind"],
        resource=text["plural"],
        singular=text.get("singular", text["kind"].lower()),
        namespaced=text["scope"] == "Namespaced",
        list_kind=text.get("listKind", text["kind"] + "List"),
        short_names=tuple(text.get("shortNames", ())),
        categories=tuple(text.get("categories", ())),
        builtin=bool(text.get("builtin", False)),
        schema=schema,
        checked=bool(text.get("checked", False)),
        columns=tuple(_column(column) for column in text.get("columns", ())),
        status="status" in subresources,
        scale=None
        if scale is None
        else Scale(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")),
        selectable=tuple(text.get("selectable", ())),
        verbs=tuple(text["verbs"]) if "verbs" in text else VERBS,
        aliases=tuple(text.get("aliases", ())),
        versions=(text["version"], *(other["version"] for other in text.get("otherVersions", ()))),
    )
    if "otherVersions" not in text:
        return kind
    variants = [
        replace(
            kind,
            version=other["version"],
            schema=types.resolve(other["schemaFrom"]),
            columns=tuple(_column(column) for column in other.get("columns", text.get("columns", ()))),
        )
        for other in text["otherVersions"]
    ]
    return family_of([kind, *variants], Family(kind.api_version, {}, code=_CONVERSIONS[kind.group, kind.resource]))


def _column(text: dict[str, Any]) -> Column:
    return Column(
        name=text["name"],
        type=text.get("type", "string"),
        json_path=text.get("jsonPath", ""),
        priority=text.get("priority", 0),
        format=text.get("format", ""),
        description=text.get("description", ""),
        compute=text.get("compute", ""),
        missing=text.get("missing"),
        cell=text.get("cell", ""),
    )
