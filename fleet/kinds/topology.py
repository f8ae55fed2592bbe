"""The rules of a gang that must lie close together: a job names a node label (a rack's), and all its pods go to nodes
with one value of it.

The job says so by annotation, in Fleet's name or Kueue's, on itself or on a pod template. The hub sends it to a member
where such a rack has room. The hub cannot bind pods to nodes there, so the manifest makes kube-scheduler do it: each
pod requires the value that the other pods of the gang have, and prefers the one that the hub has seen room in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fleet.core.model.rule import PlacementRule
from fleet.kinds.interpreter import Body, Template
from fleet.kinds.paths import Steps, with_part
from fleet.values.untyped import mapping
from fleet.wellknown import ANNOTATION_TOPOLOGY, KUEUE_TOPOLOGY

_NAMES = (ANNOTATION_TOPOLOGY, KUEUE_TOPOLOGY)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def rules_asked(body: Body, templates: Iterable[Template]) -> dict[PlacementRule, str]:
    """The rules that a job asks for, each with the field that does, first of all the job's own. One is enough, and more
    than one is a mistake."""
    fields: dict[PlacementRule, str] = {}
    places = [("metadata", body["metadata"])]
    places += [(f"{template.path}.metadata", mapping(template.template.get("metadata"))) for template in templates]
    for where, metadata in places:
        for name in _NAMES:
            key = mapping(metadata.get("annotations")).get(name)
            if key:
                fields.setdefault(PlacementRule(str(key)), f"{where}.annotations[{name}]")
    return fields


def within(
    body: Body, templates: Iterable[Template], rule: PlacementRule, domain: Mapping[str, str], labels: Mapping[str, str]
) -> Body:
    """The body with pods that keep the rule; `labels` are those that all pods of the gang, and no others, carry;
    `domain` has the value to prefer, by level, if any."""
    together = {"labelSelector": {"matchLabels": dict(labels)}, "topologyKey": rule.level}
    value = domain.get(rule.level)
    term = {"matchExpressions": [{"key": rule.level, "operator": "In", "values": [value]}]}
    for template in templates:
        if not template.own:
            continue  # admission lets no job of such a kind ask for it
        affinity = (*template.steps, "spec", "affinity")
        body = added_at(body, (*affinity, "podAffinity", _REQUIRED), together)
        if value:
            preference = {"weight": 100, "preference": term}
            body = added_at(body, (*affinity, "nodeAffinity", _PREFERRED), preference)
    return body


def added_at(body: Body, steps: Steps, entry: Any) -> Body:
    """A copy with `entry` added to the list at these steps."""
    there: Any = body
    for step in steps:
        there = there[step] if isinstance(step, int) else mapping(there).get(step)
    return with_part(body, steps, [*(there if isinstance(there, list) else ()), entry])


def apart(template: Body, rule: PlacementRule, label: str) -> str:
    """Undo `within` in a template, in place; returns the value that it prefers. `label`: one of those that all pods of
    the gang carry."""
    affinity = mapping(mapping(template.get("spec")).get("affinity"))
    required = mapping(affinity.get("podAffinity")).get(_REQUIRED)
    preferred = mapping(affinity.get("nodeAffinity")).get(_PREFERRED)
    domain = ""
    if not isinstance(required, list):
        return domain
    ours = [term for term in required if _is_together(term, rule, label)]
    required[:] = [term for term in required if term not in ours]
    if not ours or not isinstance(preferred, list):
        preferred = []
    for term in list(preferred):
        asked = mapping(mapping(term).get("preference")).get("matchExpressions")
        if isinstance(asked, list) and len(asked) == 1 and mapping(asked[0]).get("key") == rule.level:
            domain = str((mapping(asked[0]).get("values") or [""])[0])
            preferred.remove(term)
    _prune(template["spec"], ("affinity", "podAffinity", _REQUIRED))
    _prune(template["spec"], ("affinity", "nodeAffinity", _PREFERRED))
    return domain


def _is_together(term: Any, rule: PlacementRule, label: str) -> bool:
    selected = mapping(mapping(mapping(term).get("labelSelector")).get("matchLabels"))
    return mapping(term).get("topologyKey") == rule.level and label in selected


def _prune(body: Body, path: tuple[str, ...]) -> None:
    """Take away what is empty at the path, from its end."""
    name, *rest = path
    found = body.get(name)
    if rest and isinstance(found, dict):
        _prune(found, tuple(rest))
    if found is not None and not found:
        del body[name]
