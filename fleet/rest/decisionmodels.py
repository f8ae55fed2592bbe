"""The answers of /fleet/v1 about decisions, and about faults of the decider."""

from __future__ import annotations

from pydantic import Field

from fleet.rest.models import Model, Reason


class Changed(Model):
    """A job that a decision started, or claimed room for."""

    kind: str = Field(description="Of the job; empty where it is not known.")
    job: str = Field(description="namespace/name")
    member: str


class Evicted(Changed):
    for_: str = Field(alias="for", description="The job, as namespace/name, that needs the room.")


class Named(Model):
    """The first three jobs of each kind of change."""

    starts: list[Changed]
    claims: list[Changed]
    evictions: list[Evicted]


class Cause(Model):
    """Why a plan or a choice is whose it is, or what its proof leaves out. Programs compare codes."""

    code: str = Field(description="As docs/reference/reasons.md lists them.")
    numbers: dict[str, str | int | float] = Field(description="The values of the text.")
    text: str = Field(description="For people.")


class Decision(Model):
    """One decision that changed something, in short. What an older release did not record is null."""

    id: int
    at: str = Field(description="When it was made.")
    placed: int = Field(description="Jobs that it started.")
    claimed: int | None = Field(description="Jobs for which it keeps room that others leave.")
    evicted: int | None = Field(description="Jobs that it evicted.")
    waiting: int = Field(description="Jobs that it left waiting, each with a reason.")
    shipped: str = Field(description='Whose plan it was: "cp-sat" or "greedy".')
    why: str | None = Field(description="Why it is the greedy plan, when it is: the texts of all causes.")
    causes: list[Cause] = Field(description="The main one first.")
    gap: float | None = Field(
        description="How far its starts are below the best at most, as a part: 0 is proven best; null: nothing proven."
    )
    tookMs: float | None = Field(description="From the look at the fleet to the plan, in milliseconds.")
    named: Named


class DecisionList(Model):
    items: list[Decision] = Field(description="Newest first.")
    continue_: str | None = Field(
        alias="continue", description="Pass it as `continue` to get older ones; null on the last page."
    )


class Stage(Model):
    """A stage of the solver; `bound` is proven: no plan can be better than that."""

    name: str
    value: int
    bound: int
    gap: float = Field(description="How far the value may be below the best, as a part of the bound: 0 is proven best.")
    status: str
    ms: float


class DecidedJob(Model):
    unit: str = Field(description="Uid of the job's binding.")
    job: str = Field(description="namespace/name")
    kind: str = Field(description="Of the job; empty where it is not known.")


class VictimSearch(DecidedJob):
    shipped: str = Field(description='Whose choice it was: "cp-sat" or "greedy".')
    why: str = Field(description="Why it is the greedy choice, when it is: the text of the cause.")
    cause: Cause | None


class Certificate(Model):
    """The quality of the plan, and its author."""

    shipped: str
    why: str = Field(description="Why it is the greedy plan, when it is: the texts of all causes.")
    causes: list[Cause] = Field(description="The main one first.")
    stages: list[Stage]
    victims: list[VictimSearch] = Field(description="How the jobs to evict were chosen, by the job that needs room.")
    bounds: list[str] = Field(description="Bounds that ended a search early.")


class Placed(DecidedJob):
    member: str


class Leaving(Placed):
    for_: DecidedJob = Field(alias="for", description="The job that needs the room.")


class Claim(Placed):
    until: str = Field(description="For how long the room is kept.")


class Unplaced(DecidedJob):
    reason: Reason


class BeforeAndAfter(Model):
    """GPUs of the jobs of the hub."""

    before: int
    starts: int
    leaves: int = Field(description="Of jobs that leave, those of earlier decisions too.")
    after: int = Field(description="Once these have started and left.")


class MemberUse(BeforeAndAfter):
    name: str
    gpus: int = Field(description="Of its nodes that take pods.")


class QueueUse(BeforeAndAfter):
    path: str = Field(description="Of the quota leaf.")
    max: int | None = Field(description="GPUs that it may use; null: no limit of its own.")


class Replay(Model):
    """A decision, decided anew from its record."""

    reproduced: bool = Field(description="Whether the plan is the recorded one.")
    differ: list[str] = Field(description="Parts of the plan that came out otherwise.")
    ms: float = Field(description="Time that it took.")


class DecisionDetail(Decision):
    """A decision with its certificate. The whole record, to replay with `fleet decide`, is at …/record."""

    seed: int
    units: int = Field(description="Units that it looked at, the placed ones included.")
    members: int
    ms: float = Field(description="Time that the solver took, over all stages.")
    certificate: Certificate
    placements: list[Placed] = Field(description="In the order in which they were committed.")
    evictions: list[Leaving]
    claims: list[Claim]
    codes: dict[str, int] = Field(description="Waiting jobs by the code of their reason, the most first.")
    matching: int = Field(description="Waiting jobs that the query asks for.")
    reasons: list[Unplaced] = Field(description="The first of these, as many as the query asks for.")
    byMember: list[MemberUse]
    byQueue: list[QueueUse]


class Fault(Model):
    """An exception of the decider: a bug. The snapshot of that decision is at …/snapshot."""

    id: int
    at: str = Field(description="When it was raised.")
    error: str
    resort: str = Field(
        description='What was done: "without_solver", "left_out", "without_reclaim", or "undecided": nothing helped.'
    )
    trace: str = Field(description="Where it was raised.")


class FaultList(Model):
    items: list[Fault] = Field(description="Newest first: those that are kept.")
