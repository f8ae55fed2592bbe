"""The PriorityClasses that the pods of a job name: they travel with the job, though they are objects of the whole
member. Pure.

The admission of a member refuses a pod whose class is not there, so without it the job would never start. A class gives
a right to all namespaces of a member, so the hub is narrow about it (docs/decisions/0026).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fleet.admission.references import PRIORITY
from fleet.kinds.interpreter import Dependency, Interpreter
from fleet.values.ports import Body
from fleet.values.untyped import at, text

KIND = "PriorityClass"
RESOURCE = (PRIORITY, "priorityclasses")
_SYSTEM = "system-"  # names that Kubernetes keeps for itself
_FIXED = ("value", "preemptionPolicy")  # never change in a class that exists
_DEFAULTS = {"preemptionPolicy": "PreemptLowerPriority"}


def classes_of(job: Body, interpreter: Interpreter) -> frozenset[Dependency]:
    """The classes that the pods of the job name, and the job beside them. `job`: the manifest for a member."""
    found = classes_of_pods(template.template for template in interpreter.templates(job))
    if interpreter.priority_class_field:
        found |= _sendable(text(at(job, *interpreter.priority_class_field.split("."))))
    return found


def classes_of_pods(pods: Iterable[Mapping[str, Any]]) -> frozenset[Dependency]:
    """The classes that these pods, or templates of pods, name."""
    return _sendable(*(text(at(pod.get("spec"), "priorityClassName")) for pod in pods))


def _sendable(*names: str) -> frozenset[Dependency]:
    return frozenset((KIND, "", name) for name in names if name and not name.startswith(_SYSTEM))


def narrowed(body: Body) -> Body:
    """The class without what would reach pods that do not name it, in place."""
    body.pop("globalDefault", None)
    return body


def difference(wanted: Body, there: Body) -> str:
    """The fields in which two classes of one name differ, in words; "" for none that matters to a pod."""
    said = [
        f"{field} {have}, not {want}"
        for field in _FIXED
        if (want := wanted.get(field, _DEFAULTS.get(field))) != (have := there.get(field, _DEFAULTS.get(field)))
    ]
    return " and ".join(said)
