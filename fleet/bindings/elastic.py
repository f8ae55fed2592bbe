"""Elastic jobs: the fewest replicas that a job says it can start with.

The declaration of a kind says how a job of it names its fewest replicas, and by which field their number changes
(fleet/kinds). The binding keeps the range beside the replicas, as `minReplicas` and `replicaStep` of a component: the
decider reads bindings alone, and a change of the declaration does not change what is charged.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fleet.bindings import binding as b
from fleet.bindings.components import WANTED
from fleet.core.model.unit import Component
from fleet.kinds.interpreter import Interpreter, Range
from fleet.kinds.topology import ranges_in_parts
from fleet.values.ports import Body, StoredObject
from fleet.values.untyped import rows, text, whole

LEAST, STEP = "minReplicas", "replicaStep"  # of a component of a binding
SHRUNK_AT = "shrunkAt"  # of a binding's status: when the hub last took replicas from its job


def with_ranges(
    job: Body, components: Iterable[Mapping[str, Any]], interpreter: Interpreter
) -> tuple[dict[str, Any], ...]:
    """The components of a binding, each with its range where its job can run with fewer replicas of it."""
    ranges = ranges_in_parts(interpreter, job)
    return tuple({**component, **_said(ranges.get(component["name"]))} for component in components)


def _said(found: Range | None) -> dict[str, int]:
    if found is None:
        return {}
    return {LEAST: found.least, STEP: found.step} if found.step > 1 else {LEAST: found.least}


def ranges_of(binding: Body) -> dict[str, Range]:
    """The ranges by component, of those that have one; empty for a job that is not elastic."""
    spec = b.spec_of(binding)
    bodies = (*rows(spec.get("components")), *rows(spec.get(WANTED)))
    return {
        text(body.get("name")).lower(): Range(least, max(1, whole(body.get(STEP))))
        for body in bodies
        if (least := whole(body.get(LEAST))) > 0
    }


def least_of(binding: Body) -> dict[str, int]:
    """The fewest replicas by component, of those that name fewer."""
    return {name: found.least for name, found in ranges_of(binding).items()}


def least_text(binding: Body) -> str:
    """The replicas that are enough to start, as people read it: 2 of 8 worker."""
    least, asked = least_of(binding), rows(b.spec_of(binding).get(WANTED)) or b.component_bodies(binding)
    named = ((text(body.get("name")).lower(), body.get("replicas")) for body in asked)
    return ", ".join(f"{least[name]} of {replicas} {name}" for name, replicas in named if name in least)


def resized(components: Iterable[Component], replicas: Mapping[str, int]) -> tuple[Component, ...]:
    """The components with so many replicas of those that are named."""
    return tuple(replace(part, replicas=replicas.get(part.name.lower(), part.replicas)) for part in components)


def with_replicas(binding: StoredObject, replicas: Mapping[str, int]) -> StoredObject:
    """A copy of the binding as it is once its job has so many replicas; the very binding where none are named."""
    if not replicas:
        return binding
    body: Body = copy.deepcopy(binding.body)
    give(body, replicas)
    return StoredObject(binding.key, binding.uid, binding.revision, binding.raw, body)


def start_size(binding: Body) -> tuple[tuple[str, int], ...]:
    """The replicas by component with which a job starts that is to start smaller than it asks to be; () for a job that
    starts whole."""
    if not b.spec_of(binding).get(WANTED):
        return ()
    has = {text(body.get("name")).lower(): whole(body.get("replicas")) for body in b.component_bodies(binding)}
    return tuple((name, has[name]) for name in ranges_of(binding) if name in has)


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
