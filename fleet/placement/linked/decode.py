"""An answer of the linked model as units and members again.

The oldest of each class start, in the members that the answer counts; the order in which they are packed decides what
finds no place where the rows had promised too much, so a few orders are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fleet.model.order import queue_order
from fleet.placement.candidates.candidate import Candidate, Group, service_order
from fleet.placement.greedy.situation import Pairs
from fleet.placement.greedy.worth import Band, band_of, weight
from fleet.placement.linked.linked import Linked
from fleet.placement.linked.rows import Kind
from fleet.placement.problem import Answer, Problem
from fleet.placement.reservation.profile import Profile

_MOST_DECODES = 8
_MOST_PACKINGS = 16  # of one answer, again
_MOST_PACKED = 8_000  # gangs, in these


def sound(problem: Problem, answer: Answer) -> bool:
    """Whether the answer is about this problem at all: right lengths, no more than there is."""
    if len(answer.admitted) != len(problem.classes) or len(answer.placed) != len(problem.lanes):
        return False
    return all(0 <= n <= c.count for n, c in zip(answer.admitted, problem.classes, strict=True)) and all(
        n >= 0 for n in answer.placed
    )


def decode(
    linked: Linked, answer: Answer, groups: Sequence[Group], fresh: Callable[[], Profile]
) -> tuple[Profile, Pairs, Pairs]:
    """Units and members for the counts of an answer, packed onto a `fresh()` profile, which is returned with them; and
    those that find no place in the member that they were meant for.

    Within a class the oldest start; largest gangs are packed first, or those of the most important band, or those that
    found no place in the try before, so that what counts on more is not left out for what counts on less. What never
    packs, or breaks a limit, is left out, and with it whoever stands behind it in a queue with policy Block."""
    pairs = _named(linked, answer, fresh())
    found = best = _packed(pairs, groups, fresh)
    if found[2] and len(pairs) <= _MOST_PACKED:
        other = _packed(sorted(pairs, key=lambda pair: band_of(pair[0])), groups, fresh)
        best = min(found, other, key=lambda tried: _lost(tried, linked.bands))
    hurry: dict[str, int] = {}
    for turn in range(1, 1 + min(_MOST_PACKINGS, _MOST_PACKED // max(1, len(pairs)))):
        if not found[2]:
            return found
        lines = {candidate.unit.leaf for candidate, _ in found[2] if candidate.block}
        late = {candidate.unit.id for candidate, _ in found[2]}
        late |= {candidate.unit.id for candidate, _ in pairs if candidate.block and candidate.unit.leaf in lines}
        hurry.update(dict.fromkeys(late, turn))
        found = _packed(sorted(pairs, key=lambda pair: -hurry.get(pair[0].unit.id, 0)), groups, fresh)
        if _lost(found, linked.bands) < _lost(best, linked.bands):
            best = found
    return best


def _lost(found: tuple[Profile, Pairs, Pairs], bands: Iterable[Band]) -> tuple[int, ...]:
    """What finds no place, by band: in pods' devices."""
    profile, _, dropped = found
    lost: dict[Band, int] = {}
    for candidate, _ in dropped:
        band = band_of(candidate)
        lost[band] = lost.get(band, 0) + weight(profile.space.shapes[candidate.shape], 0, profile.space)
    return tuple(lost.get(band, 0) for band in bands)


def _packed(pairs: Pairs, groups: Sequence[Group], fresh: Callable[[], Profile]) -> tuple[Profile, Pairs, Pairs]:
    """One try, in the order of `pairs`, but heads first: once they have started they keep nothing from others. Who is
    left out because one ahead in its queue had no room has none either."""
    skip: set[str] = set()
    short: set[str] = set()  # who had no room in some round, and those behind
    heads = {span.holder.unit.id for span in fresh().spans}
    pairs = sorted(pairs, key=lambda pair: pair[0].unit.id not in heads) if heads else pairs
    for _ in range(_MOST_DECODES):
        profile = fresh()
        packed: Pairs = []
        dropped: Pairs = []
        for candidate, member in pairs:
            bound = profile.bound(candidate)
            if candidate.unit.id in skip or not profile.admits(candidate, bound):
                if candidate.unit.id in short:
                    dropped.append((candidate, member))
                continue
            fit = profile.fit(candidate.shape, member, bound)
            if fit is None:
                dropped.append((candidate, member))
            else:
                profile.start(candidate, member, fit)
                packed.append((candidate, member))
        early = out_of_order(groups, packed)
        if not early:
            return profile, packed, dropped
        skip |= early
        if dropped:
            short.update(early, (candidate.unit.id for candidate, _ in dropped))
    return fresh(), [], pairs


def _named(linked: Linked, answer: Answer, profile: Profile) -> Pairs:
    """The counts as units and members, in the order to pack them."""
    admitted: dict[Kind, list[Candidate]] = {}
    for cls, behind, count in zip(linked.problem.classes, linked.behind, answer.admitted, strict=True):
        if count:
            admitted.setdefault((cls.shape, cls.eligibility, cls.bound), []).extend(behind.oldest(count))
    homes: dict[Kind, list[tuple[int, str, int]]] = {}
    for lane, count in zip(linked.problem.lanes, answer.placed, strict=True):
        if count:
            homes.setdefault((lane.shape, lane.eligibility, lane.bound), []).append((lane.cost, lane.member, count))
    pairs: Pairs = []
    for kind, group in admitted.items():
        group.sort(key=service_order)
        names = [member for _, member, count in sorted(homes.get(kind, [])) for _ in range(min(count, len(group)))]
        pairs += zip(group, names, strict=False)
    space = profile.space
    pairs.sort(key=lambda pair: service_order(pair[0]))
    pairs.sort(key=lambda pair: tuple(space.size(part.need) for part in space.shapes[pair[0].shape]), reverse=True)
    return pairs


def out_of_order(groups: Iterable[Group], placed: Pairs) -> set[str]:
    """Units placed although one that nobody of its queue may start before is not."""
    started = {candidate.unit.id for candidate, _ in placed}
    stops: dict[str, tuple[int, float, str, str]] = {}
    for group in groups:
        if group.block and group.leaf is not None:
            index = group.next(0, len(group.units), started)
            if index < len(group.units):
                first = queue_order(group.units[index])
                stops[group.leaf] = min(first, stops.get(group.leaf, first))
    return {c.unit.id for c, _ in placed if c.unit.leaf in stops and queue_order(c.unit) > stops[c.unit.leaf]}
