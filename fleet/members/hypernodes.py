"""HyperNodes of Volcano as the hub reads them, its own and those of a member: which nodes are close to each other.

A member of a HyperNode is chosen by exactly one selector. Admission refuses others with their field (`faults`). A
member cluster may show what no rule of the hub has seen: there a member that has a fault is left out and named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fleet.bindings.matching import labels_match
from fleet.members.texts import name_of, one_line
from fleet.values.names import SUBDOMAIN_MAX
from fleet.values.pattern import BadPattern, Pattern
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows, text, whole

NODE, HYPERNODE = "Node", "HyperNode"
SELECTORS = ("exactMatch", "regexMatch", "labelMatch")
STEPS_MAX = 1_000_000  # of one regular expression over one name
Fault = tuple[str, Any, str]  # path under spec, value, what is wrong


@dataclass(frozen=True, slots=True)
class HyperNodeMember:
    """One entry of `spec.members`: nodes or HyperNodes by exactly one of a name, a pattern and labels."""

    of_nodes: bool
    name: str = ""
    pattern: Pattern | None = None
    labels: Mapping[str, Any] | None = None

    def takes(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether it chooses what has this name and these labels."""
        if self.pattern is not None:
            return self.pattern.matches(name)
        return name == self.name if self.labels is None else labels_match(self.labels, labels)


@dataclass(frozen=True, slots=True)
class HyperNode:
    """`level`: how rules of jobs name its tier. `faults`: the members that it lists and that are left out, as texts."""

    name: str
    tier: int
    level: str
    members: tuple[HyperNodeMember, ...] = ()
    faults: tuple[str, ...] = ()


def read_hypernode(body: Body) -> HyperNode:
    """A stored HyperNode. Raises ValueError for an object without a name."""
    spec, name = mapping(body.get("spec")), name_of(mapping(body.get("metadata")).get("name"))
    tier = whole(spec.get("tier"))
    members, why = list[HyperNodeMember](), list[str]()
    for number, entry in enumerate(rows(spec.get("members"))):
        fault = next(_faults(f"members[{number}]", entry), None)
        if fault is None:
            members.append(_member(entry))
        else:
            why.append(one_line(f"HyperNode {name}: spec.{fault[0]}: {fault[2]}"))
    level = one_line(spec.get("tierName")) or f"tier-{tier}"
    return HyperNode(name, tier, level, tuple(members), tuple(why))


def faults(spec: Body) -> Iterator[Fault]:
    """What the schema lets through and no HyperNode may have. Labels are looked at by the rule of admission."""
    for number, entry in enumerate(rows(spec.get("members"))):
        yield from _faults(f"members[{number}]", entry)


def _faults(where: str, entry: Body) -> Iterator[Fault]:
    kind, selector = entry.get("type"), mapping(entry.get("selector"))
    if kind not in (NODE, HYPERNODE):
        yield f"{where}.type", kind, f"must be {NODE} or {HYPERNODE}"
    chosen = [name for name in SELECTORS if selector.get(name) is not None]
    if len(chosen) != 1:
        there = " and ".join(chosen) or "none"
        yield f"{where}.selector", there, f"must have exactly one of {', '.join(SELECTORS)}"
    elif chosen == ["labelMatch"]:
        if kind == HYPERNODE:
            why = "chooses nodes by their labels; exactMatch and regexMatch choose HyperNodes by their names"
            yield f"{where}.selector.labelMatch", dict(mapping(selector["labelMatch"])), why
    elif chosen == ["exactMatch"]:
        if not text(mapping(selector["exactMatch"]).get("name")):
            yield f"{where}.selector.exactMatch.name", "", "must not be empty"
    else:
        pattern = text(mapping(selector["regexMatch"]).get("pattern"))
        why = _pattern_fault(pattern)
        if why:
            yield f"{where}.selector.regexMatch.pattern", pattern, why


def _pattern_fault(text: str) -> str:
    if not text:
        return "must not be empty"
    try:
        pattern = _compiled(text)
    except BadPattern as error:
        return f"is no regular expression that RE2 takes: {error}"
    return "" if pattern.cost("n" * SUBDOMAIN_MAX) <= STEPS_MAX else "is too large to be looked for in every name"


@lru_cache(maxsize=4096)
def _compiled(text: str) -> Pattern:
    return Pattern(text)


def _member(entry: Body) -> HyperNodeMember:
    selector, of_nodes = mapping(entry.get("selector")), entry.get("type") == NODE
    if selector.get("labelMatch") is not None:
        return HyperNodeMember(of_nodes, labels=mapping(selector["labelMatch"]))
    if selector.get("regexMatch") is not None:
        return HyperNodeMember(of_nodes, pattern=_compiled(text(mapping(selector["regexMatch"]).get("pattern"))))
    return HyperNodeMember(of_nodes, text(mapping(selector.get("exactMatch")).get("name")))
