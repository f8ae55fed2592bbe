"""The answers of /fleet/v1 about jobs, and its refusals. Other answers are in the other files *models.py here."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fleet.rest.states import State

Amounts = dict[str, str]


class Model(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=True)


class Reason(Model):
    """Why a job is not further."""

    code: str = Field(description="Stable name, for programs: QuotaExhausted, MaxJobsReached, NoMemberFits, …")
    text: str = Field(description="The same as one sentence, for people.")
    numbers: dict[str, str | int] = Field(description="What the text counts; amounts are in base units.")


Tier = Literal["Guaranteed", "Share", "Crossing", "Borrowed"]


class Job(Model):
    """A training job, and where it stands. Times are RFC 3339 in UTC."""

    namespace: str
    kind: str = Field(
        description="PyTorchJob, TFJob, MPIJob, Job, …; with its group where the name alone means the kind of another"
        " group: Job is of batch, and the other one is Job.batch.volcano.sh."
    )
    name: str
    state: State
    queue: str | None = Field(description="Full path of its quota leaf, such as root/team-a; null outside quota.")
    position: int | None = Field(
        description="Its place among those that wait in the same queue, from 1, in the order in which they are"
        " considered: what they may count on, priority, then time of enqueueing, then name. Null unless it waits in a"
        " queue and is considered now: not while it is held or backs off."
    )
    tier: Tier | None = Field(
        description="What it may count on there: room within the guarantee of its queue, within its fair share, more"
        " than what is left of that share (Crossing), or only what others leave. Null where its reason does not say."
    )
    priority: int | None = Field(description="Higher goes first. Null before a policy has taken the job.")
    member: str | None = Field(description="The cluster that it is in, or is leaving.")
    attempt: int = Field(description="How often it has been placed.")
    reason: Reason | None = Field(description="The one reason why it waits, or what is wrong where it is.")
    gpus: int = Field(description="GPUs of all its pods together.")
    pods: int
    user: str | None = Field(description="Who created it; null for a job of before the hub noted that.")
    created: str | None
    enqueued: str | None = Field(description="Kept when it is queued again.")
    placed: str | None = Field(description="When the current attempt was given its member.")
    started: str | None = Field(description="As its member says.")
    finished: str | None = Field(description="As its member says.")


class Component(Model):
    """One replica type of a gang."""

    name: str
    replicas: int
    requests: Amounts = Field(description="Of one replica.")


class PodRule(Model):
    """A rule about where pods of the job stand."""

    level: str = Field(description="A level of a place tree, or the key of a node label.")
    of: list[str] = Field(description="The components that it is about; none for all.")
    size: int = Field(description="The pods of each part that stands in one domain; 0: all of them do.")
    hard: bool = Field(description="Whether the job waits for such a place.")
    most: int = Field(description="The most of these pods in one domain; 0: as many as there is room for.")
    even: bool = Field(description="Whether they are spread evenly over as few domains as can be.")


class Condition(Model):
    """A condition of the job's binding, or Evicted of its unit."""

    model_config = ConfigDict(extra="allow")
    type: str
    status: str


class Attempt(Model):
    """An attempt that failed."""

    member: str = Field(description="Empty where the attempt came to no member.")
    at: str | None
    reason: str
    message: str


class Check(Model):
    """An admission check of a job that is Reserved."""

    name: str = Field(description="fleet.io/room: whether the member holds room for the job.")
    state: str = Field(description="Pending, Ready, Retry or Rejected.")
    message: str
    since: str | None = Field(description="Since when it is in this state.")


class JobDetail(Job):
    """A job with everything that the hub knows of it."""

    uid: str
    policy: str | None = Field(description='"PropagationPolicy ns/name" or "ClusterPropagationPolicy name".')
    requests: Amounts = Field(description="Of all its pods together.")
    components: list[Component]
    rules: list[PodRule] = Field(description="Where its pods stand, as its binding says.")
    conditions: list[Condition]
    checks: list[Check] = Field(description="What it waits for while it is Reserved.")
    failures: list[Attempt] = Field(description="Newest last.")
    object: str = Field(description="Path of the object itself in the Kubernetes API.")
    binding: str | None = Field(description="Path of its ResourceBinding; null before a policy has taken the job.")
    unit: str | None = Field(description="Path of its QueueUnit; null for a job that waits in no queue.")
    suspend_field: str | None = Field(
        description="The field of the object that suspends the job, such as spec.runPolicy.suspend; null for a kind"
        " without one."
    )


class Place(Model):
    """The place of a unit, in the order of the decider: tier, priority, time of enqueueing, name."""

    place: int = Field(description="Among those that wait in the same queue, from 1.")
    of: int = Field(description="How many wait there.")
    ahead: int = Field(description="Jobs of the whole fleet that are considered before it.")
    tier: Tier | None = Field(
        description="What it may count on; null outside quota, and where its reason does not say."
    )


