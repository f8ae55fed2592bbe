"""The rules of a gang in its manifest: the hub cannot bind pods to nodes in a member, so affinities make its scheduler
keep the rules.

Pods that stand together, all of a gang or those of some components, require the value that the others of them have. Of
a rule for the whole gang they prefer the value that the hub has seen room in. A preference becomes one. Parts of some
size and caps cannot be said in a pod template, and are left to what the job itself says to the member's scheduler. So
are the rules that the kind has words of its own for: its controller reads these there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from fleet.core.model.rule import WHOLE, PlacementRule
from fleet.kinds.interpreter import Body, Interpreter
from fleet.kinds.paths import Steps, with_part
from fleet.kinds.topology import placement_asked
from fleet.values.untyped import mapping, rows
from fleet.wellknown import LABEL_BINDING, LABEL_COMPONENT

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = 100
_HOST, _HOSTNAME = "host", "kubernetes.io/hostname"  # the level of single nodes, and their label
_TIER = re.compile(r"tier-\d+")  # a level of HyperNodes, and no label of nodes


def pinned(
    body: Body,
    interpreter: Interpreter,
    rules: Iterable[PlacementRule],
    domain: Mapping[str, str],
    labels: Mapping[str, str],
) -> Body:
    """The body with pods that keep these rules; `labels` are those that all pods of the gang, and no others, carry;
    `domain` has the value to prefer, by level, if any."""
    listed = [rule for rule in rules if rule.size == WHOLE and not _TIER.fullmatch(rule.level)]
    if not listed:
        return body
    native = {wish.rule for wish in placement_asked(interpreter, body).rules if wish.native}
    for rule in listed:
        if rule not in native:
            body = _pinned(body, interpreter, rule, domain.get(rule.level, ""), labels)
    return body


def _pinned(body: Body, interpreter: Interpreter, rule: PlacementRule, value: str, labels: Mapping[str, str]) -> Body:
    selector: Body = {"matchLabels": dict(labels)}
    if rule.of:
        selector["matchExpressions"] = [{"key": LABEL_COMPONENT, "operator": "In", "values": list(rule.of)}]
    key = _HOSTNAME if rule.level == _HOST else rule.level
    together = {"labelSelector": selector, "topologyKey": key}
    with_room = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    for template in interpreter.templates(body):
        if not template.own or (rule.of and template.name not in rule.of):
            continue  # of pods without a template admission takes no hard rule
        affinity = (*template.steps, "spec", "affinity")
        if not rule.hard:
            liked = {"weight": _WEIGHT, "podAffinityTerm": together}
            body = added_at(body, (*affinity, "podAffinity", _PREFERRED), liked)
            continue
        body = added_at(body, (*affinity, "podAffinity", _REQUIRED), together)
        if value:
            preference = {"weight": _WEIGHT, "preference": with_room}
            body = added_at(body, (*affinity, "nodeAffinity", _PREFERRED), preference)
    return body


def added_at(body: Body, steps: Steps, entry: Any) -> Body:
    """A copy with `entry` added to the list at these steps."""
    there: Any = body
    for step in steps:
        there = there[step] if isinstance(step, int) else mapping(there).get(step)
    return with_part(body, steps, [*(there if isinstance(there, list) else ()), entry])


def unpinned(template: Body) -> str:
    """Undo `pinned` in a template, in place; returns the value that it prefers, "" for none."""
    affinity = mapping(mapping(template.get("spec")).get("affinity"))
    pods, nodes = mapping(affinity.get("podAffinity")), mapping(affinity.get("nodeAffinity"))
    levels, value = set[str](), ""
    for terms in (_terms(pods, _REQUIRED), _terms(pods, _PREFERRED)):
        for term in list(terms):
            pod_term = mapping(mapping(term).get("podAffinityTerm")) or mapping(term)
            if LABEL_BINDING in mapping(mapping(pod_term.get("labelSelector")).get("matchLabels")):
                terms.remove(term)
                levels.add(str(pod_term.get("topologyKey")))
    preferred = _terms(nodes, _PREFERRED)
    for term in reversed(preferred):  # the hub's own is behind those of the user
        expressions = rows(mapping(mapping(term).get("preference")).get("matchExpressions"))
        ours = len(expressions) == 1 and expressions[0].get("key") in levels
        if ours and mapping(term).get("weight") == _WEIGHT:
            value = str((expressions[0].get("values") or [""])[0])
            preferred.remove(term)
            break
    if levels:
        for where, name in (("podAffinity", _REQUIRED), ("podAffinity", _PREFERRED), ("nodeAffinity", _PREFERRED)):
            _prune(template["spec"], ("affinity", where, name))
    return value


def _terms(affinity: Body, name: str) -> list[Any]:
    """The very list that stands there; an empty one without it."""
    found = affinity.get(name)
    return found if isinstance(found, list) else []


def _prune(body: Body, path: tuple[str, ...]) -> None:
    """Take away what is empty at the path, from its end."""
    name, *rest = path
    found = body.get(name)
    if rest and isinstance(found, dict):
        _prune(found, tuple(rest))
    if found is not None and not found:
        del body[name]
