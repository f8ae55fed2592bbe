"""The size of what a job or a policy asks of the decider: bounds that hold before anything is parsed.

A write that leaves the pod templates of a job alone passes, and so does one that leaves the spec of a policy alone: a
job that was stored before the bounds may still be suspended, made smaller, or labelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from api.admission.rule import Check, dig
from api.engine.status import Cause
from api.objects.writing import Review
from fleet.admission.operators import asked_anew
from fleet.bindings.extent import BoundExcess, Count, excesses, of_placement, of_pod
from fleet.kinds.interpreter import Interpreter, Template
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows


def pods_within_bounds(interpreter: Interpreter) -> Check:
    """The check of one job's pod templates."""

    def check(review: Review) -> Sequence[Cause]:
        if review.new is None or not asked_anew(review):
            return ()
        templates = interpreter.templates(review.new)
        beyond = excesses(_of_job(templates))
        if beyond and review.old is not None:
            before = interpreter.templates(review.old)
            if [one.template for one in before] == [one.template for one in templates]:
                return ()
        return _causes(beyond)

    return check


def policy_within_bounds(review: Review) -> Sequence[Cause]:
    """The check of one policy's selectors and placement."""
    return _causes(excesses(_of_policy(review.new))) if review.new is not None and asked_anew(review) else ()


def _of_job(templates: Sequence[Template]) -> Iterator[Count]:
    yield Count("spec", "components", len(templates))
    for template in templates:
        yield Count(template.path, "characters", len(template.name))
        yield from of_pod(f"{template.path}.spec", mapping(template.template.get("spec")))


def _of_policy(policy: Body) -> Iterator[Count]:
    yield Count("spec.resourceSelectors", "selectors", len(rows(dig(policy, "spec.resourceSelectors"))))
    yield from of_placement("spec.placement", mapping(dig(policy, "spec.placement")))


def _causes(beyond: Sequence[BoundExcess]) -> list[Cause]:
    return [Cause(one.field, f"Too many: {one.text}", "FieldValueTooMany") for one in beyond]
