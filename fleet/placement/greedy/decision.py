"""What the steps of one decision share: the groups that may start, rooms and quota before them, claims and heads.

The steps themselves are in fleet/decide.py: each makes an outcome, which is what is placed so far and the ground after
it. An outcome counts only once nothing more starts in the room that the next cycle will see: that is what `settle` is
for, and why planning again on what a plan leaves changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from itertools import chain, islice

from fleet.model.leaving import leaves
from fleet.model.unit import Phase
from fleet.placement.candidates.candidate import Candidate, Group, claims_room, order, standing
from fleet.placement.candidates.grouping import Grouping
from fleet.placement.candidates.turns import before, gaps
from fleet.placement.greedy.greedy import Pass, place
from fleet.placement.greedy.ground import Ground
from fleet.placement.greedy.rearrange import MOST_LOOKED_AT, beside, rearranged
from fleet.placement.linked.linked import Band, Pairs, age_bucket, band_of, weight
from fleet.placement.packing.layout import lay_out
from fleet.placement.packing.room import MemberRoom, Shape, committed
from fleet.placement.preemption.awaited import Awaited
from fleet.placement.preemption.reclaim import MOST_TRIES, NOTHING_FOUND, Found, Reclaim
from fleet.placement.preemption.rights import LOWER, policy_of
from fleet.placement.preemption.victims import Asking
from fleet.placement.reservation.bypass import Bypass, Kept
from fleet.placement.reservation.giveway import moved, passing, with_moves
from fleet.placement.reservation.heads import Heads
from fleet.placement.reservation.hold import Hold, passable
from fleet.quota.entitlement import Entitlement
from fleet.quota.tiers import Tier
from fleet.quota.usage import Usage
from fleet.snapshot import Snapshot

MOST_ROUNDS = 8


@dataclass(slots=True)
class Outcome:
    """Placements so far, and the ground after them."""

    placed: list[tuple[Candidate, str]]
    ground: Ground
    done: Pass
    out: dict[str, str] = field(default_factory=dict)  # units that fit a member, but not beside all others there


class Decision:
    """What the steps of one decision share. `groups` are of all that may start, but for those with a claim."""

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self.snapshot = snapshot
        sorted_out = Grouping(snapshot, now)
        self.reasons = sorted_out.reasons
        self.space = sorted_out.space
        self.groups = sorted_out.groups
        self.nevers = sorted_out.nevers
        self.usage = sorted_out.usage
        self.entitled = sorted_out.entitled
        holding, unseen = snapshot.backlog.holding.values(), snapshot.backlog.unseen.values()
        patience = snapshot.config.claim_s
        self.overdue = [u for u in holding if u.phase is Phase.EVICTING and not leaves(u, now, patience)]
        self.coming = [(u.id, u.member, committed(u, self.space)) for u in unseen if u.member is not None]
        self.free = {name: MemberRoom.of(snapshot.members[name], self.space) for name in sorted(snapshot.members)}
        layout = lay_out(self.free, self.coming, self.space)
        self.rooms = layout.rooms
        self.lost = {unit for units in layout.lost.values() for unit in units}  # they run, and fit nowhere
        self.first: Pairs = []  # units that claimed their room, and it is there
        self.kept: Pairs = []  # units for which room is kept
        self.aside: set[str] = set()  # units of `groups` among them
        self.behind: list[Group] = []  # of queues that one of them stops: nobody of these starts
        self._holds: tuple[Hold, ...] | None = None  # before anything starts
        charged = self.usage.copy() if self.usage is not None else None
        self._honour([group.candidate(0) for group in self.groups if group.units[0].claim is not None], now)
        running = partial(_running, self.entitled)  # not of `self`: the heads hold nothing of who holds them
        self.heads = Heads(snapshot, self.space, running, charged, self.entitled, now)
        self.heads.choose(self.groups)
        self._bypass = Bypass(snapshot, self.space, self.entitled.promises if self.entitled is not None else None)

    def holds(self, placed: Iterable[tuple[Candidate, str]]) -> tuple[Hold, ...]:
        """What heads keep others from once `placed` has started."""
        return self.heads.holds([*self.first, *placed], self.kept, self.rooms)

    def _honour(self, claimed: Sequence[Candidate], now: float) -> None:
        """Claimed room is given to nobody else: its unit starts now, or the room is kept."""
        claimed = [candidate for candidate in sorted(claimed, key=standing) if claims_room(candidate, now)]
        ahead = gaps(self.groups, {candidate.unit.id for candidate in claimed}, lambda group: 0)
        claimed = [candidate for candidate in claimed if before(candidate, ahead)]
        if not claimed:
            return
        ground = Ground(self.rooms, self.usage, self.space)
        stopped: set[str | None] = set()
        for candidate in claimed:
            member = candidate.unit.claim.member if candidate.unit.claim is not None else ""
            able = candidate.unit.leaf not in stopped and ground.admits(candidate)
            fit = ground.fit(candidate.shape, member) if able else None
            if fit is None and candidate.block:
                stopped.add(candidate.unit.leaf)
            if fit is not None:
                ground.take(candidate, member, fit)
                self.first.append((candidate, member))
            else:
                self.kept.append((candidate, member))
                ground.rooms[member].hold(self.space.shapes[candidate.shape], self.space.devices)
                if ground.usage is not None and candidate.account is not None:
                    ground.usage.charge(candidate.account, candidate.request)
        self.rooms, self.usage = ground.rooms, ground.usage
        gone = {candidate.unit.id for candidate in claimed}  # each is alone in its group
        self.groups = [group for group in self.groups if group.ids[0] not in gone]
        self._stop(self.kept)

    def _stop(self, kept: Iterable[tuple[Candidate, str]]) -> None:
        """Nobody starts behind those that stop their queue, and for which room is kept."""
        stopped = {candidate.unit.leaf for candidate, _ in kept if candidate.block}
        self.behind += [group for group in self.groups if group.leaf in stopped]
        self.groups = [group for group in self.groups if group.leaf not in stopped]

    def _new(self, placed: Iterable[tuple[Candidate, str]]) -> list[tuple[str, str, Shape]]:
        return [(c.unit.id, member, self.space.shapes[c.shape]) for c, member in (*self.first, *placed)]

    def _laid_out(self, placed: Iterable[tuple[Candidate, str]]) -> dict[str, MemberRoom]:
        """The rooms that the next cycle sees once `placed` is committed, less what is kept."""
        return self._less_kept(lay_out(self.free, [*self.coming, *self._new(placed)], self.space).rooms)

    def _less_kept(self, found: dict[str, MemberRoom]) -> dict[str, MemberRoom]:
        for candidate, member in self.kept:
            found[member].hold(self.space.shapes[candidate.shape], self.space.devices)
        return found

    def _taken_back(self, placed: Pairs, usage: Usage | None, out: dict[str, str]) -> dict[str, MemberRoom]:
        """As `_laid_out`, once what has no place in that layout is out of `placed` and `usage`, and in `out`: one after
        another a set of gangs may fit, and laid out by its sizes it may not. Of the lowest priority there the gangs
        without a place go, or, if those are of a higher one, the last."""
        layout = lay_out(self.free, [*self.coming, *self._new(placed)], self.space)
        while short := [name for name, units in layout.lost.items() if not self.lost.issuperset(units)]:
            back: list[int] = []
            for name in short:
                here = [index for index, (_, member) in enumerate(placed) if member == name]
                worst = max((band_of(placed[index][0]) for index in here), default=None)
                low = [index for index in here if band_of(placed[index][0]) == worst]
                back += [index for index in low if placed[index][0].unit.id in layout.lost[name]] or low[-1:]
            if not back:
                break
            out |= {placed[index][0].unit.id: placed[index][1] for index in back}
            gone = [placed[index] for index in self._with_followers(placed, back)]
            for pair in gone:
                placed.remove(pair)
                if usage is not None and pair[0].account is not None:
                    usage.charge(pair[0].account, pair[0].request, -1)
            free = {member: self.free[member] for _, member in gone}
            again = lay_out(free, [*self.coming, *self._new(placed)], self.space)
            layout.rooms.update(again.rooms)
            layout.lost = again.lost
        return self._less_kept(layout.rooms)

    def _with_followers(self, placed: Pairs, indices: Iterable[int]) -> list[int]:
        """These of `placed`, and who stands behind one of them in a queue that starts strictly in order."""
        found = set(indices)
        for index in list(found):
            first = placed[index][0]
            if first.block:
                behind = (i for i, (c, _) in enumerate(placed) if c.unit.leaf == first.unit.leaf and c.block)
                found |= {i for i in behind if standing(placed[i][0]) > standing(first)}
        return sorted(found)

    def _given_way(
        self, ground: Ground, placed: Sequence[tuple[Candidate, str]], barred: Container[str]
    ) -> tuple[Ground, list[tuple[Candidate, str]]]:
        """As given; or, where something guaranteed would use room that a head within its share collects though another
        member has room for it, the same with that moved, and without what is in its way there."""
        placed = list(placed)
        firm = [pair for pair in placed if pair[0].tier is Tier.GUARANTEED]
        more = any(group.leaf is not None and group.rank[0] for group in self.groups)
        holds = self._before() if firm or more or (placed and self._bypass.needed) else []
        if not passable(holds):
            return ground, placed
        trial = Ground(self._laid_out(firm), self.usage, self.space, self._before())
        for pair in firm:
            trial.started(*pair)
        started = {candidate.unit.id for candidate, _ in firm} | self.aside
        firm += place(trial, self.groups, started, barred, Tier.GUARANTEED).placed
        firm.sort(key=lambda pair: standing(pair[0]))
        moves = moved(holds, firm, trial)
        while moves:
            layout = lay_out(self.free, [*self.coming, *self._new(with_moves(firm, moves))], self.space)
            lost = {name for name, units in layout.lost.items() if not self.lost.issuperset(units)}
            back = [index for index, member in moves.items() if not lost.isdisjoint((member, firm[index][1]))]
            if not back:
                break
            for index in back:
                del moves[index]
        firm = with_moves(firm, moves)
        kept = self._bypassing(holds, self._laid_out(firm), firm)
        if not moves and not kept:
            return ground, placed
        ground, firm, rest = self._keeping(holds, kept, firm, placed)
        placed = [*firm, *beside(ground, rest)]
        return self.after(placed), placed

    def _keeping(
        self, holds: Sequence[Hold], kept: Sequence[Kept], firm: Pairs, placed: Pairs
    ) -> tuple[Ground, Pairs, Pairs]:
        """The ground beside `firm` and the heads that start, less what is kept for the sake of the other heads, from
        all that comes after them; these that start; and the rest of `placed`."""
        ground = self.after(firm)
        started = {candidate.unit.id for candidate, _ in firm}
        rest = {pair[0].unit.id: pair for pair in placed if pair[0].unit.id not in started}
        for hold in holds:
            key = hold.head.unit.id
            own = beside(ground, [rest.pop(key)]) if key in rest else []
            firm = [*firm, *own]
            ground.keep([] if own else [room for room in kept if room.head.head.unit.id == key])
        return ground, firm, list(rest.values())

    def beside_kept(self, outcome: Outcome) -> tuple[Ground, Pairs, Pairs] | None:
        """As `_keeping`, of a settled outcome, the rest as far as it fits beside it; None where nothing is kept."""
        holds = self._before()
        firm = [pair for pair in outcome.placed if pair[0].tier is Tier.GUARANTEED]
        kept = self._bypassing(holds, self._laid_out(firm), firm) if passable(holds) and self._bypass.needed else []
        if not kept:
            return None
        ground, firm, rest = self._keeping(holds, kept, firm, outcome.placed)
        return ground, firm, beside(ground.copy(), rest)

    def _bypassing(
        self, holds: Sequence[Hold], rooms: Mapping[str, MemberRoom], placed: Sequence[tuple[Candidate, str]]
    ) -> list[Kept]:
        """Room to keep, of these `rooms` beside `placed`, for what would else pass a head."""
        return self._bypass.kept(holds, rooms, [*self.first, *placed])

    def reclaimed(self, outcome: Outcome, now: float, asking: Asking) -> tuple[Outcome, Found]:
        """What must leave for those who have a right to room that they did not get, and the outcome beside it: what
        borrows is placed again in what is left."""
        found = NOTHING_FOUND
        if not self.snapshot.config.reclaim or self.usage is None:
            return outcome, found
        firm, ground, preemptors = self._firm(outcome)
        firsts = list(islice(preemptors, MOST_LOOKED_AT))
        if ground.usage is None or self.entitled is None or not firsts:
            return outcome, found
        behind = {candidate.unit.leaf for candidate, _ in self.kept if candidate.block}  # they may claim, and not start
        able = [candidate for candidate in firsts if candidate.unit.leaf not in behind]
        more = firm if ground.withheld else rearranged(self.ground, ground, firm, able, self._whole)
        if len(more) > len(firm):
            outcome = self.settle(self.after(more), more)
            firsts, (firm, ground, preemptors) = [], self._firm(outcome)
        usage = ground.usage
        assert usage is not None
        coming = [*self.coming, *self._new(firm)]
        tiers = self.entitled.running
        search = Reclaim(self.snapshot, self.space, coming, self.kept, usage, tiers, now, Awaited(ground), asking)
        found = search.run(chain(firsts, preemptors))
        if not found.claims:
            return outcome, found
        for candidate, _ in found.kept:
            self.usage.charge(candidate.account or "", candidate.request)
        self.heads.leaving([eviction.unit for eviction in found.evictions])
        self.kept = [*self.kept, *found.kept]
        self.aside.update(candidate.unit.id for candidate, _ in found.kept)
        self._holds = None
        self._stop(found.kept)
        return self.settle(self.after(firm), firm, fixed=True), found

    def _firm(self, outcome: Outcome) -> tuple[Pairs, Ground, Iterator[Candidate]]:
        """What of an outcome starts whatever is claimed, the ground with that alone, who may take back beside it."""
        firm = [(c, member) for c, member in outcome.placed if c.tier < Tier.BORROWED]
        ground = self.after(firm)
        ground.keep(self._bypassing(ground.holds, ground.rooms, firm))
        started = {candidate.unit.id for candidate, _ in outcome.placed}
        return firm, ground, self._preemptors(started, {candidate.unit.id for candidate, _ in firm}, ground)

    def _whole(self, placed: Pairs) -> bool:
        """Whether all of these have a place in the layout that the next cycle sees."""
        layout = lay_out(self.free, [*self.coming, *self._new(placed)], self.space)
        return all(self.lost.issuperset(units) for units in layout.lost.values())

    def _preemptors(self, started: Container[str], firm: Container[str], ground: Ground) -> Iterator[Candidate]:
        """Who may take back, first come first, as far as anybody asks; of those alike a bounded number. Whoever a head
        binds leaves its member alone; whoever is stopped in its queue by one that may not take back
        waits. `firm`: those of `started` that start whatever is claimed."""
        tree = self.snapshot.tree
        own = {path for path in tree.nodes if policy_of(tree, path) == LOWER} if tree is not None else set()

        def able(group: Group) -> int:
            """How many of a group, from its first, have a right to take back."""
            most = len(group.units) if group.leaf in own else group.rank[1]
            if not most or group.leaf is None or not group.eligibility.choices:
                return 0
            return 0 if self.nevers.of(group.shape, group.eligibility) else most

        def run(group: Group) -> Iterator[Candidate]:
            end, tries = able(group), Counter[str | None]()
            for index in range(end if group.by_user else min(end, MOST_TRIES)):
                tries[group.account(index)] += 1
                if tries[group.account(index)] <= MOST_TRIES and group.ids[index] not in started:
                    yield group.candidate(index)

        def waits(group: Group) -> int:
            """As `able`, up to the first that starts only while nobody else claims its room."""
            end = able(group) if group.block else 0
            return next((i for i in range(end) if group.ids[i] in started and group.ids[i] not in firm), end)

        groups = [*self.groups, *self.behind]
        in_the_way = gaps(groups, firm, waits)
        for candidate in merge(*(run(group) for group in groups if able(group)), key=standing):
            beside = ground.beside_heads(candidate) if before(candidate, in_the_way) else None
            if beside is not None:
                yield beside
            elif candidate.block:
                turn = order(candidate.unit)
                in_the_way[candidate.unit.leaf] = min(turn, in_the_way.get(candidate.unit.leaf, turn))

    def after(self, placed: Sequence[tuple[Candidate, str]]) -> Ground:
        """The ground that the next cycle sees once `placed` is committed."""
        ground = self.ground()
        for candidate, _ in placed:
            if candidate.account is not None and ground.usage is not None:
                ground.usage.charge(candidate.account, candidate.request)
        return Ground(self._laid_out(placed), ground.usage, self.space, self.holds(placed))

    @property
    def bands(self) -> list[Band]:
        return sorted({(int(tier), -group.priority) for group in self.groups for tier, _, _ in group.segments})

    @property
    def waiting(self) -> int:
        """How many may start."""
        return sum(len(group.units) for group in self.groups)

    @property
    def tiers(self) -> dict[str, Tier]:
        """Of every unit in quota that may start or holds room, by id."""
        return self.entitled.tiers if self.entitled is not None else {}

    def value(self, outcome: Outcome, now: float) -> dict[Band, int]:
        """What an outcome is worth, per tier and priority: the solver's own measure."""
        total: dict[Band, int] = {}
        weights: dict[tuple[int, int], int] = {}
        for candidate, _ in outcome.placed:
            band = band_of(candidate)
            kind = (candidate.shape, age_bucket(candidate.unit, now))
            worth = weights.get(kind)
            if worth is None:
                worth = weights[kind] = weight(self.space.shapes[kind[0]], kind[1], self.space)
            total[band] = total.get(band, 0) + worth
        return total

    def worth(self, outcome: Outcome, now: float) -> tuple[int, ...]:
        """`value` as something that compares: the most important tier and priority first. After what is guaranteed
        comes how seldom that costs a head its seat."""
        value, bands = self.value(outcome, now), self.bands
        firm = sum(tier == Tier.GUARANTEED for tier, _ in bands)
        worth = [value.get(band, 0) for band in bands]
        return (*worth[:firm], -self._passing(outcome) if firm else 0, *worth[firm:])

    def _passing(self, outcome: Outcome) -> int:
        """How many guaranteed gangs pass a head and cost it its seat."""
        holds = self._before()
        if not passable(holds):
            return 0
        firm = [pair for pair in outcome.placed if pair[0].tier is Tier.GUARANTEED]
        return len(list(passing(holds, sorted(firm, key=lambda pair: standing(pair[0])))))

    def _before(self) -> list[Hold]:
        """What heads hold before anything starts."""
        if self._holds is None:
            self._holds = self.holds(())
        return [hold.copy() for hold in self._holds]

    def ground(self) -> Ground:
        return Ground(self.rooms, self.usage, self.space, self.holds(()))

    def settle(self, ground: Ground, placed: Pairs, barred: Iterable[str] = (), *, fixed: bool = False) -> Outcome:
        """Fill up what is left until nothing more starts, each time on the room that the next cycle will see once
        this is committed: so that planning again changes nothing (I7). `fixed`: `placed` gave way to heads before, and
        stays where it is though room is claimed now."""
        out = dict.fromkeys(barred, "")
        ground, placed = (ground, list(placed)) if fixed else self._given_way(ground, placed, out)
        done = Pass()
        laid_out = False  # whether `ground` is what the next cycle will see
        for _ in range(MOST_ROUNDS):
            started = {candidate.unit.id for candidate, _ in placed} | self.aside
            kept = self._bypassing(ground.holds, ground.rooms, placed)
            done = place(ground, self.groups, started, out, kept=kept)
            placed += done.placed
            if not placed or (laid_out and not done.placed):
                break
            found = self._taken_back(placed, ground.usage, out)
            ground = Ground(found, ground.usage, self.space, self.holds(placed))
            laid_out = True
            if not done.placed:
                break
        return Outcome(placed, ground, done, {unit: member for unit, member in out.items() if member})


def _running(entitled: Entitlement | None) -> Mapping[str, Tier]:
    """Tiers of what runs."""
    return entitled.running if entitled is not None else {}
