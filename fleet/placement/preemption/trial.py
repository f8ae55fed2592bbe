"""Whether one gang would have quota, and room in a member, once some have left; and which of them need not leave."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fleet.placement.candidates.candidate import Candidate
from fleet.placement.preemption.state import State, Work
from fleet.quota.usage import Usage

Lacking = Sequence[tuple[str, str, int]]  # node, resource, and how much of it must leave there


@dataclass(frozen=True, slots=True)
class Choice:
    """A member for one preemptor, and the victims that leave for it after those of the choices before. `cost`: how many
    victims do not even borrow, how many they are, the work that is lost, the number of the member by policy."""

    candidate: Candidate
    member: str
    victims: tuple[Work, ...]
    cost: tuple[int, int, int, int]

    @staticmethod
    def of(candidate: Candidate, member: str, victims: Sequence[Work]) -> Choice:
        choices = candidate.eligibility.choices
        number = next(number for number, choice in enumerate(choices) if choice.member == member)
        within = sum(not work.borrows for work in victims)
        cost = (within, len(victims), sum(work.lost for work in victims), number)
        return Choice(candidate, member, tuple(victims), cost)


@dataclass(frozen=True, slots=True)
class Deal:
    """The choices for several preemptors, in order, and the state once they are made."""

    choices: tuple[Choice, ...]
    state: State

    @property
    def cost(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(*(choice.cost for choice in self.choices), strict=True)))

    @property
    def victims(self) -> list[Work]:
        return [work for choice in self.choices for work in choice.victims]


def cheapest(work: Work) -> tuple[object, ...]:
    return (not work.borrows, work.unit.priority, work.lost, -(work.unit.placed_at or 0.0), work.unit.id)


def dearest(work: Work) -> tuple[object, ...]:
    return (work.borrows, -work.lost, work.unit.id)


def freeing(usage: Usage, lacking: Lacking, works: Iterable[Work]) -> dict[str, tuple[int, ...]]:
    """What each unit frees of what is lacking, by id; those that free nothing of it are left out."""
    found: dict[str, tuple[int, ...]] = {}
    known: dict[tuple[str | None, int], tuple[int, ...]] = {}  # requests are shared by those that ask for the same
    for work in works if lacking else ():
        alike = (work.account, id(work.request))
        freed = known.get(alike)
        if freed is None:
            path = usage.path(work.account) if work.account is not None else ()
            freed = known[alike] = tuple(work.request[resource] if node in path else 0 for node, resource, _ in lacking)
        if any(freed):
            found[work.unit.id] = freed
    return found


def _suffices(lacking: Lacking, freed: Mapping[str, Sequence[int]], gone: Iterable[Work]) -> bool:
    """Whether these free what is lacking, in sum."""
    if not lacking:
        return True
    rows = [freed[work.unit.id] for work in gone if work.unit.id in freed]
    return all(sum(row[i] for row in rows) >= need for i, (_, _, need) in enumerate(lacking))


class Tries:
    """How many tries a plan has left."""

    def __init__(self, most: int) -> None:
        self.left = most


class Trial:
    """One gang's. `works`: those that may be asked about, gone through more than once."""

    def __init__(self, state: State, candidate: Candidate, works: Iterable[Work], tries: Tries) -> None:
        self._state = state
        self._candidate = candidate
        self._tries = tries
        self._shape = state.space.shapes[candidate.shape]
        self._lacking: Lacking = state.usage.lacking(candidate.account or "", candidate.request)
        self._freed = freeing(state.usage, self._lacking, works)

    def room(self, member: str, gone: Sequence[Work]) -> bool:
        """Whether quota and the member have room for the gang once these and all that leave already are gone."""
        return self.quota(gone) and self.fits(member, gone)

    def fits(self, member: str, gone: Sequence[Work]) -> bool:
        """Whether the member has room once these and all that leave already are gone."""
        self._tries.left -= 1
        there = [work.unit for work in gone if work.unit.member == member]
        return self._state.vacancy(member).fits(self._shape, there)

    def quota(self, gone: Sequence[Work]) -> bool:
        """Whether quota has room once these are gone. What nodes do not lend makes quota more than a sum."""
        usage, candidate = self._state.usage, self._candidate
        if not usage.withholds:
            return _suffices(self._lacking, self._freed, gone)
        self._tries.left -= 1
        for work in gone:
            if work.account is not None:
                usage.charge(work.account, work.request, -1)
        refusal = usage.refusal(candidate.account or "", candidate.request)
        for work in gone:
            if work.account is not None:
                usage.charge(work.account, work.request)
        return refusal is None

    def needed(self, member: str, victims: Sequence[Work]) -> list[Work] | None:
        """Those without any one of whom there is no room: dearest first, blocks of them and then single ones stay
        where they are as long as there is room without them. None when the tries run out."""
        left = sorted(victims, key=dearest)
        size = max(1, len(left) // 2)
        while left:
            start, dropped = 0, False
            while start < len(left):
                rest = left[:start] + left[start + size :]
                if self._tries.left <= 0:
                    return None
                if self.room(member, rest):
                    left, dropped = rest, True
                else:
                    start += size
            if size == 1 and not dropped:
                break
            size = max(1, size // 2)
        return left