class StartEstimate(Model):
    """When a job will start. The times are null where `outcome` is no Estimate, and `why` says why."""

    outcome: Literal["Estimate", "NeverStarts", "BeyondHorizon", "NotEstimated"]
    p10: str | None = Field(description="In 9 of 10 cases it starts later.")
    p50: str | None = Field(description="In half of the cases it starts earlier.")
    p90: str | None = Field(description="In 9 of 10 cases it starts earlier; null for later than can be told.")
    samples: int = Field(description="How many runs of the queue it is made of.")
    why: str | None


class SmallestChange(Model):
    """The least of one kind of change that starts the job now, by greedy decisions; one step less does not."""

    kind: Literal["Wait", "Release", "FewerReplicas", "HigherPriority", "AnotherMember", "MoreQuota", "MoreNodes"]
    text: str
    cost: float = Field(description="How large it is: what it adds or gives up, as a share of what the job asks for.")
    certain: bool = Field(
        description="Whether the start depends on no solver. False: the job starts likely; the solver may give its room"
        " to other jobs."
    )
    edits: list[dict[str, Any]] = Field(
        description="The edits of POST /fleet/v1/what-if that make the change; empty where none do."
    )


class NoChange(Model):
    kind: str
    cause: Literal["NoneStartsIt", "NotFoundInTime"]
    why: str = Field(description="The cause for people.")


class AwaitedJob(Model):
    """One job that another waits for."""

    job: str = Field(description="namespace/name")
    kind: str | None
    part: Literal["Ahead", "Holds", "Leaves"] = Field(
        description="Ahead: its turn comes first, or room is kept for it. Holds: it has quota or room that is short."
        " Leaves: it is on its way out."
    )
    queue: str | None
    member: str | None
    amounts: dict[str, int] = Field(description="What it holds of the resources that are short, in base units.")


class WaitsFor(Model):
    """The jobs that another waits for, as far as the user may get them."""

    text: str = Field(description="The first of them, and how many more, for people.")
    jobs: list[AwaitedJob] = Field(description="Those that the reason names first, then the largest.")
    more: int = Field(description="How many follow the listed ones.")
    hidden: int = Field(description="How many the user may not see.")


class Explanation(Model):
    """The whole explanation of a job that waits."""

    job: str = Field(description="namespace/name")
    unit: str = Field(description="Uid of its binding.")
    at: str = Field(description="Of when this is.")
    queue: str | None
    priority: int
    starts: bool = Field(description="Whether the next decision starts it, or room is being freed for it.")
    certain: bool = Field(description="Where `starts`: whether that depends on no solver; else the start is likely.")
    reason: Reason | None
    then: Reason | None = Field(description="What it would wait for once it is let go, or its back-off is over.")
    waitsFor: WaitsFor | None = Field(
        description="Null where no job's end would start it, and where a person must act first."
    )
    position: Place | None = Field(description="Null when it is not in line: held, backing off, without a queue.")
    estimate: StartEstimate
    changes: list[SmallestChange] = Field(description="The smallest of each kind that has one, cheapest first.")
    without: list[NoChange] = Field(description="The kinds that were tried and have none.")
    notice: str | None = Field(description="Since when nobody decides on jobs, and why; null while somebody does.")


PARTIAL = Field(description="Whether more may be there, which the user may not see.")


class JobList(Model):
    """A page of jobs in order of namespace, name and kind."""

    items: list[Job]
    continue_: str | None = Field(
        alias="continue", description="Pass it as `continue` to get the next page; null on the last."
    )
    remaining: int | None = Field(description="Jobs after this page, when no filter makes that costly to count.")
    partial: bool = PARTIAL
    notice: str | None = Field(description="Since when nobody decides on jobs, and why; null while somebody does.")


class SubmittedJob(Model):
    """One of several manifests: its job, or why there is none."""

    job: JobDetail | None
    refusal: dict[str, Any] | None = Field(description="A Status.")


class Submitted(Model):
    """The outcome of several manifests, in their order."""

    items: list[SubmittedJob]


class StatusCause(Model):
    reason: str
    message: str
    field: str


class StatusDetails(Model):
    model_config = ConfigDict(extra="allow")
    name: str | None = None
    group: str | None = None
    kind: str | None = None
    causes: list[StatusCause] = []
    retryAfterSeconds: int | None = None


class Status(Model):
    """A refusal: the Status object of Kubernetes."""

    kind: Literal["Status"]
    apiVersion: Literal["v1"]
    metadata: dict[str, Any]
    status: Literal["Failure"]
    message: str
    reason: str = Field(description="BadRequest, Unauthorized, Forbidden, NotFound, AlreadyExists, Invalid, …")
    details: StatusDetails | None = Field(None, description="`causes` names each field that is wrong.")
    code: int = Field(description="The HTTP status.")
