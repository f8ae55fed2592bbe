"""An answer of the linked model as units and members again.

The oldest units of each class start, in the members that the answer counts. Where rows allowed too much, the order of
packing decides which units find no place. A search for the best order would take too long, so a few are tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from fleet.model.order import queue_order
from fleet.placement.candidates.candidate import Candidate, Group, service_order
from fleet.placement.greedy.situation import Pairs
from fleet.placement.greedy.worth import Band, band_of, weight
from fleet.placement.linked.linked import Linked
from fleet.placement.problem import Answer, Kind, Problem
from fleet.placement.reservation.profile import Profile

_MOST_DECODES = 8
_MOST_PACKINGS = 16  # of one answer, again
_MOST_PACKED = 8_000  # gangs, in these


def sound(problem: Problem, answer: Answer) -> bool:
    """Whether an answer belongs to a problem: it has the right lengths, and admits no more gangs than there are."""
    if len(answer.admitted) != len(problem.classes) or len(answer.placed) != len(problem.lanes):
        return False
    return all(0 <= n <= c.count for n, c in zip(answer.admitted, problem.classes, strict=True)) and all(
        n >= 0 for n in answer.placed
    )


def decode(
    linked: Linked, answer: Answer, groups: Sequence[Group], fresh: Callable[[], Profile]
) -> tuple[Profile, Pairs, Pairs]:
    """Units and members for the counts of an answer, packed onto a `fresh()` profile, which is returned with them; and
    the units that find no place in the member that the answer means for them.

    The oldest units of a class start. The largest gangs are packed first, or the most important band. The next
    try begins with the gangs without a place, so that no gang of a better tier stays out for one of a worse. A gang
    that never packs, or breaks a limit, stays out, and with it all units behind it in a Block queue."""
    pairs = _named(linked, answer, fresh())
    found = best = _packed(pairs, groups, fresh)
    if found[2] and len(pairs) <= _MOST_PACKED:
        other = _packed(sorted(pairs, key=lambda pair: band_of(pair[0])), groups, fresh)
        best = min(found, other, key=lambda tried: _lost(tried, linked.bands))
    hurry: dict[str, int] = {}
    for turn in range(1, 1 + min(_MOST_PACKINGS, _MOST_PACKED // max(1, len(pairs)))):
        if not found[2]:
            return found
        blocked = {candidate.unit.leaf for candidate, _ in found[2] if candidate.block}
        late = {candidate.unit.id for candidate, _ in found[2]}
        late |= {candidate.unit.id for candidate, _ in pairs if candidate.block and candidate.unit.leaf in blocked}
        hurry.update(dict.fromkeys(late, turn))
        found = _packed(sorted(pairs, key=lambda pair: -hurry.get(pair[0].unit.id, 0)), groups, fresh)
        best = min(best, found, key=lambda tried: _lost(tried, linked.bands))
    return best


def _lost(found: tuple[Profile, Pairs, Pairs], bands: Iterable[Band]) -> tuple[int, ...]:
    """The devices of the pods that find no place, by band."""
    profile, _, dropped = found
    lost: Counter[Band] = Counter()
    for candidate, _ in dropped:
        lost[band_of(candidate)] += weight(profile.space.shapes[candidate.shape], 0, profile.space)
    return tuple(lost[band] for band in bands)


def _packed(pairs: Pairs, groups: Sequence[Group], fresh: Callable[[], Profile]) -> tuple[Profile, Pairs, Pairs]:
    """One try, in the order of `pairs`, but heads first: a head that has started keeps nothing from others. A unit that
    stays out because one ahead of it in its queue has no room counts as one without room."""
    skip: set[str] = set()
    short: set[str] = set()  # units that had no room in some round, and the units behind them
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
    for cls, units, count in zip(linked.problem.classes, linked.units, answer.admitted, strict=True):
        if count:
            admitted.setdefault(cls.kind, []).extend(units.oldest(count))
    homes: dict[Kind, list[tuple[int, str, int]]] = {}
    for lane, count in zip(linked.problem.lanes, answer.placed, strict=True):
        if count:
            homes.setdefault(lane.kind, []).append((lane.cost, lane.member, count))
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
    """The units of Block queues that are placed although a unit ahead of them is not."""
    started = {candidate.unit.id for candidate, _ in placed}
    stops: dict[str, tuple[int, float, str, str]] = {}
    for group in groups:
        if group.block and group.leaf is not None:
            index = group.next(0, len(group.units), started)
            if index < len(group.units):
                first = queue_order(group.units[index])
                stops[group.leaf] = min(first, stops.get(group.leaf, first))
    return {c.unit.id for c, _ in placed if c.unit.leaf in stops and queue_order(c.unit) > stops[c.unit.leaf]}
