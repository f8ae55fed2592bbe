"""The names of a job and of its components: operators make labels, host names and Services of them, which end at 63.

A longer name would be placed, half made in the member, withdrawn, and placed again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from api.admission.causes import invalid
from api.engine.status import Cause
from api.objects.writing import Review
from fleet.admission.operators import OPERATORS, asked_anew
from fleet.kinds.interpreter import Interpreter, Template
from fleet.values.names import LABEL_MAX, label_problems, label_value_problems, starts_with_letter
from fleet.wellknown import KUBEFLOW

_LETTERS = "must consist of lower case letters, digits and '-', start with a letter and end with a letter or digit"


def fits_its_pods(interpreter: Interpreter) -> Callable[[Review], Sequence[Cause]]:
    """The check of one job."""
    operator = OPERATORS.get(interpreter.kind) if interpreter.group == KUBEFLOW else None

    def check(review: Review) -> Sequence[Cause]:
        if not asked_anew(review):
            return ()
        if len(review.name) > LABEL_MAX:
            return [_too_long(review.name, "the label of its pods", review.name)]
        wrong = _wrong_parts(interpreter.templates(review.new or {}))
        if wrong:
            return wrong
        if operator is None or not operator.services:
            return ()
        if label_problems(review.name) or not starts_with_letter(review.name):
            return [invalid("metadata.name", review.name, f"{_LETTERS}: each pod has a Service named after it")]
        longest = max(
            (_last_pod(review.name, t.name, t.replicas) for t in interpreter.templates(review.new or {})),
            key=len,
            default="",
        )
        return [_too_long(review.name, "the Service of its last pod", longest)] if len(longest) > LABEL_MAX else ()

    return check


def _wrong_parts(templates: Iterable[Template]) -> list[Cause]:
    """The components whose names no label of their pods can have."""
    found = ((template, label_value_problems(template.name)) for template in templates)
    return [
        invalid(template.path or "spec", template.name, f"the label of its pods is made of it: {problems[0]}")
        for template, problems in found
        if problems
    ]


def _last_pod(job: str, role: str, replicas: int) -> str:
    return f"{job}-{role}-{max(replicas - 1, 0)}"


def _too_long(name: str, what: str, made: str) -> Cause:
    over = len(made) - LABEL_MAX
    why = f"{what} is made of it, has {len(made)} characters, and may have {LABEL_MAX}: make it {over} shorter"
    return invalid("metadata.name", name, why)
