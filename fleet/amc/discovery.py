"""Which resource a word means: `pytorchjob`, `PyTorchJob`, `pytorchjobs.kubeflow.org`, `deployments.v1.apps`, `po`.

The server says what it serves; nothing about kinds is built in. One request a list where the server knows the
aggregated form of discovery, one a group version where it does not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.amc.client import Client
from fleet.client.resources import AGGREGATED, Resource, aggregated

__all__ = ["Resource", "discover", "resolve"]


def discover(client: Client, prefix: str = "") -> list[Resource]:
    """All kinds that the server behind `prefix` serves, in its own order of groups. Raises NoAnswer."""
    resources: list[Resource] = []
    for root in ("/api", "/apis"):
        answer = client.get(prefix + root, AGGREGATED)
        if not answer.ok or not isinstance(answer.body, dict):
            continue
        if answer.body.get("kind") == "APIGroupDiscoveryList":
            resources += aggregated(answer.body)
        else:
            resources += _legacy(client, prefix, answer.body)
    return resources


def resolve(word: str, resources: list[Resource]) -> Resource | None:
    """The first resource that `word` names, as kubectl reads it."""
    name, _, rest = word.lower().partition(".")
    version, _, group = rest.partition(".")
    tries = [(rest, "")] if rest else [("*", "")]
    if group or version.startswith("v"):
        tries.append((group, version))
    for wanted_group, wanted_version in tries:
        for match in (_by_name, _by_short_name):
            for resource in resources:
                if wanted_group not in ("*", resource.group) or wanted_version not in ("", resource.version):
                    continue
                if match(resource, name):
                    return resource
    return None


def _by_name(resource: Resource, name: str) -> bool:
    return name in (resource.plural, resource.singular, resource.kind.lower())


def _by_short_name(resource: Resource, name: str) -> bool:
    return name in resource.short_names


def _legacy(client: Client, prefix: str, document: dict[str, Any]) -> Iterator[Resource]:
    if document.get("kind") == "APIVersions":
        versions = [("", version) for version in document.get("versions") or []]
    else:
        versions = [
            (group["name"], version["version"])
            for group in document.get("groups") or []
            for version in group.get("versions") or []
        ]
    names: set[tuple[str, str]] = set()
    for group, version in versions:
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        answer = client.get(prefix + path)
        if not answer.ok or not isinstance(answer.body, dict):
            continue
        for entry in answer.body.get("resources") or []:
            plural = entry.get("name", "")
            if "/" in plural or (group, plural) in names:
                continue
            names.add((group, plural))
            yield Resource(
                group,
                version,
                plural,
                entry.get("singularName") or entry.get("kind", "").lower(),
                entry.get("kind", ""),
                bool(entry.get("namespaced")),
                tuple(entry.get("shortNames") or ()),
            )
