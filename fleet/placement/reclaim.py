"""Taking back: which gangs must leave so that one that has a right to room gets it, and which room is kept for it.

A guaranteed gang may evict work within its share or above, one within its share only what is borrowed; never of a
higher priority (the leaf's attribute `preempt-policy` may say otherwise), of its own leaf, outside quota, protected by
its age, or not preemptible. Nothing that may evict can be evicted by what it evicts, so nobody goes round in circles.
Gangs leave whole. What leaves is found greedily first, per member: the cheapest in order until there is room, then
everything that turns out not to be needed stays, so that without any one of them the gang has no room. Then the solver
is asked for the fewest and cheapest over all members (victims.py). The number of tries and of questions in a plan is
bounded; what is not reached waits for the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.model.amounts import Amounts
from fleet.model.leaving import vacated
from fleet.model.unit import Phase, Unit
from fleet.placement.candidate import Candidate
from fleet.placement.problem import FreedRow, Victim, VictimProblem
from fleet.placement.room import MemberRoom, Shape, Space, rooms
from fleet.placement.victims import Asking, Scene, question, sound
from fleet.plan import Eviction, RoomClaim, Said, Stage, VictimSearch
from fleet.quota.tiers import Tier
from fleet.quota.tree import QuotaTree
from fleet.quota.usage import Usage, account_of, request_of
from fleet.snapshot import Snapshot

POLICY = "preempt-policy"  # of a leaf: PreemptLowerPriority, AnyPriority, Never; else equal or lower priority
MOST_TRIES = 300
MOST_CUTS = 8  # answers for one gang that turn out not to suffice
_MOST_MEMBERS = 8
_MOST_DEVICES = 1024


def may_evict(tree: QuotaTree, unit: Unit, tier: Tier, victim: Unit, victims: Tier) -> bool:
    """Whether the rank of one lets it evict the other; age is not asked here."""
    if unit.leaf is None or victim.leaf is None or unit.leaf == victim.leaf or not victim.preemptible:
        return False
    node = tree.nodes.get(unit.leaf)
    policy = node.attributes.get(POLICY, "") if node is not None else "Never"
    if policy == "Never" or tier >= victims:
        return False
    if policy == "PreemptLowerPriority":
        return victim.priority < unit.priority
    return policy == "AnyPriority" or victim.priority <= unit.priority


def lost_work(unit: Unit, now: float) -> int:
    """What evicting it throws away: seconds since its start or checkpoint, for each of its devices."""
    since = max(unit.placed_at or now, unit.checkpoint_at or 0.0)
    devices = sum(amount for name, amount in unit.total.items_ if "/" in name and amount <= _MOST_DEVICES)
    return int(max(0.0, now - since)) * max(1, devices)


@dataclass(frozen=True, slots=True)
class Found:
    """What to evict, which room to claim, for which candidates, and how the victims were found."""

    evictions: tuple[Eviction, ...]
    claims: tuple[RoomClaim, ...]
    kept: tuple[tuple[Candidate, str], ...]
    searches: tuple[VictimSearch, ...] = ()


@dataclass(frozen=True, slots=True)
class _Choice:
    """Victims for one candidate. `cost`: how many of them do not borrow, how many they are, the work that is lost, the
    number of the member."""

    cost: tuple[int, int, int, int]
    member: str
    victims: list[Unit]


NOTHING_FOUND = Found((), (), ())


class Reclaim:
    """One plan's search. `coming`: (unit, member, shape) of pods that are committed but not seen, of placed units and
    of what this plan places; `kept`: candidates with the member where room is kept for them; `usage`: what is used
    once the plan is committed, what is kept included."""

    def __init__(
        self,
        snapshot: Snapshot,
        space: Space,
        coming: Iterable[tuple[str, str, Shape]],
        kept: Iterable[tuple[Candidate, str]],
        usage: Usage,
        tiers: Mapping[str, Tier],
        now: float,
        asking: Asking | None = None,
    ) -> None:
        """`asking`: the solver that proves or betters what is found without it."""
        assert snapshot.tree is not None
        self._snapshot = snapshot
        self._tree = snapshot.tree
        self._space = space
        self._coming: dict[str, list[tuple[str, str, Shape]]] = {}
        for item in coming:
            self._coming.setdefault(item[1], []).append(item)
        self._kept: dict[str, list[Shape]] = {}
        self._usage = usage.copy()
        self._leaving: dict[str, list[Unit]] = {}
        self._running: list[tuple[Unit, Tier, int]] = []
        self._tries = 0
        self._requests: dict[str, Amounts] = {}
        self._asking = asking or Asking(None, 0, 0.0)
        self._searches: list[VictimSearch] = []
        for candidate, member in kept:
            self._kept.setdefault(member, []).append(space.shapes[candidate.shape])
        for key in sorted(snapshot.units):
            unit = snapshot.units[key]
            if unit.member is None or unit.phase is Phase.WAITING:
                continue
            if unit.phase is Phase.EVICTING:
                self._leave(unit)
            elif unit.leaf is not None and unit.preemptible and self._reachable(unit) and self._old_enough(unit, now):
                self._running.append((unit, tiers.get(unit.id, Tier.BORROWED), lost_work(unit, now)))
        self._now = now

    def _reachable(self, unit: Unit) -> bool:
        """Whether its member could be told: what cannot be reached leaves nothing behind."""
        member = self._snapshot.members.get(unit.member or "")
        return member is not None and member.ready

    def _old_enough(self, unit: Unit, now: float) -> bool:
        return unit.placed_at is None or now - unit.placed_at >= self._snapshot.config.protection_s

    def _keep(self, candidate: Candidate, member: str) -> None:
        self._kept.setdefault(member, []).append(self._space.shapes[candidate.shape])
        if candidate.account is not None:
            self._usage.charge(candidate.account, candidate.request)

    def _leave(self, unit: Unit) -> None:
        if unit.member is not None:
            self._leaving.setdefault(unit.member, []).append(unit)
        self._charge(unit, -1)

    def _charge(self, unit: Unit, times: int) -> None:
        account = account_of(self._tree, unit)
        if account is not None:
            self._usage.charge(account, self._request(unit), times)

    def _request(self, unit: Unit) -> Amounts:
        found = self._requests.get(unit.id)
        if found is None:
            found = self._requests[unit.id] = request_of(unit)
        return found

    def run(self, preemptors: Iterable[Candidate]) -> Found:
        """`preemptors`: waiting candidates that may take back, in order."""
        evictions: list[Eviction] = []
        claims: list[RoomClaim] = []
        kept: list[tuple[Candidate, str]] = []
        hopeless: set[tuple[str | None, int, int, int, int, bool]] = set()
        until = self._now + self._snapshot.config.claim_s
        for candidate in preemptors:
            unit = candidate.unit
            alike = (
                unit.leaf, candidate.tier, unit.priority, candidate.shape, candidate.eligibility.number,
                unit.preemptible,
            )  # fmt: skip
            if self._tries >= MOST_TRIES:
                break
            if alike in hopeless:
                continue
            found = self._best(candidate)
            if found is None:
                hopeless.add(alike)
                continue
            member, victims = found
            for victim in victims:
                self._leave(victim)
                evictions.append(Eviction(victim.id, victim.member or "", unit.id))
            gone = {victim.id for victim in victims}
            self._running = [item for item in self._running if item[0].id not in gone]
            self._keep(candidate, member)
            claims.append(RoomClaim(unit.id, member, unit.total, until))
            kept.append((candidate, member))
        return Found(tuple(evictions), tuple(claims), tuple(kept), tuple(self._searches))

    def _best(self, candidate: Candidate) -> tuple[str, list[Unit]] | None:
        """The member, and the victims: as few above their share's as can be, then few, then cheap ones."""
        able = [
            item for item in self._running if may_evict(self._tree, candidate.unit, candidate.tier, item[0], item[1])
        ]
        if not able and not self._leaving:
            return None
        best: _Choice | None = None
        for number, choice in enumerate(candidate.eligibility.choices[:_MOST_MEMBERS]):
            for by_size in (False, True):
                victims = self._victims(candidate, choice.member, able, by_size)
                if victims is None:
                    break
                found = _choice(number, choice.member, victims, able)
                if best is None or found.cost < best.cost:
                    best = found
                if not victims:
                    break
        if best is not None and best.victims:
            best = self._proven(candidate, able, best)
        return None if best is None else (best.member, best.victims)

    def _proven(self, candidate: Candidate, able: Sequence[tuple[Unit, Tier, int]], greedy: _Choice) -> _Choice:
        """The better of `greedy` and the solver's choice."""
        why, best = self._asking.silent, greedy
        said: list[Said] = []
        problem: VictimProblem | None = None
        known = able
        if not why:
            known, problem = self._question(candidate, able, greedy)
            why = "too many who could leave for the solver" if problem is None else ""
        while problem is not None and not why:
            answer, word = self._asking.ask(problem)
            said.append(word)
            if answer.empty or not sound(problem, answer):
                why = answer.why or "the solver found no answer that belongs to the problem"
                break
            site = answer.placed[0]
            victims = [known[index][0] for index in word.leaves]
            if not self._room_with(candidate, problem.sites[site], victims):
                problem = replace(problem, cuts=(*problem.cuts, (site, word.leaves)))
                why = "the solver's choices do not suffice" if len(problem.cuts) > MOST_CUTS else self._asking.silent
                continue
            needed = self._needed(candidate, problem.sites[site], victims)
            found = _choice(site, problem.sites[site], needed, known) if needed is not None else greedy
            if found.cost < greedy.cost:
                best = found
            else:
                why = "greedy is as good" if found.cost == greedy.cost else "greedy is better"
            break
        if said:
            stages: tuple[Stage, ...] = said[-1].stages
            shipped = "greedy" if best is greedy else "cp-sat"
            self._searches.append(VictimSearch(candidate.unit.id, shipped, why, stages, tuple(said)))
        return best

    def _question(
        self, candidate: Candidate, able: Sequence[tuple[Unit, Tier, int]], greedy: _Choice
    ) -> tuple[list[tuple[Unit, Tier, int]], VictimProblem | None]:
        """Those who could leave to some effect, and the question which of them must."""
        sites = [choice.member for choice in candidate.eligibility.choices[:_MOST_MEMBERS]]
        lacking = self._usage.lacking(candidate.account or "", candidate.request)
        terms: list[list[tuple[int, int]]] = [[] for _ in lacking]
        known: list[tuple[Unit, Tier, int]] = []
        for item in able:
            account = account_of(self._tree, item[0])
            path = self._usage.path(account) if lacking and account is not None else ()
            freed = [self._request(item[0])[resource] if node in path else 0 for node, resource, _ in lacking]
            if item[0].member in sites or any(freed):
                for row, amount in zip(terms, freed, strict=True):
                    if amount:
                        row.append((len(known), amount))
                known.append(item)
        rows = [FreedRow(tuple(row), need) for row, (_, _, need) in zip(terms, lacking, strict=True)]
        scene = Scene(self._snapshot.members, self._space, self._leaving, self._coming, self._kept)
        chosen = {unit.id for unit in greedy.victims}
        hint = [index for index, (unit, _, _) in enumerate(known) if unit.id in chosen]
        victims = [(unit, Victim(tier < Tier.BORROWED, lost)) for unit, tier, lost in known]
        return known, question(scene, self._space.shapes[candidate.shape], sites, victims, rows, hint)

    def _victims(
        self, candidate: Candidate, member: str, able: Sequence[tuple[Unit, Tier, int]], by_size: bool
    ) -> list[Unit] | None:
        def cost(item: tuple[Unit, Tier, int]) -> tuple[object, ...]:
            unit, tier, lost = item
            size = -sum(component.replicas for component in unit.components) if by_size else 0
            devices = -max((a for n, a in unit.total.items_ if "/" in n), default=0) if by_size else 0
            return (unit.member != member, -tier, devices, size, unit.priority, lost, -(unit.placed_at or 0.0), unit.id)

        order = [unit for unit, _, _ in sorted(able, key=cost)]
        if not self._room_with(candidate, member, order):
            return None
        low, high = 0, len(order)  # without the first `low` - 1 there is no room, with the first `high` there is
        while low < high:
            middle = (low + high) // 2
            if self._room_with(candidate, member, order[:middle]):
                high = middle
            else:
                low = middle + 1
        return self._needed(candidate, member, order[:high])

    def _needed(self, candidate: Candidate, member: str, victims: Sequence[Unit]) -> list[Unit] | None:
        """Those without any one of whom there is no room: dearest first, blocks of them and then single ones stay
        where they are as long as there is room without them. None when the tries run out."""
        left = sorted(victims, key=lambda u: (-lost_work(u, self._now), u.id))
        size = max(1, len(left) // 2)
        while left:
            start, dropped = 0, False
            while start < len(left):
                rest = left[:start] + left[start + size :]
                if self._tries >= MOST_TRIES:
                    return None
                if self._room_with(candidate, member, rest):
                    left, dropped = rest, True
                else:
                    start += size
            if size == 1 and not dropped:
                break
            size = max(1, size // 2)
        return left

    def _room_with(self, candidate: Candidate, member: str, gone: Sequence[Unit]) -> bool:
        """Whether quota and the member have room for the gang once these and all that leave already are gone."""
        self._tries += 1
        for other in gone:
            self._charge(other, -1)
        refused = candidate.account is None or self._usage.refusal(candidate.account, candidate.request) is not None
        for other in gone:
            self._charge(other, 1)
        if refused:
            return False
        leaving = [*self._leaving.get(member, ()), *(other for other in gone if other.member == member)]
        names = {other.id for other in leaving}
        empty = {member: MemberRoom.of(vacated(self._snapshot.members[member], leaving), self._space)}
        coming = [item for item in self._coming.get(member, ()) if item[0] not in names]
        room = rooms(empty, coming, self._space)[member]
        for shape in self._kept.get(member, ()):
            room.hold(shape, self._space.devices)
        return room.fit(self._space.shapes[candidate.shape], self._space.devices) is not None


def _choice(number: int, member: str, victims: list[Unit], able: Sequence[tuple[Unit, Tier, int]]) -> _Choice:
    ids = {unit.id for unit in victims}
    chosen = [(tier, lost) for unit, tier, lost in able if unit.id in ids]
    within = sum(tier < Tier.BORROWED for tier, _ in chosen)
    return _Choice((within, len(chosen), sum(lost for _, lost in chosen), number), member, victims)
