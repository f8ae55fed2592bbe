"""The victims of one gang, and the cost of a choice of victims.

Greedily, the cheapest units of a member leave in order until there is room. Then every unit that is not needed stays,
so that without any one of the victims the gang has no room. The search looks at the few members that promise most.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from fleet.core.model.bounds import BOUNDS
from fleet.core.placement.candidates.candidate import Candidate
from fleet.core.placement.preemption.state import EvictableWork, PreemptionState, Work, freeing, holds


@dataclass(frozen=True, slots=True)
class VictimChoice:
    """A member for one preemptor, and the victims that leave for it after those of the choices before."""

    candidate: Candidate
    member: str
    victims: tuple[Work, ...]

    @property
    def cost(self) -> tuple[int, int, int, int]:
        """The victims that do not even borrow, the victims, the work that is lost, the member's number by policy."""
        choices = self.candidate.eligibility.choices
        number = next(number for number, choice in enumerate(choices) if choice.member == self.member)
        within = sum(not work.borrows for work in self.victims)
        return within, len(self.victims), sum(work.lost for work in self.victims), number


@dataclass(frozen=True, slots=True)
class Deal:
    """The choices for several preemptors, in order."""

    choices: tuple[VictimChoice, ...]

    @property
    def cost(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(*(choice.cost for choice in self.choices), strict=True)))

    @property
    def victims(self) -> list[Work]:
        return [work for choice in self.choices for work in choice.victims]

    def applied_to(self, before: PreemptionState) -> PreemptionState:
        """The state once all of this is done."""
        state = before.fork()
        for work in self.victims:
            state.leave(work)
        for choice in self.choices:
            state.keep(choice.candidate, choice.member)
        return state


class Tries:
    """The tries of one kind that a plan has left; `name`: their bound. `bounds`: that one, once it ended a search."""

    def __init__(self, name: str) -> None:
        self.rest: int = getattr(BOUNDS, name)
        self.bounds: frozenset[str] = frozenset()
        self._name = name

    @property
    def over(self) -> bool:
        if self.rest <= 0:
            self.bounds = frozenset({self._name})
        return self.rest <= 0


def cheapest(work: Work) -> tuple[object, ...]:
    return (not work.borrows, work.unit.priority, work.lost, -(work.unit.placed_at or 0.0), work.unit.id)


def dearest(work: Work) -> tuple[object, ...]:
    return (work.borrows, -work.lost, work.unit.id)


