"""Victims that are chosen for gangs, the cost of a choice, and the victims of it that need not leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fleet.model.bounds import BOUNDS
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.packing.space import Space
from fleet.placement.preemption.state import State, Work


@dataclass(frozen=True, slots=True)
class Choice:
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

    choices: tuple[Choice, ...]

    @property
    def cost(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(*(choice.cost for choice in self.choices), strict=True)))

    @property
    def victims(self) -> list[Work]:
        return [work for choice in self.choices for work in choice.victims]

    def made(self, before: State) -> State:
        """The state once all of this is done."""
        state = before.fork()
        for work in self.victims:
            state.leave(work)
        for choice in self.choices:
            state.keep(choice.candidate, choice.member)
        return state


class Tries:
    """The tries of one kind that a plan has left; `name`: their bound."""

    def __init__(self, name: str, space: Space) -> None:
        self.left: int = getattr(BOUNDS, name)
        self._name = name
        self._space = space

    @property
    def over(self) -> bool:
        if self.left <= 0:
            self._space.reached.add(self._name)
        return self.left <= 0


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
    left = sorted(victims, key=dearest)
    size = max(1, len(left) // 2)
    while left:
        start, dropped = 0, False
        while start < len(left):
            block, rest = left[start : start + size], left[:start] + left[start + size :]
            if tries.over:
                return None
            if enough(rest, block):
                left, dropped = rest, True
            else:
                start += size
        if size == 1 and not dropped:
            break
        size = max(1, size // 2)
    return left
