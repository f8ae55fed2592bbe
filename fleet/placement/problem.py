"""The problem that a solver gets, the answer it gives, and the protocol between them.

Plain numbers and tuples, so that both travel to a child process and into a record. Gangs are counted, not named: a
*class* is a set of gangs that are equal in leaf, priority band, age bucket, shape, eligibility and in which heads bind
them, and a *lane* is one (shape, eligibility, heads, member). Members do not care whose gang it is, so the two are
linked by sums only. Who must leave for gangs is a problem of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class GangClass:
    """`count` waiting gangs alike, `cap` of which could start at most. `weight` is the value of one in its band."""

    leaf: str | None
    band: int
    age: int
    shape: int
    eligibility: int
    count: int
    weight: int
    cap: int
    bound: int = 0  # which heads bind them, as bits; heads themselves have a bit of their own


@dataclass(frozen=True, slots=True)
class Lane:
    """Gangs of one shape and eligibility that the same heads bind, placed in one member, at most `cap`; smaller `cost`
    is preferred."""

    shape: int
    eligibility: int
    member: str
    cap: int
    cost: int
    bound: int = 0


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """Σ amount × admitted ≤ room, over classes by index."""

    node: str
    resource: str
    terms: tuple[tuple[int, int], ...]  # (class, amount of one gang)
    room: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Pods of some lanes' gangs must lie in these pools of the member: Σ over pools = Σ replicas × placed.

    Needed only where they may use several pools; `variables` are numbers of pool variables."""

    lanes: tuple[tuple[int, int], ...]  # (lane, replicas of one of its gangs)
    variables: tuple[int, ...]
    cap: int


@dataclass(frozen=True, slots=True)
class RoomRow:
    """Σ amount × variable ≤ room; terms over lanes by index, and over pool variables by index."""

    name: str
    lanes: tuple[tuple[int, int], ...]
    spreads: tuple[tuple[int, int], ...]
    room: int


@dataclass(frozen=True, slots=True)
class SpanRow:
    """Σ amount × variable ≤ room, over classes and over lanes by index: what a reservation leaves to the units that it
    binds. It holds unless the class `head` (-1: none) is admitted, which is the head alone, or the reservation
    `passed` (-1: none), a number in `Problem.passed`, is given up."""

    name: str
    classes: tuple[tuple[int, int], ...]
    lanes: tuple[tuple[int, int], ...]
    head: int
    room: int
    passed: int = -1


@dataclass(frozen=True, slots=True)
class Passing:
    """A reservation that an answer may give up if a gang starts in one of the `lanes` that pass it by right; then none
    starts in those that it binds (`bound`)."""

    name: str
    lanes: tuple[int, ...]
    bound: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """`bands` names the priority bands, most important first. `chains`: classes of Block leaves in their order; each
    link may start only when the one before it is admitted whole. `given`: (band, class) of heads that start in the
    known answer: from the stage of this band on they do in every answer that is as good so far. `passed`: reservations
    that an answer may give up, as few as can be beside the best in the first `firm` bands, the guaranteed ones.
    `proven`: of the first bands, what no answer exceeds that reaches as much in each band before. `part`: how much
    of the time may be used at most, and `fit_part`: of that, for cheap lanes. `nodes`: whether nodes are modelled: many
    small rows, of which presolving makes little."""

    bands: tuple[str, ...]
    classes: tuple[GangClass, ...]
    lanes: tuple[Lane, ...]
    quota: tuple[QuotaRow, ...]
    rooms: tuple[RoomRow, ...]
    spreads: tuple[Spread, ...] = ()
    chains: tuple[tuple[int, ...], ...] = ()
    spans: tuple[SpanRow, ...] = ()
    passed: tuple[Passing, ...] = ()
    firm: int = 0
    given: tuple[tuple[int, int], ...] = ()
    hint: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())  # a known answer: (admitted, placed)
    proven: tuple[int, ...] = ()
    relative_gap: float = 0.001
    deterministic_limit: float = 5.0
    part: float = 1.0
    fit_part: float = 1.0
    nodes: bool = False


@dataclass(frozen=True, slots=True)
class Solved:
    """One stage: `bound` is proven, given the stages before it."""

    name: str
    value: int
    bound: int
    status: str
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """`admitted[i]` gangs of class i, `placed[j]` gangs in lane j; both empty when there is none, and then `why` says
    why. `why` may also stand beside an answer: it was the last word before the deadline, say."""

    admitted: tuple[int, ...] = ()
    placed: tuple[int, ...] = ()
    stages: tuple[Solved, ...] = ()
    why: str = ""

    @property
    def empty(self) -> bool:
        return not self.admitted


@dataclass(frozen=True, slots=True)
class Victim:
    """A running gang that may be evicted. `within`: it does not even borrow; `lost`: work thrown away. `site`: where
    its room helps those gangs alone that go there, and may evict it (`by`); -1 when quota needs it, too."""

    within: bool
    lost: int
    site: int = -1
    by: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FreedRow:
    """Σ amount over the victims that leave ≥ need: what quota is short of at one node, in one resource."""

    terms: tuple[tuple[int, int], ...]  # (victim, amount)
    need: int


@dataclass(frozen=True, slots=True)
class Place:
    """`count` nodes of a site alike: the free vector of one, which claims may use it, and what each victim that leaves
    frees there. `owner`: it is there only once this victim has left (-1: it is there). `wide`: not for the gangs that
    the room is for. Places of one `domain` are one rack, for those of them that must lie in one; "" is in none."""

    site: int
    count: int
    free: tuple[int, ...]
    takes: tuple[bool, ...]
    holds: tuple[tuple[int, tuple[int, ...]], ...] = ()
    owner: int = -1
    wide: bool = False
    domain: str = ""


@dataclass(frozen=True, slots=True)
class Demand:
    """`replicas` pods alike that find room in their site: of one `gang` that the room is for (`site` -1: in whichever
    is chosen for it), or beside those. `less`: of those beside, so many go with a victim."""

    site: int
    replicas: int
    need: tuple[tuple[int, int], ...]
    claim: int
    less: tuple[tuple[int, int], ...] = ()
    gang: int = 0


@dataclass(frozen=True, slots=True)
class VictimProblem:
    """Which victims must leave so that some gangs (mostly one) have quota, and each has room in one of its `sites`
    (members): as few as can be that do not even borrow, then as few as can be, then those that lose the least, then
    those members that policies put first.

    `gangs`: of each, the sites that it may go to, with their numbers by its policy; `counts`: how many alike each
    stands for; `together`: those that lie within one domain, each of which stands for itself. `cuts`: where so many of
    a gang go to a site ((gang, site, how many), …), these victims are known not to suffice. The answer's `admitted` is
    1 for a victim that leaves, its `placed` the sites of all of the first gang, in order, then those of the second, …
    """

    victims: tuple[Victim, ...]
    sites: tuple[str, ...]
    freed: tuple[FreedRow, ...]
    places: tuple[Place, ...]
    demands: tuple[Demand, ...]
    gangs: tuple[tuple[tuple[int, int], ...], ...]
    counts: tuple[int, ...]
    together: tuple[int, ...] = ()
    cuts: tuple[tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]], ...] = ()
    hint: tuple[int, ...] = ()  # victims of a known answer
    deterministic_limit: float = 1.0


class Solver(Protocol):
    """Answers a problem within `limit_s` seconds of wall-clock time, and never raises for what the problem is."""

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer: ...
