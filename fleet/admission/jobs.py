"""Jobs: a gang has pods, and their requests can be read. The rest is left to the member's own admission.

Refused here, since the hub would queue and place a job that no member can ever start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from fleet.admission.asked import asked_of_job
from fleet.admission.creator import creator
from fleet.admission.finished import over_stays_over
from fleet.admission.growth import stays_in_size
from fleet.admission.holding import held_later
from fleet.admission.jobnames import fits_its_pods
from fleet.admission.named import known_classes, used_by_pods
from fleet.admission.operators import taken_by_operator
from fleet.admission.quotalabels import stays_in_queue
from fleet.admission.rule import Check, Checks, invalid, of_new, required, unsupported
from fleet.admission.statuses import status_by_hub
from fleet.engine.status import Cause
from fleet.kinds.interpreter import Interpreter, Template
from fleet.kinds.topology import topologies
from fleet.model.names import qualified_name_problems
from fleet.model.quantity import BadQuantity, quantity
from fleet.ports import Body

_CONTAINERS = ("initContainers", "containers")
_MAY_END = ("Never", "OnFailure")
_RESTART_POLICIES = ("Always", "ExitCode", "Never", "OnFailure")
_REPLICAS_MAX = 100_000


def kubeflow_job(interpreter: Interpreter, field: str) -> Checks:
    """The rule of a kubeflow.org job whose replica types stand in spec.`field`."""

    def restart_policies(body: Body) -> Sequence[Cause]:
        specs = (body.get("spec") or {}).get(field) or {}
        return [
            unsupported(f"spec.{field}.{name}.restartPolicy", spec["restartPolicy"], _RESTART_POLICIES)
            for name, spec in specs.items()
            if spec and spec.get("restartPolicy") not in (None, "", *_RESTART_POLICIES)
        ]

    taken = taken_by_operator(interpreter.kind, field)
    return _checks(interpreter, of_new(restart_policies), of_new(_pods(interpreter, f"spec.{field}")), taken)


def batch_job(interpreter: Interpreter) -> Checks:
    """The rule of a batch/v1 Job: its pods must be allowed to end."""

    def restart_policy(body: Body) -> Sequence[Cause]:
        policy = (((body.get("spec") or {}).get("template") or {}).get("spec") or {}).get("restartPolicy")
        where = "spec.template.spec.restartPolicy"
        if policy is None:
            return [required(where, 'valid values: "OnFailure", "Never"')]
        return [] if policy in _MAY_END else [unsupported(where, policy, _MAY_END)]

    return _checks(interpreter, of_new(restart_policy), of_new(_pods(interpreter, "spec.parallelism")))


def _checks(interpreter: Interpreter, *own: Check) -> Checks:
    """The checks of every job, and in between the further checks of its kind."""
    return Checks(
        creator,
        stays_in_queue,
        stays_in_size(interpreter),
        over_stays_over(interpreter),
        held_later(interpreter),
        status_by_hub,
        of_new(asked_of_job),
        *own,
        fits_its_pods(interpreter),
        known_classes(interpreter),
        used_by_pods(interpreter),
    )


def _pods(interpreter: Interpreter, field: str) -> Callable[[Body], Sequence[Cause]]:
    """Its pods can be read, and there are some; `field` is named when there are none."""

    def validate(body: Body) -> Sequence[Cause]:
        templates = interpreter.templates(body)
        causes = [cause for template in templates for cause in _template(template)]
        causes += _topology(body, templates)
        if not causes and sum(template.replicas for template in templates) == 0:
            causes.append(required(field, "a job has at least one pod"))
        return causes

    return validate


def _topology(body: Body, templates: Sequence[Template]) -> Iterator[Cause]:
    """A gang lies within one value of one label, if it names any."""
    found = topologies(body, templates)
    for number, (key, field) in enumerate(found.items()):
        problems = qualified_name_problems(key)
        if problems:
            yield invalid(field, key, "; ".join(problems))
        elif number:
            yield invalid(field, key, f"a job has one topology for all its pods, and names {next(iter(found))} already")


def _template(template: Template) -> Iterator[Cause]:
    owner = template.path.removesuffix(".template")
    if not 0 <= template.replicas <= _REPLICAS_MAX:
        yield invalid(f"{owner}.replicas", template.replicas, f"must be between 0 and {_REPLICAS_MAX}")
    spec = template.template.get("spec") or {}
    where = f"{template.path}.spec"
    if not spec.get("containers"):
        yield required(f"{where}.containers", "a pod has at least one container")
    for group in _CONTAINERS:
        for index, container in enumerate(spec.get(group) or []):
            yield from _resources(f"{where}.{group}[{index}].resources", container.get("resources") or {})
    yield from _resources(f"{where}.resources", spec.get("resources") or {})
    yield from _amounts(f"{where}.overhead", spec.get("overhead") or {}, {})


def _resources(where: str, resources: Mapping[str, Any]) -> Iterator[Cause]:
    limits: dict[str, int] = {}
    yield from _amounts(f"{where}.limits", resources.get("limits") or {}, limits)
    requests: dict[str, int] = {}
    yield from _amounts(f"{where}.requests", resources.get("requests") or {}, requests)
    for name, amount in requests.items():
        if name in limits and amount > limits[name]:
            given = resources["requests"][name]
            why = f"must be less than or equal to {name} limit of {resources['limits'][name]}"
            yield invalid(f"{where}.requests[{name}]", str(given), why)


def _amounts(where: str, given: Mapping[str, Any], read: dict[str, int]) -> Iterator[Cause]:
    for name, value in given.items():
        try:
            amount = quantity(value, name)
        except BadQuantity as error:
            yield invalid(f"{where}[{name}]", str(value), str(error))
            continue
        if amount < 0:
            yield invalid(f"{where}[{name}]", str(value), "must be greater than or equal to 0")
        read[name] = amount
