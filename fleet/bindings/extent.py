"""The size of what a gang asks, counted before any of it is parsed, and its bounds.

A manifest may have a megabyte, and the decider compares what gangs ask with each node of each member. So a gang has at
most so many names, terms and values as `LIMITS` says: more is refused when it is written (fleet/admission/extents.py).
A gang that was stored before is set aside while it waits, and runs on with its charge while it runs. Pod templates,
components of a binding and the placement of a policy are counted by the same rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from fleet.bindings import binding as b
from fleet.values.ports import Body
from fleet.values.untyped import at, mapping, rows, text, texts

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS = f"affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
_PLACEMENT = "spec.placement"
_LISTS = ("matchExpressions", "matchFields")


@dataclass(frozen=True, slots=True)
class ExtentLimits:
    """The most of each. All but `resources` and `characters` are sums over the components of a gang, or over the
    affinities of a policy."""

    components: int = 64
    resources: int = 64
    """Names of resources that one pod asks for."""
    terms: int = 64
    """Terms of required node affinity, or affinities of a policy to members."""
    expressions: int = 256
    """Expressions of these terms, and entries of node selectors."""
    values: int = 2_000
    """Values of these expressions, and names of members."""
    tolerations: int = 64
    weights: int = 256
    """Preferences of a policy for members."""
    selectors: int = 1_000
    """Of a policy: each is compared with each object of its kind."""
    characters: int = 317
    """Of one name or value. The longest key that Kubernetes allows has a prefix of 253 and a name of 63."""


LIMITS = ExtentLimits()
_WORDS: Mapping[str, str] = {
    "components": "components",
    "resources": "names of resources in one pod",
    "terms": "terms of required node affinity",
    "expressions": "expressions and node selectors",
    "values": "values of expressions",
    "tolerations": "tolerations",
    "weights": "weights of members",
    "selectors": "selectors of objects",
    "characters": "characters in one name or value",
}
_OF_EACH = ("resources", "characters")  # are not added up


class Count(NamedTuple):
    """So many of one kind, a field of `ExtentLimits`, at this field of a manifest."""

    field: str
    kind: str
    amount: int


class BoundExcess(NamedTuple):
    """A bound that is passed, with the first field that passes it."""

    field: str
    kind: str
    amount: int

    @property
    def text(self) -> str:
        return f"{self.amount:,} {_WORDS[self.kind]}, of at most {getattr(LIMITS, self.kind):,}"

    @property
    def held_why(self) -> str:
        """Why a stored gang is set aside, and the way out."""
        if self.field.startswith(_PLACEMENT):
            return f"the placement of its policy is too large to be decided, {self.text}: change the policy"
        return f"it is too large to be decided, {self.text}: cancel it, and submit it again with fewer"


def excesses(counts: Iterable[Count]) -> list[BoundExcess]:
    """The bounds that the counts pass, each once."""
    total: dict[str, int] = {}
    first: dict[str, str] = {}
    for field, kind, amount in counts:
        now = max(total.get(kind, 0), amount) if kind in _OF_EACH else total.get(kind, 0) + amount
        total[kind] = now
        if now > getattr(LIMITS, kind):
            first.setdefault(kind, field)
    return [BoundExcess(field, kind, total[kind]) for kind, field in first.items()]


def of_pod(where: str, spec: Mapping[str, Any]) -> Iterator[Count]:
    """The counts of one pod template's spec, which stands at `where`."""
    names: set[str] = set()
    for group in ("containers", "initContainers"):
        for container in rows(spec.get(group)):
            names |= _asked(container.get("resources"))
    names |= _asked(spec.get("resources")) | mapping(spec.get("overhead")).keys()
    required = at(spec, "affinity", "nodeAffinity", _REQUIRED)
    yield from _named(f"{where}.containers", names)
    yield from _of_claim(where, spec, f"{where}.{_TERMS}", rows(at(required, "nodeSelectorTerms")))


def of_placement(where: str, placement: Mapping[str, Any]) -> Iterator[Count]:
    """The counts of a policy's placement, which stands at `where`."""
    for name in ("clusterAffinity", "clusterAffinities"):
        value = placement.get(name)
        affinities = rows([value] if name == "clusterAffinity" else value)
        yield Count(f"{where}.{name}", "terms", len(affinities))
        for affinity in affinities:
            yield from _of_affinity(f"{where}.{name}", affinity)
    weights = rows(at(placement, "replicaScheduling", "weightPreference", "staticWeightList"))
    place = f"{where}.replicaScheduling.weightPreference.staticWeightList"
    yield Count(place, "weights", len(weights))
    for weight in weights:
        yield from _of_affinity(place, mapping(weight.get("targetCluster")))
    yield from _tolerations(f"{where}.clusterTolerations", placement.get("clusterTolerations"))


