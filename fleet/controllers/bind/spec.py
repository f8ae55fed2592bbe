"""The fields of a binding that its object and its policy decide: made new, or corrected in an existing one.

Pure, so that every rule of "policy changed while the job waits / runs" can be read and tested in one place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fleet.admission.selecting import of_namespace, policy_reference
from fleet.bindings import binding as b
from fleet.bindings.components import WANTED, components_of, from_body
from fleet.bindings.conditions import condition, drop_condition, set_condition
from fleet.bindings.rules import annotations_of
from fleet.core.model.charge import beyond
from fleet.kinds import interpreter_of
from fleet.kinds.topology import placement_asked
from fleet.values.ports import Body
from fleet.values.times import rfc3339, rfc3339_micro
from fleet.wellknown import (
    ANNOTATION_AFTER,
    ANNOTATION_AT_MOST,
    ANNOTATION_BACKOFF_LIMIT,
    ANNOTATION_CHECKPOINT,
    ANNOTATION_CREATOR,
    ANNOTATION_ENQUEUED,
    ANNOTATION_FORCE_DELETE,
    ANNOTATION_HOLD,
    ANNOTATION_JOB_GENERATION,
    ANNOTATION_MOVE,
    ANNOTATION_NOTICE,
    ANNOTATION_POLICY,
    ANNOTATION_POLICY_GENERATION,
    ANNOTATION_QUEUEING,
    ANNOTATION_SUSPENDED,
    ANNOTATION_WALLTIME,
    ATTEMPT,
    FINALIZER_BINDING,
    LABEL_JOB_UID,
    LABEL_SWEEP,
    PREEMPTIBLE_LABELS,
    QUEUING,
    QUOTA_NAME_LABELS,
    RESIZED,
    SCHEDULED,
    WORK,
)

COPIED = (
    "placement",
    "failover",
    "propagateDeps",
    "conflictResolution",
    "preserveResourcesOnDeletion",
    "schedulerName",
)
COPIED_LABELS = (*QUOTA_NAME_LABELS, *PREEMPTIBLE_LABELS, LABEL_SWEEP)


@dataclass(frozen=True, slots=True)
class BindingInputs:
    """The inputs that a binding is derived from. `members`: of an object without pods, where it goes."""

    body: Body
    policy: Body
    gang: bool
    components: tuple[dict[str, Any], ...] = ()
    priority: int = 0
    members: tuple[str, ...] = ()
    suspended: bool = False  # suspended by its user, and not to start
    must_queue: str = ""  # why it waits in a queue although its policy does not say so

    @property
    def queue(self) -> bool:
        """Whether the gang is to wait in a queue."""
        said = bool((self.policy["spec"].get("suspension") or {}).get("scheduling"))
        return self.gang and (said or bool(self.must_queue))


def reference_to(body: Body) -> Body:
    """What an owner reference says of the object."""
    meta = body["metadata"]
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "name": meta["name"], "uid": meta["uid"]}


def new_binding(body: Body, inputs: BindingInputs, namespace: str, name: str, now: float) -> Body:
    """The binding with its first status, to be written at once."""
    meta, reference = body["metadata"], reference_to(body)
    resource = {**reference, **({"namespace": meta["namespace"]} if meta.get("namespace") else {})}
    binding: Body = {
        "apiVersion": f"{WORK}/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {LABEL_JOB_UID: meta["uid"]},
            "annotations": {ANNOTATION_ENQUEUED: rfc3339_micro(now)},
            "ownerReferences": [{**reference, "controller": True, "blockOwnerDeletion": True}],
            "finalizers": [FINALIZER_BINDING],
        },
        "spec": {"resource": resource},
        "status": {},
    }
    settle(binding, inputs, now)
    return binding


def settle(binding: Body, inputs: BindingInputs, now: float) -> bool:
    """Bring `binding` in line, in place; False when it was. Fields that decide, dispatch and observe write stay."""
    before = repr((binding["metadata"], binding["spec"], (binding.get("status") or {}).get("conditions")))
    _settle_metadata(binding, inputs)
    spec, policy = binding["spec"], inputs.policy["spec"]
    for name in COPIED:
        if policy.get(name) is not None and (name != "conflictResolution" or not of_namespace(inputs.policy)):
            spec[name] = policy[name]
        else:
            spec.pop(name, None)
    _settle_suspension(binding, inputs, now)
    if inputs.gang:
        spec["gang"] = True
        _settle_components(binding, inputs)
        spec["schedulePriority"] = {"priority": inputs.priority}
    else:
        _settle_members(binding, inputs, now)
    return repr((binding["metadata"], binding["spec"], (binding.get("status") or {}).get("conditions"))) != before


def _settle_components(binding: Body, inputs: BindingInputs) -> None:
    """Its requests. A gang that has its room may ask for less, and is charged for less once its pods are gone. A gang
    that asks for more keeps the components that it has, and decide gives it the others: nobody else adds to what is
    charged. A gang that leaves its member asks anew."""
    spec = binding["spec"]
    if inputs.suspended and not inputs.components and spec.get("components"):
        return  # stopped by having no pods: it keeps the size that it had, and asks anew when it has some
    if b.clusters_of(binding) or b.tasks_of(binding):
        had = components_of(binding)
        if beyond(map(from_body, inputs.components), had):
            if b.clusters_of(binding):
                spec[WANTED] = [dict(component) for component in inputs.components]
            return
    if spec.pop(WANTED, None) is not None:
        drop_condition(binding, RESIZED)
    spec["components"] = [dict(component) for component in inputs.components]


def _settle_metadata(binding: Body, inputs: BindingInputs) -> None:
    meta, source = binding["metadata"], inputs.body["metadata"]
    annotations = meta.setdefault("annotations", {})
    annotations[ANNOTATION_POLICY] = policy_reference(inputs.policy)
    annotations[ANNOTATION_POLICY_GENERATION] = str(inputs.policy["metadata"].get("generation", 0))
    annotations[ANNOTATION_JOB_GENERATION] = str(source.get("generation", 0))
    if inputs.queue:
        annotations[ANNOTATION_QUEUEING] = "true"
    else:
        annotations.pop(ANNOTATION_QUEUEING, None)
    for name, text in (
        (ANNOTATION_SUSPENDED, "true" if inputs.suspended else ""),
        (ANNOTATION_HOLD, b.annotation(inputs.body, ANNOTATION_HOLD)),
        (ANNOTATION_AFTER, b.annotation(inputs.body, ANNOTATION_AFTER) if inputs.gang else ""),
        (ANNOTATION_AT_MOST, b.annotation(inputs.body, ANNOTATION_AT_MOST) if inputs.gang else ""),
        (ANNOTATION_MOVE, b.annotation(inputs.body, ANNOTATION_MOVE) if inputs.gang else ""),
        (ANNOTATION_CREATOR, b.annotation(inputs.body, ANNOTATION_CREATOR)),
        (ANNOTATION_FORCE_DELETE, _either(inputs, ANNOTATION_FORCE_DELETE)),
        (ANNOTATION_NOTICE, _either(inputs, ANNOTATION_NOTICE) if inputs.gang else ""),
        (ANNOTATION_BACKOFF_LIMIT, _either(inputs, ANNOTATION_BACKOFF_LIMIT) if inputs.gang else ""),
        (ANNOTATION_CHECKPOINT, b.annotation(inputs.body, ANNOTATION_CHECKPOINT)),
        *_rules(inputs),
        (ANNOTATION_WALLTIME, _walltime(inputs)),
    ):
        if text:
            annotations[name] = text
        else:
            annotations.pop(name, None)
    if b.clusters_of(binding) or b.tasks_of(binding):
        return  # charged as admitted until it waits again
    labels = meta.setdefault("labels", {})
    for name in COPIED_LABELS:
        value = (source.get("labels") or {}).get(name)
        if value is not None:
            labels[name] = value
        else:
            labels.pop(name, None)


def _rules(inputs: BindingInputs) -> Iterable[tuple[str, str]]:
    """The annotations with the rules that the job asks for."""
    body = inputs.body
    interpreter = interpreter_of(body["apiVersion"], body["kind"]) if inputs.gang else None
    wishes = placement_asked(interpreter, body).rules if interpreter is not None else ()
    return annotations_of([one.rule for one in wishes]).items()


def _walltime(inputs: BindingInputs) -> str:
    body = inputs.body
    interpreter = interpreter_of(body["apiVersion"], body["kind"]) if inputs.gang else None
    limit = interpreter.walltime_s(body) if interpreter is not None else 0
    return str(limit) if limit else ""


def _either(inputs: BindingInputs, name: str) -> str:
    """An annotation: the job's word, else the policy's."""
    return b.annotation(inputs.body, name) or b.annotation(inputs.policy, name)


def _settle_suspension(binding: Body, inputs: BindingInputs, now: float) -> None:
    """Dispatching follows the policy at once. Scheduling only while the gang waits: a running gang is not stopped by
    it, and is charged from then on."""
    spec = binding["spec"]
    suspension = {k: v for k, v in (inputs.policy["spec"].get("suspension") or {}).items() if k != "scheduling"}
    if inputs.gang and not b.clusters_of(binding):
        if inputs.queue:
            suspension["scheduling"] = True
            queuing = condition(binding, QUEUING)
            if queuing is None or queuing["status"] != "True":
                set_condition(binding, QUEUING, True, "Enqueued", "", now)
        else:
            drop_condition(binding, QUEUING)
    elif b.queued(binding) or "scheduling" in (spec.get("suspension") or {}):
        suspension["scheduling"] = False
    if inputs.queue and b.clusters_of(binding) and not b.under_quota(binding) and not b.finished(binding):
        set_condition(binding, QUEUING, False, "Dequeued", "", now)
    if suspension:
        spec["suspension"] = suspension
    else:
        spec.pop("suspension", None)


def settle_unclaimed(binding: Body, now: float, *, queue: bool) -> bool:
    """Bring a binding in line that no policy stands behind any more, in place; False when it was. The binding keeps its
    room. `queue`: should the binding wait, it waits in a queue."""
    annotations = binding["metadata"].setdefault("annotations", {})
    changed = annotations.pop(ANNOTATION_POLICY, None) is not None
    if not queue or not b.is_gang(binding) or b.clusters_of(binding) or b.tasks_of(binding) or b.queued(binding):
        return changed
    annotations[ANNOTATION_QUEUEING] = "true"
    binding["spec"].setdefault("suspension", {})["scheduling"] = True
    set_condition(binding, QUEUING, True, "Enqueued", "", now)
    return True


def _settle_members(binding: Body, inputs: BindingInputs, now: float) -> None:
    binding["metadata"]["annotations"].setdefault(ATTEMPT, "1")
    if b.clusters_of(binding) != inputs.members:
        binding["spec"]["clusters"] = [{"name": name} for name in inputs.members]
        binding.setdefault("status", {})["lastScheduledTime"] = rfc3339(now)
    if inputs.members:
        set_condition(binding, SCHEDULED, True, "Success", "Binding has been scheduled successfully.", now)
    else:
        set_condition(binding, SCHEDULED, False, "NoClusterFit", "No member matches the policy's placement.", now)
