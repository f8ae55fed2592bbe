"""Taking room back for units that have a right to it: victims leave, and the room is claimed until the unit starts.

A guaranteed unit, or one within its share, that cannot start and may evict gets its claim before anything that borrows
starts: whatever borrows is placed again in what is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import replace
from heapq import merge
from itertools import chain, islice

from fleet.model.order import queue_order
from fleet.placement.candidates.candidate import Candidate, Group, service_order
from fleet.placement.candidates.turns import before, gaps
from fleet.placement.greedy.settle import Outcome, settle
from fleet.placement.greedy.situation import Situation, behind_claims, claims_of
from fleet.placement.preemption.reclaim import MOST_TRIES, NOTHING_FOUND, Found, Reclaim
from fleet.placement.preemption.rights import LOWER, policy_of
from fleet.placement.preemption.victims import Asking
from fleet.placement.reservation.heads import Head
from fleet.placement.reservation.profile import Profile
from fleet.quota.tiers import Tier


def preempt(situation: Situation, outcome: Outcome, asking: Asking) -> tuple[Situation, Outcome, Found]:
    """The situation with new claims, the outcome beside them, and what leaves for them; both as given where nothing
    does."""
    snapshot, entitled = situation.snapshot, situation.entitled
    if not snapshot.config.reclaim or entitled is None:
        return situation, outcome, NOTHING_FOUND
    within = [pair for pair in outcome.placed if pair[0].tier <= Tier.SHARE]
    started = {candidate.unit.id for candidate, _ in outcome.placed}
    profile = situation.after(within)
    preemptors = _preemptors(situation, started, {candidate.unit.id for candidate, _ in within}, profile)
    firsts = list(islice(preemptors, 1))
    if profile.usage is None or not firsts:
        return situation, outcome, NOTHING_FOUND
    shapes = situation.space.shapes
    new = [(c.unit.id, member, shapes[c.shape]) for c, member in (*situation.first, *within)]
    search = Reclaim(situation, [*situation.coming, *new], profile.usage, entitled.running, asking)
    found = search.run(chain(firsts, preemptors))
    if not found.claims:
        return situation, outcome, found
    situation = _with_claims(situation, found)
    return situation, settle(situation, situation.after(within), within), found


def _with_claims(situation: Situation, found: Found) -> Situation:
    usage = situation.usage.copy() if situation.usage is not None else None
    plain = {head.candidate.unit.id: head.plain for head in situation.chosen.heads}  # it says so, whatever it evicts as
    kept = [(replace(claim, tier=plain.get(claim.unit.id, claim.tier)), member) for claim, member in found.kept]
    claims = claims_of(kept, situation.now)
    for candidate, _ in found.kept:
        if usage is not None and candidate.account is not None:
            usage.charge(candidate.account, candidate.request)
    new = frozenset(candidate.unit.id for candidate, _ in found.kept)
    groups, behind = behind_claims(situation.groups, claims)
    heads = tuple(head for head in situation.chosen.heads if head.candidate.unit.id not in new)
    return replace(
        situation, usage=usage, groups=groups, behind=[*situation.behind, *behind], claims=(*situation.claims, *claims),
        new=new, chosen=replace(situation.chosen, heads=heads),
    ).reserving_beside([eviction.unit for eviction in found.evictions])  # fmt: skip


def _preemptors(
    situation: Situation, started: Container[str], entitled: Container[str], profile: Profile
) -> Iterator[Candidate]:
    """The units that may take room back, in service order, as far as anybody asks; of those alike a bounded number.
    They leave the members of reservations that bind them alone. Behind one that may not take back, and that stops its
    queue, no unit does. `entitled`: the units of `started` within their share, which start whatever is claimed."""
    tree = situation.snapshot.tree
    own = {path for path in tree.nodes if policy_of(tree, path) == LOWER} if tree is not None else set()

    heads = {head.candidate.unit.id: head for head in situation.chosen.heads}

    def able(group: Group) -> int:
        """How many of a group, from its first, have a right to take back."""
        head = heads.get(group.ids[0])
        within = group.rank.share if head is None else int(head.plain < Tier.BORROWED)
        most = len(group.units) if group.leaf in own else within
        if not most or group.leaf is None or not group.eligibility.choices:
            return 0
        return 0 if situation.nevers.of(group.shape, group.eligibility) else most

    def run(group: Group) -> Iterator[Candidate]:
        end, tries = able(group), Counter[str | None]()
        for index in range(end if group.by_user else min(end, MOST_TRIES)):
            tries[group.account(index)] += 1
            if tries[group.account(index)] <= MOST_TRIES and group.ids[index] not in started:
                candidate = group.candidate(index)
                yield replace(candidate, tier=_evicting(candidate, heads.get(group.ids[index])))

    def waits(group: Group) -> int:
        """As `able`, up to the first that starts only while nobody else claims its room."""
        end = able(group) if group.block else 0
        return next((i for i in range(end) if group.ids[i] in started and group.ids[i] not in entitled), end)

    groups = [*situation.groups, *situation.behind]
    in_the_way = gaps(groups, entitled, waits)
    for candidate in merge(*(run(group) for group in groups if able(group)), key=service_order):
        beside = _beside_reservations(profile, candidate) if before(candidate, in_the_way) else None
        if beside is not None:
            yield beside
        elif candidate.block:
            turn = queue_order(candidate.unit)
            in_the_way[candidate.unit.leaf] = min(turn, in_the_way.get(candidate.unit.leaf, turn))


def _evicting(candidate: Candidate, head: Head | None) -> Tier:
    """The tier as which a unit evicts. A head's own tier counts what is before it only; to evict, all of its leaf
    counts. A unit that crosses its leaf's share evicts as within it if it is a head, else as above it."""
    tier = candidate.tier if head is None else head.plain
    if tier is not Tier.CROSSING:
        return tier
    return Tier.BORROWED if head is None else Tier.SHARE


def _beside_reservations(profile: Profile, candidate: Candidate) -> Candidate | None:
    """The candidate as one that goes to no member where a reservation that binds it keeps room. None where that leaves
    it nothing, where a reservation keeps quota from it, or free room: nobody evicts for being refused that."""
    bound = profile.bound(candidate)
    if not bound:
        return candidate
    if not profile.spares_quota(candidate, bound) or profile.refusing(candidate) is not None:
        return None
    taken = {span.member for number, span in enumerate(profile.spans) if bound & 1 << number}
    eligibility = candidate.eligibility
    choices = tuple(choice for choice in eligibility.choices if choice.member not in taken)
    narrow = replace(eligibility, number=eligibility.number | (bound + 1) << 32, choices=choices)
    return replace(candidate, eligibility=narrow) if choices else None
