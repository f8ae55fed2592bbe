"""Gangs that must lie close together: a job names a node label (a rack's), and all its pods go to nodes with one value
of it.

The job says so by annotation, in Fleet's name or Kueue's, on itself or on a pod template. The hub sends it to a member
where such a rack has room. The hub cannot bind pods to nodes there, so the manifest makes kube-scheduler do it: each
pod requires the value that the other pods of the gang have, and prefers the one that the hub has seen room in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fleet.kinds.interpreter import Body, Template
from fleet.model.untyped import mapping
from fleet.wellknown import ANNOTATION_TOPOLOGY, KUEUE_TOPOLOGY

_NAMES = (ANNOTATION_TOPOLOGY, KUEUE_TOPOLOGY)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def topologies(body: Body, templates: Iterable[Template]) -> dict[str, str]:
    """The labels that a job names, each with the field that does, first of all the job's own. One label is enough, and
    more than one is a mistake."""
    found: dict[str, str] = {}
    places = [("metadata", body["metadata"])]
    places += [(f"{template.path}.metadata", mapping(template.template.get("metadata"))) for template in templates]
    for where, metadata in places:
        for name in _NAMES:
            key = mapping(metadata.get("annotations")).get(name)
            if key:
                found.setdefault(str(key), f"{where}.annotations[{name}]")
    return found


def within(body: Body, templates: Iterable[Template], topology: str, domain: str, labels: Mapping[str, str]) -> Body:
    """The body with pods that lie in one value of `topology`; `labels` are those that all pods of the gang, and no
    others, carry; `domain` is the value to prefer, or ""."""
    together = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": topology}
    there = {"matchExpressions": [{"key": topology, "operator": "In", "values": [domain]}]}
    for template in templates:
        body = added_at(body, f"{template.path}.spec.affinity.podAffinity.{_REQUIRED}".split("."), together)
        if domain:
            preference = {"weight": 100, "preference": there}
            body = added_at(body, f"{template.path}.spec.affinity.nodeAffinity.{_PREFERRED}".split("."), preference)
    return body


def added_at(body: Mapping[str, Any] | None, path: list[str], entry: Any) -> Body:
    """A copy with `entry` added to the list at this path."""
    name, *rest = path
    body = mapping(body)
    there = body.get(name)
    added = added_at(there, rest, entry) if rest else [*(there if isinstance(there, list) else ()), entry]
    return {**body, name: added}
