"""The linked model: a decision as a counting problem, and its answer as units and members again.

Gangs alike are counted per class (who wants) and per lane (where they go); quota limits the classes, room limits the
lanes (rows.py), and sums link the two. Its size grows with kinds of gangs, not with gangs. Rows may promise too much,
never too little: what does not pack is dropped when the answer is decoded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fleet.placement.candidate import Candidate, standing
from fleet.placement.eligibility import Eligibility
from fleet.placement.ground import Ground
from fleet.placement.problem import Answer, GangClass, Lane, Problem, QuotaRow
from fleet.placement.room import Space
from fleet.placement.rows import Kind, KindCaps, lanes_of, room_rows
from fleet.snapshot import Config

MOST_BANDS = 12
MOST_VARIABLES = 200_000
AGES_S = (600.0, 3600.0, 6 * 3600.0)  # age buckets: a gang's weight grows when it has waited this long
_MOST_DECODES = 8
_MOST_DEVICES = 1024
Band = tuple[int, int]  # tier, minus priority: smaller is served first
_BAND_NAMES = ("guaranteed", "share", "borrowed")


@dataclass(frozen=True, slots=True)
class Linked:
    """A problem, and the candidates behind each of its classes, oldest first."""

    problem: Problem
    behind: tuple[tuple[Candidate, ...], ...]
    bands: tuple[Band, ...]  # of the problem

    @property
    def trivial_bounds(self) -> tuple[int, ...]:
        """Per band what no answer can exceed, since no class can start more than its cap."""
        totals = [0] * len(self.problem.bands)
        for cls in self.problem.classes:
            totals[cls.band] += cls.weight * cls.cap
        return tuple(totals)


def band_of(candidate: Candidate) -> Band:
    return (int(candidate.tier), -candidate.unit.priority)


def age_bucket(candidate: Candidate, now: float) -> int:
    """How many of the thresholds it has waited past; a clock that went backwards makes it young."""
    return sum(now - candidate.unit.enqueued_at >= age for age in AGES_S)


def weight(candidate: Candidate, space: Space, now: float) -> int:
    """The value of starting a gang, within its band: its devices, more if it has waited long. What one pod asks
    for by the thousand (GPU memory in bytes, shares of a core) is an amount, not devices."""
    devices = space.devices
    size = sum(
        amount * part.replicas
        for part in space.shapes[candidate.shape]
        for index, amount in part.need
        if index < devices and amount <= _MOST_DEVICES
    )
    return max(1, size) * (4 + age_bucket(candidate, now))


def build(
    candidates: Sequence[Candidate], ground: Ground, greedy: Mapping[str, str], *, now: float, config: Config
) -> Linked:
    """The problem of placing `candidates` (in order) on `ground`. `greedy`: a known answer, unit to member."""
    bands = sorted({band_of(candidate) for candidate in candidates})[:MOST_BANDS]
    numbers = {band: number for number, band in enumerate(bands)}
    caps = KindCaps(ground)
    members: dict[tuple[str | None, int, int, int, int, int, bool], list[Candidate]] = {}
    runs: dict[str, tuple[int, object]] = {}
    for candidate in candidates:
        band = numbers.get(band_of(candidate))
        if band is None or not candidate.eligibility.choices:
            continue
        leaf, age = candidate.unit.leaf, age_bucket(candidate, now)
        run = 0
        if candidate.block and leaf is not None:  # equal neighbours in the queue are one link of its chain
            link = (band, age, candidate.shape, candidate.eligibility.number, candidate.unit.preemptible)
            run, last = runs.get(leaf, (0, None))
            if last != link:
                run += 1
                runs[leaf] = (run, link)
        key = (leaf, band, age, candidate.shape, candidate.eligibility.number, run, candidate.unit.preemptible)
        members.setdefault(key, []).append(candidate)
    classes: list[GangClass] = []
    behind: list[tuple[Candidate, ...]] = []
    chains: dict[str, list[int]] = {}
    wanted: dict[Kind, int] = {}
    eligibilities: dict[int, Eligibility] = {}
    for key, group in members.items():
        leaf, band, age, shape, eligibility, run, _ = key
        cap = min(len(group), caps.room(shape, group[0].eligibility), caps.quota(group[0]))
        if cap <= 0 and not run:
            continue
        if run and leaf is not None:
            chains.setdefault(leaf, []).append(len(classes))
        worth = weight(group[0], ground.space, now)
        classes.append(GangClass(leaf, band, age, shape, eligibility, len(group), worth, cap))
        behind.append(tuple(group))
        wanted[shape, eligibility] = wanted.get((shape, eligibility), 0) + cap
        eligibilities[eligibility] = group[0].eligibility
    lanes = lanes_of(wanted, eligibilities, caps)
    rooms, spreads = room_rows(lanes, ground)
    problem = Problem(
        bands=tuple(f"{_BAND_NAMES[tier]}, priority {-minus}" for tier, minus in bands),
        classes=tuple(classes),
        lanes=lanes,
        quota=_quota(classes, behind, ground),
        rooms=rooms,
        spreads=spreads,
        chains=tuple(tuple(chain) for chain in chains.values() if len(chain) > 1),
        hint=_hint(behind, lanes, greedy),
        relative_gap=config.relative_gap,
        deterministic_limit=config.deterministic_limit,
    )
    return Linked(problem, tuple(behind), tuple(bands))


def _quota(classes: Sequence[GangClass], behind: Sequence[Sequence[Candidate]], ground: Ground) -> tuple[QuotaRow, ...]:
    usage = ground.usage
    if usage is None:
        return ()
    terms: dict[tuple[str, str], list[tuple[int, int]]] = {}
    for index, cls in enumerate(classes):
        if cls.leaf is None:
            continue
        for node in usage.path(cls.leaf):
            for resource, amount in behind[index][0].request.items_:
                if usage.room(node, resource) is not None:
                    terms.setdefault((node, resource), []).append((index, amount))
    rows: list[QuotaRow] = []
    for (node, resource), row in terms.items():
        room = usage.room(node, resource) or 0
        if sum(amount * classes[index].cap for index, amount in row) > room:
            rows.append(QuotaRow(node, resource, tuple(row), room))
    return tuple(rows)


def _hint(
    behind: Sequence[Sequence[Candidate]], lanes: Sequence[Lane], greedy: Mapping[str, str]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    admitted = tuple(sum(candidate.unit.id in greedy for candidate in group) for group in behind)
    placed: dict[tuple[int, int, str], int] = {}
    for group in behind:
        for candidate in group:
            member = greedy.get(candidate.unit.id)
            if member is not None:
                key = (candidate.shape, candidate.eligibility.number, member)
                placed[key] = placed.get(key, 0) + 1
    return admitted, tuple(placed.get((lane.shape, lane.eligibility, lane.member), 0) for lane in lanes)


def sound(problem: Problem, answer: Answer) -> bool:
    """Whether the answer is about this problem at all: right lengths, no more than there is."""
    if len(answer.admitted) != len(problem.classes) or len(answer.placed) != len(problem.lanes):
        return False
    return all(0 <= n <= c.count for n, c in zip(answer.admitted, problem.classes, strict=True)) and all(
        n >= 0 for n in answer.placed
    )


Pairs = list[tuple[Candidate, str]]


def decode(
    linked: Linked, answer: Answer, candidates: Sequence[Candidate], fresh: Callable[[], Ground]
) -> tuple[Ground, Pairs]:
    """Units and members for the counts of an answer, packed onto a `fresh()` ground, which is returned with them.
    Within a class the oldest start; largest gangs are packed first; what does not pack, or breaks a limit, is left
    out, and with it whoever stands behind it in a queue with policy Block."""
    pairs = _named(linked, answer, fresh())
    skip: set[str] = set()
    for _ in range(_MOST_DECODES):
        ground = fresh()
        packed: Pairs = []
        for candidate, member in pairs:
            if candidate.unit.id not in skip and ground.admits(candidate):
                fit = ground.fit(candidate.shape, member)
                if fit is not None:
                    ground.take(candidate, member, fit)
                    packed.append((candidate, member))
        early = _out_of_order(candidates, {candidate.unit.id for candidate, _ in packed})
        if not early:
            return ground, packed
        skip |= early
    return fresh(), []


def _named(linked: Linked, answer: Answer, ground: Ground) -> Pairs:
    """The counts as units and members, in the order to pack them."""
    admitted: dict[Kind, list[Candidate]] = {}
    for cls, behind, count in zip(linked.problem.classes, linked.behind, answer.admitted, strict=True):
        admitted.setdefault((cls.shape, cls.eligibility), []).extend(behind[:count])
    homes: dict[Kind, list[tuple[int, str, int]]] = {}
    for lane, count in zip(linked.problem.lanes, answer.placed, strict=True):
        if count:
            homes.setdefault((lane.shape, lane.eligibility), []).append((lane.cost, lane.member, count))
    pairs: Pairs = []
    for kind, group in admitted.items():
        group.sort(key=standing)
        names = [member for _, member, count in sorted(homes.get(kind, [])) for _ in range(min(count, len(group)))]
        pairs += zip(group, names, strict=False)
    space = ground.space
    pairs.sort(key=lambda pair: standing(pair[0]))
    pairs.sort(key=lambda pair: tuple(space.size(part.need) for part in space.shapes[pair[0].shape]), reverse=True)
    return pairs


def _out_of_order(candidates: Sequence[Candidate], placed: set[str]) -> set[str]:
    """Units placed although one ahead of them in a Block queue is not."""
    stopped: set[str] = set()
    early: set[str] = set()
    for candidate in candidates:
        leaf = candidate.unit.leaf
        if candidate.block and leaf is not None:
            if candidate.unit.id not in placed:
                stopped.add(leaf)
            elif leaf in stopped:
                early.add(candidate.unit.id)
    return early
