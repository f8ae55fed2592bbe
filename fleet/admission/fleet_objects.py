"""Fleet's own objects: the fields of bindings and units that users may change, and the form of a member.

Controllers write through `Objects.change`, which asks no rules: the rules are for people.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from api.admission.causes import duplicate, forbidden, invalid, required, unsupported
from api.admission.labelselectors import selector_faults
from api.admission.rule import Checks, dig, of_new, only_mutable
from api.engine.status import Cause
from api.objects.objects import Objects
from api.objects.writing import Review
from fleet.admission.statuses import made_by_hub, status_by_hub
from fleet.kinds.gangs import BY_NAME, NONE, unknown
from fleet.members.gpusource import faults
from fleet.members.placetrees import topology_faults
from fleet.members.potential import BadPotential, read_groups
from fleet.values.ports import Body, Key
from fleet.values.untyped import mapping
from fleet.wellknown import (
    ANNOTATION_CHECKS_TIMEOUT,
    ANNOTATION_GANG,
    ANNOTATION_POTENTIAL,
    MAX_DEPTH_ANNOTATIONS,
    PODS_RUNNING_ANNOTATIONS,
    QUOTA_NAME_LABELS,
    THRESHOLD_ANNOTATIONS,
)
from fleet.wellknown import CLUSTER as CLUSTERS

OUR_ID = Key("", "namespaces", "", "kube-system")  # its uid tells clusters apart
_WHOLE, _SECONDS = re.compile(r"-?[0-9]{1,10}"), re.compile(r"[1-9][0-9]{0,8}")
_DEPTH, _BOOL = re.compile(r"-1|[0-9]{1,9}"), re.compile(r"true|false")
_QUEUE_OPTIONS = (
    *(
        (name, _WHOLE, "must be a whole number: the priority from which on a job blocks the queue")
        for name in THRESHOLD_ANNOTATIONS
    ),
    *((name, _DEPTH, "must be a whole number of jobs; -1 for all") for name in MAX_DEPTH_ANNOTATIONS),
    *((name, _BOOL, 'must be "true" or "false"') for name in PODS_RUNNING_ANNOTATIONS),
    (ANNOTATION_CHECKS_TIMEOUT, _SECONDS, "must be a whole number of seconds, above zero"),
)
_MODES = ("Push", "Pull")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def cluster(body: Body) -> Sequence[Cause]:
    spec, causes = body.get("spec") or {}, []
    if spec.get("syncMode") not in (None, *_MODES):
        causes.append(unsupported("spec.syncMode", spec["syncMode"], _MODES))
    endpoint = spec.get("apiEndpoint")
    if endpoint and (urlsplit(str(endpoint)).scheme not in ("http", "https") or not urlsplit(str(endpoint)).hostname):
        causes.append(invalid("spec.apiEndpoint", endpoint, "must be the address of an API server, https://HOST:PORT"))
    for index, taint in enumerate(spec.get("taints") or []):
        if taint.get("effect") not in _EFFECTS:
            causes.append(unsupported(f"spec.taints[{index}].effect", taint.get("effect"), _EFFECTS))
        if not taint.get("key"):
            causes.append(invalid(f"spec.taints[{index}].key", taint.get("key") or "", "must not be empty"))
    text = (body["metadata"].get("annotations") or {}).get(ANNOTATION_POTENTIAL, "")
    try:
        read_groups(text)
    except BadPotential as error:
        causes.append(invalid(f"metadata.annotations[{ANNOTATION_POTENTIAL}]", text, str(error)))
    gang = (body["metadata"].get("annotations") or {}).get(ANNOTATION_GANG, "")
    if unknown(gang):
        known = (NONE, *BY_NAME)
        causes.append(unsupported(f"metadata.annotations[{ANNOTATION_GANG}]", gang, known))
    if "metrics" in spec:
        for field, value, why in faults(mapping(spec["metrics"])):
            causes.append(invalid(f"spec.metrics.{field}".rstrip("."), value, why))
    return [*causes, *_places(spec)]


def _places(spec: Body) -> Iterator[Cause]:
    """What is wrong with where a Cluster says that its nodes stand."""
    for where, value, why in topology_faults(spec.get("topology")):
        yield invalid(f"spec.topology{where}", value, why)
    yield from selector_faults("spec.hyperNodeSelector", mapping(spec.get("hyperNodeSelector")))


def _id_stays(review: Review) -> Sequence[Cause]:
    """The id, once known, says which cluster this is: another one is another Cluster."""
    before, now = dig(review.old, "spec.id"), dig(review.new, "spec.id")
    if review.new is None or review.subresource or not before or now == before:
        return ()
    return [invalid("spec.id", now, "field is immutable once it is set")]


async def _id_is_its_own(review: Review, objects: Objects) -> Sequence[Cause]:
    """One cluster has one name, and the hub is no member of itself: it would send each job to where it came from."""
    now = dig(review.new, "spec.id")
    if review.new is None or review.subresource or not now or now == dig(review.old, "spec.id"):
        return ()
    ours = await objects.store.get(OUR_ID)
    if ours is not None and ours.uid == now:
        return [invalid("spec.id", now, "this is the hub itself: name the kubeconfig of a cluster that runs jobs")]
    name = review.new["metadata"].get("name")
    for other in objects.store.scan(CLUSTERS, "clusters"):
        if other.key.name != name and dig(other.body, "spec.id") == now:
            return [invalid("spec.id", now, f"this cluster is joined already, as {other.key.name}")]
    return ()


_people_may_change = only_mutable("active", "priority", "priorityClassName", "maximumExecutionTimeSeconds")


def _unit(review: Review) -> Sequence[Cause]:
    """The queue follows from the job, so that there is one place to change it. Of the status others write the answers
    to admission checks."""
    if review.subresource == "status" and review.new is not None:
        new, old = mapping(review.new.get("status")), mapping((review.old or {}).get("status"))
        changed = sorted(name for name in {*new, *old} if name != "admissionChecks" and new.get(name) != old.get(name))
        said = "Fleet keeps this field; others may change status.admissionChecks"
        return [forbidden(f"status.{name}", said) for name in changed]
    why = f"Fleet keeps this field; to move the job to another queue, label the job {QUOTA_NAME_LABELS[0]}=LEAF"
    moved = forbidden("spec.queue", why)
    return [moved if cause.field == moved.field else cause for cause in _people_may_change(review)]


def _held_later(review: Review) -> Sequence[Cause]:
    """A unit that a person makes inactive while it runs is not stopped; the write only warns."""
    phase, off = dig(review.old, "status.phase"), dig(review.new, "spec.active") is False
    if off and phase in ("Dequeued", "Running") and dig(review.old, "spec.active") is not False:
        said = "spec.active: false keeps a job from starting: this one runs on, and is held when it next waits"
        review.warnings.append(said)
    return ()


async def _known_class(review: Review, objects: Objects) -> Sequence[Cause]:
    name = dig(review.new, "spec.priorityClassName")
    if not name or review.subresource or name == dig(review.old, "spec.priorityClassName"):
        return ()
    kind = objects.registry.need("scheduling.k8s.io", "priorityclasses")
    if await objects.store.get(Key(kind.group, kind.resource, "", name)) is not None:
        return ()
    return [invalid("spec.priorityClassName", name, "there is no PriorityClass of this name")]


def queue(body: Body) -> Sequence[Cause]:
    """The settings of a Queue: options in annotations, and each check once."""
    causes, annotations = [], body["metadata"].get("annotations") or {}
    for name, pattern, why in _QUEUE_OPTIONS:
        text = annotations.get(name)
        if text is not None and not pattern.fullmatch(str(text)):
            causes.append(invalid(f"metadata.annotations[{name}]", text, why))
    names: set[str] = set()
    for index, check in enumerate((body.get("spec") or {}).get("admissionChecks") or ()):
        where = f"spec.admissionChecks[{index}].name"
        if not check.get("name"):
            causes.append(required(where, "every check has a name"))
        elif check["name"] in names:
            causes.append(duplicate(where, check["name"]))
        names.add(check.get("name"))
    return causes


QUEUE = Checks(status_by_hub, of_new(queue))
CLUSTER = Checks(status_by_hub, of_new(cluster), _id_stays, ask=_id_is_its_own)
# bind makes each binding right again that is not as its policy and its object say.
RESOURCE_BINDING = Checks(made_by_hub, status_by_hub, only_mutable(instead="its policy and its object say what it is"))
QUEUE_UNIT = Checks(made_by_hub, _unit, _held_later, ask=_known_class)
