"""The pods of a gang as its rules bundle them: each rule has its parts, and smaller parts lie within larger ones.

rack of 8, host of 2        ┌ rack ──────────────────┐   worker 16: two bundles of a rack, in each of which
over worker 16              │ host host host host    │   are four bundles of a host with two pods each
                            └────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from fleet.core.model.rule import WHOLE, PlacementRule, Rules
from fleet.core.model.unit import Component


@dataclass(frozen=True, slots=True)
class RuledPods:
    """The pods of a gang that a rule is about: the places of their components, and in how many parts alike they are."""

    components: frozenset[int]
    parts: int

    def enclose(self, other: RuledPods) -> bool:
        """Whether each part of the other lies within one part of these."""
        return other.components <= self.components and other.parts % self.parts == 0


@dataclass(frozen=True, slots=True)
class Bundle:
    """Pods that stand in one domain of the level of `rule`, of which there are `count` in the bundle around it. The
    outermost has no rule: it is the gang. `pods`: of one bundle, (place of the component, how many) beside those of its
    `inner` bundles. `components`: the places of all that have pods in it."""

    rule: PlacementRule | None
    count: int
    components: frozenset[int]
    pods: tuple[tuple[int, int], ...]
    inner: tuple[Bundle, ...]


def bundle_of(components: Sequence[Component], rules: Rules) -> Bundle:
    """The gang with the bundles of its rules. Rules with a flaw have none: the pods of a placed gang that its
    member does not show yet need not come in whole parts."""
    faulty = {at for at, _, _ in flaws(rules, components)}
    sound = [rule for at, rule in enumerate(rules) if at not in faulty]
    ruled = [(pods, rule) for rule in sound for pods in ruled_pods(rule, components)]
    # One after another each lies within those before it or apart from them: rules of the same pods in their order.
    ruled.sort(key=lambda one: (-len(one[0].components), one[0].parts))
    every = frozenset([at for at, part in enumerate(components) if part.replicas > 0])
    return _bundle(None, RuledPods(every, 1), 1, ruled, components)


def _bundle(
    rule: PlacementRule | None,
    pods: RuledPods,
    count: int,
    ruled: Sequence[tuple[RuledPods, PlacementRule]],
    components: Sequence[Component],
) -> Bundle:
    inner: list[Bundle] = []
    left = list(ruled)
    while left:
        first, its = left.pop(0)
        within = [one for one in left if first.enclose(one[0])]
        left = [one for one in left if not first.enclose(one[0])]
        inner.append(_bundle(its, first, first.parts // pods.parts, within, components))
    bundled = {at for one in inner for at in one.components}
    loose = [(at, components[at].replicas // pods.parts) for at in sorted(pods.components - bundled)]
    return Bundle(rule, count, pods.components, tuple(loose), tuple(inner))


def all_in(bundle: Bundle) -> Iterator[Bundle]:
    """The bundle, and all within it."""
    yield bundle
    for one in bundle.inner:
        yield from all_in(one)


def innermost(bundle: Bundle) -> dict[int, int]:
    """By the place of a component, the number of the innermost bundle of its pods, as `all_in` gives them."""
    return {place: number for number, one in enumerate(all_in(bundle)) for place, _ in one.pods}


def whole_gang(bundle: Bundle) -> tuple[Rules, Bundle | None]:
    """The hard rules that are about all pods of a gang as a whole, and the gang with the bundles of its other rules, or
    None where it has no others."""
    rules: list[PlacementRule] = []
    while len(bundle.inner) == 1 and not bundle.pods:
        (only,) = bundle.inner
        if only.rule is None or only.count > 1 or not only.rule.hard:
            break
        rules.append(only.rule)
        bundle = only
    return tuple(rules), replace(bundle, rule=None) if bundle.inner else None


def ruled_pods(rule: PlacementRule, components: Sequence[Component]) -> list[RuledPods]:
    """The pods of a rule that has no flaw: parts of one pod are those of each component by itself."""
    places = _places(rule, components)
    if rule.size == 1:
        return [RuledPods(frozenset({at}), components[at].replicas) for at in places]
    pods = sum([components[at].replicas for at in places])
    return [RuledPods(frozenset(places), 1 if rule.size == WHOLE else pods // rule.size)] if places else []


def flaws(rules: Rules, components: Sequence[Component]) -> Iterator[tuple[int, str, str]]:
    """What contradicts itself, as (place of the rule, its field, what is wrong with it), one for a rule."""
    sound: list[tuple[int, RuledPods]] = []
    for at, rule in enumerate(rules):
        flaw = _flaw(rule, components)
        if flaw is None:
            its = ruled_pods(rule, components)
            beside = (_flaw_beside(rule, pods, rules[place], other, place) for pods in its for place, other in sound)
            flaw = next((one for one in beside if one is not None), None)
            sound += [(at, pods) for pods in its] if flaw is None else []
        if flaw is not None:
            yield at, *flaw


def _flaw_beside(
    rule: PlacementRule, pods: RuledPods, other: PlacementRule, its: RuledPods, at: int
) -> tuple[str, str] | None:
    """What contradicts another rule, the one at this place."""
    if not pods.components & its.components:
        return None
    if not pods.enclose(its) and not its.enclose(pods):
        return "of", f"has pods of rule {at}, and no part of one lies within a part of the other"
    if (rule.even and its.enclose(pods) and its.parts > 1) or (other.even and pods.enclose(its) and pods.parts > 1):
        return "even", f"goes with no other rule that has these pods in parts, as rule {at} has"
    return None


def _flaw(rule: PlacementRule, components: Sequence[Component]) -> tuple[str, str] | None:
    if not rule.level:
        return "level", "is empty: it names a level of a place tree, or a node label"
    unknown = [name for name in rule.of if all(part.name != name for part in components)]
    if unknown:
        return "of", f"{unknown[0]!r} is no component of the gang"
    return _flaw_of_parts(rule) or _uneven(rule, components)


def _flaw_of_parts(rule: PlacementRule) -> tuple[str, str] | None:
    """What is wrong with the numbers of a rule, whatever the gang."""
    for name, amount in (("size", rule.size), ("most", rule.most)):
        if amount < 0:
            return name, f"{amount} is below 0"
    if rule.size == WHOLE and (rule.most or rule.even):
        return "size", "is missing: most and even are for pods in parts"
    if rule.size and not rule.hard:
        return "hard", "is false: pods in parts need a hard rule"
    if rule.most and rule.most < rule.size:
        return "most", f"{rule.most} is less than one part of {rule.size}"
    return None


def _uneven(rule: PlacementRule, components: Sequence[Component]) -> tuple[str, str] | None:
    """The size that does not divide the pods of a rule into parts alike."""
    counts = [components[at].replicas for at in _places(rule, components)]
    total = sum(counts)
    if rule.even and len(counts) > 1 and rule.size == 1:
        return "even", "is for the pods of one component: name it in of"
    if rule.size > 1 and (total % rule.size or any(count * rule.size % total for count in counts)):
        return "size", f"{rule.size} does not divide {' + '.join(map(str, counts)) or '0'} pods into parts alike"
    return None


def _places(rule: PlacementRule, components: Sequence[Component]) -> list[int]:
    """The places of its components that have pods."""
    asked = enumerate(components)
    return [at for at, part in asked if part.replicas > 0 and (not rule.of or part.name in rule.of)]
