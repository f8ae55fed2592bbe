"""Taking room back for units that have a right to it: victims leave, and the room is claimed until the unit starts.

A guaranteed unit, or a unit within its share, that cannot start and may evict gets its claim before any borrowing unit
starts. Borrowing units are placed again in the room that is left.

A guaranteed gang may evict work within its share or above. A gang within its share may evict only what is borrowed.
No gang evicts higher priority (the leaf's attribute `preempt-policy` may say otherwise), work of its own leaf, work
outside quota, work protected by its age, or work that is not preemptible. Where the policy is PreemptLowerPriority, a
gang may also evict lower priority of its own leaf, in any tier. Within one decision, a unit that may evict cannot be
evicted by its victims, so evictions do not go round in circles. Gangs leave whole, as few and as cheap ones as can be
(search.py). The bounds of the search are named in the certificate; a unit that is not reached waits for the next cycle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import chain, islice

from fleet.core.model.amounts import Amounts
from fleet.core.model.bounds import BOUNDS
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.leaving import leaves
from fleet.core.model.order import queue_order
from fleet.core.model.plan import Eviction, RoomClaim, VictimSearch
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Phase, Unit
from fleet.core.placement.candidates.candidate import Candidate, Group, before, gaps, service_order
from fleet.core.placement.greedy.greedy import GreedyOutcome, settle
from fleet.core.placement.greedy.situation import Situation, behind_claims, claims_of
from fleet.core.placement.packing.space import Shape
from fleet.core.placement.preemption.search import Deal, Search, Tries, VictimChoice
from fleet.core.placement.preemption.state import (
    LOWER,
    EvictableWork,
    PreemptionState,
    Runners,
    Work,
    may_evict,
    policy_of,
)
from fleet.core.placement.preemption.together import JointSearch
from fleet.core.placement.preemption.victims import VictimSolver
from fleet.core.placement.reservation.heads import LeafHead
from fleet.core.placement.reservation.profile import Profile
from fleet.core.quota.limits import COUNTS
from fleet.core.quota.requests import Requests
from fleet.core.quota.usage import Usage, account_of, request_of


def lost_work(unit: Unit, now: float, request: Amounts | None = None) -> int:
    """The work that an eviction costs: seconds since start or checkpoint, and the time of leaving, for each device.
    `request`: the charge of the unit, where that is known."""
    since = max(now if unit.placed_at is None else unit.placed_at, unit.checkpoint_at or 0.0)
    amounts = (request or request_of(unit)).items_
    devices = sum(n for name, n in amounts if "/" in name and name not in COUNTS and n <= BOUNDS.weighed_devices)
    return int(max(0.0, now - since) + unit.leaving_s) * max(1, devices)


@dataclass(frozen=True, slots=True)
class PlanVictims:
    """The victims of a plan, and how they were found. `until`: the end of the claims; `cut`: why some candidates that
    might take back were not looked at; None if all were. `bounds`: those that ended a search for victims."""

    choices: tuple[VictimChoice, ...] = ()
    until: float = 0.0
    searches: tuple[VictimSearch, ...] = ()
    cut: Cause | None = None
    bounds: frozenset[str] = frozenset()

    @property
    def evictions(self) -> tuple[Eviction, ...]:
        pairs = ((work.unit, choice.candidate.unit) for choice in self.choices for work in choice.victims)
        return tuple(Eviction(unit.id, unit.member or "", preemptor.id) for unit, preemptor in pairs)

    @property
    def claims(self) -> tuple[RoomClaim, ...]:
        holders = ((choice.candidate.unit, choice.member) for choice in self.choices)
        return tuple(RoomClaim(unit.id, member, unit.total, self.until) for unit, member in holders)


NOTHING_FOUND = PlanVictims()


class Reclaim:
    """One plan's search. `coming`: (unit, member, shape) of pods that are committed but not seen, of placed units and
    of units that this plan places; `usage`: once the plan is committed, kept room included."""

    def __init__(
        self,
        situation: Situation,
        coming: Iterable[tuple[str, str, Shape]],
        usage: Usage,
        tiers: Mapping[str, Tier],
        asking: VictimSolver,
    ) -> None:
        """`asking`: the solver that proves or betters what is found without it."""
        snapshot, space = situation.snapshot, situation.space
        assert snapshot.tree is not None
        self._snapshot = snapshot
        self._tree = snapshot.tree
        self._now = situation.now
        self._asking = asking
        self._bounds: set[str] = set()
        self._tries = Tries("tries")
        self._tries_together = Tries("tries_together")
        self._searches: list[VictimSearch] = []
        self._state = PreemptionState(
            snapshot.members, situation.free, space, coming, situation.unstarted_claims, usage.copy()
        )
        self._running = Runners(space)
        self._returning: dict[str | None, list[Work]] = {}  # by leaf: the units that leave already
        requests = Requests()
        for key, unit in sorted(snapshot.backlog.holding.items()):
            request = requests.of(unit)
            lost = lost_work(unit, self._now, request)
            work = Work(unit, tiers.get(key, Tier.BORROWED), lost, request, account_of(self._tree, unit))
            if leaves(unit, self._now, snapshot.config.claim_s):
                self._state.leave(work)
                self._returning.setdefault(unit.leaf, []).append(work)
            elif unit.phase is Phase.PLACED and unit.leaf is not None and unit.preemptible and self._may_leave(unit):
                self._running.put(work)

    def _may_leave(self, unit: Unit) -> bool:
        """Whether its member can be told to stop it, and no protection time keeps it."""
        member = self._snapshot.members.get(unit.member or "")
        old = unit.placed_at is None or self._now - unit.placed_at >= self._snapshot.config.protection_s
        return member is not None and member.ready and old

    def run(self, preemptors: Iterable[Candidate]) -> PlanVictims:
        """The victims for waiting candidates that may take back, in order."""
        done: list[VictimChoice] = []
        batch: list[VictimChoice] = []  # their victims are chosen as a whole
        before = self._state
        hopeless: set[tuple[object, ...]] = set()
        stopped: set[str | None] = set()  # queues in which a candidate without room stops all that come after it
        cut: Cause | None = None
        for number, candidate in enumerate(preemptors):
            alike = (
                candidate.account,
                candidate.tier,
                candidate.unit.priority,
                candidate.shape,
                candidate.eligibility.number,
                candidate.unit.preemptible,
            )
            cut = self._spent(number, 0 if alike in hopeless else len(hopeless))
            if cut is not None:
                break
            if candidate.unit.leaf in stopped:
                continue
            best = self._alone(candidate) if alike not in hopeless else None
            if best is None:
                hopeless.add(alike)
            if best is None or not self._has_turn(candidate, best.victims):
                stopped |= {candidate.unit.leaf} if candidate.block else set()
                continue
            if not batch:
                before = self._state
                self._bounds |= {"together"} if done else set()
            batch.append(best)
            self._make(Deal((best,)), self._state)
            if len(batch) == BOUNDS.together:
                done += self._together(before, batch)
                batch = []
        until = self._now + self._snapshot.config.claim_s
        done += self._together(before, batch)
        bounds = self._bounds | self._tries.bounds | self._tries_together.bounds | self._asking.bounds
        return PlanVictims(tuple(done), until, tuple(self._searches), cut, frozenset(bounds))

    def _able(self, candidate: Candidate) -> EvictableWork:
        unit, tier = candidate.unit, candidate.tier
        return self._running.able(lambda work: may_evict(self._tree, unit, tier, work.unit, work.tier))

    def _make(self, deal: Deal, before: PreemptionState) -> None:
        self._state = deal.applied_to(before)
        for work in deal.victims:
            self._running.remove(work)

    def _alone(self, candidate: Candidate) -> VictimChoice | None:
        """The victims that leave for one candidate."""
        able = self._able(candidate)
        search = Search(self._state, candidate, able, self._tries)
        best = search.best()
        self._bounds |= search.bounds
        if best is None or not best.victims:
            return best
        alone = JointSearch(self._state, [candidate], [able], self._tries)
        return self._better(alone, Deal((best,))).choices[0]

    def _together(self, before: PreemptionState, batch: Sequence[VictimChoice]) -> Iterable[VictimChoice]:
        """The choices that candidates get as a whole. `before`: the state before those found one after another."""
        deal = Deal(tuple(batch))
        if len(batch) < 2 or not deal.victims:
            return batch
        for work in deal.victims:
            self._running.put(work)
        candidates = [choice.candidate for choice in batch]
        together = JointSearch(before, candidates, list(map(self._able, candidates)), self._tries_together)
        best = self._better(together, together.less(deal))
        self._make(best, before)
        return best.choices

    def _better(self, together: JointSearch, known: Deal) -> Deal:
        best, how = together.better(known, self._asking)
        self._bounds |= together.bounds
        self._searches += [how] if how is not None else []
        return best

    def _has_turn(self, candidate: Candidate, victims: Iterable[Work]) -> bool:
        """Whether a candidate has quota beside the units that leave already and return to its queue before it, once
        the `victims` are gone as well."""
        turn, usage = queue_order(candidate.unit), self._state.usage.copy()
        back = [work for work in self._returning.get(candidate.unit.leaf, ()) if queue_order(work.unit) < turn]
        for works, times in ((back, 1), (victims, -1)):
            for work in works:
                usage.charge(work.account or "", work.request, times)
        return not back or usage.refusal(candidate.account or "", candidate.request) is None

    def _spent(self, looked_at: int, hopeless: int) -> Cause | None:
        """Why no further gang is looked at; None if it is."""
        if looked_at >= BOUNDS.preemptors:
            self._bounds.add("preemptors")
            return Cause(CauseCode.PREEMPTORS, {"gangs": BOUNDS.preemptors})
        if self._tries.over:
            return Cause(CauseCode.TRIES, {"tries": BOUNDS.tries})
        if hopeless >= BOUNDS.hopeless:
            self._bounds.add("hopeless")
            return Cause(CauseCode.HOPELESS, {"kinds": BOUNDS.hopeless})
        return None


def preempt(
    situation: Situation, outcome: GreedyOutcome, asking: VictimSolver
) -> tuple[Situation, GreedyOutcome, PlanVictims]:
    """Return the situation with new claims, the outcome beside them, and the victims; the first two as given where no
    claim is made."""
    snapshot, entitled = situation.snapshot, situation.entitled
    if not snapshot.config.reclaim or entitled is None:
        return situation, outcome, NOTHING_FOUND
    within = [pair for pair in outcome.placed if pair[0].tier <= Tier.SHARE]
    started = {candidate.unit.id for candidate, _ in outcome.placed}
    profile = situation.after(within)
    preemptors = Preemptors(situation, started, {candidate.unit.id for candidate, _ in within}, profile)
    candidates = iter(preemptors)
    firsts = list(islice(candidates, 1))
    if profile.usage is None or not firsts:
        return situation, outcome, PlanVictims(bounds=frozenset(preemptors.bounds))
    shapes = situation.space.shapes
    new = [(c.unit.id, member, shapes[c.shape]) for c, member in (*situation.first, *within)]
    search = Reclaim(situation, [*situation.coming, *new], profile.usage, entitled.running, asking)
    found = search.run(chain(firsts, candidates))
    found = replace(found, bounds=found.bounds | preemptors.bounds)
    if not found.choices:
        return situation, outcome, found
    situation = _with_claims(situation, found)
    return situation, settle(situation, situation.after(within), within), found


def _with_claims(situation: Situation, preemption: PlanVictims) -> Situation:
    usage = situation.usage.copy() if situation.usage is not None else None
    # The tiers before they became heads.
    plain = {head.candidate.unit.id: head.plain for head in situation.head_choice.heads}
    pairs: list[tuple[Candidate, str]] = []
    for choice in preemption.choices:
        claim = choice.candidate
        pairs.append((replace(claim, tier=plain.get(claim.unit.id, claim.tier)), choice.member))
        if usage is not None and claim.account is not None:
            usage.charge(claim.account, claim.request)
    claims = claims_of(pairs, situation.now)
    new = frozenset(claim.unit.id for claim, _ in pairs)
    groups, behind = behind_claims(situation.groups, claims)
    heads = tuple(head for head in situation.head_choice.heads if head.candidate.unit.id not in new)
    return replace(
        situation,
        usage=usage,
        groups=groups,
        behind=[*situation.behind, *behind],
        claims=(*situation.claims, *claims),
        new=new,
        head_choice=replace(situation.head_choice, heads=heads),
    ).reserving_beside([eviction.unit for eviction in preemption.evictions])


class Preemptors:
    """The units that may take room back, in service order; of units alike a bounded number. Such a unit leaves the
    members of reservations that bind it alone. Behind a unit that may not take back, and that stops its queue, no unit
    does. `bounds`: those that left out units so far."""

    def __init__(
        self, situation: Situation, started: Container[str], entitled: Container[str], profile: Profile
    ) -> None:
        """`entitled`: the units of `started` within their share, which start whatever is claimed."""
        tree = situation.snapshot.tree
        self.bounds: set[str] = set()
        self._situation = situation
        self._started = started
        self._entitled = entitled
        self._profile = profile
        self._own = {path for path in tree.nodes if policy_of(tree, path) == LOWER} if tree is not None else set()
        self._heads = {head.candidate.unit.id: head for head in situation.head_choice.heads}

    def __iter__(self) -> Iterator[Candidate]:
        groups = [*self._situation.groups, *self._situation.behind]
        in_the_way = gaps(groups, self._entitled, self._waits)
        for candidate in merge(*(self._run(group) for group in groups if self._able(group)), key=service_order):
            beside = _beside_reservations(self._profile, candidate) if before(candidate, in_the_way) else None
            if beside is not None:
                yield beside
            elif candidate.block:
                turn = queue_order(candidate.unit)
                in_the_way[candidate.unit.leaf] = min(turn, in_the_way.get(candidate.unit.leaf, turn))

    def _able(self, group: Group) -> int:
        """How many of a group, from its first, have a right to take back."""
        head = self._heads.get(group.ids[0])
        within = group.rank.share if head is None else int(head.plain < Tier.BORROWED)
        most = len(group.units) if group.leaf in self._own else within
        if not most or group.leaf is None or not group.eligibility.choices:
            return 0
        return 0 if self._situation.nevers.of(group.shape, group.eligibility) else most

    def _run(self, group: Group) -> Iterator[Candidate]:
        """The candidates of a group."""
        end, tries = self._able(group), Counter[str | None]()
        for index in range(end if group.by_user else min(end, BOUNDS.tries)):
            tries[group.account(index)] += 1
            if tries[group.account(index)] <= BOUNDS.tries and group.ids[index] not in self._started:
                candidate = group.candidate(index)
                yield replace(candidate, tier=_evicting(candidate, self._heads.get(group.ids[index])))
        if (max(tries.values(), default=0) if group.by_user else end) > BOUNDS.tries:
            self.bounds.add("tries")

    def _waits(self, group: Group) -> int:
        """As `_able`, up to the first that starts only while nobody else claims its room."""
        end = self._able(group) if group.block else 0
        ids = group.ids
        return next((i for i in range(end) if ids[i] in self._started and ids[i] not in self._entitled), end)


def _evicting(candidate: Candidate, head: LeafHead | None) -> Tier:
    """The tier as which a unit evicts. A head's own tier counts what is before it only; to evict, all of its leaf
    counts. A unit that crosses its leaf's share evicts as within it if it is a head, else as above it."""
    tier = candidate.tier if head is None else head.plain
    if tier is not Tier.CROSSING:
        return tier
    return Tier.BORROWED if head is None else Tier.SHARE


def _beside_reservations(profile: Profile, candidate: Candidate) -> Candidate | None:
    """The candidate as one that goes to no member where a reservation that binds it keeps room. None where that leaves
    it nothing, or where a reservation keeps quota or free room from it: no unit evicts for such a refusal."""
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
