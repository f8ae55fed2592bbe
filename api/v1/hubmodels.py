"""The answers of /fleet/v1 about the hub itself: queues, clusters, its own state, decisions and faults."""

from __future__ import annotations

from pydantic import Field

from api.v1.models import PARTIAL, Amounts, Model, Reason


class Head(Model):
    """A job that is first to go in its queue."""

    namespace: str
    kind: str
    name: str
    position: int | None = Field(description="Null while it is not considered: when all that wait back off, say.")
    priority: int
    enqueued: str | None
    reason: Reason | None


class Lender(Model):
    """A queue whose unused min another may be using. The rest of what that one borrowed is promised to nobody."""

    queue: str = Field(description="Its path: beside the borrower, or beside a queue above it.")
    resource: str
    amount: str = Field(description="Up to its unused min. Other borrowers may name the same.")


class Queue(Model):
    """A node of the quota tree. Jobs wait in leaves; inner nodes show the sums of what is below."""

    path: str = Field(description="Names from the root, such as root/team-a.")
    name: str | None = Field(description="Name of its Queue object.")
    parent: str | None
    children: list[str]
    namespaces: list[str] = Field(description="Namespaces whose jobs wait here.")
    policy: str = Field(description="Priority, Block or Intelligent.")
    stop: str = Field(
        description="None, Hold (no job starts) or HoldAndDrain (and jobs that run leave); of a queue above it, too."
    )
    held_by: str | None = Field(description="The nearest queue that keeps its jobs from starting: itself, or above it.")
    min: Amounts = Field(description="Guaranteed; what is missing is 0.")
    max: Amounts = Field(description="Allowed; what is missing is unlimited.")
    used: Amounts = Field(description="Asked for by the jobs that are placed.")
    fairShare: Amounts = Field(
        description="What it may count on now, when all queues take what they want; of the decider's last snapshot, and"
        " empty before the first."
    )
    borrowed: Amounts = Field(description="Used beyond min; empty for the root.")
    lenders: list[Lender] = Field(description="Of what it borrowed, three of a resource at most, the nearest first.")
    waiting: int
    running: int = Field(description="Jobs that are placed and not over, or have pods left; what max-jobs counts.")
    heads: list[Head] = Field(description="Of a leaf: the first of those that wait, as far as the user may list them.")


class QueueList(Model):
    items: list[Queue] = Field(description="Parents before their children.")
    partial: bool = PARTIAL


class Nodes(Model):
    total: int
    ready: int


class Taint(Model):
    """Keeps jobs away that do not tolerate it: newcomers, and with NoExecute those that are there too."""

    key: str
    value: str | None = None
    effect: str = Field(description="NoSchedule, PreferNoSchedule or NoExecute.")
    added: str | None = Field(default=None, description="From when on tolerationSeconds count.")


class GpusOfModel(Model):
    """GPUs of one model in a member, as the labels of its nodes name it."""

    model: str = Field(description="Empty where no label names it.")
    allocated: int = Field(description="Asked for by pods on nodes that take pods.")
    free: int
    fragmented: int = Field(description="Of the free ones, those on nodes where others are allocated.")
    cordoned: int = Field(description="On nodes that take no pods: cordoned, not ready or avoided; used or not.")


class Cluster(Model):
    """A member cluster."""

    name: str
    ready: bool
    message: str = Field(description="Why it is not ready, or empty.")
    readySince: str | None = Field(description="When `ready` last changed; null before the first look.")
    version: str | None
    endpoint: str | None
    labels: dict[str, str]
    taints: list[Taint]
    nodes: Nodes
    allocatable: Amounts = Field(description="Of all its nodes, those that take no pods among them.")
    allocated: Amounts = Field(description="Asked for by pods that have a node.")
    free: Amounts
    free_gpus: int
    gpus: list[GpusOfModel] = Field(description="In order of model; empty without GPUs, or before it was looked at.")
    jobs: dict[str, int] = Field(description="Jobs there, counted by state; /fleet/v1/jobs?member=NAME lists them.")


class ClusterList(Model):
    items: list[Cluster]


class JobOnNode(Model):
    namespace: str
    kind: str
    name: str
    queue: str | None = Field(description="Full path of its quota leaf; null outside quota.")
    gpus: int = Field(description="Of this node.")


class Node(Model):
    """A node with GPUs."""

    member: str
    name: str
    model: str = Field(description="Of its GPUs; empty where no label names it.")
    gpus: int
    state: str = Field(description="ready, cordoned (or avoided), or notReady.")
    jobs: list[JobOnNode] = Field(description="Jobs of the hub that the user may get.")
    other: int = Field(description="GPUs that other jobs and other pods use.")


class NodeList(Model):
    at: str | None = Field(description="When the controllers saw them so; null: not yet.")
    items: list[Node] = Field(description="By member and name.")
    left: int = Field(description="Nodes beyond `limit`.")


class MemberGpuUse(Model):
    """GPU figures of a member, over all its GPUs that the source knows; null: not told."""

    name: str
    silent: str = Field(description="Why figures are missing, or empty.")
    gpus: int
    utilization: float | None = Field(description="The mean, from 0 to 1.")
    used_bytes: float | None
    memory_bytes: float | None
    power_watts: float | None
    idle: int = Field(description="GPUs that a pod holds and uses by less than 5 %.")


