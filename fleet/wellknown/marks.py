"""The marks: every label, annotation and finalizer that Fleet works with, and the writer of each.

One table for admission, for the manifests that go to members, and for docs/reference/marks.md. A mark of the hub that a
client writes is refused. The hub concludes from it the charge of a job, its objects in a member, and their owner.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from fleet import wellknown as w

PREFIX = "fleet.io/"
# Keys of other projects that name placements and ownership of a multi-cluster control plane: none of them is read here,
# and none may claim an object in a member that runs such a control plane as well.
FOREIGN_PREFIXES = ("work.karmada.io/", "propagationpolicy.karmada.io/", "clusterpropagationpolicy.karmada.io/")
# The keys that an override of a tenant leaves alone beside these, since they say which leaf a job is charged to, and
# where it waits.
QUEUE_PREFIXES = (
    "kube-queue/",
    "koord-queue/",
    "quota.scheduling.alibabacloud.com/",
    "quota.scheduling.koordinator.sh/",
)


class Writer(StrEnum):
    """`ADMINISTRATOR`: the key stands on an object that only administrators may write; RBAC is what keeps it."""

    USER = "user"
    ADMINISTRATOR = "administrator"
    HUB = "hub"


@dataclass(frozen=True, slots=True)
class Mark:
    """One key. `on`: the objects that it means something on. `place`: label, annotation, or both."""

    key: str
    writer: Writer
    place: str
    on: str
    meaning: str


_JOB, _POLICY, _BINDING, _UNIT = "jobs", "policies", "bindings", "units"
_TEMPLATES = "jobs, pod templates"
_COPY = "objects in members"
_ENTRIES: tuple[tuple[str, Writer, str, str, str], ...] = (
    (w.ANNOTATION_HOLD, Writer.USER, "annotation", _JOB, '"true" keeps a waiting job from starting'),
    (w.ANNOTATION_MOVE, Writer.USER, "annotation", _JOB, "the member of its next placement; goes once it is there"),
    (w.ANNOTATION_TAKES_OVER, Writer.USER, "annotation", _JOB, '"true" takes over the copy of an earlier one'),
    (w.ANNOTATION_NOTIFY, Writer.USER, "annotation", _JOB, "receivers of notifications: NAME[=EVENT+EVENT][,NAME...]"),
    (w.ANNOTATION_AFTER, Writer.USER, "annotation", _JOB, "jobs after which it starts: NAME[:ok|:any][,NAME...]"),
    (w.LABEL_SWEEP, Writer.USER, "label", _JOB, "the sweep or array that the job belongs to"),
    (w.ANNOTATION_SWEEP_VALUES, Writer.USER, "annotation", _JOB, "JSON, the parameters of the job in its sweep"),
    (w.ANNOTATION_SWEEP_PLACE, Writer.USER, "annotation", _JOB, "3/10: the third of the ten jobs of its sweep"),
    (w.ANNOTATION_AT_MOST, Writer.USER, "annotation", _JOB, "so many jobs of its sweep run at once"),
    (w.ANNOTATION_TOPOLOGY, Writer.USER, "annotation", _TEMPLATES, "levels: the pods stand in one domain of each"),
    (w.ANNOTATION_PREFERRED_TOPOLOGY, Writer.USER, "annotation", _TEMPLATES, "levels: in one domain, else in few"),
    (w.ANNOTATION_SLICES, Writer.USER, "annotation", _TEMPLATES, "LEVEL=PODS: so many pods each in one domain"),
    (w.ANNOTATION_MOST_PER_DOMAIN, Writer.USER, "annotation", _TEMPLATES, "LEVEL=PODS: no more in one domain"),
    (w.ANNOTATION_EVEN_TOPOLOGY, Writer.USER, "annotation", _TEMPLATES, "levels: evenly over few domains"),
    (w.KUEUE_TOPOLOGY, Writer.USER, "annotation", _TEMPLATES, "as fleet.io/required-topology, of one level"),
    (w.KUEUE_PREFERRED_TOPOLOGY, Writer.USER, "annotation", _TEMPLATES, "as fleet.io/preferred-topology"),
    (w.KUEUE_UNCONSTRAINED, Writer.USER, "annotation", _TEMPLATES, '"true": the pods stand anywhere, as without it'),
    (w.KUEUE_SLICES, Writer.USER, "annotation", _TEMPLATES, "as fleet.io/slices, with the next for the number"),
    (w.KUEUE_SLICE_SIZE, Writer.USER, "annotation", _TEMPLATES, "the pods of each slice"),
    (w.KUEUE_LAYERS, Writer.USER, "annotation", _TEMPLATES, "JSON, slices of up to three layers"),
    (w.KUEUE_GROUP, Writer.USER, "annotation", "pod templates", "those of one name stand together"),
    (w.KAI_TOPOLOGY, Writer.USER, "annotation", _TEMPLATES, "as fleet.io/required-topology, of one level"),
    (w.KAI_PREFERRED_TOPOLOGY, Writer.USER, "annotation", _TEMPLATES, "as fleet.io/preferred-topology"),
    (w.VOLCANO_AFFINITY, Writer.USER, "annotation", _JOB, "tasks that stand on one node, or on few"),
    (w.VOLCANO_ANTI_AFFINITY, Writer.USER, "annotation", _JOB, "warned of; read in a member with Volcano"),
    (w.ANNOTATION_SIZE, Writer.USER, "annotation", _JOB, "pods at once and their requests, where no template has them"),
    (w.ANNOTATION_MIN_REPLICAS, Writer.USER, "annotation", _JOB, "replicas that are enough to start, of some kinds"),
    (w.ANNOTATION_BACKOFF_LIMIT, Writer.USER, "annotation", "jobs, policies", "attempts before a job is held"),
    (w.ANNOTATION_FORCE_DELETE, Writer.USER, "annotation", "jobs, policies", "seconds until pods that stay are killed"),
    (w.ANNOTATION_NOTICE, Writer.USER, "annotation", "jobs, policies", "seconds of notice before an eviction"),
    (w.ANNOTATION_CHECKPOINT, Writer.USER, "annotation", "jobs, their pods", "work up to this time is saved"),
    *((key, Writer.USER, "label", _JOB, "the leaf that the job is charged to") for key in w.QUOTA_NAME_LABELS),
    *((key, Writer.USER, "label", _JOB, '"false": never evicted for others') for key in w.PREEMPTIBLE_LABELS),
    (w.LABEL_TEMPLATE, Writer.USER, "label", "configmaps", '"true": a template of `fleet run`'),
    (w.LABEL_CODE, Writer.USER, "label", "configmaps", "the job that it is sent to a member with, whatever the policy"),
    (w.ANNOTATION_FORCE_REMOVAL, Writer.ADMINISTRATOR, "annotation", "clusters", '"true" gives up what is unreachable'),
    (w.ANNOTATION_POTENTIAL, Writer.ADMINISTRATOR, "annotation", "clusters", "nodes that an autoscaler could add"),
    (w.ANNOTATION_RESERVATION, Writer.ADMINISTRATOR, "annotation", "clusters", '"true" holds room before jobs start'),
    (w.ANNOTATION_GANG, Writer.ADMINISTRATOR, "annotation", "clusters", "the gang scheduler there, or None"),
    (w.LABEL_PRICE, Writer.ADMINISTRATOR, "label", "clusters", "the price of a GPU hour there"),
    (w.ANNOTATION_CHECKS_TIMEOUT, Writer.ADMINISTRATOR, "annotation", "queues", "how long a unit stays Reserved"),
    *(
        (key, Writer.ADMINISTRATOR, "annotation", "queues", "priority from which on a job blocks an Intelligent queue")
        for key in w.THRESHOLD_ANNOTATIONS
    ),
    *(
        (key, Writer.ADMINISTRATOR, "annotation", "queues", "jobs considered at once")
        for key in w.MAX_DEPTH_ANNOTATIONS
    ),
    *(
        (key, Writer.ADMINISTRATOR, "annotation", "queues", "one job starts at a time")
        for key in w.PODS_RUNNING_ANNOTATIONS
    ),
    *(
        (key, Writer.ADMINISTRATOR, "annotation", "queues", "queueItemDetails is left as it is")
        for key in w.HIDE_ITEMS_ANNOTATIONS
    ),
    (w.LABEL_HUB, Writer.HUB, "label", _COPY, "id of the hub that owns the object"),
    (w.LABEL_BINDING, Writer.HUB, "label", _COPY, "uid of the binding that wants it"),
    (w.LABEL_COMPONENT, Writer.HUB, "label", "pods in members", "component of the gang"),
    (w.ATTEMPT, Writer.HUB, "both", f"{_COPY}, bindings", "number of the placement"),
    (w.LABEL_PLACEHOLDER, Writer.HUB, "label", "pods in members", '"true": keeps room for a pod of the job'),
    (w.LABEL_JOB_UID, Writer.HUB, "label", _BINDING, "uid of the object that it propagates"),
    (w.LABEL_OWNERLESS, Writer.HUB, "label", _BINDING, '"true": its object is gone, and its copy is in a member'),
    (w.ANNOTATION_USERS, Writer.HUB, "annotation", "dependencies in members", "uids of the bindings that use the copy"),
    (w.ANNOTATION_JOB, Writer.HUB, "annotation", _COPY, "namespace/name of the job on the hub"),
    (w.ANNOTATION_HASH, Writer.HUB, "annotation", _COPY, "digest of what was applied"),
    (w.ANNOTATION_SENT, Writer.HUB, "annotation", _COPY, "term and revision of the hub when it was sent"),
    (w.ANNOTATION_SIZES, Writer.HUB, "annotation", "jobs in members", "the pods by component that the hub asked for"),
    (w.ANNOTATION_PINS, Writer.HUB, "annotation", "jobs in members", "node affinities that the hub added"),
    (w.ANNOTATION_AVOIDED, Writer.HUB, "annotation", "jobs in members", "nodes that its pods keep off"),
    (w.ANNOTATION_EVICT_AT, Writer.HUB, "annotation", "jobs and pods in members", "they are deleted at this time"),
    (w.ANNOTATION_EVICT_WHY, Writer.HUB, "annotation", "jobs and pods in members", "why they are deleted then"),
    (w.FINALIZER_BINDING, Writer.HUB, "finalizer", _BINDING, "something of it may be left in a member"),
    (w.FINALIZER_CLUSTER, Writer.HUB, "finalizer", "clusters", "its copies are not withdrawn yet"),
    (w.ANNOTATION_CREATOR, Writer.HUB, "annotation", f"{_JOB}, {_BINDING}", "the authenticated user who created it"),
    (w.ANNOTATION_BYPASSES, Writer.HUB, "annotation", _POLICY, "the writer, and the queues that she may pass"),
    (w.ANNOTATION_POLICY, Writer.HUB, "annotation", _BINDING, "the policy that it follows"),
    (w.ANNOTATION_POLICY_GENERATION, Writer.HUB, "annotation", _BINDING, "generation of that policy"),
    (w.ANNOTATION_JOB_GENERATION, Writer.HUB, "annotation", _BINDING, "generation of its object"),
    (w.ANNOTATION_ENQUEUED, Writer.HUB, "annotation", _BINDING, "when it was first enqueued"),
    (w.ANNOTATION_RETRIES, Writer.HUB, "annotation", _BINDING, "attempts that came to nothing"),
    (w.ANNOTATION_STATE, Writer.HUB, "annotation", _BINDING, "the state that its next attempt gets"),
    (w.ANNOTATION_AFTER_SEEN, Writer.HUB, "annotation", _BINDING, "what the hub has seen of the jobs before it"),
    (w.ANNOTATION_QUEUEING, Writer.HUB, "annotation", _BINDING, "its policy wants it queued"),
    (w.ANNOTATION_WALLTIME, Writer.HUB, "annotation", _BINDING, "seconds after which its member ends the job"),
    (w.ANNOTATION_SUSPENDED, Writer.HUB, "annotation", _BINDING, "its job is suspended"),
    (w.LABEL_GANG, Writer.HUB, "label", "pods in members", "the PodGroup of Kubernetes that they belong to"),
    (w.ANNOTATION_ROOM, Writer.HUB, "annotation", _BINDING, "how its room in the member was held"),
    (w.ANNOTATION_RULES, Writer.HUB, "annotation", _BINDING, "the rules about where its pods stand"),
    (w.ANNOTATION_DOMAIN, Writer.HUB, "annotation", _BINDING, "the value of its topology label"),
    (w.ANNOTATION_PRIORITY, Writer.HUB, "annotation", _UNIT, "the priority that its job gives"),
    (w.ANNOTATION_PRIORITY_CLASS, Writer.HUB, "annotation", _UNIT, "the priority class that its job gives"),
    (w.ANNOTATION_QUOTA_FULLNAME, Writer.HUB, "annotation", "queues", "path of the quota node"),
    (w.ANNOTATION_QUOTA_PARENT, Writer.HUB, "annotation", "queues", "path of its parent"),
    (w.ANNOTATION_HEARTBEAT, Writer.HUB, "annotation", "the controllers' Lease", "state of the leader and its members"),
    (w.ANNOTATION_TUNNEL, Writer.HUB, "annotation", "an agent's Lease", "address of the API process that holds it"),
    (w.ANNOTATION_SEEDED, Writer.HUB, "annotation", "customresourcedefinitions", "digest of the spec that Fleet wrote"),
)
TABLE: dict[str, Mark] = {entry[0]: Mark(*entry) for entry in _ENTRIES}
HUB_KEYS = frozenset(key for key, mark in TABLE.items() if mark.writer is Writer.HUB)
# The creator travels: operators of a member may want to know whose a job is, and nothing of Fleet reads it there.
# Wishes about the way through the hub say nothing in a member, and would be changes of the copy.
_STAYS = HUB_KEYS - {w.ANNOTATION_CREATOR} | {
    w.ANNOTATION_MOVE,
    w.ANNOTATION_AFTER,
    w.ANNOTATION_AT_MOST,
    w.ANNOTATION_NOTIFY,
}


def reserved(key: str) -> bool:
    """Whether only the table says who may write this label, annotation or finalizer."""
    return key in TABLE or key.startswith((PREFIX, *FOREIGN_PREFIXES))


def fixed_for_tenants(key: str) -> bool:
    """Whether an override of a tenant must leave the key alone."""
    return reserved(key) or key.startswith(QUEUE_PREFIXES)


def kept_from(old: Iterable[str], new: Iterable[str]) -> set[str]:
    """The hub's keys among `old` that `new` leaves out."""
    return set(HUB_KEYS.intersection(old).difference(new))


def problem(key: str) -> str:
    """Why a client may not write this reserved key; "" when it may."""
    mark = TABLE.get(key)
    if mark is not None and mark.writer is not Writer.HUB:
        return ""
    if mark is not None:
        return f"Fleet keeps this key ({mark.meaning}); leave it out"
    if not key.startswith(PREFIX):
        return "this key belongs to another control plane; leave it out"
    near = difflib.get_close_matches(key, [k for k, m in TABLE.items() if m.writer is not Writer.HUB], n=1)
    return "Fleet knows no such key" + (f"; did you mean {near[0]}?" if near else "")


def without_hub_keys(entries: dict[str, str]) -> dict[str, str]:
    """Labels or annotations of an object on the hub as they may travel: keys of the hub do not."""
    return {key: value for key, value in entries.items() if key not in _STAYS}
