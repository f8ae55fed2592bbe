"""The questions that Fleet asks about a job of any kind.

Every job kind keeps its pods, its conditions and its suspension in other fields. The rest of Fleet need not know these
fields, since it asks an `Interpreter`, pure functions over the object's body. A kind without an interpreter can still
be propagated as an object without pods; a gang needs one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from fleet.core.model.rule import PlacementRule
from fleet.core.model.unit import Component
from fleet.kinds.paths import Steps

Body = dict[str, Any]
Dependency = tuple[str, str, str]  # (kind, namespace, name), kind one of ConfigMap, Secret,
# PersistentVolumeClaim, ServiceAccount, Service


class JobState(StrEnum):
    CREATED = "Created"  # the member has it, its pods do not all run yet
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"  # beyond its own retries
    SUSPENDED = "Suspended"
    UNKNOWN = "Unknown"  # no status has been written yet


class Health(StrEnum):
    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"


class Standing(NamedTuple):
    """How a job stands; `message` is what its operator says of it, or ""."""

    state: JobState
    message: str = ""

    @property
    def health(self) -> Health:
        if self.state is JobState.FAILED:
            return Health.UNHEALTHY
        return Health.UNKNOWN if self.state is JobState.UNKNOWN else Health.HEALTHY


class Template(NamedTuple):
    """One replica type: its name in lower case, how many pods, the pod template, and where that stands in the body.

    `own` False: the kind has no pod template there, and this one is made of what else the job says of its pods. Then
    `labels` is where the job keeps the labels of such pods, or () for nowhere."""

    name: str
    replicas: int
    template: Body
    path: str  # spec.pytorchReplicaSpecs.Master.template; spec.replicatedJobs[0].template.spec.template
    steps: Steps = ()  # the same as keys and positions
    own: bool = True
    labels: Steps = ()

    @property
    def marked(self) -> bool:
        """Whether the pods carry the labels that the hub writes into the job."""
        return self.own or bool(self.labels)


class Range(NamedTuple):
    """The fewest pods that a component may run with, and by how many its number changes at a time."""

    least: int
    step: int = 1


class BrokenRule(NamedTuple):
    """A rule of the kind's operator that a job does not keep. `steps` and `path` are the place of the field."""

    path: str
    steps: Steps
    message: str
    warns: bool = False


class AskedRule(NamedTuple):
    """A rule about where pods stand, with the field or annotation that asks for it, and its value there. `native`: it
    is a word of the kind itself, so the kind's controller in the member reads it there."""

    rule: PlacementRule
    field: str
    value: Any = ""
    native: bool = False


class PodLabels(NamedTuple):
    """The labels by which the kind's own controller marks its pods: of the job's name, and of the component; "" for
    none."""

    name: str = ""
    component: str = ""


