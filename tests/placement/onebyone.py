"""Tiers and the greedy pass, unit by unit: slow and plain, to hold the ones that work on units alike against."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from fleet.placement.greedy.ground import Ground

from fleet.placement.candidates.candidate import Candidate
from fleet.placement.greedy.greedy import Pass
from fleet.quota.guarantee import Guarantees
from fleet.quota.tiers import Claimed, Tier
from fleet.quota.tree import MAX_JOBS
from fleet.quota.usage import FIRM

Shares = Mapping[str, Mapping[str, int]]


def tiers(
    promises: Guarantees, shares: Shares, running: Sequence[Claimed], queue: Sequence[Claimed]
) -> dict[str, Tier]:
    """Of one leaf: `running` by priority and start, `queue` in its order."""
    used: dict[str, int] = {}
    found: dict[str, Tier] = {}

    def asked(item: Claimed) -> dict[str, int]:
        return {n: a for n, a in item.request.items_ if n != MAX_JOBS and not n.startswith(FIRM)}

    def take(item: Claimed, tier: Tier) -> None:
        found[item.unit.id] = tier
        for name, amount in asked(item).items():
            used[name] = used.get(name, 0) + amount

    def within(item: Claimed) -> bool:
        mine = promises.min.get(item.leaf or "", {})
        named = {n: a for n, a in asked(item).items() if n in promises.measured.get(item.leaf or "", ())}
        return bool(mine and named) and all(used.get(n, 0) + a <= mine.get(n, 0) for n, a in named.items())

    def sharing(item: Claimed) -> bool:
        share = shares.get(item.leaf or "", {})
        named = {n: a for n, a in asked(item).items() if n in share}
        return bool(named) and all(used.get(n, 0) + a <= share[n] for n, a in named.items())

    def below(item: Claimed) -> bool:
        share = shares.get(item.leaf or "", {})
        named = [n for n in asked(item) if n in share]
        return bool(named) and all(used.get(n, 0) < share[n] for n in named)

    for item in running:
        take(item, Tier.GUARANTEED if within(item) else Tier.SHARE if sharing(item) else Tier.BORROWED)
    for tier, counts in ((Tier.GUARANTEED, within), (Tier.SHARE, sharing), (Tier.CROSSING, below)):
        for item in queue:
            if item.unit.id in found:
                continue
            if counts(item):
                take(item, tier)
            elif item.block:
                break
    for item in queue:
        found.setdefault(item.unit.id, Tier.BORROWED)
    return found


def place(ground: Ground, candidates: Sequence[Candidate], barred: Container[str] = ()) -> Pass:
    """Serve `candidates`, which are in order, heads first in their tier: everybody is asked."""
    done = Pass()
    heads = {hold.head.unit.id: (hold.tier, number) for number, hold in enumerate(ground.holds)}
    for candidate in sorted(candidates, key=lambda c: heads.get(c.unit.id, (c.tier, len(heads)))):
        unit = candidate.unit
        if unit.leaf in done.stopped:
            continue
        bound = ground.bound(candidate)
        admitted = ground.admits(candidate, bound)
        best = ground.best(candidate.shape, candidate.eligibility, bound) if admitted else None
        if best is not None and unit.id not in barred:
            ground.take(candidate, *best)
            done.placed.append((candidate, best[0]))
        elif candidate.block and unit.leaf is not None:
            done.stopped[unit.leaf] = unit.id
    return done
