"""A plan: the result of one decision, which leaves nothing to choose to the code that commits it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.core.model.amounts import Amounts
from fleet.core.model.cause import NO_WORSE, OPTIMAL, Cause, in_words
from fleet.core.model.reason import Reason
from fleet.core.model.unit import Nomination


@dataclass(frozen=True, slots=True)
class Placement:
    """Unit `unit` starts whole in `member`. `share_until`: where it starts from a head's reservation, the epoch second
    until which it then counts as within its leaf's share. `grows`: some of its pods need nodes that an autoscaler of
    the member has to add. `sizes`: the replicas of the components that start with more than the least."""

    unit: str
    member: str
    share_until: float | None = None
    grows: bool = False
    sizes: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class SizeChange:
    """Unit `unit`, which runs in `member`, has so many replicas of the components in `sizes` from now on. `serves`: the
    unit that starts once the pods are gone; "" where it grows."""

    unit: str
    member: str
    sizes: tuple[tuple[str, int], ...]
    serves: str = ""


@dataclass(frozen=True, slots=True)
class Eviction:
    """Unit `unit` leaves `member` whole, so that `preemptor` may start."""

    unit: str
    member: str
    preemptor: str


@dataclass(frozen=True, slots=True)
class RoomClaim:
    """From now until the epoch second `until`, `room` (the sum over the gang) in `member` is kept for `unit`, which
    a later plan starts when it sees the room free."""

    unit: str
    member: str
    room: Amounts
    until: float


@dataclass(frozen=True, slots=True)
class Head:
    """Unit `unit` is its leaf's head from now on. The nomination is remembered until the unit starts, or until a plan
    does not name the unit any more."""

    unit: str
    nomination: Nomination


@dataclass(frozen=True, slots=True)
class Stage:
    """One solver stage of the certificate: `bound` is proven; `status` OPTIMAL, FEASIBLE, UNKNOWN, SKIPPED, …"""

    name: str
    value: int
    bound: int
    status: str
    seconds: float = field(default=0.0, compare=False)

    @property
    def gap(self) -> float:
        """How far below the bound the value may be at most, as a part of the bound: 0 is proven to be the best."""
        return max(0, self.bound - self.value) / self.bound if self.bound > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer of a solver: `admitted[i]` gangs of class i start, and `placed[j]` gangs go to lane j. Both are empty
    when there is no answer; then `cause` says why. Beside an answer, `cause` is that of an early end."""

    admitted: tuple[int, ...] = ()
    placed: tuple[int, ...] = ()
    stages: tuple[Stage, ...] = ()
    cause: Cause | None = None

    @property
    def empty(self) -> bool:
        return not self.admitted


@dataclass(frozen=True, slots=True)
class Said:
    """One answer of the solver about victims, as it came: the victims, by number in the question, and the number of the
    member where the room is."""

    leaves: tuple[int, ...]
    member: tuple[int, ...]
    stages: tuple[Stage, ...] = ()
    cause: Cause | None = None


@dataclass(frozen=True, slots=True)
class VictimSearch:
    """How the victims of one unit were found: `shipped` is "cp-sat" or "greedy", `cause` that of a greedy choice.
    `stages` are the stages of the solver's last answer: fewest within their share, fewest, least work lost, best
    member. Their bounds hold for the `members` that promised most, a number."""

    unit: str
    shipped: str
    cause: Cause | None = None
    stages: tuple[Stage, ...] = ()
    members: int = 0
    said: tuple[Said, ...] = field(default=(), compare=False)
    """All that the solver said about it: a replay takes it from here (I8)."""
    beside: tuple[str, ...] = ()
    """The units whose victims were chosen together with its own, after one by one; empty for it alone."""

    @property
    def why(self) -> str:
        """The cause for people; "" without one."""
        return self.cause.text if self.cause is not None else ""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The quality of the plan and its source: `shipped` is "cp-sat" or "greedy". `causes`: the main one first, why it
    is greedy or why the answer came early; then what became of further answers, and what the question left out.

    `stages` are the solver's: their `value` is the value of its answer before packing."""

    shipped: str
    stages: tuple[Stage, ...] = ()
    causes: tuple[Cause, ...] = ()
    answers: tuple[Answer, ...] = field(default=(), compare=False)
    """All answers of the solver about starts, as they came: a replay takes them from here (I8)."""
    victims: tuple[VictimSearch, ...] = ()
    reclaim: Cause | None = None
    """Why not all who might take room back were looked at; None if they were."""
    bounds: tuple[str, ...] = ()
    """Names of the bounds that ended a search in this decision, in order: fields of `Bounds`."""

    @property
    def why(self) -> str:
        """The causes for people."""
        return in_words(self.causes)

    @property
    def gap(self) -> float | None:
        """How far the starts of the plan are below the best at most, as a part of the bound: 0 is proven to be the
        best. None where nothing is proven: no solver answered all stages, or a part of its answer was not taken."""
        codes = [cause.code for cause in self.causes]
        if len(codes) == 1 and codes[0] in OPTIMAL:
            return 0.0
        proven = all(stage.status in ("OPTIMAL", "FEASIBLE") for stage in self.stages)
        if not self.stages or not proven or not all(code in NO_WORSE for code in codes):
            return None
        return max(stage.gap for stage in self.stages)


@dataclass(frozen=True, slots=True)
class Plan:
    """`placements` in the order to commit; `reasons` has exactly one entry for every waiting unit not placed (I9).
    `evictions` and `claims` are empty unless the snapshot's configuration allows to reclaim."""

    placements: tuple[Placement, ...] = ()
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    certificate: Certificate = Certificate(shipped="greedy")
    evictions: tuple[Eviction, ...] = ()
    claims: tuple[RoomClaim, ...] = ()
    heads: tuple[Head, ...] = ()
    resizes: tuple[SizeChange, ...] = ()
