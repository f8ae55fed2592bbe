"""The linked model: a decision as a counting problem.

Gangs alike are counted by class (classes.py) and by lane. Quota limits the classes, room limits the lanes (rows.py),
and sums link the two sides. The model grows with the kinds of gangs, not with their number. The price: its rows may
allow too much, so decoding drops what does not pack (decode.py).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.core.model.bounds import BOUNDS
from fleet.core.model.cause import Cause, left_out
from fleet.core.model.plan import Answer
from fleet.core.model.tier import Tier
from fleet.core.placement.candidates.candidate import Candidate, Group, service_order
from fleet.core.placement.greedy.greedy import Band, band_of, weight
from fleet.core.placement.linked.classes import ClassKey, GangClasses, Units
from fleet.core.placement.linked.rows import SpanRows, lanes_of, quota_rows, room_rows
from fleet.core.placement.problem import ALONE, Counts, GangClass, GangKind, Problem
from fleet.core.placement.reservation.heads import LeafHead
from fleet.core.placement.reservation.profile import Profile
from fleet.core.snapshot import Config

_BAND_NAMES = ("guaranteed", "share", "crossing", "borrowed")


@dataclass(frozen=True, slots=True)
class LinkedProblem:
    """A problem, with the units of each of its classes. `left_out`: the parts of the question without a model;
    `row_bounds`: those that left out single rows."""

    problem: Problem
    units: tuple[Units, ...]
    bands: tuple[Band, ...]  # of the problem
    number: Callable[[Candidate], int | None]  # of the class that counts a unit
    left_out: Sequence[Cause] = ()
    row_bounds: frozenset[str] = frozenset()

    @property
    def bounds(self) -> frozenset[str]:
        """The bounds that left out parts of the question."""
        return self.row_bounds | {str(cause.numbers["bound"]) for cause in self.left_out}

    def hint(self, placed: Iterable[tuple[Candidate, str]]) -> Counts:
        """A known answer, as the problem counts it."""
        problem = self.problem
        admitted = [0] * len(problem.classes)
        going: Counter[tuple[GangKind, str]] = Counter()
        for candidate, member in placed:
            index = self.number(candidate)
            if index is not None:
                admitted[index] += 1
                going[problem.classes[index].kind, member] += 1
        return tuple(admitted), tuple(going[lane.kind, lane.member] for lane in problem.lanes)

    def values(self, admitted: Sequence[int]) -> tuple[int, ...]:
        """The value of an answer, by band."""
        total = [0] * len(self.problem.bands)
        for cls, count in zip(self.problem.classes, admitted, strict=True):
            total[cls.band] += cls.weight * count
        return tuple(total)

    def gains(self, answer: Answer) -> int:
        """Whether the model values an answer above the known one (1), the same (0), or below it (-1)."""
        known = self.problem.hint[0]
        if not known:
            return 1
        mine, theirs = self.values(answer.admitted), self.values(known)
        return (mine > theirs) - (mine < theirs)

    @property
    def trivial_bounds(self) -> tuple[int, ...]:
        """The values, by band, that no answer can exceed, since no class can start more gangs than its cap."""
        return self.values([cls.cap for cls in self.problem.classes])


def build(
    groups: Iterable[Group],
    profile: Profile,
    greedy: Sequence[tuple[Candidate, str]],
    *,
    now: float,
    config: Config,
    heads: Sequence[LeafHead] = (),
) -> LinkedProblem:
    """The problem of starting the units of `groups` in `profile`. `greedy`: the known answer; `heads`: all heads, also
    the heads that start in the known answer."""
    started = {candidate.unit.id for candidate, _ in greedy}
    waiting = sum(1 << n for n, span in enumerate(profile.spans) if span.holder.unit.id not in started)
    cut = GangClasses(groups, profile, waiting, heads, now)
    counted = _counted(cut, profile)
    classes, units = [cls for cls, _ in counted.values()], [units for _, units in counted.values()]
    charged = [(key.account, its.group.request) for key, its in zip(counted, units, strict=True)]
    numbers = {key: index for index, key in enumerate(counted)}
    alone = {key.head: index for key, index in numbers.items() if key.head}
    bands = {head.candidate.unit.id: band_of(head.candidate) for head in heads}
    lanes = lanes_of(classes, units, cut.most)
    if len(lanes) > BOUNDS.bound_lanes and any(cls.kind.beside != ALONE for cls in classes):
        classes = [replace(cls, kind=cls.kind._replace(beside=ALONE)) for cls in classes]
        lanes = lanes_of(classes, units, cut.most)
        cut.left_out.append(left_out("bound_lanes"))
    usage = profile.usage
    rooms, spreads, row_bounds = room_rows(lanes, profile)
    problem = Problem(
        bands=tuple(f"{_BAND_NAMES[tier]}, priority {-minus}" for tier, minus in cut.bands),
        classes=tuple(classes),
        lanes=lanes,
        quota=() if usage is None else tuple(quota_rows(classes, enumerate(charged), usage, usage.room)),
        rooms=rooms,
        spreads=spreads,
        chains=_chains(numbers),
        relative_gap=config.relative_gap,
        heads=tuple(sorted((bisect_left(cut.bands, bands[key]), alone[key]) for key in alone.keys() & started)),
        guaranteed=sum(tier == Tier.GUARANTEED for tier, _ in cut.bands),
        deterministic_limit=config.deterministic_limit,
    )

    def number(candidate: Candidate) -> int | None:
        key = cut.key(candidate)
        return numbers.get(key) if key is not None else None

    linked = LinkedProblem(problem, tuple(units), tuple(cut.bands), number, cut.left_out, row_bounds)
    problem = replace(problem, hint=linked.hint(greedy))
    spans, passed = SpanRows(profile, waiting, problem, alone, cut.left_out).rows(units, charged)
    return replace(linked, problem=replace(problem, spans=spans, passed=passed))


def _counted(cut: GangClasses, profile: Profile) -> dict[ClassKey, tuple[GangClass, Units]]:
    """The classes of the model, in service order. A class that cannot start is there only to stop its queue."""
    found = {key: Units(parts) for key, parts in cut.parts.items()}
    counted: dict[ClassKey, tuple[GangClass, Units]] = {}
    for key in sorted(found, key=lambda key: service_order(found[key].first)):
        units = found[key]
        cap = min(units.count, cut.cap(units.group, key.account))
        if cap > 0 or key.link:
            worth = weight(profile.space.shapes[key.shape], key.age, profile.space)
            kind = GangKind(key.shape, key.eligibility, key.beside)
            counted[key] = GangClass(kind, key.band, units.count, worth, cap), units
    return counted


def _chains(numbers: Mapping[ClassKey, int]) -> tuple[tuple[int, ...], ...]:
    """The classes of each Block queue, link by link; each of its other classes comes after the last link."""
    chains: dict[str, list[int]] = {}
    others: dict[str, list[int]] = {}
    for key, index in numbers.items():
        if key.leaf is not None:
            (chains if key.link else others).setdefault(key.leaf, []).append(index)
    followers = ((chain[-1], index) for leaf, chain in chains.items() for index in others.get(leaf, ()))
    return (*(tuple(chain) for chain in chains.values() if len(chain) > 1), *followers)
