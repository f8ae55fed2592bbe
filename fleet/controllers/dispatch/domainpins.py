"""The nodes that the pods of an attempt are held to, where their rules are about levels of place trees. Pure.

A scheduler in a member knows no place tree. So a hard rule is a required node affinity to the domain that was chosen:
by a label that its nodes have and no others, else by the names of up to NODES_MAX nodes. A preferred level is a
preference. Pods in parts are held to all the domains that their parts were given, and not part by part. The pins of an
attempt are made once and stand on its copy, so that a node that comes later changes no running job.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from fleet.bindings import binding as b
from fleet.bindings.domains import chosen_of
from fleet.bindings.rules import rules_of
from fleet.core.model.chosendomain import ChosenDomain
from fleet.core.model.rule import PlacementRule, Rules
from fleet.kinds.interpreter import Template
from fleet.kinds.paths import with_part
from fleet.members.members import NodeView
from fleet.members.nodes import NODE_NAME
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows
from fleet.wellknown import ANNOTATION_PINS

NODES_MAX = 64  # that a domain is named by
TERMS_MAX = 256  # of one required affinity, those of the user among them
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = 100
Term = dict[str, Any]  # of a node selector
_FIELDS: Mapping[str, Callable[[Any], Any]] = {"of": list, "hard": bool, "terms": list}  # of a pin
Pins = Sequence[Mapping[str, Any]]  # each {of: components, hard, terms}


@dataclass(frozen=True, slots=True)
class DomainPins:
    """How the pods of an attempt are held to domains. `pins`: node affinities, each {of: components, hard, terms};
    `trees`: the levels that are of place trees alone, and no label of a node, so that no affinity between pods can be
    made of them."""

    pins: Pins = ()
    trees: frozenset[str] = frozenset()

    def by_affinity(self, rules: Rules) -> Rules:
        """The rules that affinities between the pods can keep."""
        return tuple([rule for rule in rules if rule.level not in self.trees])

    def fitting(self, templates: Iterable[Template]) -> DomainPins:
        """Without the hard pins that would give a template more than TERMS_MAX terms beside its own. Pins of fewer
        nodes come first: these lie within the others, or are apart from them."""
        counts = {template.name: len(_own_terms(template)) for template in templates if template.own}
        pins: list[Mapping[str, Any]] = []
        for pin in sorted(self.pins, key=lambda pin: len(pin["terms"])):
            names = [name for name in counts if not pin["of"] or name in pin["of"]] if pin["hard"] else []
            if any(counts[name] * len(pin["terms"]) > TERMS_MAX for name in names):
                continue
            counts.update((name, counts[name] * len(pin["terms"])) for name in names)
            pins.append(pin)
        return replace(self, pins=tuple(pins))

    def applied(self, body: Body, templates: Iterable[Template]) -> Body:
        """The job with pods that go to the nodes of their pins."""
        for template in templates:
            its = [pin for pin in self.pins if not pin["of"] or template.name in pin["of"]]
            if template.own and its:
                spec = mapping(template.template.get("spec"))
                for pin in its:
                    spec = _held(spec, pin["terms"]) if pin["hard"] else _drawn(spec, pin["terms"])
                body = with_part(body, (*template.steps, "spec"), spec)
        return body

    @property
    def annotations(self) -> dict[str, str]:
        """The annotation of a copy with these pins."""
        if not self.pins and not self.trees:
            return {}
        value = {"pins": list(self.pins), "trees": sorted(self.trees)}
        return {ANNOTATION_PINS: json.dumps(value, separators=(",", ":"))}


NO_PINS = DomainPins()


def pins_for(binding: Body, copy: Body | None, nodes: Callable[[], Sequence[NodeView]]) -> DomainPins:
    """The pins of an attempt: those that its copy in the member has, else new ones over the nodes that are there."""
    rules = rules_of(binding)
    if not rules:
        return NO_PINS
    return pins_on(copy) if copy is not None else new_pins(rules, chosen_of(binding), nodes())


def new_pins(rules: Rules, chosen: Iterable[ChosenDomain], nodes: Sequence[NodeView]) -> DomainPins:
    """The pins for domains of place trees that were chosen. A domain that can be named in no way has none."""
    domains: dict[PlacementRule, dict[str, None]] = {}
    for one in chosen:
        if one.domain.startswith("/"):
            domains.setdefault(one.rule, {})[one.domain] = None
    pins: list[Mapping[str, Any]] = []
    for rule in rules:
        terms = _terms(rule.level, domains.get(rule, {}), nodes)
        if terms:
            pins.append({"of": list(rule.of), "hard": rule.hard, "terms": terms})
    levels = {level for node in nodes for level, _ in node.places} & {rule.level for rule in rules}
    return DomainPins(tuple(pins), frozenset(levels - {key for node in nodes for key, _ in node.labels}))


def pins_on(copy: Body) -> DomainPins:
    """The pins of a copy in a member; none where its annotation cannot be read."""
    try:
        value = json.loads(b.annotation(copy, ANNOTATION_PINS) or "{}")
        pins = [{name: kind(one[name]) for name, kind in _FIELDS.items()} for one in value["pins"]]
        return DomainPins(tuple(pins), frozenset(map(str, value["trees"])))
    except (ValueError, TypeError, KeyError):
        return NO_PINS


def _terms(level: str, domains: Iterable[str], nodes: Sequence[NodeView]) -> list[Term]:
    """Terms of which each node of these domains, and no other, satisfies one; none where there are too many nodes."""
    terms: list[Term] = []
    for domain in domains:
        within = [node for node in nodes if (level, domain) in node.places]
        labels = _label(level, within, [node for node in nodes if (level, domain) not in node.places])
        if labels:
            terms.append({"matchExpressions": [{"key": key, "operator": "In", "values": [v]} for key, v in labels]})
        else:
            terms += [{"matchFields": [{"key": NODE_NAME, "operator": "In", "values": [n.name]}]} for n in within]
    return terms if len(terms) <= NODES_MAX else []


def _label(level: str, within: Sequence[NodeView], outside: Sequence[NodeView]) -> tuple[tuple[str, str], ...]:
    """One or two labels that all of these nodes have, and none of the others has together; () where there are none."""
    if not within:
        return ()
    common = set(within[0].labels).intersection(*(node.labels for node in within[1:]))
    levels = {name for node in within for name, _ in node.places} | {level}
    ordered = sorted(common, key=lambda label: (label[0] != level, label[0] not in levels, label))
    of_levels = [label for label in ordered if label[0] in levels]
    tries = [*((label,) for label in ordered), *combinations(of_levels, 2)]
    foreign = [set(node.labels) for node in outside]
    return next((labels for labels in tries if not any(has.issuperset(labels) for has in foreign)), ())


def _own_terms(template: Template) -> list[Term]:
    affinity = mapping(mapping(template.template.get("spec")).get("affinity"))
    return rows(mapping(mapping(affinity.get("nodeAffinity")).get(_REQUIRED)).get("nodeSelectorTerms")) or [{}]


def _held(spec: Body, terms: Sequence[Term]) -> Body:
    affinity = mapping(spec.get("affinity"))
    of_nodes = mapping(affinity.get("nodeAffinity"))
    own = rows(mapping(of_nodes.get(_REQUIRED)).get("nodeSelectorTerms")) or [{}]
    both = [_joined(one, term) for one in own for term in terms]
    return {**spec, "affinity": {**affinity, "nodeAffinity": {**of_nodes, _REQUIRED: {"nodeSelectorTerms": both}}}}


def _joined(one: Term, other: Term) -> Term:
    return {key: [*rows(one.get(key)), *rows(other.get(key))] for key in {**one, **other}}


def _drawn(spec: Body, terms: Sequence[Term]) -> Body:
    affinity = mapping(spec.get("affinity"))
    of_nodes = mapping(affinity.get("nodeAffinity"))
    liked = [*rows(of_nodes.get(_PREFERRED)), *({"weight": _WEIGHT, "preference": term} for term in terms)]
    return {**spec, "affinity": {**affinity, "nodeAffinity": {**of_nodes, _PREFERRED: liked}}}


def unpinned_from(template: Body, name: str, pins: Pins) -> None:
    """Undo `DomainPins.applied` in the template of a component, in place."""
    spec = mapping(template.get("spec"))
    of_nodes = mapping(mapping(spec.get("affinity")).get("nodeAffinity"))
    for pin in reversed([pin for pin in pins if not pin["of"] or name in pin["of"]]):
        terms = pin["terms"]
        if pin["hard"]:
            both = rows(mapping(of_nodes.get(_REQUIRED)).get("nodeSelectorTerms"))
            own = [_without(one, terms[0]) for one in both[:: len(terms)]]
            if own == [{}] or not own:
                of_nodes.pop(_REQUIRED, None)
            else:
                of_nodes[_REQUIRED]["nodeSelectorTerms"] = own
        elif len(rows(of_nodes.get(_PREFERRED))) > len(terms):
            of_nodes[_PREFERRED] = rows(of_nodes[_PREFERRED])[: -len(terms)]
        else:
            of_nodes.pop(_PREFERRED, None)
    for parent, child in ((spec.get("affinity"), "nodeAffinity"), (spec, "affinity")):
        if isinstance(parent, dict) and parent.get(child) == {}:
            del parent[child]


def _without(one: Term, other: Term) -> Term:
    rest = {key: rows(items)[: len(rows(items)) - len(rows(other.get(key)))] for key, items in one.items()}
    return {key: items for key, items in rest.items() if items}
