"""The rules of a job about where its pods stand: what contradicts itself is refused with the field that says it, and
what no rule can say is warned of.

A job that was stored before goes on as it is, for as long as neither its spec nor what it says of this changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from api.admission.causes import invalid
from api.admission.rule import Check
from api.engine.status import Cause
from api.objects.writing import Review
from fleet.admission.operators import asked_anew
from fleet.bindings.rules import CHARACTERS_MAX, RULES_MAX, text_of
from fleet.core.model.nesting import flaws, ruled_pods
from fleet.core.model.rule import WHOLE, PlacementRule
from fleet.core.model.unit import Component
from fleet.kinds.interpreter import AskedRule, Interpreter, Template
from fleet.kinds.topology import placement_asked, ranges_in_parts
from fleet.kinds.topologywords import PlacementRequest
from fleet.values.names import qualified_name_problems
from fleet.values.ports import Body
from fleet.values.quantity import BadQuantity


def stands_where_it_can(interpreter: Interpreter) -> Check:
    """The check of one job."""

    def check(review: Review) -> Sequence[Cause]:
        body = review.new
        if body is None or review.subresource == "status":
            return ()
        request = placement_asked(interpreter, body)
        if review.old is not None and not asked_anew(review) and request == placement_asked(interpreter, review.old):
            return ()
        review.warnings.extend(f"{warning.field}: {warning.why}" for warning in request.warnings)
        return list(_causes(interpreter, body, request))

    return check


def _causes(interpreter: Interpreter, body: Body, request: PlacementRequest) -> Iterator[Cause]:
    if request.flaws:
        yield from (invalid(*flaw) for flaw in request.flaws)
        return
    wishes = request.rules
    try:
        components = interpreter.components(body) if wishes else ()
    except BadQuantity:
        return  # said by the check of its pods
    if not components:
        return  # stopped, or refused for having no pods
    if len(wishes) > RULES_MAX or len(text_of([one.rule for one in wishes])) > CHARACTERS_MAX:
        why = f"a job has at most {RULES_MAX} rules about where its pods stand"
        yield invalid(wishes[-1].field, wishes[-1].value, why)
        return
    templates = interpreter.templates(body)
    causes = [cause for one in wishes for cause in _alone(one, templates)]
    causes = causes or list(_together(wishes, components)) or list(_at_sizes(interpreter, body, wishes, components))
    yield from causes


def _alone(wish: AskedRule, templates: Sequence[Template]) -> Iterator[Cause]:
    """What is wrong with one rule of pods without a template, or of a level that is none."""
    problems = qualified_name_problems(wish.rule.level)
    if problems:
        yield invalid(wish.field, wish.rule.level, "; ".join(problems))
    of = wish.rule.of
    bare = [one.name for one in templates if not one.own and one.replicas > 0 and (not of or one.name in of)]
    if bare and wish.rule.hard and not wish.native:
        yield invalid(wish.field, wish.value, f"the pods of {bare[0]} have no template that could keep them together")


def _together(wishes: Sequence[AskedRule], components: Sequence[Component]) -> Iterator[Cause]:
    """What is wrong with the rules at the size of the job."""
    for place, _, why in flaws(tuple([wish.rule for wish in wishes]), components):
        listed = "; ".join(f"{number}: {_spelled(wish.rule)}" for number, wish in enumerate(wishes))
        why = f"{why} (its rules: {listed})" if len(wishes) > 1 else why
        yield invalid(wishes[place].field, wishes[place].value, why)
        return
    for wish in wishes:
        if wish.rule.hard and wish.rule.size == WHOLE:
            yield from _capped(wish, wishes, components)


def _capped(wish: AskedRule, wishes: Sequence[AskedRule], components: Sequence[Component]) -> Iterator[Cause]:
    """Pods that must stand together although another rule allows fewer of them in one domain of that level."""
    here = _places(wish.rule, components)
    for other in wishes:
        pods = _places(other.rule, components) & here
        count = sum(components[at].replicas for at in pods)
        if other.rule.level == wish.rule.level and 0 < other.rule.most < count:
            level = wish.rule.level
            why = f"allows {other.rule.most} of {count} pods in one {level}, where {wish.field} wants all of them"
            yield invalid(other.field, other.value, why)


def _places(rule: PlacementRule, components: Sequence[Component]) -> frozenset[int]:
    return frozenset[int]().union(*(pods.components for pods in ruled_pods(rule, components)))


def _at_sizes(
    interpreter: Interpreter, body: Body, wishes: Sequence[AskedRule], components: Sequence[Component]
) -> Iterator[Cause]:
    """Rules in parts that leave no size of an elastic component but the one that it has."""
    ranges, offered = interpreter.ranges(body), ranges_in_parts(interpreter, body)
    for part in components:
        if part.name in offered or part.name not in ranges:
            continue
        wish = next(wish for wish in wishes if wish.rule.size > 1 and (not wish.rule.of or part.name in wish.rule.of))
        least, size = ranges[part.name].least, part.replicas
        why = f"{part.name} may run with {least} of {size} pods, and whole parts of {_spelled(wish.rule)} need {size}"
        yield invalid(wish.field, wish.value, why)


def _spelled(rule: PlacementRule) -> str:
    """The rule as people read it: rack of worker in parts of 8."""
    of = f" of {' and '.join(rule.of)}" if rule.of else ""
    parts = f" in parts of {rule.size}" if rule.size > 1 else ""
    most = f", at most {rule.most}" if rule.most else ""
    return f"{rule.level}{of}{parts}{most}{'' if rule.hard else ', preferred'}"
