"""Who must leave so that several gangs get their room: what was found for one after another, bettered as a whole.

Each gang by itself gets the fewest and cheapest victims, and may take the room that two could have shared. So of the
gangs that found room one after another, all of which get room in any case, the victims are chosen once more, for all of
them together: fewest that do not even borrow, then fewest, then those that lose the least work, then the members that
policies put first. Whose choice it is does not change who may be evicted for whom: a set of victims counts only if it
can be dealt out, gang by gang in order, so that each evicts whom it may evict, and no more than it needs beside what
those before it have left over. Without a solver only those that turn out not to be needed stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fleet.model.unit import Unit
from fleet.placement.candidate import Candidate
from fleet.placement.problem import FreedRow, Victim, VictimProblem
from fleet.placement.runners import Able, Work
from fleet.placement.scene import Scene
from fleet.placement.search import Search
from fleet.placement.trial import Choice, Trial, Tries, cheapest, dearest, freeing
from fleet.placement.victims import Asking, Wanting, question, sound
from fleet.plan import Said, VictimSearch

MOST_TOGETHER = 8  # gangs whose victims are chosen as a whole
MOST_CUTS = 8  # answers for them that turn out not to suffice
Cut = tuple[tuple[int, str], ...]  # what does not suffice, does not as long as these gangs go to these members


@dataclass(frozen=True, slots=True)
class Step:
    """What one gang gets; its victims leave after those of the steps before it."""

    candidate: Candidate
    choice: Choice


@dataclass(frozen=True, slots=True)
class Deal:
    """What several gangs get, and the scene once they have it."""

    steps: tuple[Step, ...]
    scene: Scene

    @property
    def cost(self) -> tuple[int, ...]:
        return tuple(map(sum, zip(*(step.choice.cost for step in self.steps), strict=True)))

    @property
    def victims(self) -> list[Work]:
        return [work for step in self.steps for work in step.choice.victims]


class Together:
    """Several gangs, in order. `before`: the scene without them; `ables`: those that each may evict there; `found`:
    what they get one after another."""

    def __init__(self, before: Scene, ables: Sequence[Able], found: Deal, tries: Tries) -> None:
        self._before = before
        self._ables = ables
        self._found = found
        self._tries = tries
        self._candidates = [step.candidate for step in found.steps]
        self._numbers = [
            {choice.member: number for number, choice in enumerate(candidate.eligibility.choices)}
            for candidate in self._candidates
        ]

    def best(self, asking: Asking) -> tuple[Deal, VictimSearch | None]:
        """The best deal known, which is `found` itself where none is better; and how the solver was asked."""
        best = simple = self._less(self._found)
        if asking.absent:
            return best, None
        why = asking.silent(together=True)
        said: list[Said] = []
        known, problem = self._question(simple) if not why else ([], None)
        if problem is None:
            why = why or "too many who could leave for the solver"
        while problem is not None and not why:
            answer, word = asking.ask(problem, together=True)
            said.append(word)
            if answer.empty or not sound(problem, answer):
                proven = answer.stages and all(stage.status == "OPTIMAL" for stage in answer.stages)
                why = answer.why or ("one by one is as good" if proven else "the solver found no answer in its time")
                break
            deal = self._deal([problem.sites[site] for site in answer.placed], [known[index] for index in word.leaves])
            if not isinstance(deal, Deal):
                sites = {member: site for site, member in enumerate(problem.sites)}
                where = tuple((gang, sites[member]) for gang, member in deal)
                problem = replace(problem, cuts=(*problem.cuts, (where, word.leaves)))
                why = "the solver's choices do not suffice" if len(problem.cuts) > MOST_CUTS else ""
                why = why or asking.silent(together=True)
                continue
            deal = self._less(deal)
            if deal.cost < simple.cost:
                best, why = deal, answer.why
            else:
                why = "one by one is as good" if deal.cost == simple.cost else "one by one is better"
            break
        first, *others = (candidate.unit.id for candidate in self._candidates)
        shipped = "greedy" if best is simple else "cp-sat"
        stages = said[-1].stages if said else ()
        members = len(problem.sites) if problem is not None else 0
        return best, VictimSearch(first, shipped, why, stages, members, tuple(said), tuple(others))

    def _deal(self, members: Sequence[str], victims: Iterable[Work]) -> Deal | Cut:
        """Each of the gangs in its member, with those of the victims that it needs. Else where it fails."""
        scene, left = self._before.fork(), {work.unit.id: work for work in victims}
        steps: list[Step] = []
        for number, (candidate, member) in enumerate(zip(self._candidates, members, strict=True)):
            mine = [work for work in left.values() if work in self._ables[number]]
            trial = Trial(scene, candidate, mine, self._tries)
            later = self._ables[number + 1 :]

            def order(work: Work, later: Sequence[Able] = later) -> tuple[object, ...]:
                return (all(work not in able for able in later), *dearest(work))  # who comes later may need it

            quota, fits = trial.quota(mine), trial.fits(member, mine)
            needed = trial.needed(member, mine, order) if quota and fits else None
            if needed is None:
                before = enumerate(members[: number + 1])
                return tuple((gang, at) for gang, at in before if not quota or at == member)
            for work in needed:
                scene.leave(work.unit, work.account, work.request)
                del left[work.unit.id]
            scene.keep(candidate, member)
            steps.append(Step(candidate, Choice.of(self._numbers[number][member], member, needed)))
        return Deal(tuple(steps), scene)

    def _less(self, deal: Deal) -> Deal:
        """Without any one of its victims somebody is without room: who is not needed stays, dearest first."""
        waiting = sorted(deal.victims, key=dearest)
        while waiting:
            work = waiting.pop(0)
            members = [step.choice.member for step in deal.steps]
            rest = [other for other in deal.victims if other is not work]
            if self._tries.left > 0 and self._may_do(deal, work, rest):
                less = self._deal(members, rest)
                if isinstance(less, Deal):
                    deal = less
                    kept = {other.unit.id for other in less.victims}
                    waiting = [other for other in waiting if other.unit.id in kept]
        return deal

    def _may_do(self, deal: Deal, work: Work, rest: Sequence[Work]) -> bool:
        """Whether those in its member might have room without this one: no, if the last of them has not, when all
        others have left and have come."""
        member = work.unit.member or ""
        here = [step.candidate for step in deal.steps if step.choice.member == member]
        if not here:
            return True
        scene = self._before.fork()
        for other in rest:
            scene.leave(other.unit, other.account, other.request)
        for candidate in here[:-1]:
            scene.keep(candidate, member)
        return Trial(scene, here[-1], (), self._tries).fits(member, ())

    # -- the solver

    def _question(self, simple: Deal) -> tuple[list[Work], VictimProblem | None]:
        """Those who could leave to some effect, and the question which of them must: over all members that any of the
        gangs looks into, or fewer, those of `simple` among them."""
        topologies = {part.topology for c in self._candidates for part in self._before.space.shapes[c.shape][:1]}
        if len(topologies - {0}) > 1:
            return [], None
        looks: dict[str, int] = {}
        for candidate, able in zip(self._candidates, self._ables, strict=True):
            for _, member in Search(self._before, candidate, able, self._tries).sites:
                looks[member] = looks.get(member, 0) + 1
        chosen = list(dict.fromkeys(step.choice.member for step in simple.steps))
        others = sorted((member for member in looks if member not in chosen), key=lambda name: (-looks[name], name))
        while True:
            known, problem = self._question_about([*chosen, *others], simple)
            if problem is not None or not others:
                return known, problem
            others = others[: len(others) // 2]

    def _question_about(self, sites: Sequence[str], simple: Deal) -> tuple[list[Work], VictimProblem | None]:
        scene = self._before
        gangs = [
            Wanting(
                scene.space.shapes[candidate.shape],
                tuple((site, numbers[member]) for site, member in enumerate(sites) if member in numbers),
            )
            for candidate, numbers in zip(self._candidates, self._numbers, strict=True)
        ]
        lacking = self._lacking()
        known: dict[str, Work] = {}
        by: dict[str, tuple[int, ...]] = {}
        for gang, able in enumerate(self._ables):
            here = [work for site, _ in gangs[gang].sites for work in able.at(sites[site])]
            for work in (*here, *(able if lacking or scene.usage.withholds else ())):
                known[work.unit.id] = work
                by[work.unit.id] = tuple(dict.fromkeys((*by.get(work.unit.id, ()), gang)))
        freed = freeing(scene.usage, lacking, known.values())
        index = {member: site for site, member in enumerate(sites)}
        useful: list[Work] = []
        counts: dict[tuple[object, ...], int] = {}
        for work in sorted(known.values(), key=cheapest):
            frees = freed.get(work.unit.id, ())
            if work.unit.member not in index:  # of those that free the same, as many as what is lacking could need
                pairs = zip(frees, lacking, strict=False)
                most = max((-(-need // amount) for amount, (_, _, need) in pairs if amount), default=0)
                alike = (work.borrows, frees, by[work.unit.id])
                counts[alike] = counts.get(alike, 0) + 1
                if counts[alike] > (most or int(scene.usage.withholds)):
                    continue
            useful.append(work)
        terms: list[list[tuple[int, int]]] = [[] for _ in lacking]
        victims: list[tuple[Unit, Victim]] = []
        for number, work in enumerate(useful):
            frees = freed.get(work.unit.id, ())
            for row, amount in zip(terms, frees, strict=False):
                if amount:
                    row.append((number, amount))
            physical = not frees and not scene.usage.withholds
            site = index[work.unit.member or ""] if physical else -1
            victims.append((work.unit, Victim(not work.borrows, work.lost, site, by[work.unit.id])))
        rows = [FreedRow(tuple(row), need) for row, (_, _, need) in zip(terms, lacking, strict=True)]
        leaving = {work.unit.id for work in simple.victims}
        hint = [number for number, work in enumerate(useful) if work.unit.id in leaving]
        return useful, question(scene, gangs, sites, victims, rows, hint)

    def _lacking(self) -> list[tuple[str, str, int]]:
        """What must leave each node for its max to allow all of them."""
        usage = self._before.usage.copy()
        for candidate in self._candidates:
            usage.charge(candidate.account or "", candidate.request)
        found: dict[tuple[str, str], int] = {}
        for candidate in self._candidates:
            usage.charge(candidate.account or "", candidate.request, -1)
            for node, name, need in usage.lacking(candidate.account or "", candidate.request):
                found[node, name] = need
            usage.charge(candidate.account or "", candidate.request)
        return [(node, name, need) for (node, name), need in found.items()]
