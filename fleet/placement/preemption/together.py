"""The victims of several gangs as a whole: better than the victims that were found for one gang after another.

Each gang by itself gets the fewest and cheapest victims, and may take the room that two gangs could have shared. So for
gangs that found room one after another, all of which get room in any case, the victims are chosen once more, for all
of them together: fewest that do not even borrow, then fewest, then the least lost work, then the members that policies
put first. Every victim is needed, and by a gang that may evict it: were it to stay, the first gang in order without
room is the gang that it leaves for. The order is theirs, or has one of them before the others. So no victim leaves for
a gang that it ranks above on the pretext of another. Without a solver, only the victims that are needed leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from fleet.model.plan import VictimSearch
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.preemption.search import Search
from fleet.placement.preemption.state import Able, State, Work
from fleet.placement.preemption.trial import Choice, Deal, Trial, Tries, dearest
from fleet.placement.preemption.victims import Asking, Cut, Wanting, bettered, question
from fleet.placement.problem import VictimProblem


class Together:
    """Several gangs, in order. `before`: the state without them; `ables`: the work that each may evict there."""

    def __init__(self, before: State, candidates: Sequence[Candidate], ables: Sequence[Able], tries: Tries) -> None:
        self._before = before
        self._candidates = candidates
        self._ables = ables
        self._tries = tries
        self._alike = self._classes()

    def better(self, found: Deal, asking: Asking) -> tuple[Deal, VictimSearch | None]:
        """The best deal known, where `found` is what they get one after another; and how the solver was asked."""
        simple = found
        if self._tries.left > 0:  # less the victims that need not leave since others have left
            deal = self._deal([choice.member for choice in found.choices], found.victims)
            simple = deal if isinstance(deal, Deal) and deal.cost < found.cost else found
        units = [candidate.unit.id for candidate in self._candidates]
        return bettered(
            simple, "one by one", asking, units, self._tries, lambda: self._question(simple), self._tried
        )  # fmt: skip

    def _question(self, known: Deal) -> tuple[list[Work], VictimProblem | None]:
        """Over the members of a known answer, and all others that any of the gangs looks into."""
        members = list(dict.fromkeys(choice.member for choice in known.choices))
        pairs = zip(self._candidates, self._ables, strict=True)
        looks = Counter(site for c, able in pairs for site in Search(self._before, c, able, self._tries).sites)
        others = sorted(looks.keys() - set(members), key=lambda name: (-looks[name], name))
        wanting = [Wanting([self._candidates[gang] for gang in alike], self._ables[alike[0]]) for alike in self._alike]
        return question(self._before, wanting, members, others, known.victims)

    def _tried(self, problem: VictimProblem, placed: Sequence[int], victims: list[Work]) -> Deal | Cut | None:
        sites = dict(zip((gang for alike in self._alike for gang in alike), placed, strict=True))
        found = self._deal([problem.sites[sites[gang]] for gang in range(len(sites))], victims)
        if isinstance(found, Deal):
            return found
        classes = {gang: number for number, alike in enumerate(self._alike) for gang in alike}
        many = Counter((classes[gang], sites[gang]) for gang in range(found))
        return tuple((alike, site, count) for (alike, site), count in sorted(many.items()))

    def _classes(self) -> list[list[int]]:
        """The gangs that differ in nothing that matters here; one that must lie within a value of a label is alone."""
        found: dict[object, list[int]] = {}
        for gang, candidate in enumerate(self._candidates):
            shape, unit = self._before.space.shapes[candidate.shape], candidate.unit
            alone = gang if shape and shape[0].topology else -1
            rank = (unit.leaf, candidate.tier, unit.priority)
            found.setdefault((candidate.shape, candidate.eligibility.number, rank, alone), []).append(gang)
        return list(found.values())

    def _deal(self, members: Sequence[str], victims: Iterable[Work]) -> Deal | int:
        """Each of the gangs in its member once these have left, less those that are not needed. Else how many of them,
        in order, it is about that this is no deal."""
        works = sorted(victims, key=dearest)
        short = self._short(members, works)
        if short is not None:
            return short + 1
        for work in list(works):
            rest = [other for other in works if other is not work]
            if self._short(members, rest, work) is None:
                works = rest
        owners = self._owners(members, works)
        if owners is None:
            return len(members)
        order, own = owners
        state = self._before.fork()
        for work in works:
            state.leave(work)
        for gang in order:
            state.keep(self._candidates[gang], members[gang])
        return Deal(tuple(Choice.of(self._candidates[gang], members[gang], own[gang]) for gang in order), state)

    def _owners(self, members: Sequence[str], works: Sequence[Work]) -> tuple[list[int], list[list[Work]]] | None:
        """The order in which the gangs are served, and the victims that leave for each: were a victim to stay, this
        gang is the first without room. The order is theirs, or else has one of them before the others; so no gang
        counts on room that a later one makes. None where, in every such order, a victim ranks above its gang."""
        gangs = range(len(members))
        for first in (0, *gangs[1:]):
            if first and self._tries.left <= 0:
                break
            order = sorted(gangs, key=lambda gang: (gang != first, gang))
            if first and self._short(members, works, None, order) is not None:
                continue
            own: list[list[Work]] = [[] for _ in gangs]
            for work in works:
                short = self._short(members, [other for other in works if other is not work], work, order)
                if short is None or work not in self._ables[short]:
                    break
                own[short].append(work)
            else:
                return order, own
        return None

    def _short(
        self,
        members: Sequence[str],
        gone: Iterable[Work],
        stays: Work | None = None,
        order: Iterable[int] | None = None,
    ) -> int | None:
        """The first of the gangs, in `order` or their own, that is without quota, or without room in its member, once
        these have left. `stays`: all others have room if only this one leaves, too."""
        state = self._before.fork()
        for work in gone:
            state.leave(work)
        for number in order if order is not None else range(len(members)):
            candidate, member = self._candidates[number], members[number]
            trial = Trial(state, candidate, (), self._tries)
            if not trial.quota(()):
                return number
            if (stays is None or stays.unit.member == member) and not trial.fits(member, ()):
                return number
            state.keep(candidate, member)
        return None
