"""Jobs, their explanation, their events and their logs, as values. docs/reference/rest.md describes each field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Protocol

from fleet.client.tables import Readers, Record, moment

OVER = ("Succeeded", "Failed")
STARTS_ANEW = "StartsAnew"  # the reason of a job that has failed, and that its policy does not leave so


class Named(Protocol):
    """All that names a job: a Job, or what `submit` returns."""

    @property
    def namespace(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...


JobLike = str | Named  # NAME, KIND/NAME, KIND.GROUP/NAME, or a value with namespace, kind and name


@dataclass(frozen=True, repr=False, kw_only=True)
class Reason(Record):
    """Why a job is not further. `code` is stable, `text` one sentence for people."""

    code: str = ""
    text: str = ""
    numbers: Mapping[str, str | int] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False, kw_only=True)
class Component(Record):
    """One replica type of a job. `requests`: of one replica."""

    name: str = ""
    replicas: int = 0
    requests: Mapping[str, str] = field(default_factory=dict)


def _components(raw: list[Mapping[str, Any]]) -> tuple[Component, ...]:
    return tuple(Component.of(one) for one in raw)


@dataclass(frozen=True, repr=False, kw_only=True)
class Job(Record):
    """A job, and where it stands."""

    SHOWN: ClassVar[tuple[str, ...]] = (
        "namespace",
        "name",
        "kind",
        "state",
        "queue",
        "position",
        "member",
        "gpus",
        "user",
        "created",
        "reason",
    )
    READ: ClassVar[Readers] = {
        "reason": Reason.of,
        "created": moment,
        "enqueued": moment,
        "placed": moment,
        "started": moment,
        "finished": moment,
    }
    namespace: str = ""
    kind: str = ""
    name: str = ""
    state: str = ""
    queue: str | None = None
    position: int | None = None
    tier: str | None = None
    priority: int | None = None
    member: str | None = None
    attempt: int = 0
    reason: Reason | None = None
    gpus: int = 0
    pods: int = 0
    user: str | None = None
    created: datetime | None = None
    enqueued: datetime | None = None
    placed: datetime | None = None
    started: datetime | None = None
    finished: datetime | None = None

    @property
    def place(self) -> str:
        """`pytorchjob team-a/train`, for texts."""
        return f"{self.kind.lower()} {self.namespace}/{self.name}"

    @property
    def starts_anew(self) -> bool:
        """Whether it has failed, and its policy has it tried again."""
        return self.state == "Failed" and self.reason is not None and self.reason.code == STARTS_ANEW

    @property
    def over(self) -> bool:
        return self.state in OVER and not self.starts_anew

    def __repr__(self) -> str:
        where = f" in {self.member}" if self.member else f" at place {self.position}" if self.position else ""
        why = f": {self.reason.text}" if self.reason is not None else ""
        return f"<{self.place} {self.state}{where}{why}>"

    def __str__(self) -> str:
        return repr(self)


@dataclass(frozen=True, repr=False, kw_only=True)
class JobDetail(Job):
    """A job with everything that the hub knows of it. `object`, `binding` and `unit`: the paths of the
    object itself, of its ResourceBinding and of its QueueUnit in the Kubernetes API, None where there is none;
    `suspend_field`: the field of it that suspends the job, None for a kind without one."""

    READ: ClassVar[Readers] = {**Job.READ, "components": _components}
    uid: str = ""
    policy: str | None = None
    requests: Mapping[str, str] = field(default_factory=dict)
    components: tuple[Component, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    conditions: tuple[Mapping[str, Any], ...] = ()
    checks: tuple[Mapping[str, Any], ...] = ()
    failures: tuple[Mapping[str, Any], ...] = ()
    object: str = ""
    binding: str | None = None
    unit: str | None = None
    suspend_field: str | None = None


@dataclass(frozen=True, repr=False, kw_only=True)
class Change(Record):
    """The least of one kind of change that starts a job now."""

    kind: str = ""
    text: str = ""
    cost: float = 0.0
    certain: bool = False

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, repr=False, kw_only=True)
class Estimate(Record):
    """When a job will start: in 9 of 10 cases after `p10`, in half of them before `p50`, in 9 of 10 before `p90`."""

    READ: ClassVar[Readers] = {"p10": moment, "p50": moment, "p90": moment}
    outcome: str = "NotEstimated"
    p10: datetime | None = None
    p50: datetime | None = None
    p90: datetime | None = None
    why: str | None = None

    def __str__(self) -> str:
        half = self.p50.isoformat(sep=" ", timespec="minutes") if self.p50 else ""
        return f"about {half}" if half else (self.why or self.outcome)


def _changes(raw: list[Mapping[str, Any]]) -> tuple[Change, ...]:
    return tuple(Change.of(one) for one in raw)


@dataclass(frozen=True, repr=False, kw_only=True)
class Explanation(Record):
    """Why a job waits. `answered`: the decider's newest snapshot has the job; without, `job.reason` is all there is."""

    SHOWN: ClassVar[tuple[str, ...]] = ("job", "reason", "then", "estimate")
    READ: ClassVar[Readers] = {"reason": Reason.of, "then": Reason.of, "estimate": Estimate.of, "changes": _changes}
    job: JobDetail = field(default_factory=JobDetail)
    answered: bool = False
    reason: Reason | None = None
    then: Reason | None = None
    place: int | None = None
    ahead: int | None = None
    starts: bool = False
    certain: bool = False
    estimate: Estimate | None = None
    changes: tuple[Change, ...] = ()
    notice: str | None = None

    def __str__(self) -> str:
        """What a person asks: how the job stands and why, when it starts, and what would start it now."""
        lines = [str(self.job)[1:-1]]
        if self.place is not None:
            lines.append(f"place {self.place} in its queue, {self.ahead} jobs of the fleet before it")
        if self.estimate is not None:
            lines.append(f"starts {self.estimate}" if self.estimate.p50 else f"start: {self.estimate}")
        lines += [f"would start it now: {change}" for change in self.changes]
        return "\n".join(lines)


@dataclass(frozen=True, repr=False, kw_only=True)
class Event(Record):
    """What happened to a job."""

    SHOWN: ClassVar[tuple[str, ...]] = ("at", "type", "reason", "message")
    at: datetime | None = None
    type: str = ""
    reason: str = ""
    message: str = ""
    count: int = 1


@dataclass(frozen=True, repr=False, kw_only=True)
class Pod(Record):
    """A pod of a job in its member. `usage`: None where the member does not tell it, or nobody asked."""

    SHOWN: ClassVar[tuple[str, ...]] = ("name", "member", "role", "rank", "phase", "node")
    name: str = ""
    uid: str = ""
    member: str = ""
    role: str = ""
    rank: int = 0
    phase: str = ""
    node: str = ""
    containers: tuple[str, ...] = ()
    requests: Mapping[str, str] = field(default_factory=dict)
    usage: Mapping[str, str] | None = None


@dataclass(frozen=True, repr=False)
class LogLine(Record):
    """A line that a pod printed. `rank`: of the pod; None where the pod was named."""

    pod: str = ""
    text: str = ""
    rank: int | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class JobChange:
    """How the listed jobs have changed: `type` is ADDED, MODIFIED or DELETED (then `job` is as it was seen last)."""

    type: str
    job: Job

    def __str__(self) -> str:
        return f"{self.type} {self.job}"


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """How an object has changed: `type` is ADDED, MODIFIED or DELETED (then `object` is as it was seen last)."""

    type: str
    object: dict[str, Any]
