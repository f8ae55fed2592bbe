"""The rules of a gang as its binding keeps them, and the domain that was chosen for it; to values and back.

One rule alone that all pods stand together is kept in the words of the job, an annotation with its level: versions
before read it there. Everything else is a list in an annotation of its own, each rule with the fields that it sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import orjson

from fleet.bindings import binding as b
from fleet.core.model.rule import PlacementRule, Rules
from fleet.values.ports import Body
from fleet.wellknown import ANNOTATION_DOMAIN, ANNOTATION_RULES, ANNOTATION_TOPOLOGY

RULES_MAX = 32  # of one gang
CHARACTERS_MAX = 16_384  # of all of them in the annotation
_PLAIN = asdict(PlacementRule(""))
_WRONG = "must be a JSON list of rules, each with a level"


class BadRules(ValueError):
    """The rules of a binding cannot be read; the text names the annotation and what is wrong."""


def rules_of(binding: Body) -> Rules:
    """The rules of its gang. Raises BadRules."""
    said = b.annotation(binding, ANNOTATION_RULES)
    if not said:
        level = b.annotation(binding, ANNOTATION_TOPOLOGY)
        return (PlacementRule(level),) if level else ()
    try:
        listed = orjson.loads(said) if len(said) <= CHARACTERS_MAX else None
    except orjson.JSONDecodeError:
        listed = None
    if not isinstance(listed, list) or len(listed) > RULES_MAX:
        raise BadRules(f"annotation {ANNOTATION_RULES}: {_WRONG}, at most {RULES_MAX} of them")
    return tuple(_rule(entry, f"annotation {ANNOTATION_RULES}[{at}]") for at, entry in enumerate(listed))


def _rule(entry: Any, where: str) -> PlacementRule:
    if not isinstance(entry, dict) or not entry.get("level"):
        raise BadRules(f"{where}: {_WRONG}")
    for name, value in entry.items():
        plain = _PLAIN.get(name)
        of = name == "of" and isinstance(value, list) and all(isinstance(one, str) for one in value)
        if not of and value.__class__ is not plain.__class__:
            raise BadRules(f"{where}.{name}: {str(value)[:40]} is not its value")
    return PlacementRule(**{**entry, "of": tuple(entry.get("of", ()))})


def annotations_of(rules: Sequence[PlacementRule]) -> dict[str, str]:
    """The annotations that say these rules, "" for one that is not needed."""
    plain = rules[0].level if len(rules) == 1 and rules[0] == PlacementRule(rules[0].level) else ""
    return {ANNOTATION_TOPOLOGY: plain, ANNOTATION_RULES: "" if plain or not rules else text_of(rules)}


def text_of(rules: Sequence[PlacementRule]) -> str:
    """The rules as they stand in the annotation: the fields of each that are not those of a rule without a word."""
    entries = [{name: value for name, value in asdict(rule).items() if value != _PLAIN[name]} for rule in rules]
    return orjson.dumps(entries).decode()


def chosen_domain(binding: Body) -> dict[str, str]:
    """The label of the nodes that its gang was sent to, by its level; empty where none was chosen, and for a gang that
    has another rule than to stand together. The domain of a place tree is a path, which ends with the label."""
    level, domain = b.annotation(binding, ANNOTATION_TOPOLOGY), b.annotation(binding, ANNOTATION_DOMAIN)
    return {level: domain.rpartition("/")[2]} if level and domain else {}
