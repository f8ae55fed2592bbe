"""Whose fault a failed job is: its own, or that of a node or the infrastructure. Pure, from what its pods show.

One sign of the infrastructure decides for the whole gang: when one node dies, the programs on all the others fail with
exit codes of their own. Without such a sign the fault is the job's, since a program that always fails would otherwise
be moved for ever. TABLE is the whole rule; docs/how-to/move-and-fail-over.md prints it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fleet.bindings import binding as b
from fleet.bindings.failures import failed, failures_max, failures_of
from fleet.core.model.pod import PodView
from fleet.values.ports import Body
from fleet.values.untyped import mapping, text, texts

NODES_MAX = 16  # that one failure names
FAILURE = "failure"  # in a binding's status, from the time when its member says Failed
# A pod that used more of its own disk than it may is evicted by the same name as one whose node ran short.
_OWN_LIMIT = re.compile(r"exceed(s|ed)? .*limit", re.IGNORECASE)

# sign, value, whether it is the infrastructure's, meaning
TABLE: tuple[tuple[str, str, bool, str], ...] = (
    ("condition DisruptionTarget", "any reason", True, "preempted, evicted by API or taint, collected with its node"),
    ("pod reason", "Evicted", True, "its node ran short of memory, disk or process ids"),
    ("pod reason", "Evicted, over its own limit", False, "it used more local disk than its own limit"),
    ("pod reason", "NodeLost", True, "its node does not answer"),
    ("pod reason", "NodeShutdown", True, "its node shut down"),
    ("pod reason", "Shutdown", True, "its node shut down"),
    ("pod reason", "Terminated", True, "its node shut down"),
    ("pod reason", "Preempting", True, "its node made room for a critical pod"),
    ("pod reason", "Preempted", True, "the member's scheduler made room for another pod"),
    ("pod reason", "NodeAffinity", True, "its node changed its labels"),
    ("pod reason", "UnexpectedAdmissionError", True, "its node refused it: a device is broken or missing"),
    ("pod reason", "DeletionByTaintManager", True, "its node got a NoExecute taint"),
    ("pod reason", "TerminationByKubelet", True, "its node ended it"),
    ("pod reason", "OutOf…", True, "its node had no room after all (OutOfcpu, OutOfmemory, OutOfpods, …)"),
    ("pod reason", "DeadlineExceeded", False, "it ran longer than its activeDeadlineSeconds"),
    ("container reason", "ContainerStatusUnknown", True, "its node lost track of it"),
    ("container reason", "OOMKilled", False, "it used more memory than its limit (exit code 137)"),
    ("node", "not ready, or gone", True, "a pod of the gang lies there and has not succeeded"),
    ("exit code", "any other", False, "the program failed; 137 and 143 without a sign above are its own, too"),
)
_REASONS = {value: theirs for sign, value, theirs, _ in TABLE if sign == "pod reason"}
_CONTAINERS = {value: theirs for sign, value, theirs, _ in TABLE if sign == "container reason"}


@dataclass(frozen=True, slots=True)
class AttemptFault:
    """`nodes`: those that the signs of the infrastructure name; empty for the job's own fault. `lost`: its copy is gone
    from its member, so nobody knows its end. `final`: its kind says that it is not to be tried again."""

    infrastructure: bool = False
    why: str = ""
    nodes: tuple[str, ...] = ()
    lost: bool = False
    final: bool = False


def fault_of(pods: Iterable[PodView], node_ready: Callable[[PodView], bool]) -> AttemptFault:
    """The fault of a job that has failed. `node_ready`: whether the node of a pod is there and ready."""
    signs = [(pod, sign) for pod in sorted(pods, key=lambda pod: pod.name) if (sign := _sign(pod, node_ready))]
    if not signs:
        return AttemptFault()
    pod, sign = signs[0]
    nodes = dict.fromkeys(pod.node for pod, _ in signs if pod.node)
    return AttemptFault(True, f"{pod.name}: {sign}", tuple(nodes)[:NODES_MAX])


def _sign(pod: PodView, node_ready: Callable[[PodView], bool]) -> str:
    """The sign of the infrastructure that the pod shows; "" for none."""
    if pod.node and pod.phase != "Succeeded" and not node_ready(pod):
        return f"node {pod.node} is not ready or gone"
    if pod.phase != "Failed":
        return ""
    if pod.disruption:
        return f"DisruptionTarget ({pod.disruption})"
    reason = pod.failed_with
    theirs = _REASONS.get(reason, reason.startswith("OutOf"))
    if theirs and not (reason == "Evicted" and _OWN_LIMIT.search(pod.reason)):
        return reason
    return next((said for _, said in pod.exits if _CONTAINERS.get(said)), "")


def to_body(fault: AttemptFault) -> Body:
    marks = {name: True for name, true in (("lost", fault.lost), ("final", fault.final)) if true}
    return {"infrastructure": fault.infrastructure, "why": fault.why, "nodes": list(fault.nodes), **marks}


def fault_in(binding: Body) -> AttemptFault | None:
    """The fault that was seen when its member said Failed; None before, and for one of an older release."""
    said: Any = b.status_of(binding).get(FAILURE)
    if said.__class__ is not dict:
        return None
    theirs, lost, final = (mapping(said).get(name) is True for name in ("infrastructure", "lost", "final"))
    return AttemptFault(theirs, text(said.get("why")), texts(said.get("nodes")), lost, final)


def moves_again(binding: Body) -> bool:
    """Whether its policy takes the job to another member when it has failed, and may do so once more."""
    wanted = mapping(b.spec_of(binding).get("failover")).get("application")
    if wanted is None or mapping(wanted).get("purgeMode") == "Never" or not b.is_gang(binding):
        return False
    fault = fault_in(binding)
    if fault is not None and fault.final:
        return False
    user = fault is None or not fault.infrastructure
    return failed(failures_of(binding), user=user) < failures_max(binding, user=user)
