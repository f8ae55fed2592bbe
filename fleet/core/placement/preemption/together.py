"""The victims of some gangs as a whole: better than the victims that were found for one gang after another.

Each gang by itself gets the fewest and cheapest victims, and may take the room that two gangs could have shared. So for
gangs that found room one after another, all of which get room in any case, the victims are chosen once more by the
solver, for all of them together: fewest that do not even borrow, then fewest, then the least lost work, then the
members that policies put first. One gang is the case of several. Every victim is needed, and by a gang that may evict
it. The victim leaves for the first gang in order that would have no room if the victim stayed. The order is that of
the gangs, or has one gang before the others. So no victim leaves for a gang that it ranks above on the pretext of
another. Without a solver, only the victims that are needed leave.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from fleet.core.model.bounds import BOUNDS
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.plan import Said, VictimSearch
from fleet.core.placement.candidates.candidate import Candidate
from fleet.core.placement.packing.space import Shape, confined
from fleet.core.placement.preemption.search import Deal, Tries, VictimChoice, needed, promising
from fleet.core.placement.preemption.state import EvictableWork, PreemptionState, Work
from fleet.core.placement.preemption.victims import PreemptorGroup, VictimQuestion, VictimSolver, question, sound
from fleet.core.placement.problem import VictimProblem

_AS_GOOD = (CauseCode.AS_GOOD, CauseCode.ONE_BY_ONE_AS_GOOD)  # as the victims of one gang, of several
_BETTER = (CauseCode.BETTER, CauseCode.ONE_BY_ONE_BETTER)
Cut = tuple[tuple[int, int, int], ...]  # (gang, site, how many): where victims are known not to suffice


@dataclass(frozen=True, slots=True)
class JointSearch:
    """Some gangs, in order. `before`: the state without them; `ables`: the work that each may evict there. `bounds`:
    those that ended it, but for the bounds of `tries`."""

    before: PreemptionState
    candidates: Sequence[Candidate]
    ables: Sequence[EvictableWork]
    tries: Tries
    bounds: set[str] = field(default_factory=set)

    def less(self, found: Deal) -> Deal:
        """A deal without the victims that need not leave since others have left."""
        if self.tries.over:
            return found
        deal = self._deal([choice.member for choice in found.choices], found.victims)
        return deal if isinstance(deal, Deal) and deal.cost < found.cost else found

    def better(self, deal: Deal, asking: VictimSolver) -> tuple[Deal, VictimSearch | None]:
        """The better of a known deal and the solver's; and how the solver was asked."""
        if asking.absent:
            return deal, None
        units = tuple(candidate.unit.id for candidate in self.candidates)
        other, cause, members, entries = self._asked(deal, asking)
        best = other if other is not None and other.cost < deal.cost else deal
        if best is deal and (other is not None or cause is None):
            better = other is not None and other.cost > deal.cost
            cause = Cause((_AS_GOOD, _BETTER)[better][len(units) > 1])
        shipped, stages = "greedy" if best is deal else "cp-sat", entries[-1].stages if entries else ()
        return best, VictimSearch(units[0], shipped, cause, stages, members, tuple(entries), units[1:])

    def _asked(self, deal: Deal, asking: VictimSolver) -> tuple[Deal | None, Cause | None, int, list[Said]]:
        """The solver's deal, or why there is none; over how many members, and all that the solver said."""
        together = len(self.candidates) > 1
        entries: list[Said] = []
        cause = asking.silent(together=together)
        asked = self._question(deal) if cause is None else VictimQuestion([], None)
        works, problem = asked.works, asked.problem
        self.bounds.update(asked.bounds)
        members = len(problem.sites) if problem is not None else 0
        if problem is None:
            cause = cause or Cause(CauseCode.TOO_MANY_VICTIMS)
        while problem is not None and cause is None:
            answer, word = asking.ask(problem, together=together)
            entries.append(word)
            cause = answer.cause
            if answer.empty or not sound(problem, answer):
                if not answer.stages or any(stage.status not in ("OPTIMAL", "INFEASIBLE") for stage in answer.stages):
                    cause = cause or Cause(CauseCode.NO_VICTIMS)
                break
            if self.tries.over:
                cause = Cause(CauseCode.TRIED)
                break
            tried = self._tried(problem, answer.placed, [works[index] for index in word.leaves])
            if isinstance(tried, Deal):
                return tried, cause, members, entries
            problem = replace(problem, cuts=(*problem.cuts, (tried, word.leaves)))
            if len(problem.cuts) > BOUNDS.cuts:
                self.bounds.add("cuts")
                cause = Cause(CauseCode.INSUFFICIENT)
            cause = cause or asking.silent(together=together)
        return None, cause, members, entries

    def _question(self, deal: Deal) -> VictimQuestion:
        """Over the members of a known answer, and all others that any of the gangs looks into."""
        members = list(dict.fromkeys(choice.member for choice in deal.choices))
        pairs = zip(self.candidates, self.ables, strict=True)
        looks = Counter[str]()
        for candidate, able in pairs:
            sites, bounds = promising(self.before, candidate, able)
            looks.update(sites)
            self.bounds.update(bounds)
        others = sorted((name for name in looks if name not in members), key=lambda name: -looks[name])
        wanting = [
            PreemptorGroup([self.candidates[gang] for gang in alike], self.ables[alike[0]]) for alike in self._classes()
        ]
        return question(self.before, wanting, members, others, deal.victims)

    def _tried(self, problem: VictimProblem, placed: Sequence[int], victims: list[Work]) -> Deal | Cut:
        classes = {gang: number for number, alike in enumerate(self._classes()) for gang in alike}
        sites = dict(zip(classes, placed, strict=True))
        found = self._deal([problem.sites[sites[gang]] for gang in range(len(sites))], victims)
        if isinstance(found, Deal):
            return found
        many = Counter((classes[gang], sites[gang]) for gang in range(found))
        return tuple((alike, site, count) for (alike, site), count in sorted(many.items()))

    def _classes(self) -> list[list[int]]:
        """The gangs that differ in nothing that matters here; a gang that must lie within a value of a label is
        alone."""
        classes: dict[object, list[int]] = {}
        for gang, candidate in enumerate(self.candidates):
            shape, unit = self.before.space.shapes[candidate.shape], candidate.unit
            alone = gang if confined(shape) else -1
            rank = (unit.leaf, candidate.tier, unit.priority)
            classes.setdefault((candidate.shape, candidate.eligibility.number, rank, alone), []).append(gang)
        return list(classes.values())

    def _deal(self, members: Sequence[str], victims: Iterable[Work]) -> Deal | int:
        """The deal that puts each gang into its member once these victims have left, less victims that are not needed.
        If there is none: how many gangs, in order, suffice to show that."""
        works = list(victims)
        short = self._short(members, works)
        if short is not None:
            return short + 1
        least = needed(works, lambda gone, stay: self._short(members, gone, stay) is None, self.tries)
        owners = self._owners(members, least) if least is not None else None
        if owners is None:
            return len(members)
        return Deal(
            tuple(VictimChoice(self.candidates[gang], members[gang], tuple(own)) for gang, own in owners.items())
        )

    def _owners(self, members: Sequence[str], works: Sequence[Work]) -> dict[int, list[Work]] | None:
        """The gangs in the order in which they are served, and the victims that leave for each: were a victim to stay,
        this gang is the first without room. The order is theirs, or else has one of them before the others; so no gang
        counts on room that a later one makes. None where, in every such order, a victim ranks above its gang."""
        for first in range(len(members)):
            order = sorted(range(len(members)), key=lambda gang: (gang != first, gang))
            if first and (self.tries.over or self._short(members, works, order=order) is not None):
                continue
            own: dict[int, list[Work]] = {gang: [] for gang in order}
            for work in works:
                short = self._short(members, [other for other in works if other is not work], [work], order)
                if short is None or work not in self.ables[short].at(work.unit.member or ""):
                    break
                own[short].append(work)
            else:
                return own
        return None

    def _short(
        self, members: Sequence[str], works: Sequence[Work], stay: Sequence[Work] = (), order: Iterable[int] = ()
    ) -> int | None:
        """The first of the gangs, in `order` or their own, without quota or without room in its member once the works
        of `works` have left. `stay`: works that might leave as well, beside which all gangs have room."""
        state, usage = self.before, self.before.usage.copy()
        shapes: dict[str, list[Shape]] = {}
        stay_members = {work.unit.member for work in stay}
        for work in works:
            if work.account is not None:
                usage.charge(work.account, work.request, -1)
        for number in order or range(len(members)):
            candidate, member = self.candidates[number], members[number]
            if usage.refusal(candidate.account or "", candidate.request) is not None:
                return number
            usage.charge(candidate.account or "", candidate.request)
            shape, beside = state.space.shapes[candidate.shape], shapes.setdefault(member, [])
            if not stay_members or member in stay_members:
                self.tries.rest -= 1
                there = [work.unit for work in works if work.unit.member == member]
                if not state.vacancy(member).fits(shape, there, beside):
                    return number
            beside.append(shape)
        return None
