"""The domains that were chosen for the pods of a binding's rules, as its annotation keeps them; to values and back.

A gang with one rule for all of its pods has the domain itself there, as it always had. Any other has a list of (place
of the rule, domain, parts), which leaves out what is too long: a domain that is not known is chosen by the member.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from fleet.bindings import binding as b
from fleet.bindings.rules import rules_of
from fleet.core.model.chosendomain import ChosenDomain
from fleet.core.model.matching import IN_DOMAIN
from fleet.core.model.rule import PlacementRule, Rules
from fleet.core.model.unit import Component
from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_DOMAIN

_ENTRIES_MAX = 256


def written(rules: Rules, chosen: Sequence[ChosenDomain]) -> str:
    """The annotation for these domains; "" for none."""
    if not chosen:
        return ""
    if rules == (PlacementRule(rules[0].level),):
        return chosen[0].domain
    entries = [[rules.index(one.rule), one.domain, one.parts] for one in chosen[:_ENTRIES_MAX]]
    return json.dumps(entries, separators=(",", ":"))


def chosen_of(binding: Body) -> tuple[ChosenDomain, ...]:
    """The domains of a binding; none where its annotation cannot be read."""
    value, rules = b.annotation(binding, ANNOTATION_DOMAIN), rules_of(binding)
    if not value or not rules:
        return ()
    if not value.startswith("["):
        return (ChosenDomain(rules[0], value),)
    try:
        return tuple([ChosenDomain(rules[at], str(domain), int(parts)) for at, domain, parts in json.loads(value)])
    except (ValueError, TypeError, IndexError):
        return ()


def within(components: Iterable[Component], chosen: Iterable[ChosenDomain]) -> tuple[Component, ...]:
    """The components once their pods were sent to these domains: those of hard rules that are about them as a whole."""
    parts = list(components)
    for one in chosen:
        if not one.rule.hard or one.rule.size:
            continue
        key = f"{IN_DOMAIN}{one.rule.level}" if one.domain.startswith("/") else one.rule.level
        parts = [
            part.within((key, one.domain)) if not one.rule.of or part.name in one.rule.of else part for part in parts
        ]
    return tuple(parts)