class Interpreter(Protocol):
    """Bodies are never changed: a function that returns a body returns a new one."""

    @property
    def group(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def pod_labels(self) -> PodLabels: ...

    @property
    def gateable(self) -> bool:
        """Whether all its pods come of templates in the job, and at the same time: gates can hold such a gang."""
        ...

    @property
    def first_status(self) -> Mapping[str, Any]:
        """The fields that a status of the kind has beside the hub's own condition, before a member shows one."""
        ...

    @property
    def suspend_field(self) -> str:
        """`spec.suspend`; "" for a kind that cannot be suspended."""
        ...

    @property
    def priority_class_field(self) -> str:
        """Where the job names a PriorityClass beside its pod templates; "" for nowhere."""
        ...

    @property
    def managed_by_field(self) -> str:
        """Where the job names its controller; "" for nowhere."""
        ...

    @property
    def times_to_live(self) -> tuple[str, ...]:
        """The fields that say how long a job lives after its end: `spec.ttlSecondsAfterFinished`."""
        ...

    @property
    def ends(self) -> bool:
        """Whether a job of the kind can have done its work. The others run until a user deletes them."""
        ...

    def templates(self, body: Body) -> tuple[Template, ...]:
        """The replica types in their order (Master before Worker), those with 0 replicas too."""
        ...

    def components(self, body: Body, priority_classes: Mapping[str, int] | None = None) -> tuple[Component, ...]:
        """Replica types that have pods, with the requests that kube-scheduler would compute.

        Requests do not depend on priority: `priority_classes` is for kinds whose do. Raises BadQuantity.
        """
        ...

    def priority_class(self, body: Body) -> str:
        """Name of the PriorityClass that the job asks for, or ""."""
        ...

    def state(self, status: Body | None) -> Standing: ...

    def health(self, body: Body) -> Health:
        """Failed is unhealthy; a job that waits for its pods is healthy; one without a status is unknown."""
        ...

    @property
    def size_fields(self) -> tuple[str, ...]:
        """Where a job of a kind without pod templates says what each of its pods asks for, beside the annotation."""
        ...

    @property
    def takes_min_replicas(self) -> bool:
        """Whether the annotation fleet.io/min-replicas of a job says with how few replicas it may run."""
        ...

    def ranges(self, body: Body) -> Mapping[str, Range]:
        """Of the components that may run with fewer pods than they have, by name."""
        ...

    def sized(self, body: Body, most: Mapping[str, int]) -> Body:
        """The body with at most so many pods of the components that are named; the very body where it has no more. A
        component whose declaration names no field for the number stays as it is."""
        ...

    def sizes(self, body: Body) -> Mapping[str, int]:
        """How many pods the components have of which a field of the body says the number, by name."""
        ...

    def as_large_as(self, body: Body, sizes: Mapping[str, int]) -> Body:
        """The body with so many pods of these components, within the fewest and the most that the job names."""
        ...

    def together(self, component: str) -> bool:
        """Whether all replicas of the component run at the same time. The others come and go, up to their number."""
        ...

    def walltime_s(self, body: Body) -> int:
        """Seconds after which the member ends the job, in whatever state it is; 0 without such a limit."""
        ...

    def lives_s(self, body: Body) -> int | None:
        """Seconds after its end at which the job is to be deleted, as it says itself of this end; None for no time."""
        ...

    def manager(self, body: Body) -> str:
        """The name of the controller that the job asks for in place of the kind's own; "" for none."""
        ...

    def in_turn(self, body: Body) -> bool:
        """Whether some of its pods are made only when others run or have ended."""
        ...

    def retryable(self, body: Body) -> bool:
        """Whether a job that failed may be tried again in another member."""
        ...

    def placement(self, body: Body) -> Iterable[AskedRule]:
        """The rules about where its pods stand that the kind has words of its own for."""
        ...

    def groups(self, body: Body) -> int:
        """In how many groups alike its pods are. What other projects say on a pod template is about one group."""
        ...

    def faults(self, body: Body) -> Iterable[BrokenRule]:
        """What the kind's operator would refuse of the job, beyond the schema."""
        ...

    def filled(self, body: Body) -> Body:
        """The body with the defaults of the kind's operator; the very body where it leaves none out."""
        ...

    def dependencies(self, body: Body, *, optional: bool = True) -> frozenset[Dependency]:
        """The objects that the pod templates name, and those that the kind itself names. `optional`: also those that
        the pods start without, which travel when they exist."""
        ...

    def stamp(
        self,
        body: Body,
        labels: Mapping[str, str],
        annotations: Mapping[str, str],
        component_labels: Mapping[str, Mapping[str, str]] | None = None,
        member_copy: Body | None = None,
    ) -> Body:
        """The manifest for a member: labels on the job and on its pods (with LABEL_COMPONENT), annotations on the job,
        and nothing left that only the hub means (status, uid, owners, managed fields, times to live, another manager).
        `member_copy`: the copy that the member has."""
        ...

    def suspend(self, body: Body, suspended: bool) -> Body:
        """The body as it is, for a kind that cannot be suspended."""
        ...

    def suspended(self, body: Body) -> bool:
        """Whether its user has stopped the job: by its field for that, or, where its kind has none, by no pods."""
        ...

    def condition(self, type_: str, status: str, reason: str, message: str, at: str) -> Body:
        """A condition of the hub's own, in the form that the kind's status has; `at` is RFC 3339. Empty for a kind
        whose status has no conditions of that form."""
        ...

    def merge_status(self, hub: Body | None, member: Body | None) -> Body:
        """The member's status as the hub shows it: the hub's Queuing condition stays, first."""
        ...
