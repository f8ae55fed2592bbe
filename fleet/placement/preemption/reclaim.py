"""Taking back: which gangs must leave so that one that has a right to room gets it, and which room is kept for it.

A guaranteed gang may evict work within its share or above, one within its share only what is borrowed; never of a
higher priority (the leaf's attribute `preempt-policy` may say otherwise), of its own leaf, outside quota, protected by
its age, or not preemptible. Where the policy is PreemptLowerPriority, a gang may also evict work of lower priority in
its own leaf, whatever they count on. Nothing that may evict can be evicted by what it evicts, so nobody goes round in
circles. Gangs leave whole, as few and as cheap ones as can be (search.py). The number of tries and of questions to the
solver in a plan is bounded, and so are the kinds of gangs that are looked at in vain; who is not reached waits for the
next one, and the plan's certificate says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from fleet.model.amounts import Amounts
from fleet.model.leaving import leaves
from fleet.model.order import queue_order
from fleet.model.plan import Eviction, RoomClaim, VictimSearch
from fleet.model.unit import Phase, Unit
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.greedy.situation import Situation
from fleet.placement.packing.space import Shape
from fleet.placement.preemption.rights import may_evict
from fleet.placement.preemption.runners import Able, Runners, Work
from fleet.placement.preemption.search import Search
from fleet.placement.preemption.state import State
from fleet.placement.preemption.together import MOST_TOGETHER, Together
from fleet.placement.preemption.trial import Choice, Deal, Tries
from fleet.placement.preemption.victims import Asking
from fleet.quota.requests import Requests
from fleet.quota.tiers import Tier
from fleet.quota.tree import MAX_JOBS
from fleet.quota.usage import Usage, account_of, request_of

MOST_TRIES = 1_000
MOST_TRIES_TOGETHER = 500
MOST_LOOKED_AT = 10_000  # gangs that might take back
MOST_HOPELESS = 200  # kinds of them for which no room can be made
_MOST_DEVICES = 1024


def lost_work(unit: Unit, now: float, request: Amounts | None = None) -> int:
    """What evicting it throws away: seconds since its start or checkpoint, for each of its devices. `request`: what it
    is charged, where that is known."""
    since = max(unit.placed_at or now, unit.checkpoint_at or 0.0)
    amounts = (request or request_of(unit)).items_
    devices = sum(n for name, n in amounts if "/" in name and name != MAX_JOBS and n <= _MOST_DEVICES)
    return int(max(0.0, now - since)) * max(1, devices)


@dataclass(frozen=True, slots=True)
class Found:
    """What to evict, which room to claim, for which candidates, and how the victims were found. `cut`: why not all who
    might take back were looked at; "" if they were."""

    evictions: tuple[Eviction, ...]
    claims: tuple[RoomClaim, ...]
    kept: tuple[tuple[Candidate, str], ...]
    searches: tuple[VictimSearch, ...] = ()
    cut: str = ""


NOTHING_FOUND = Found((), (), ())


class Reclaim:
    """One plan's search. `coming`: (unit, member, shape) of pods that are committed but not seen, of placed units and
    of units that this plan places; `usage`: once the plan is committed, kept room included."""

    def __init__(
        self,
        situation: Situation,
        coming: Iterable[tuple[str, str, Shape]],
        usage: Usage,
        tiers: Mapping[str, Tier],
        asking: Asking,
    ) -> None:
        """`asking`: the solver that proves or betters what is found without it."""
        snapshot, space = situation.snapshot, situation.space
        assert snapshot.tree is not None
        self._snapshot = snapshot
        self._tree = snapshot.tree
        self._now = situation.now
        self._asking = asking
        self._tries = Tries(MOST_TRIES)
        self._tries_together = Tries(MOST_TRIES_TOGETHER)
        self._state = State(snapshot.members, situation.free, space, coming, situation.kept, usage.copy())
        self._running = Runners(space)
        self._returning: dict[str, list[tuple[Unit, str, Amounts]]] = {}  # by leaf: the units that leave already
        requests = Requests()
        for key, unit in sorted(snapshot.backlog.holding.items()):
            request, account = requests.of(unit), account_of(self._tree, unit)
            if leaves(unit, self._now, snapshot.config.claim_s):
                self._state.leaving_already(unit, account, request)
                if account is not None:
                    self._returning.setdefault(unit.leaf or "", []).append((unit, account, request))
            elif unit.phase is Phase.PLACED and unit.leaf is not None and unit.preemptible and self._may_leave(unit):
                lost = lost_work(unit, self._now, request)
                self._running.put(Work(unit, tiers.get(key, Tier.BORROWED), lost, request, account))

    def _may_leave(self, unit: Unit) -> bool:
        """Whether its member can be told to stop it, and no protection time keeps it."""
        member = self._snapshot.members.get(unit.member or "")
        old = unit.placed_at is None or self._now - unit.placed_at >= self._snapshot.config.protection_s
        return member is not None and member.ready and old

    def _may_evict(self, candidate: Candidate, work: Work) -> bool:
        return may_evict(self._tree, candidate.unit, candidate.tier, work.unit, work.tier)

    def run(self, preemptors: Iterable[Candidate]) -> Found:
        """`preemptors`: waiting candidates that may take back, in order."""
        done: list[Choice] = []
        batch: list[Choice] = []
        before = self._state
        searches: list[VictimSearch] = []
        hopeless: set[tuple[object, ...]] = set()
        stopped: set[str | None] = set()  # queues in which a candidate without room stops all that come after it
        cut = ""
        for number, candidate in enumerate(preemptors):
            cut = self._spent(number)
            alike = (
                candidate.account, candidate.tier, candidate.unit.priority, candidate.shape,
                candidate.eligibility.number, candidate.unit.preemptible,
            )  # fmt: skip
            if not cut and candidate.unit.leaf in stopped:
                continue
            if not cut and alike not in hopeless and len(hopeless) >= MOST_HOPELESS:
                cut = f"no room for {MOST_HOPELESS} kinds of gangs"
            if cut:
                break
            best: Choice | None = None
            if alike not in hopeless:
                search = Search(self._state, candidate, self._able(candidate), self._tries)
                best, how = search.best(self._asking)
                searches += [how] if how is not None else []
                if best is None:
                    hopeless.add(alike)
            if best is None or not self._has_turn(candidate, best.victims):
                stopped |= {candidate.unit.leaf} if candidate.block else set()
                continue
            if not batch:
                before = self._state.fork()
            batch.append(best)
            for work in best.victims:
                self._state.leave(work)
                self._running.remove(work)
            self._state.keep(candidate, best.member)
            if len(batch) == MOST_TOGETHER:
                done += self._together(before, batch, searches)
                batch = []
        done += self._together(before, batch, searches)
        return self._found(done, searches, cut)

    def _able(self, candidate: Candidate) -> Able:
        return self._running.able(partial(self._may_evict, candidate))

    def _together(self, before: State, choices: list[Choice], searches: list[VictimSearch]) -> Iterable[Choice]:
        """What those found one after another get as a whole."""
        found = Deal(tuple(choices), self._state)
        if len(choices) < 2 or not found.victims:
            return choices
        for work in found.victims:
            self._running.put(work)
        candidates = [choice.candidate for choice in choices]
        together = Together(before, candidates, list(map(self._able, candidates)), self._tries_together)
        best, how = together.better(found, self._asking)
        searches += [how] if how is not None else []
        for work in best.victims:
            self._running.remove(work)
        self._state = best.state
        return best.choices

    def _has_turn(self, candidate: Candidate, victims: Iterable[Work]) -> bool:
        """Whether a candidate has quota beside the units that leave already and return to its queue before it, once
        the `victims` are gone as well."""
        usage, turn = self._state.usage, queue_order(candidate.unit)
        back = [one for one in self._returning.get(candidate.unit.leaf or "", ()) if queue_order(one[0]) < turn]
        if not back:
            return True
        usage = usage.copy()
        for _, account, request in back:
            usage.charge(account, request)
        for work in victims:
            if work.account is not None:
                usage.charge(work.account, work.request, -1)
        return usage.refusal(candidate.account or "", candidate.request) is None

    def _found(self, choices: Iterable[Choice], searches: Iterable[VictimSearch], cut: str) -> Found:
        until = self._now + self._snapshot.config.claim_s
        evictions: list[Eviction] = []
        claims: list[RoomClaim] = []
        kept: list[tuple[Candidate, str]] = []
        for choice in choices:
            unit, member = choice.candidate.unit, choice.member
            evictions += [Eviction(work.unit.id, work.unit.member or "", unit.id) for work in choice.victims]
            claims.append(RoomClaim(unit.id, member, unit.total, until))
            kept.append((choice.candidate, member))
        return Found(tuple(evictions), tuple(claims), tuple(kept), tuple(searches), cut)

    def _spent(self, looked_at: int) -> str:
        """Why no further gang is looked at; "" if it is."""
        if looked_at >= MOST_LOOKED_AT:
            return f"{MOST_LOOKED_AT} gangs were looked at"
        return f"{MOST_TRIES} tries were made" if self._tries.left <= 0 else ""
