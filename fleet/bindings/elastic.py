"""Elastic jobs: the fewest replicas that a job says it can start with.

Only a job whose own framework takes workers that come later is elastic: a PyTorchJob with an `elasticPolicy`. Its
minimum is `elasticPolicy.minReplicas`, or what `runPolicy.schedulingPolicy.minAvailable` leaves for its workers. The
binding keeps the number beside the replicas, as `minReplicas` of the component.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fleet.bindings import binding as b
from fleet.bindings.components import WANTED
from fleet.model.unit import Component
from fleet.model.untyped import at, rows, text, whole
from fleet.ports import Body

LEAST = "minReplicas"  # of a component of a binding
_KIND, _WORKER = "PyTorchJob", "worker"


def with_least(job: Body, components: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
    """The components of a binding, with the fewest replicas of each that its job names fewer for."""
    found = _least(job, components)
    return tuple(
        {**component, LEAST: found}
        if component["name"] == _WORKER and 0 < found < component["replicas"]
        else {**component}
        for component in components
    )


def _least(job: Body, components: Iterable[Mapping[str, Any]]) -> int:
    """The fewest workers; 0 for a job that is not elastic."""
    policy = at(job, "spec", "elasticPolicy")
    if job.get("kind") != _KIND or not isinstance(policy, dict):
        return 0
    own = whole(policy.get("minReplicas"))
    available = whole(at(job, "spec", "runPolicy", "schedulingPolicy", "minAvailable"))
    others = sum(component["replicas"] for component in components if component["name"] != _WORKER)
    return own or (max(1, available - others) if available > 0 else 0)


def least_of(binding: Body) -> dict[str, int]:
    """The fewest replicas by component, of those that name fewer; empty for a job that is not elastic."""
    spec = b.spec_of(binding)
    bodies = (*rows(spec.get("components")), *rows(spec.get(WANTED)))
    return {text(body.get("name")).lower(): number for body in bodies if (number := whole(body.get(LEAST))) > 0}


def resized(components: Iterable[Component], replicas: Mapping[str, int]) -> tuple[Component, ...]:
    """The components with so many replicas of those that are named."""
    return tuple(replace(part, replicas=replicas.get(part.name.lower(), part.replicas)) for part in components)


def as_large_as(binding: Body, decided: Body) -> Body:
    """The binding, which then has and wants the components that another body of it does."""
    for field in ("components", WANTED):
        if field in decided["spec"]:
            binding["spec"][field] = copy.deepcopy(decided["spec"][field])
    return binding


def take(binding: Body, replicas: Mapping[str, int]) -> None:
    """Take from the binding, in place, all but so many replicas of the components that are named. The job asks for them
    on."""
    spec = binding["spec"]
    spec.setdefault(WANTED, copy.deepcopy(spec["components"]))
    for body in spec["components"]:
        body["replicas"] = min(body["replicas"], replicas.get(str(body["name"]).lower(), body["replicas"]))


def give(binding: Body, replicas: Mapping[str, int]) -> None:
    """Give the binding, in place, so many replicas of the components that are named, and all else of what its job asks
    for. The rest stays wanted."""
    spec = binding["spec"]
    asked = spec.pop(WANTED, None) or spec["components"]
    given = [{**body, "replicas": replicas.get(str(body["name"]).lower(), body["replicas"])} for body in asked]
    spec["components"] = given
    if given != asked:
        spec[WANTED] = asked
