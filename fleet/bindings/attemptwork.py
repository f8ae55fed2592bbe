"""Whether an attempt has done work in its member, so that a copy which is gone from there is not sent a second time."""

from __future__ import annotations

from collections.abc import Iterable

from fleet.bindings import binding as b
from fleet.bindings.conditions import is_true
from fleet.bindings.faults import AttemptFault, fault_in
from fleet.core.model.pod import PodView
from fleet.kinds import JobState, interpreter_of
from fleet.values.ports import Body
from fleet.wellknown import GANG_WHOLE

_RAN = (JobState.RUNNING, JobState.SUCCEEDED, JobState.FAILED)


def ran(binding: Body, pods: Iterable[PodView]) -> bool:
    """Whether the copy of this attempt has run, as its status or its pods have shown it. False for a kind without an
    end: such a job has no work that could be done twice. `pods`: those of the binding."""
    resource, members = b.resource_of(binding), b.clusters_of(binding)
    interpreter = interpreter_of(resource.get("apiVersion"), resource.get("kind"))
    if interpreter is None or not interpreter.ends or not b.is_gang(binding) or not members:
        return False
    shown = (copy.get("status") for copy in b.copies_of(binding) if copy.get("clusterName") == members[0])
    return (
        is_true(binding, GANG_WHOLE)
        or any(interpreter.state(status).state in _RAN for status in shown)
        or any(
            pod.node and not pod.placeholder and (pod.member, pod.attempt) == (members[0], b.attempt(binding))
            for pod in pods
        )
    )


def lost_in(binding: Body) -> AttemptFault | None:
    """The fault of a job whose copy was gone after it ran; None for every other job."""
    fault = fault_in(binding) if b.outcome_of(binding) == "Failed" else None
    return fault if fault is not None and fault.lost else None