def needed(
    victims: Iterable[Work], enough: Callable[[Sequence[Work], Sequence[Work]], bool], tries: Tries
) -> list[Work] | None:
    """The victims without any one of which there is no room. Dearest first, blocks of them and then single ones stay
    where they are as long as there is room without them. `enough`: whether there is, once the first ones have left and
    the second ones stay. None when the tries run out."""
    remainder = sorted(victims, key=dearest)
    size = max(1, len(remainder) // 2)
    while remainder:
        start, dropped = 0, False
        while start < len(remainder):
            block, rest = remainder[start : start + size], remainder[:start] + remainder[start + size :]
            if tries.over:
                return None
            if enough(rest, block):
                remainder, dropped = rest, True
            else:
                start += size
        if size == 1 and not dropped:
            break
        size = max(1, size // 2)
    return remainder


def promising(state: PreemptionState, candidate: Candidate, able: EvictableWork) -> tuple[list[str], Collection[str]]:
    """The members in the policy's order that could have enough in sum; of many, the members with the most free, and the
    bound that left out the others."""
    needs = Counter[int]()
    for part in state.space.shapes[candidate.shape]:
        needs.update({index: amount * part.replicas for index, amount in part.need})
    rows: list[tuple[tuple[int, ...], int, str]] = []
    for number, choice in enumerate(candidate.eligibility.choices):
        free = state.free(choice.member)
        leaving = (holds(unit, state.space) for unit in state.leaving.get(choice.member, ()))
        most = tuple(map(sum, zip(free, able.sum(choice.member), *leaving, strict=True)))
        if all(most[index] >= amount for index, amount in needs.items()):
            rows.append((tuple(-free[index] for index in sorted(needs)), number, choice.member))
    bounds = ("victim_members",) if len(rows) > BOUNDS.victim_members else ()
    nearest = sorted(rows)[: BOUNDS.victim_members]
    return [member for _, member in sorted((number, member) for _, number, member in nearest)], bounds


def _largest(work: Work) -> tuple[object, ...]:
    devices = max((amount for name, amount in work.request.items_ if "/" in name), default=0)
    return (not work.borrows, -devices, -work.unit.pods, *cheapest(work))


class Search:
    """One gang's. `able`: the work that it may evict; `bounds`: those that ended it."""

    def __init__(self, state: PreemptionState, candidate: Candidate, able: EvictableWork, tries: Tries) -> None:
        self._state = state
        self._candidate = candidate
        self._able = able
        self._tries = tries
        self.bounds: set[str] = set()
        self._shape = state.space.shapes[candidate.shape]
        self._lacking = state.usage.lacking(candidate.account or "", candidate.request)
        self._freed = freeing(state.usage, self._lacking, able)

    def best(self) -> VictimChoice | None:
        """As few victims that do not even borrow as can be, then few, then cheap ones."""
        best: VictimChoice | None = None
        sites, bounds = promising(self._state, self._candidate, self._able)
        self.bounds.update(bounds)
        if not sites or not (self._state.usage.withholds or self._quota(self._elsewhere)):
            return None
        for member in sites:
            for found in self._choices(member, best):
                if best is None or found.cost < best.cost:
                    best = found
                if not found.victims:
                    return found  # no unit has to leave: the units that leave already make the room
        return best

    @cached_property
    def _elsewhere(self) -> list[Work]:
        """The work whose leaving helps quota, whatever member it is in."""
        exact = self._state.usage.withholds
        found = (work for work in self._able if exact or work.unit.id in self._freed)
        return sorted(found if exact or self._freed else (), key=cheapest)

    def _choices(self, member: str, best: VictimChoice | None) -> Iterator[VictimChoice]:
        """The choices that are found in one member, `best` being known already."""
        if best is not None and best.cost[:2] == (0, 1):
            most = BOUNDS.single_victims
            there = (work for work in self._able.at(member) if work.borrows and work.lost < best.cost[2])
            cheaper = list(islice(filter(self._makes_a_slot, sorted(there, key=cheapest)), most + 1))
            for work in cheaper[:most]:
                if not self._tries.over and self._room(member, [work]):
                    yield VictimChoice(self._candidate, member, (work,))
                    return
            if len(cheaper) > most:
                self.bounds.add("single_victims")
            return
        for by_size in (False, True):
            victims = self._greedy(member, by_size)
            if victims is None:
                return
            yield VictimChoice(self._candidate, member, tuple(victims))
            if len(victims) <= 1:
                return

    def _makes_a_slot(self, work: Work) -> bool:
        """Whether one of the gang's pods might lie where this one lay, if no other unit leaves."""
        unit = work.unit
        rooms = [seat.free.plus(seat.holds) for seat in unit.seats] or [part.requests for part in unit.components]
        names = self._state.space.resources
        return any(
            all(room[names[index]] >= amount for index, amount in part.need) for room in rooms for part in self._shape
        )

    def _greedy(self, member: str, by_size: bool) -> list[Work] | None:
        """The first ones of the member in order that make room, then the first ones anywhere that make up the quota,
        less those that are not needed."""
        order = sorted(self._able.at(member), key=_largest if by_size else cheapest)
        high = self._first(len(order), lambda count: self._fits(member, order[:count]))
        if high is None:
            return None
        chosen = order[:high]
        known = {work.unit.id for work in order}
        rest = [*order[high:], *(work for work in self._elsewhere if work.unit.id not in known)]
        more = self._first(len(rest), lambda count: self._quota([*chosen, *rest[:count]]))
        if more is None:
            return None
        return needed([*chosen, *rest[:more]], lambda gone, _: self._room(member, gone), self._tries)

    def _first(self, most: int, enough: Callable[[int], bool]) -> int | None:
        """The smallest count that is enough, up to `most`; None when that is not, or the tries run out."""
        if self._tries.over or not enough(most):
            return None
        return bisect_left(range(most), True, key=enough)

    def _room(self, member: str, works: Sequence[Work]) -> bool:
        """Whether quota and the member have room once these and all that leave already are gone."""
        return self._quota(works) and self._fits(member, works)

    def _fits(self, member: str, works: Sequence[Work]) -> bool:
        self._tries.rest -= 1
        return self._state.vacancy(member).fits(self._shape, [w.unit for w in works if w.unit.member == member])

    def _quota(self, works: Sequence[Work]) -> bool:
        """Whether quota has room once these are gone. Amounts that nodes do not lend make quota more than a sum."""
        usage, candidate = self._state.usage, self._candidate
        if not usage.withholds:
            freed = [self._freed[work.unit.id] for work in works if work.unit.id in self._freed]
            return all(sum(row[i] for row in freed) >= need for i, (_, _, need) in enumerate(self._lacking))
        self._tries.rest -= 1
        usage = usage.copy()
        for work in works:
            if work.account is not None:
                usage.charge(work.account, work.request, -1)
        return usage.refusal(candidate.account or "", candidate.request) is None
