"""Tiers and the greedy pass, unit by unit: slow and plain, to hold the ones that work on units alike against."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from fleet.core.model.tier import Tier
from fleet.core.placement.candidates.candidate import Candidate
from fleet.core.placement.greedy.greedy import Pass
from fleet.core.placement.reservation.heads import LeafHead
from fleet.core.placement.reservation.profile import Profile
from fleet.core.quota.guarantee import Guarantees
from fleet.core.quota.limits import FIRM
from fleet.core.quota.tiers import UnitGroup
from fleet.core.quota.tree import MAX_JOBS

Shares = Mapping[str, Mapping[str, int]]


def tiers(
    promises: Guarantees, shares: Shares, running: Sequence[UnitGroup], queue: Sequence[UnitGroup]
) -> dict[str, Tier]:
    """Of one leaf: `running` by priority and start, `queue` in its order."""
    used: dict[str, int] = {}
    found: dict[str, Tier] = {}

    def asked(item: UnitGroup) -> dict[str, int]:
        return {n: a for n, a in item.request.items_ if n != MAX_JOBS and not n.startswith(FIRM)}

    def take(item: UnitGroup, tier: Tier) -> None:
        found[item.units[0].id] = tier
        for name, amount in asked(item).items():
            used[name] = used.get(name, 0) + amount

    def within(item: UnitGroup) -> bool:
        mine = promises.min.get(item.leaf or "", {})
        named = {n: a for n, a in asked(item).items() if n in promises.measured.get(item.leaf or "", ())}
        return bool(mine and named) and all(used.get(n, 0) + a <= mine.get(n, 0) for n, a in named.items())

    def sharing(item: UnitGroup) -> bool:
        share = shares.get(item.leaf or "", {})
        named = {n: a for n, a in asked(item).items() if n in share}
        return bool(named) and all(used.get(n, 0) + a <= share[n] for n, a in named.items())

    def below(item: UnitGroup) -> bool:
        share = shares.get(item.leaf or "", {})
        named = [n for n in asked(item) if n in share]
        return bool(named) and all(used.get(n, 0) < share[n] for n in named)

    for item in running:
        take(item, Tier.GUARANTEED if within(item) else Tier.SHARE if sharing(item) else Tier.BORROWED)
    for tier, counts in ((Tier.GUARANTEED, within), (Tier.SHARE, sharing), (Tier.CROSSING, below)):
        for item in queue:
            if item.units[0].id in found:
                continue
            if counts(item):
                take(item, tier)
            elif item.block:
                break
    for item in queue:
        found.setdefault(item.units[0].id, Tier.BORROWED)
    return found


def place(
    profile: Profile, candidates: Sequence[Candidate], heads: Sequence[LeafHead], barred: Container[str] = ()
) -> Pass:
    """Serve `candidates`, which are in order, by tier and priority. Before each of these, the heads of it and of those
    before it that wait still: everybody is asked."""
    done = Pass()
    started: set[str] = set()

    def start(candidate: Candidate) -> bool:
        bound = profile.bound(candidate)
        passing = profile.standing(profile.passing(candidate.unit, candidate.tier), candidate.unit)
        admitted = candidate.unit.id not in barred and profile.admits(candidate, bound)
        best = profile.best(candidate.shape, candidate.eligibility, bound, passing) if admitted else None
        if best is not None:
            profile.start(candidate, *best)
            done.placed.append((candidate, best[0]))
            started.add(candidate.unit.id)
        return best is not None

    ids = {candidate.unit.id for candidate in candidates}
    bands = sorted({band_of(candidate) for candidate in candidates})
    for band in bands:
        for head in heads:
            unit = head.candidate.unit
            if unit.id in ids - started and band_of(head.candidate) <= band and unit.leaf not in done.stopped:
                start(head.candidate)
        for candidate in candidates:
            unit = candidate.unit
            if band_of(candidate) != band or unit.id in started or unit.leaf in done.stopped:
                continue
            if not start(candidate) and candidate.block and unit.leaf is not None:
                done.stopped[unit.leaf] = unit.id
    return done


def band_of(candidate: Candidate) -> tuple[Tier, int]:
    return candidate.tier, -candidate.unit.priority
