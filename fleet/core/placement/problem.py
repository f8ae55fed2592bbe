"""The two problems that a solver gets, and the protocol between them.

Both are plain numbers and tuples, which travel to a child process and into a record. Gangs are counted, not named, so a
problem grows with the kinds of gangs, not with their number. Decoding an answer chooses the gangs of each kind. A
*class* is a set of gangs alike on the side of quota, a *lane* a set on the side of room. The room of a member does not
depend on the leaf of a gang, so sums alone link the two sides. The choice of victims is a problem of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from fleet.core.model.plan import Answer

Terms = tuple[tuple[int, int], ...]  # (number of a variable, amount of one)
Counts = tuple[tuple[int, ...], tuple[int, ...]]  # gangs that start, by class, and gangs placed, by lane


class OutlastedSpans(NamedTuple):
    """The reservations whose start a gang outlasts, as bits: those that bind the gang, and those that it passes."""

    binding: int = 0
    passing: int = 0


ALONE = OutlastedSpans()


class GangKind(NamedTuple):
    """Gangs of one shape and eligibility, beside the same reservations."""

    shape: int
    eligibility: int
    beside: OutlastedSpans = ALONE


@dataclass(frozen=True, slots=True)
class GangClass:
    """`count` waiting gangs of one kind and band, at most `cap` of which could start. `weight`: the value of one."""

    kind: GangKind
    band: int
    count: int
    weight: int
    cap: int


@dataclass(frozen=True, slots=True)
class Lane:
    """Gangs of one kind, placed in one member: at most `cap` of them. Smaller `cost` is preferred."""

    kind: GangKind
    member: str
    cap: int
    cost: int


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A limit: Σ amount × variable ≤ room, over classes, lanes and pod variables by number.

    A row about a reservation is lifted if the class `head` starts, which is the reserved gang alone (-1: none), or if
    the reservation `passed`, a number in `Problem.passed`, is given up (-1: none)."""

    name: str
    room: int
    classes: Terms = ()
    lanes: Terms = ()
    pods: Terms = ()
    head: int = -1
    passed: int = -1


@dataclass(frozen=True, slots=True)
class Spread:
    """A division of gangs' pods among several places: Σ over `variables` = Σ replicas × placed, over lanes.

    `variables` are numbers of pod variables: one for each place, with values up to `cap`."""

    lanes: Terms
    variables: tuple[int, ...]
    cap: int


@dataclass(frozen=True, slots=True)
class PassableSpan:
    """A reservation that an answer may give up if a gang starts in one of the `lanes` that pass it by right. Then no
    gang starts in the lanes that the reservation binds (`bound`)."""

    lanes: tuple[int, ...]
    bound: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """The linked model: which gangs start, and where.

    `bands`: names of the priority bands, the most important first; the first `guaranteed` of them are guaranteed.
    `chains`: classes of queues with policy Block, in queue order; a class starts only after the whole class before it.
    `spans`: rows about reservations; `passed`: the reservations that an answer may give up, as few as possible beside
    the best of the guaranteed bands. `heads`: (band, class) of heads that start in the known answer; from this band's
    stage on they start in every answer. `hint`: the known answer, or none. `proven`: for the first bands, a value that
    no answer exceeds if it is as good in the bands before. `part`: the part of the time that may be used; `fit_part`:
    the part of that for cheap lanes. `nodes`: whether rows are about single nodes."""

    bands: tuple[str, ...]
    classes: tuple[GangClass, ...]
    lanes: tuple[Lane, ...]
    quota: tuple[LimitRow, ...]
    rooms: tuple[LimitRow, ...]
    spreads: tuple[Spread, ...] = ()
    chains: tuple[tuple[int, ...], ...] = ()
    spans: tuple[LimitRow, ...] = ()
    passed: tuple[PassableSpan, ...] = ()
    guaranteed: int = 0
    heads: tuple[tuple[int, int], ...] = ()
    hint: Counts = ((), ())
    proven: tuple[int, ...] = ()
    relative_gap: float = 0.001
    deterministic_limit: float = 5.0
    part: float = 1.0
    fit_part: float = 1.0
    nodes: bool = False


@dataclass(frozen=True, slots=True)
class Victim:
    """A running gang that may be evicted. `within`: whether the gang is within its share; `lost`: the work that its
    eviction throws away. `site`: the victim leaves only if a gang of `by` goes to this site (-1: no condition)."""

    within: bool
    lost: int
    site: int = -1
    by: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FreedRow:
    """A lack of quota at one node, in one resource: Σ amount over the victims that leave ≥ need."""

    terms: tuple[tuple[int, int], ...]  # (victim, amount)
    need: int


@dataclass(frozen=True, slots=True)
class SiteNodes:
    """`count` nodes of one site that are alike: the free vector of one, the claims that may use it, and the amounts
    that each victim `holds` there. `owner`: the victim after which the place is there (-1: always). `wide`: no
    place for the gangs of the problem. `domain`: the rack of the place, for gangs that must lie in one; "" for none."""

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
    """`replicas` pods alike that need room: pods of `gang` in the site that is chosen for it (`site` -1), or other pods
    of a fixed site. `less`: (victim, number) of these other pods that leave with a victim."""

    site: int
    replicas: int
    need: tuple[tuple[int, int], ...]
    node_claim: int
    less: tuple[tuple[int, int], ...] = ()
    gang: int = 0


@dataclass(frozen=True, slots=True)
class VictimProblem:
    """The choice of victims, so that some gangs (mostly one) have quota, and each has room in one of its sites, which
    are members: the fewest within their share, then the fewest, then the least lost work, then the members that the
    policies of the gangs prefer.

    `gangs`: for each its sites, each with its rank by policy; `counts`: how many gangs alike each stands for;
    `together`: gangs that must lie within one domain, each of which stands for itself. `cuts`: conditions
    ((gang, site, how many), …) with victims that are known not to suffice where all of them hold. The answer's
    `admitted` is 1 for a victim that leaves; its `placed` has the sites of the first gang, in order, then those of the
    second, and so on."""

    victims: tuple[Victim, ...]
    sites: tuple[str, ...]
    freed: tuple[FreedRow, ...]
    places: tuple[SiteNodes, ...]
    demands: tuple[Demand, ...]
    gangs: tuple[tuple[tuple[int, int], ...], ...]
    counts: tuple[int, ...]
    together: tuple[int, ...] = ()
    cuts: tuple[tuple[tuple[tuple[int, int, int], ...], tuple[int, ...]], ...] = ()
    hint: tuple[int, ...] = ()  # victims of a known answer
    deterministic_limit: float = 1.0


class Solver(Protocol):
    """The source of answers, each within `limit_s` seconds of wall-clock time. No problem makes a solver raise."""

    def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer: ...
