"""Manifests as values: from a mapping, from several, or from a YAML or JSON file, read as Kubernetes reads YAML."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from fleet.client.errors import BadManifest
from fleet.submission.documents import json_objects

Body = dict[str, Any]
Manifests = Mapping[str, Any] | str | Path | Iterable[Mapping[str, Any]]


class _Loader(yaml.SafeLoader):
    """Without dates and numbers in base 60, which YAML has and Kubernetes does not; a key given twice is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        written = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
        twice = {str(key) for key in written if isinstance(key, str) and written.count(key) > 1}
        if twice:
            raise yaml.YAMLError(f"line {node.start_mark.line + 1}: {min(twice)} is given twice")
        return super().construct_mapping(node, deep)


_REPLACED = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _REPLACED]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*|0[0-7]+|0x[0-9a-fA-F]+)$"), list("-+0123456789")
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))(?:[eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


def objects(manifests: Manifests) -> list[Body]:
    """The objects, those of Lists one by one. Raises BadManifest."""
    if isinstance(manifests, (str, Path)):
        documents, source = _documents(Path(manifests)), f"{manifests}: "
    else:
        documents, source = [manifests] if isinstance(manifests, Mapping) else list(manifests), ""
    found = [body for number, one in enumerate(documents, 1) for body in _objects(one, f"{source}document {number}")]
    if not found:
        raise BadManifest(f"{source}no object in it")
    return found


def _documents(path: Path) -> list[Any]:
    try:
        text = path.expanduser().read_text(encoding="utf-8")
        parts = json_objects(text)
        return [document for part in parts for document in yaml.load_all(part, _Loader) if document is not None]
    except (OSError, UnicodeDecodeError) as error:
        raise BadManifest(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error
    except (yaml.YAMLError, ValueError) as error:
        raise BadManifest(f"{path} is not YAML: {' '.join(str(error).split())}") from error


def _objects(document: Any, where: str) -> Iterator[Body]:
    if not isinstance(document, Mapping):
        raise BadManifest(f"{where} is no object")
    if isinstance(document.get("items"), list) and str(document.get("kind") or "").endswith("List"):
        for number, item in enumerate(document["items"], 1):
            yield from _objects(item, f"{where}, item {number}")
        return
    metadata = document.get("metadata")
    named = isinstance(metadata, Mapping) and (metadata.get("name") or metadata.get("generateName"))
    if not named or not document.get("apiVersion") or not document.get("kind"):
        raise BadManifest(f"{where} is no object: apiVersion, kind and metadata.name are required")
    yield {**document, "metadata": dict(document["metadata"])}
