"""The victims of one gang: greedily, and then proven by the solver.

Greedily, the cheapest units of a member leave in order until there is room. Then every unit that turns out not to be
needed stays, so that without any one of the victims the gang has no room. The solver's choice over all members
(victims.py) is tried out in the same way. Both look at the few members that promise most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import islice

from fleet.model.bounds import BOUNDS
from fleet.model.plan import VictimSearch
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.preemption.state import Able, State, Work
from fleet.placement.preemption.trial import Choice, Trial, Tries, cheapest
from fleet.placement.preemption.victims import Asking, Cut, Wanting, bettered, question
from fleet.placement.problem import VictimProblem


def _largest(work: Work) -> tuple[object, ...]:
    devices = max((amount for name, amount in work.request.items_ if "/" in name), default=0)
    return (not work.borrows, -devices, -work.unit.pods, *cheapest(work))


class Search(Trial):
    """One gang's. `able`: the work that it may evict; `sites`: the members that it looks into, in policy order."""

    def __init__(self, state: State, candidate: Candidate, able: Able, tries: Tries) -> None:
        super().__init__(state, candidate, able, tries)
        self._able = able
        self._by_member: dict[str, list[Work]] = {}
        self.sites = self._promising()

    @cached_property
    def _elsewhere(self) -> list[Work]:
        """The work whose leaving helps quota, whatever member it is in."""
        exact = self._state.usage.withholds
        found = (work for work in self._able if exact or work.unit.id in self._freed)
        return sorted(found if exact or self._freed else (), key=cheapest)

    def _at(self, member: str) -> list[Work]:
        if member not in self._by_member:
            self._by_member[member] = self._able.at(member)
        return self._by_member[member]

    def best(self, asking: Asking) -> tuple[Choice | None, VictimSearch | None]:
        """As few victims that do not even borrow as can be, then few, then cheap ones; and how the solver was asked."""
        best: Choice | None = None
        if self.sites and (self._state.usage.withholds or self.quota(self._elsewhere)):
            for member in self.sites:
                for found in self._choices(member, best):
                    if best is None or found.cost < best.cost:
                        best = found
                    if not found.victims:
                        return found, None  # nobody has to leave: what is leaving already makes the room
        return (None, None) if best is None else self._proven(best, asking)

    def _choices(self, member: str, best: Choice | None) -> Iterator[Choice]:
        """What is found in one member, `best` being known already."""
        if best is not None and best.cost[:2] == (0, 1):
            cheaper = sorted((w for w in self._at(member) if w.borrows and w.lost < best.cost[2]), key=cheapest)
            for work in islice(filter(self._makes_a_slot, cheaper), BOUNDS.single_victims):
                if self._tries.left > 0 and self.room(member, [work]):
                    yield Choice.of(self._candidate, member, [work])
                    return
            return
        for by_size in (False, True):
            victims = self._greedy(member, by_size)
            if victims is None:
                return
            yield Choice.of(self._candidate, member, victims)
            if len(victims) <= 1:
                return

    def _makes_a_slot(self, work: Work) -> bool:
        """Whether one of the gang's pods might lie where this one lay, if nobody else leaves."""
        unit = work.unit
        rooms = [seat.free.plus(seat.holds) for seat in unit.seats] or [part.requests for part in unit.components]
        names = self._state.space.resources
        return any(
            all(room[names[index]] >= amount for index, amount in part.need) for room in rooms for part in self._shape
        )

    def _promising(self) -> list[str]:
        """The members in the policy's order that could have enough in sum; of many, the members with the most free."""
        state, total = self._state, [0] * len(self._state.space.resources)
        for part in self._shape:
            for index, amount in part.need:
                total[index] += amount * part.replicas
        asked = [index for index, amount in enumerate(total) if amount]
        found: list[tuple[tuple[int, ...], int, str]] = []
        for number, choice in enumerate(self._candidate.eligibility.choices):
            most = state.able(self._able, choice.member)
            if all(most[index] >= total[index] for index in asked):
                free = state.free(choice.member)
                found.append((tuple(-free[index] for index in asked), number, choice.member))
        if len(found) > BOUNDS.victim_members:
            state.space.reached.add("victim_members")
        nearest = sorted(found)[: BOUNDS.victim_members]
        return [member for _, member in sorted((number, member) for _, number, member in nearest)]

    def _greedy(self, member: str, by_size: bool) -> list[Work] | None:
        """The first ones of the member in order that make room, then the first ones anywhere that make up the quota,
        less those that are not needed."""
        order = sorted(self._at(member), key=_largest if by_size else cheapest)
        high = self._first(len(order), lambda count: self.fits(member, order[:count]))
        if high is None:
            return None
        chosen = order[:high]
        known = {work.unit.id for work in order}
        rest = [*order[high:], *(work for work in self._elsewhere if work.unit.id not in known)]
        more = self._first(len(rest), lambda count: self.quota([*chosen, *rest[:count]]))
        return None if more is None else self.needed(member, [*chosen, *rest[:more]])

    def _first(self, most: int, enough: Callable[[int], bool]) -> int | None:
        """The smallest count that is enough, up to `most`; None when that is not, or the tries run out."""
        if self._tries.left <= 0 or not enough(most):
            return None
        low, high = 0, most
        while low < high:
            middle = (low + high) // 2
            if enough(middle):
                high = middle
            else:
                low = middle + 1
        return high

    def _proven(self, greedy: Choice, asking: Asking) -> tuple[Choice, VictimSearch | None]:
        """The better of `greedy` and the solver's choice."""
        wanting = Wanting((self._candidate,), self._able)
        others = [member for member in self.sites if member != greedy.member]
        return bettered(
            greedy, "greedy", asking, [self._candidate.unit.id], self._tries,
            lambda: question(self._state, [wanting], [greedy.member], others, greedy.victims), self._tried,
        )  # fmt: skip

    def _tried(self, problem: VictimProblem, placed: Sequence[int], victims: list[Work]) -> Choice | Cut | None:
        member = problem.sites[placed[0]]
        if not self.room(member, victims):
            return ((0, placed[0], 1),)
        needed = self.needed(member, victims)
        return Choice.of(self._candidate, member, needed) if needed is not None else None
