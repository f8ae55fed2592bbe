"""Who must leave so that several gangs get their room: what was found for one after another, bettered as a whole.

Each gang by itself gets the fewest and cheapest victims, and may take the room that two could have shared. So of the
gangs that found room one after another, all of which get room in any case, the victims are chosen once more, for all of
them together: fewest that do not even borrow, then fewest, then those that lose the least work, then the members that
policies put first. Everybody who leaves is needed, and by one that may evict it: were it to stay, the first gang in
order to be without room is the one that it leaves for; the order is theirs, or has one of them before the others. So
nobody leaves for a gang that it ranks above on the pretext of another. Without a solver only those of the victims that
turn out not to be needed stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from fleet.model.plan import Said, VictimSearch
from fleet.model.unit import Unit
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.preemption.runners import Able, Work
from fleet.placement.preemption.search import Search
from fleet.placement.preemption.state import Scene
from fleet.placement.preemption.trial import Choice, Trial, Tries, cheapest, dearest, freeing
from fleet.placement.preemption.victims import Asking, Wanting, enough_of_each, question, sound
from fleet.placement.problem import FreedRow, Victim, VictimProblem

MOST_TOGETHER = 8  # gangs whose victims are chosen as a whole
MOST_CUTS = 8  # answers for them that turn out not to suffice


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
    """Several gangs, in order. `before`: the scene without them; `ables`: those that each may evict there."""

    def __init__(self, before: Scene, candidates: Sequence[Candidate], ables: Sequence[Able], tries: Tries) -> None:
        self._before = before
        self._candidates = candidates
        self._ables = ables
        self._tries = tries
        self._alike = self._classes()
        self._numbers = [
            {choice.member: number for number, choice in enumerate(candidate.eligibility.choices)}
            for candidate in candidates
        ]

    def better(self, found: Deal, asking: Asking) -> tuple[Deal, VictimSearch | None]:
        """The best deal known, where `found` is what they get one after another; and how the solver was asked."""
        simple = self._without_needless(found)
        if asking.absent:
            return simple, None
        deal, how = self._asked([step.choice.member for step in simple.steps], simple.victims, asking)
        if deal is None:
            return simple, how if how.why else replace(how, why="one by one is as good")
        if deal.cost < simple.cost:
            return deal, how
        why = "one by one is as good" if deal.cost == simple.cost else "one by one is better"
        return simple, replace(how, shipped="greedy", why=why)

    def _asked(
        self, members: Sequence[str], victims: Sequence[Work], asking: Asking
    ) -> tuple[Deal | None, VictimSearch]:
        """The solver's deal; and how it was asked, without a `why` where it says that there is none other than what it
        was told, or none."""
        why = asking.silent(together=True)
        said: list[Said] = []
        deal: Deal | None = None
        known, problem = self._question(members, victims) if not why else ([], None)
        if problem is None:
            why = why or "too many who could leave for the solver"
        while problem is not None and not why:
            answer, word = asking.ask(problem, together=True)
            said.append(word)
            if answer.empty or not sound(problem, answer):
                done = ("OPTIMAL", "INFEASIBLE")
                proven = answer.stages and all(stage.status in done for stage in answer.stages)
                why = answer.why or ("" if proven else "the solver found no answer in its time")
                break
            if self._tries.left <= 0:
                why = "the tries for it were made"
                break
            order = (gang for alike in self._alike for gang in alike)
            sites = dict(zip(order, answer.placed, strict=True))
            found = self._deal([problem.sites[sites[g]] for g in range(len(sites))], [known[i] for i in word.leaves])
            if isinstance(found, Deal):
                deal, why = found, answer.why
                break
            many = Counter((self._class_of(gang), sites[gang]) for gang in range(found))
            where = tuple((alike, site, count) for (alike, site), count in sorted(many.items()))
            problem = replace(problem, cuts=(*problem.cuts, (where, word.leaves)))
            why = "the solver's choices do not suffice" if len(problem.cuts) > MOST_CUTS else ""
            why = why or asking.silent(together=True)
        first, *others = (candidate.unit.id for candidate in self._candidates)
        shipped = "cp-sat" if deal is not None else "greedy"
        stages = said[-1].stages if said else ()
        looked_into = len(problem.sites) if problem is not None else 0
        return deal, VictimSearch(first, shipped, why, stages, looked_into, tuple(said), tuple(others))

    def _without_needless(self, found: Deal) -> Deal:
        """What they get one after another, but for those who need not leave since others have left."""
        if self._tries.left <= 0:
            return found
        deal = self._deal([step.choice.member for step in found.steps], found.victims)
        return deal if isinstance(deal, Deal) and deal.cost < found.cost else found

    def _classes(self) -> list[list[int]]:
        """The gangs that differ in nothing that matters here; one that must lie within a value of a label is alone."""
        found: dict[object, list[int]] = {}
        for gang, candidate in enumerate(self._candidates):
            shape, unit = self._before.space.shapes[candidate.shape], candidate.unit
            alone = gang if shape and shape[0].topology else -1
            rank = (unit.leaf, candidate.tier, unit.priority)
            found.setdefault((candidate.shape, candidate.eligibility.number, rank, alone), []).append(gang)
        return list(found.values())

    def _class_of(self, gang: int) -> int:
        return next(number for number, alike in enumerate(self._alike) if gang in alike)

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
        scene = self._before.fork()
        for work in works:
            scene.leave(work)
        steps: list[Step] = []
        for gang in order:
            candidate, member = self._candidates[gang], members[gang]
            scene.keep(candidate, member)
            steps.append(Step(candidate, Choice.of(self._numbers[gang][member], member, own[gang])))
        return Deal(tuple(steps), scene)

    def _owners(self, members: Sequence[str], works: Sequence[Work]) -> tuple[list[int], list[list[Work]]] | None:
        """The order in which the gangs are served, and for which of them each leaves: were it to stay, the first one
        without room. The order is theirs, or else has one of them before the others; so nobody counts on what leaves
        for one after it. None where, in every such order, one would leave for a gang that it ranks above."""
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
        scene = self._before.fork()
        for work in gone:
            scene.leave(work)
        for number in order if order is not None else range(len(members)):
            candidate, member = self._candidates[number], members[number]
            trial = Trial(scene, candidate, (), self._tries)
            if not trial.quota(()):
                return number
            if (stays is None or stays.unit.member == member) and not trial.fits(member, ()):
                return number
            scene.keep(candidate, member)
        return None

    # -- the solver

    def _question(self, members: Sequence[str], victims: Sequence[Work]) -> tuple[list[Work], VictimProblem | None]:
        """Those who could leave to some effect, and the question which of them must: over all members that any of the
        gangs looks into, or fewer, those of a known answer among them: these `members`, and `victims`, if any."""
        topologies = {part.topology for c in self._candidates for part in self._before.space.shapes[c.shape][:1]}
        if len(topologies - {0}) > 1:
            return [], None
        looks: dict[str, int] = {}
        for candidate, able in zip(self._candidates, self._ables, strict=True):
            for _, member in Search(self._before, candidate, able, self._tries).sites:
                looks[member] = looks.get(member, 0) + 1
        chosen = list(dict.fromkeys(members))
        others = sorted((member for member in looks if member not in chosen), key=lambda name: (-looks[name], name))
        while True:
            known, problem = self._question_about([*chosen, *others], victims)
            if problem is not None or not others:
                return known, problem
            others = others[: len(others) // 2]

    def _question_about(self, sites: Sequence[str], answer: Sequence[Work]) -> tuple[list[Work], VictimProblem | None]:
        scene = self._before
        gangs: list[Wanting] = []
        for first, *others in self._alike:
            numbers = self._numbers[first]
            open_to = tuple((site, numbers[member]) for site, member in enumerate(sites) if member in numbers)
            gangs.append(Wanting(scene.space.shapes[self._candidates[first].shape], open_to, 1 + len(others)))
        lacking = self._lacking()
        known: dict[str, Work] = {}
        by: dict[str, tuple[int, ...]] = {}
        for gang, alike in enumerate(self._alike):
            able = self._ables[alike[0]]
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
                same = (work.borrows, frees, by[work.unit.id])
                counts[same] = counts.get(same, 0) + 1
                if counts[same] > (most or int(scene.usage.withholds)):
                    continue
            useful.append(work)
        leaving = {work.unit.id for work in answer}
        pods = sum(part.replicas * gang.count for gang in gangs for part in gang.shape)
        useful = enough_of_each(scene, useful, pods, freed, lacking, by, leaving)
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