class IdleJob(Model):
    """A job that uses its GPUs little."""

    namespace: str
    kind: str
    name: str
    queue: str | None = Field(description="Full path of its quota leaf; null outside quota.")
    user: str = Field(description="Who created it; empty where nobody knows.")
    member: str
    gpus: int = Field(description="Its GPUs that the source knows.")
    utilization: float = Field(description="Their mean, from 0 to 1.")
    since: str = Field(description="Since when the mean is below the limit asked for, as far as the hub saw.")


class GpuUse(Model):
    at: str | None = Field(description="When the controllers saw it so; null: no Cluster names a source.")
    members: list[MemberGpuUse] | None = Field(description="By name; null without the right to list clusters.")
    jobs: list[IdleJob] = Field(description="The longest idle first.")
    left: int = Field(description="Jobs beyond `limit`, and those that no row has room for.")


class Leader(Model):
    """The controllers process that leads."""

    name: str
    since: str | None
    renewed: str = Field(description="Its last sign of life.")


class FailingLoop(Model):
    """A loop of the controllers that failed or was started again within the last minute."""

    loop: str
    failures: int = Field(description="Of keys, since its process began.")
    restarts: int
    last: str
    error: str = Field(description="The object and the error of its last failure; empty where it is not known.")


class Aside(Model):
    """Objects that a loop cannot handle and has set aside."""

    count: int
    first: list[str] = Field(description="A few of them: LOOP: KEY.")


class MemberStatus(Model):
    name: str
    ready: bool
    message: str = Field(description="Why it is not ready, or empty.")
    silent_s: int | None = Field(description="Seconds since it last showed life to the leader; null when it never has.")


class HubWarning(Model):
    """A trouble that the hub works on with, and that a person has to mend."""

    check: str = Field(description="Which: nodes-not-ready, jobs-refused, user-floods or webhook-fails.")
    kind: str
    namespace: str
    name: str
    why: str
    what_to_do: str
    member: str = Field(description="The member that it is in, or empty.")


class HubStatus(Model):
    """Whether the hub works, as far as this API process sees it."""

    healthy: bool
    problems: list[str] = Field(description="What is wrong, each in a sentence.")
    warnings: list[HubWarning] = Field(description="They leave the hub healthy.")
    leader: Leader | None = Field(description="Null when none has ever led.")
    looked: str | None = Field(description="The decider's last look at the fleet.")
    decided: str | None = Field(description="The last look that made a decision, since the leader's process began.")
    failing: list[FailingLoop]
    aside: Aside
    members: list[MemberStatus]
    silent: bool = Field(description="Nobody decides.")
    database: str = Field(description='"ok", or what it does not do, and why.')
    version: str | None = Field(description="Of the controllers process that leads.")


class Blocker(Model):
    """A session of the database that a write waits for, and that waits for no other itself."""

    pid: int = Field(description="The id of its process, as pg_stat_activity has it.")
    user: str
    application: str
    state: str
    open_s: float = Field(description="Seconds since its transaction began.")


class Database(Model):
    """The PostgreSQL server, and the hub's database in it."""

    version: str
    schema_: str | None = Field(alias="schema", description="The revision of its tables.")
    wanted: str = Field(description="The revision that this release knows.")
    bytes: int = Field(description="Of the hub's database.")
    connections: int = Field(description="To the server, of all its clients.")
    mostConnections: int
    oldestTransactionS: float = Field(description="Seconds since the oldest open transaction of others began.")
    roundTripMs: float = Field(description="Of one small question.")
    writeMs: float | None = Field(description="Of one write that changes nothing; null: none within two seconds.")
    writeTrouble: str = Field(description="Why there was none, or empty.")
    blockers: list[Blocker] = Field(description="The oldest transaction first; at most five.")
    aheadS: float = Field(description="Seconds that the clock of the database is ahead of this process's.")


class WrittenHistory(Model):
    """How far the history of jobs is written."""

    recordedSince: str | None = Field(description="Null: nothing is recorded yet.")
    gaps: list[str] = Field(description="Times of which nothing is recorded, with the cause; the newest last.")
    behind: int = Field(description="Changes of the hub's log that it has not read; some never concern jobs.")
    behindS: float = Field(description="Seconds since the first of them; up to a minute is usual.")
    lost: int = Field(description="Changes that left the log before the history read them.")


class Disk(Model):
    path: str
    free: int
    total: int


class TlsCertificate(Model):
    name: str = Field(description="Its owner.")
    file: str
    until: str


class HubParts(Model):
    """The parts of the hub beside its objects, as one API process sees them."""

    at: str = Field(description="Its clock.")
    version: str
    database: Database | None = Field(description="Null when it does not answer.")
    databaseTrouble: str
    history: WrittenHistory | None = Field(description="Null when its database does not answer.")
    historyTrouble: str
    disk: Disk = Field(description="Of the data directory.")
    certificates: list[TlsCertificate]


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


class Decision(Model):
    """One decision that changed something, in short. What an older release did not record is null."""

    id: int
    at: str = Field(description="When it was made.")
    placed: int = Field(description="Jobs that it started.")
    claimed: int | None = Field(description="Jobs for which it keeps room that others leave.")
    evicted: int | None = Field(description="Jobs that it evicted.")
    waiting: int = Field(description="Jobs that it left waiting, each with a reason.")
    shipped: str = Field(description='Whose plan it was: "cp-sat" or "greedy".')
    why: str | None = Field(description="Why it is the greedy plan, when it is.")
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
    why: str = Field(description="Why it is the greedy choice, when it is.")


class Certificate(Model):
    """The quality of the plan, and its author."""

    shipped: str
    why: str = Field(description="Why it is the greedy plan, when it is.")
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
