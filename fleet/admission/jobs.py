"""Jobs: a gang has pods, and their requests can be read. The rest is left to the member's own admission.

Refused here, since the hub would queue and place a job that no member can ever start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from api.admission.causes import invalid, required, unsupported
from api.admission.rule import Check, of_new
from api.engine.status import Cause
from api.objects.writing import Review
from fleet.admission.creator import creator
from fleet.admission.extents import pods_within_bounds
from fleet.admission.finishedjobs import over_stays_over
from fleet.admission.holding import held_later
from fleet.admission.jobnames import fits_its_pods
from fleet.admission.operators import OPERATORS, asked_anew, taken_by_operator
from fleet.admission.quotalabels import stays_in_queue
from fleet.admission.references import known_classes, used_by_pods
from fleet.admission.statuses import status_by_hub
from fleet.admission.topology import stands_where_it_can
from fleet.admission.wishes import asked_of_job
from fleet.kinds import interpreter_for
from fleet.kinds.interpreter import BrokenRule, Interpreter, Template
from fleet.kinds.sizes import declared_size
from fleet.values.ports import Body
from fleet.values.quantity import BadQuantity, quantity
from fleet.values.untyped import at, mapping
from fleet.wellknown import ANNOTATION_MIN_REPLICAS, ANNOTATION_SIZE, KUBEFLOW, MANAGED_BY

_CONTAINERS = ("initContainers", "containers")
_RESTART_POLICIES = ("Always", "ExitCode", "Never", "OnFailure")
_REPLICAS_MAX = 100_000
_CHECKS: dict[tuple[str, str], tuple[Interpreter, tuple[Check, ...]]] = {}  # made once for each interpreter


def job(review: Review) -> Sequence[Cause]:
    """The check of an object of any kind that has an interpreter now; nothing is wrong with the others."""
    interpreter = interpreter_for(review.kind)
    if interpreter is None:
        return ()
    target = interpreter.group, interpreter.kind
    known = _CHECKS.get(target)
    if known is None or known[0] is not interpreter:  # declared anew
        known = _CHECKS[target] = interpreter, _checks(interpreter)
    return [cause for check in known[1] for cause in check(review)]


def _checks(interpreter: Interpreter) -> tuple[Check, ...]:
    """The checks of every job, and in between the further checks of its kind."""
    return (
        creator,
        stays_in_queue,
        over_stays_over(interpreter),
        held_later(interpreter),
        status_by_hub,
        of_new(asked_of_job),
        of_new(partial(_min_replicas, interpreter)),
        pods_within_bounds(interpreter),
        _managed_by(interpreter),
        *_of_kind(interpreter),
        stands_where_it_can(interpreter),
        partial(_taken_there, interpreter),
        fits_its_pods(interpreter),
        known_classes(interpreter),
        used_by_pods(interpreter),
    )


def _taken_there(interpreter: Interpreter, review: Review) -> Sequence[Cause]:
    """What the operator of its kind would refuse. A job that was stored before goes on as it is."""
    if review.new is None or not asked_anew(review):
        return []
    faults = list(interpreter.faults(review.new))
    review.warnings.extend(f"{fault.path}: {fault.message}" for fault in faults if fault.warns)
    return [_as_cause(review.new, fault) for fault in faults if not fault.warns]


def _as_cause(body: Body, fault: BrokenRule) -> Cause:
    value: Any = body
    for step in fault.steps:
        value = value[step] if isinstance(step, int) else mapping(value).get(step)
    return required(fault.path, fault.message) if value is None else invalid(fault.path, value, fault.message)


def _min_replicas(interpreter: Interpreter, body: Body) -> Sequence[Cause]:
    """The annotation says nothing on a job of a kind with a field for its fewest replicas, or with a fixed size."""
    said = at(body, "metadata", "annotations", ANNOTATION_MIN_REPLICAS)
    if said is None or interpreter.takes_min_replicas:
        return []
    why = f"a {interpreter.kind} does not take its fewest replicas from this annotation"
    return [invalid(f"metadata.annotations[{ANNOTATION_MIN_REPLICAS}]", said, why)]


def _managed_by(interpreter: Interpreter) -> Check:
    """A job is managed by the hub here, and by the kind's own controller in its member. Jobs that were stored before
    with another manager stay."""

    def check(review: Review) -> Sequence[Cause]:
        named = interpreter.manager(review.new) if review.new is not None else ""
        if named in ("", MANAGED_BY) or (review.old is not None and interpreter.manager(review.old) == named):
            return ()
        why = "the controllers of the members leave such a job alone, and it never runs: leave the field out"
        return [invalid(interpreter.managed_by_field, named, f"{why}, or name the hub, {MANAGED_BY}")]

    return check


def _of_kind(interpreter: Interpreter) -> tuple[Check, ...]:
    of_kubeflow = OPERATORS.get(interpreter.kind) if interpreter.group == KUBEFLOW else None
    if of_kubeflow is not None:
        field = of_kubeflow.field
        own = of_new(partial(_restart_policies, field)), of_new(_pods(interpreter, f"spec.{field}"))
        return (*own, taken_by_operator(of_kubeflow))
    match interpreter.group, interpreter.kind:
        case "batch", "Job":
            return (of_new(_pods(interpreter, "spec.parallelism")),)
        case "apps", "Deployment" | "StatefulSet":
            return (of_new(_pods(interpreter, "spec.replicas")),)
    return (of_new(_pods(interpreter, "spec")),)


def _restart_policies(field: str, body: Body) -> Sequence[Cause]:
    specs = (body.get("spec") or {}).get(field) or {}
    return [
        unsupported(f"spec.{field}.{name}.restartPolicy", spec["restartPolicy"], _RESTART_POLICIES)
        for name, spec in specs.items()
        if spec and spec.get("restartPolicy") not in (None, "", *_RESTART_POLICIES)
    ]


def _pods(interpreter: Interpreter, field: str) -> Callable[[Body], Sequence[Cause]]:
    """Its pods can be read, and there are some; `field` is named when there are none."""

    def validate(body: Body) -> Sequence[Cause]:
        templates = interpreter.templates(body)
        sized = any(not template.own for template in templates)
        try:
            _ = declared_size(body) if sized else None
        except BadQuantity as error:
            said = at(body, "metadata", "annotations", ANNOTATION_SIZE)
            return [invalid(f"metadata.annotations[{ANNOTATION_SIZE}]", said, str(error))]
        causes: list[Cause] = [cause for template in templates for cause in _template(template)]
        if not causes and sum(template.replicas for template in templates) == 0:
            causes += _no_pods(interpreter, field, body, sized=sized)
        return causes

    return validate


def _no_pods(interpreter: Interpreter, field: str, body: Body, *, sized: bool) -> Iterator[Cause]:
    """Of a job without pods: its size lacks, or it is to be stopped. A kind without a field for that is stopped so."""
    stop = interpreter.suspend_field
    if sized:
        lacking = [name for name in interpreter.size_fields if not at(body, *name.split("."))]
        why = "the hub does not know the defaults of its controller" if lacking else "a job has at least one pod"
        yield required(lacking[0] if lacking else field, f"{why}; the annotation {ANNOTATION_SIZE} says a size, too")
    elif stop:
        yield required(field, f"a job has at least one pod; to stop it, set {stop}: true")
    elif not interpreter.suspended(body):
        yield required(field, "a job has at least one pod")


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