def excess_of(binding: Body) -> BoundExcess | None:
    """A bound that a stored gang passes; None for nearly all. Linear in the binding, and parses nothing of it."""
    spec = b.spec_of(binding)
    for field in ("components", "wantedComponents"):
        found = excesses(_of_components(f"spec.{field}", rows(spec.get(field))))
        if found:
            return found[0]
    found = excesses(of_placement(_PLACEMENT, mapping(spec.get("placement"))))
    return found[0] if found else None


def set_aside(binding: Body) -> Body:
    """A gang that passes a bound, without what is too much of it. In its member it keeps all that it is charged for.
    One that waits keeps a few resources, and may go to no member, so that no place is shown for it."""
    spec, waits = b.spec_of(binding), not (b.clusters_of(binding) or b.tasks_of(binding))
    bodies = rows(spec.get("components"))[: LIMITS.components if waits else None]
    components = [_charged(body, LIMITS.resources if waits else None) for body in bodies]
    placement = {"clusterAffinity": {"clusterNames": [""]}} if waits else {}
    return {**binding, "spec": {**spec, "components": components, "placement": placement}}


def _charged(body: Mapping[str, Any], most: int | None) -> Body:
    requirements = mapping(body.get("replicaRequirements"))
    requests = mapping(requirements.get("resourceRequest")).items()
    asked = islice(((name, amount) for name, amount in requests if amount not in ("0", 0)), most)
    kept = {name: value for name, value in requirements.items() if name != "nodeClaim"}
    return {**body, "replicaRequirements": {**kept, "resourceRequest": dict(asked)}}


def _of_components(where: str, bodies: list[dict[str, Any]]) -> Iterator[Count]:
    yield Count(where, "components", len(bodies))
    for body in bodies:
        requirements = mapping(body.get("replicaRequirements"))
        claim = mapping(requirements.get("nodeClaim"))
        terms = rows(at(claim, "hardNodeAffinity", "nodeSelectorTerms"))
        yield _longest(where, (text(body.get("name")),))
        yield from _named(where, set(mapping(requirements.get("resourceRequest"))))
        yield from _of_claim(where, claim, where, terms)


def _of_claim(where: str, claim: Mapping[str, Any], terms_at: str, terms: list[dict[str, Any]]) -> Iterator[Count]:
    selector = mapping(claim.get("nodeSelector"))
    yield Count(f"{where}.nodeSelector", "expressions", len(selector))
    yield _longest(f"{where}.nodeSelector", (*selector, *map(text, selector.values())))
    yield Count(terms_at, "terms", len(terms))
    for term in terms:
        for name in _LISTS:
            yield from _of_expressions(terms_at, rows(term.get(name)))
    yield from _tolerations(f"{where}.tolerations", claim.get("tolerations"))


def _of_affinity(where: str, affinity: Mapping[str, Any]) -> Iterator[Count]:
    labels = mapping(at(affinity, "labelSelector", "matchLabels"))
    yield Count(where, "expressions", len(labels))
    yield _longest(where, (*labels, *map(text, labels.values())))
    for selector in ("labelSelector", "fieldSelector"):
        yield from _of_expressions(where, rows(at(affinity, selector, "matchExpressions")))
    members = (*texts(affinity.get("clusterNames")), *texts(affinity.get("exclude")))
    yield Count(where, "values", len(members))
    yield _longest(where, members)


def _of_expressions(where: str, expressions: list[dict[str, Any]]) -> Iterator[Count]:
    yield Count(where, "expressions", len(expressions))
    for expression in expressions:
        values = texts(expression.get("values"))
        yield Count(where, "values", len(values))
        yield _longest(where, (text(expression.get("key")), *values))


def _tolerations(where: str, value: Any) -> Iterator[Count]:
    tolerations = rows(value)
    yield Count(where, "tolerations", len(tolerations))
    yield _longest(where, (text(entry.get(name)) for entry in tolerations for name in ("key", "value")))


def _named(where: str, names: set[str]) -> Iterator[Count]:
    yield Count(where, "resources", len(names))
    yield _longest(where, names)


def _longest(where: str, names: Iterable[str]) -> Count:
    return Count(where, "characters", max(map(len, names), default=0))


def _asked(resources: Any) -> set[str]:
    return {*mapping(at(resources, "requests")), *mapping(at(resources, "limits"))}
