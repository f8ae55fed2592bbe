"""A unit: one gang as the decider sees it. Made from a ResourceBinding; a QueueUnit is its queued view."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum

from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.rule import Rules

LEAST_PRIORITY, MOST_PRIORITY = -(1 << 31), (1 << 31) - 1  # of a unit, as of a PriorityClass


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str = ""  # "" with operator Exists tolerates everything
    operator: str = "Equal"
    value: str = ""
    effect: str = ""  # "" = all effects


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector on nodes: operator In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeClaim:
    """Which nodes the replicas of one component may use: `node_selector` holds label pairs that must all match,
    `affinity` the required node affinity as alternatives (OR) of terms (AND). A user writes it as long as admission
    allows, and decisions look it up often, so it counts its hash once."""

    node_selector: tuple[tuple[str, str], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.node_selector, self.tolerations, self.affinity)))
        assert self._hash is not None
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        return NodeClaim, (self.node_selector, self.tolerations, self.affinity)  # another process hashes otherwise


@dataclass(frozen=True, slots=True)
class Component:
    """`replicas` equal pods, each asking for `requests` (as kube-scheduler computes them, "pods": 1 included)."""

    name: str  # as the event text prints it: master, worker
    replicas: int
    requests: Amounts
    claim: NodeClaim = NodeClaim()

    def within(self, label: tuple[str, str]) -> Component:
        """The same pods on nodes with this label alone."""
        return replace(self, claim=replace(self.claim, node_selector=(*self.claim.node_selector, label)))


@dataclass(frozen=True, slots=True)
class AffinityGroup:
    """One entry of the policy's ordered clusterAffinities, resolved to member names: earlier groups are tried first."""

    name: str
    members: frozenset[str]


class Phase(StrEnum):
    WAITING = "Waiting"  # wants room, holds none
    PLACED = "Placed"  # committed to a member: charged in quota and room until its last pod is gone or finished
    EVICTING = "Evicting"  # leaving its member: still charged


@dataclass(frozen=True, slots=True)
class Seat:
    """The amounts that a unit's pods hold on one node: `pool` counts the member's pools, and `free` is this node's
    entry in it, the free amounts beside the pods. Both together are the room of the node once the pods are gone."""

    node: str
    pool: int
    free: Amounts
    holds: Amounts


@dataclass(frozen=True, slots=True)
class Step:
    """The `replicas` of one component that an elastic unit gives up together: `visible` of their pods are shown by the
    inventory, and hold the amounts of `seats`, one for each node (`Seat.free` as in the unit's own seats)."""

    component: str
    replicas: int
    visible: int = 0
    seats: tuple[Seat, ...] = ()


@dataclass(frozen=True, slots=True)
class ElasticSizes:
    """The sizes of a unit that may have another one than it has. A waiting unit stands with the least replicas that it
    can start with, and any other with what it is charged.

    `whole` is all that it asks for, () where that is what it has. `steps` has its elastic components in the order in
    which they grow, each with the replicas by which it changes at once. `surplus` are the steps down to its least, the
    first to go first; the pods of the first `leaving` of them are on their way out. `settled`: every pod that it
    was given has a node; it is resized only then."""

    whole: tuple[Component, ...] = ()
    steps: tuple[tuple[str, int], ...] = ()
    surplus: tuple[Step, ...] = ()
    leaving: int = 0
    settled: bool = True
    shrunk_at: float | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """Room for one waiting unit, kept in one member until an epoch second, while the victims leave it."""

    member: str
    until: float


@dataclass(frozen=True, slots=True)
class Nomination:
    """A waiting unit is its leaf's head: room is collected for it in one member since an epoch second. The unit does
    not start before `at`; where `certain`, all that the unit waits for has a known end, and it starts at `at`.

    `member` is "" where there is no room to collect beside the heads ahead of it. `turn`: since when it is a head,
    where that is longer than `since`."""

    member: str
    since: float
    at: float
    certain: bool = False
    turn: float | None = None

    @property
    def became(self) -> float:
        """Since when it is a head, wherever it collected: heads are served in this order."""
        return self.since if self.turn is None else min(self.turn, self.since)


@dataclass(frozen=True, slots=True)
class Unit:
    """`leaf` is the full path of its quota leaf ("root/child-2"), or None when it is outside quota.

    Times are epoch seconds. `excluded` holds members it must not go to now (a copy failed there), `avoid` members
    that it goes to only when no other will do. `visible` counts, for a placed unit, the pods that the member's
    inventory already shows, per component: the rest is assumed room. `generation` is opaque: the commit compares it.
    """

    id: str  # uid of the binding
    name: str  # namespace/name of the job, for people
    components: tuple[Component, ...]
    leaf: str | None = None
    priority: int = 0
    preemptible: bool = True
    created_at: float = 0.0
    enqueued_at: float = 0.0
    phase: Phase = Phase.WAITING
    member: str | None = None  # where it is, when placed or evicting
    placed_at: float | None = None
    share_until: float | None = None  # within its leaf's share until then, having started from a head's span
    affinity_groups: tuple[AffinityGroup, ...] = ()  # empty: every member
    tolerations: tuple[Toleration, ...] = ()  # of member taints
    needs_kind: str = ""  # "kubeflow.org/PyTorchJob": the member must serve it
    excluded: frozenset[str] = frozenset()
    avoid: frozenset[str] = frozenset()
    preferences: tuple[tuple[str, int], ...] = ()  # (member, weight) of the policy's static weights
    visible: tuple[tuple[str, int], ...] = ()
    backoff_until: float | None = None
    failed_why: str = ""  # why its last attempt came to nothing, while it backs off
    held: bool = False  # never starts: a person holds it, or `held_why` names the cause
    held_why: str = ""
    after: bool = False  # held since it starts after other jobs, as `held_why` says
    waits_turn: bool = False  # held since its queue does not consider it yet, which `held_why` explains
    release_helps: bool = True  # False: only the way out that `held_why` names ends the hold
    suspended: bool = False  # held since its own user suspended it
    walltime_s: float | None = None
    attempts: int = 0
    user: str = ""
    claim: Claim | None = None
    head: Nomination | None = None
    seats: tuple[Seat, ...] = ()  # of its visible pods; empty: the inventory does not say
    rules: Rules = ()  # about where its pods stand together; empty: anywhere
    checkpoint_at: float | None = None  # its work up to then is not lost when it is evicted
    leaving_s: float = 0.0  # an eviction keeps its room for so long (notice and grace), and its work stands still
    leaving_at: float | None = None  # of an evicting unit: since when it leaves
    sizes: ElasticSizes | None = None  # of a unit that may have another size than it has
    generation: str = field(default="", compare=False)

    @property
    def total(self) -> Amounts:
        """The charge to quota: the sum over all replicas, without "pods"."""
        total = NOTHING
        for component in self.components:
            total = total.plus(component.requests, component.replicas)
        return Amounts(tuple((name, amount) for name, amount in total.items_ if name != "pods"))

    @property
    def pods(self) -> int:
        return sum(component.replicas for component in self.components)

    @property
    def standing(self) -> str:
        """Where a unit is that does not wait, for people."""
        return f"leaves {self.member}" if self.phase is Phase.EVICTING else f"runs in {self.member}"

    @property
    def confined(self) -> bool:
        """Whether a rule keeps it from using all nodes of a member together."""
        return bool(self.rules)
