"""The refusals of the training operator for each kubeflow.org kind, beyond the schema (its release 1.9).

A job that it refuses would queue, be placed, be refused by the member, and come back, again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from api.admission.causes import forbidden, required, unsupported
from api.engine.status import Cause, cut
from api.objects.writing import Review
from fleet.values.ports import Body
from fleet.values.untyped import mapping, rows, text

_APART = ("status", "finalize")
_SHOWN_MAX = 3  # names of containers in a refusal


@dataclass(frozen=True, slots=True)
class JobOperator:
    """`field`: the map of replica types in the spec. `container`: the one that it starts in, "" for the first. `types`:
    the replica types that it knows, none for any. `leader`: the type of which there is one pod; `led`: there must be
    one. `rivals`: types of which one at most."""

    field: str
    container: str = ""
    types: tuple[str, ...] = ()
    leader: str = ""
    led: bool = False
    rivals: tuple[str, ...] = ()
    services: bool = True  # each pod has a Service of its name


OPERATORS: Mapping[str, JobOperator] = {
    "PyTorchJob": JobOperator("pytorchReplicaSpecs", "pytorch", ("Master", "Worker"), "Master"),
    "TFJob": JobOperator("tfReplicaSpecs", "tensorflow", rivals=("Chief", "Master")),
    "MPIJob": JobOperator("mpiReplicaSpecs", "", ("Launcher", "Worker"), "Launcher", led=True, services=False),
    "JAXJob": JobOperator("jaxReplicaSpecs", "jax", ("Worker",)),
    "PaddleJob": JobOperator("paddleReplicaSpecs", "paddle", ("Master", "Worker")),
    "XGBoostJob": JobOperator("xgbReplicaSpecs", "xgboost", ("Master", "Worker"), "Master", led=True),
}


def asked_anew(review: Review) -> bool:
    """Whether the write brings a spec. An object that was stored before a rule came may go on as it is."""
    if review.new is None or review.subresource in _APART:
        return False
    return review.old is None or bool(review.new.get("spec") != review.old.get("spec"))


def taken_by_operator(operator: JobOperator) -> Callable[[Review], Sequence[Cause]]:
    """The check of a job of its kind."""
    field = operator.field

    def check(review: Review) -> Sequence[Cause]:
        if review.new is None or not asked_anew(review):
            return ()
        return list(_refused(operator, f"spec.{field}", mapping(mapping(review.new.get("spec")).get(field))))

    return check


def _refused(operator: JobOperator, where: str, specs: Body) -> Iterator[Cause]:
    known = {name.lower(): name for name in operator.types}
    for name, given in specs.items():
        spec = mapping(given)
        if known and name.lower() not in known:
            yield unsupported(f"{where}.{name}", name, operator.types)
        count = spec.get("replicas")
        if name.lower() == operator.leader.lower() and count is not None and count != 1:
            yield forbidden(f"{where}.{name}.replicas", f"there is one {operator.leader}: must be 1")
        yield from _container(operator, f"{where}.{name}.template.spec.containers", spec)
    there = {name.lower() for name in specs}
    if specs and operator.led and operator.leader.lower() not in there:
        yield required(f"{where}.{operator.leader}", f"the operator needs a {operator.leader}")
    if len(there.intersection(name.lower() for name in operator.rivals)) > 1:
        yield forbidden(where, f"must not have more than one of {' and '.join(operator.rivals)}")


def _container(operator: JobOperator, where: str, spec: Mapping[str, Any]) -> Iterator[Cause]:
    containers = rows(mapping(mapping(spec.get("template")).get("spec")).get("containers"))
    names = [text(container.get("name")) for container in containers]
    if operator.container and names and operator.container not in names:
        found = ", ".join(map(cut, names[:_SHOWN_MAX]))
        yield required(where, f'the operator needs a container named "{operator.container}", and finds {found}')
