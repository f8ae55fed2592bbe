"""A job as large as its binding has room for: a job that runs asks for more before it is given that. Pure.

The manifest has the replicas that are charged, so that all other changes of the job go to its member meanwhile. A job
that asks for more in each pod, or for another component, has no such smaller form: the last look refuses it
(outgoing.py), and its copy stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fleet.kinds import Interpreter
from fleet.model.unit import Component
from fleet.ports import Body

_COUNTS = ("replicas", "parallelism")  # the fields beside a pod template that may say how many pods there are


def fitted(body: Body, interpreter: Interpreter, charged: Sequence[Component]) -> Body:
    """The body with at most the charged replicas of each component; the very body where it asks for no more."""
    most = {component.name.lower(): component.replicas for component in charged}
    for template in interpreter.templates(body):
        limit = most.get(template.name.lower())
        if limit is not None and template.replicas > limit and template.steps:
            body = _counted(body, template.steps[:-1], template.replicas, limit)
    return body


def _counted(body: Any, steps: Sequence[str | int], replicas: int, limit: int) -> Any:
    """A copy in which the count at this place is `limit`. A count that stands elsewhere stays."""
    if not steps:
        counts = {field: limit for field in _COUNTS if body.get(field) == replicas}
        return {**body, **counts}
    step, below = steps[0], _counted(body[steps[0]], steps[1:], replicas, limit)
    if isinstance(body, list):
        return [below if number == step else entry for number, entry in enumerate(body)]
    return {**body, step: below}
