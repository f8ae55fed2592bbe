"""All that a job says of where its pods stand, as rules: in Fleet's annotations, in those of other projects, and in the
words of its kind.

An annotation on the job is about the whole gang, or about the components that it names. On a pod template it is about
the pods of that template. Fleet's own are lists with commas:

    fleet.io/required-topology   LEVEL[@COMPONENT[+COMPONENT...]]
    fleet.io/preferred-topology  the same
    fleet.io/even-topology       the same
    fleet.io/slices              LEVEL=PODS[@COMPONENT[+COMPONENT...]]
    fleet.io/most-per-domain     the same

What other projects have is read in peertopology.py. The words of a kind stand in its declaration (`placement`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm
from typing import Any

from fleet.core.model.rule import WHOLE, PlacementRule
from fleet.kinds.interpreter import AskedRule, Body, Interpreter, Range, Template
from fleet.kinds.peertopology import peers_rules
from fleet.kinds.topologywords import AskedPlace, PlacementRequest, TopologyCaveat, TopologyFlaw, Word
from fleet.values.untyped import digits, mapping
from fleet.wellknown import (
    ANNOTATION_EVEN_TOPOLOGY,
    ANNOTATION_MOST_PER_DOMAIN,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_SLICES,
    ANNOTATION_TOPOLOGY,
)

_DIGITS_MAX = 6  # of a number of pods
_Of = tuple[str, ...]


def placement_asked(interpreter: Interpreter, body: Body) -> PlacementRequest:
    """The rules that a job asks for, each once, and what it says of them that cannot be meant."""
    templates = interpreter.templates(body)
    rules: dict[PlacementRule, AskedRule] = {}
    flaws: list[TopologyFlaw] = []
    warnings: list[TopologyCaveat] = []
    for word in _words(interpreter, body, templates):
        if isinstance(word, TopologyFlaw):
            flaws.append(word)
        elif isinstance(word, TopologyCaveat):
            warnings.append(word)
        elif (wish := _of_components(word, templates)) is not None:
            rules.setdefault(wish.rule, wish)
    return PlacementRequest(tuple(rules.values()), tuple(flaws), tuple(warnings))


def ranges_in_parts(interpreter: Interpreter, body: Body) -> Mapping[str, Range]:
    """The ranges of its components, as far as its rules allow: each size is of whole parts. A component that shares its
    parts with others has one size."""
    ranges = interpreter.ranges(body)
    if not ranges:
        return ranges
    pods = {template.name: template.replicas for template in interpreter.templates(body) if template.replicas > 0}
    narrow = dict(ranges)
    for rule in (wish.rule for wish in placement_asked(interpreter, body).rules if wish.rule.size > 1):
        of = rule.of or tuple(pods)
        for name in narrow.keys() & set(of):
            if len(of) > 1:
                del narrow[name]
            else:
                step = lcm(narrow[name].step, rule.size)
                narrow[name] = Range(-(-narrow[name].least // step) * step, step)
    return {name: found for name, found in narrow.items() if found.least < pods.get(name, 0)}


def _words(interpreter: Interpreter, body: Body, templates: Sequence[Template]) -> Iterator[Word]:
    names = frozenset(template.name for template in templates)
    places = [AskedPlace("metadata", mapping(mapping(body.get("metadata")).get("annotations")), (), names)]
    for template in templates:
        annotations = mapping(mapping(template.template.get("metadata")).get("annotations"))
        if template.own and annotations:
            places.append(AskedPlace(f"{template.path}.metadata", annotations, (template.name,), names))
    for place in places:
        yield from _own(place)
    yield from peers_rules(places, templates, interpreter.groups(body))
    yield from interpreter.placement(body)


def _of_components(wish: AskedRule, templates: Sequence[Template]) -> AskedRule | None:
    """The rule of components that have pods, () for all of them; None without any."""
    filled = [template.name for template in templates if template.replicas > 0]
    if not wish.rule.of:
        return wish
    of = tuple(name for name in filled if name in wish.rule.of)
    if not of:
        return None
    return wish._replace(rule=replace(wish.rule, of=() if len(of) == len(filled) else of))


def _own(place: AskedPlace) -> Iterator[Word]:
    """What Fleet's annotations of one place say. Numbers and evenness of a level make one rule together."""
    for name, hard in ((ANNOTATION_TOPOLOGY, True), (ANNOTATION_PREFERRED_TOPOLOGY, False)):
        for entry in _entries(place, name):
            if isinstance(entry, TopologyFlaw):
                yield entry
            else:
                level, of, _ = entry
                yield place.wish(PlacementRule(level, of, WHOLE, hard), name)
    merged: dict[tuple[str, _Of], AskedRule] = {}
    for name, field in (
        (ANNOTATION_SLICES, "size"),
        (ANNOTATION_MOST_PER_DOMAIN, "most"),
        (ANNOTATION_EVEN_TOPOLOGY, "even"),
    ):
        keys = set[tuple[str, _Of]]()
        for entry in _entries(place, name, counted=field != "even"):
            if isinstance(entry, TopologyFlaw):
                yield entry
                continue
            level, of, pods = entry
            if (level, of) in keys:
                yield place.flaw(name, f"names {level} twice")
            keys.add((level, of))
            wish = merged.get((level, of)) or place.wish(PlacementRule(level, of, 1), name)
            value: dict[str, Any] = {field: pods or True}
            merged[level, of] = wish._replace(rule=replace(wish.rule, **value))
    yield from merged.values()


def _entries(place: AskedPlace, name: str, *, counted: bool = False) -> Iterator[tuple[str, _Of, int] | TopologyFlaw]:
    """The entries of one annotation: level, components, pods."""
    said = place.annotations.get(name)
    for entry in () if said is None else str(said).split(","):
        head, at, names = (part.strip() for part in entry.partition("@"))
        level, sign, number = (part.strip() for part in head.partition("="))
        of = tuple(dict.fromkeys(one.strip().lower() for one in names.split("+"))) if at else place.of
        flaw = place.level_flaw(name, level)
        if flaw is None and at and place.of:
            flaw = place.flaw(name, f"names components, and is about {place.of[0]} alone, the pods of its template")
        flaw = flaw or _number_flaw(place, name, head, sign + number, counted) or place.unknown_component(name, of)
        yield flaw or (level, of, int(number or 0))


def _number_flaw(place: AskedPlace, name: str, entry: str, number: str, counted: bool) -> TopologyFlaw | None:
    if counted and not digits(number.removeprefix("="), _DIGITS_MAX):
        return place.flaw(name, f"{entry[:60]!r} is not LEVEL=PODS, with a whole number of pods, at least 1")
    if number and not counted:
        return place.flaw(name, f"{entry[:60]!r} has a number, and this annotation takes levels alone")
    return None
