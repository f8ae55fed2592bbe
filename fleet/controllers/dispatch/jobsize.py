"""A job as large as its binding has room for: a job that runs asks for more before it is given that. Pure.

The manifest has the replicas that are charged, so that all other changes of the job go to its member meanwhile. A job
that asks for more in each pod, or for another component, has no such smaller form: the last look refuses it
(outgoing.py), and its copy stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from fleet.core.model.unit import Component
from fleet.kinds import Interpreter
from fleet.values.ports import Body


def fitted(body: Body, interpreter: Interpreter, charged: Iterable[Component]) -> Body:
    """The body with at most the charged replicas of each component; the very body where it asks for no more."""
    return interpreter.sized(body, {component.name.lower(): component.replicas for component in charged})
