"""Who must leave so that one gang gets its room: greedily, and then proven by the solver.

Greedily: in each member the cheapest in order until there is room, then everything that turns out not to be needed
stays, so that without any one of them the gang has no room. The solver's choice over all members (victims.py) is tried
out in the same way. Both look at the few members that promise most, and the number of tries is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice

from fleet.model.plan import Said, VictimSearch
from fleet.placement.candidates.candidate import Candidate
from fleet.placement.preemption.runners import Able, Work
from fleet.placement.preemption.state import Scene
from fleet.placement.preemption.trial import Choice, Trial, Tries, cheapest
from fleet.placement.preemption.victims import Asking, Wanting, enough_of_each, question, sound
from fleet.placement.problem import FreedRow, Victim, VictimProblem

MOST_MEMBERS = 8  # that one gang's victims are looked for in
MOST_SINGLE = 12  # cheaper ones that are tried alone in a member, once one that suffices alone is known
MOST_CUTS = 8  # answers for one gang that turn out not to suffice


def _largest(work: Work) -> tuple[object, ...]:
    devices = max((amount for name, amount in work.request.items_ if "/" in name), default=0)
    return (not work.borrows, -devices, -work.unit.pods, *cheapest(work))


class Search(Trial):
    """One gang's. `able`: those that it may evict; `sites`: the members that it looks into, each after its number in
    the policy's order."""

    def __init__(self, scene: Scene, candidate: Candidate, able: Able, tries: Tries) -> None:
        super().__init__(scene, candidate, able, tries)
        self._able = able
        self._by_member: dict[str, list[Work]] = {}
        self.sites = self._promising()

    @cached_property
    def _elsewhere(self) -> list[Work]:
        """Those whose leaving helps quota, whatever member they are in."""
        exact = self._scene.usage.withholds
        found = (work for work in self._able if exact or work.unit.id in self._freed)
        return sorted(found if exact or self._freed else (), key=cheapest)

    def _at(self, member: str) -> list[Work]:
        if member not in self._by_member:
            self._by_member[member] = self._able.at(member)
        return self._by_member[member]

    def best(self, asking: Asking) -> tuple[Choice | None, VictimSearch | None]:
        """As few victims that do not even borrow as can be, then few, then cheap ones; and how the solver was asked."""
        best: Choice | None = None
        if self.sites and (self._scene.usage.withholds or self.quota(self._elsewhere)):
            for number, member in self.sites:
                for found in self._choices(number, member, best):
                    if best is None or found.cost < best.cost:
                        best = found
                    if not found.victims:
                        return found, None  # nobody has to leave: what is leaving already makes the room
        return (None, None) if best is None else self._proven(best, asking)

    def _choices(self, number: int, member: str, best: Choice | None) -> Iterator[Choice]:
        """What is found in one member, `best` being known already."""
        if best is not None and best.cost[:2] == (0, 1):
            cheaper = sorted((w for w in self._at(member) if w.borrows and w.lost < best.cost[2]), key=cheapest)
            for work in islice(filter(self._makes_a_slot, cheaper), MOST_SINGLE):
                if self._tries.left > 0 and self.room(member, [work]):
                    yield Choice.of(number, member, [work])
                    return
            return
        for by_size in (False, True):
            victims = self._greedy(member, by_size)
            if victims is None:
                return
            yield Choice.of(number, member, victims)
            if len(victims) <= 1:
                return

    def _makes_a_slot(self, work: Work) -> bool:
        """Whether one of the gang's pods might lie where this one lay, if nobody else leaves."""
        unit = work.unit
        rooms = [seat.free.plus(seat.holds) for seat in unit.seats] or [part.requests for part in unit.components]
        names = self._scene.space.resources
        return any(
            all(room[names[index]] >= amount for index, amount in part.need) for room in rooms for part in self._shape
        )

    def _promising(self) -> list[tuple[int, str]]:
        """The members, by their number in the policy's order, that could have enough in sum; of many, those that have
        the most free."""
        scene, total = self._scene, [0] * len(self._scene.space.resources)
        for part in self._shape:
            for index, amount in part.need:
                total[index] += amount * part.replicas
        asked = [index for index, amount in enumerate(total) if amount]
        found: list[tuple[tuple[int, ...], int, str]] = []
        for number, choice in enumerate(self._candidate.eligibility.choices):
            most = scene.able(self._able, choice.member)
            if all(most[index] >= total[index] for index in asked):
                free = scene.free(choice.member)
                found.append((tuple(-free[index] for index in asked), number, choice.member))
        return sorted((number, member) for _, number, member in sorted(found)[:MOST_MEMBERS])

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

    # -- the solver

    def _proven(self, greedy: Choice, asking: Asking) -> tuple[Choice, VictimSearch | None]:
        """The better of `greedy` and the solver's choice."""
        why, best = asking.silent(), greedy
        said: list[Said] = []
        known, problem = self._question(greedy) if not why else ([], None)
        if problem is None:
            why = why or "too many who could leave for the solver"
        while problem is not None and not why:
            answer, word = asking.ask(problem)
            said.append(word)
            if answer.empty or not sound(problem, answer):
                proven = answer.stages and all(stage.status == "OPTIMAL" for stage in answer.stages)
                why = answer.why or ("greedy is as good" if proven else "the solver found no answer in its time")
                break
            site = answer.placed[0]
            victims = [known[index] for index in word.leaves]
            if not self.room(problem.sites[site], victims):
                problem = replace(problem, cuts=(*problem.cuts, (((0, site, 1),), word.leaves)))
                why = "the solver's choices do not suffice" if len(problem.cuts) > MOST_CUTS else asking.silent()
                continue
            needed = self.needed(problem.sites[site], victims)
            number = next(number for number, member in self.sites if member == problem.sites[site])
            found = Choice.of(number, problem.sites[site], needed) if needed is not None else greedy
            if found.cost < greedy.cost:
                best, why = found, answer.why
            else:
                why = "greedy is as good" if found.cost == greedy.cost else "greedy is better"
            break
        if asking.absent:
            return best, None
        shipped = "greedy" if best is greedy else "cp-sat"
        stages = said[-1].stages if said else ()
        members = len(problem.sites) if problem is not None else 0
        return best, VictimSearch(self._candidate.unit.id, shipped, why, stages, members, tuple(said))

    def _elsewhere_at_most(self, sites: Container[str]) -> list[Work]:
        """Those of other members that could be of use to quota: of those that free the same, the cheapest, as many as
        what is lacking could need."""
        found: list[Work] = []
        counts: dict[tuple[bool, tuple[int, ...]], int] = {}
        for work in self._elsewhere:
            if work.unit.member not in sites:
                freed = self._freed.get(work.unit.id, ())
                useful = max(
                    (-(-need // n) for n, (_, _, need) in zip(freed, self._lacking, strict=False) if n), default=1
                )
                key = (work.borrows, freed)
                counts[key] = counts.get(key, 0) + 1
                if counts[key] <= useful:
                    found.append(work)
        return found

    def _question(self, greedy: Choice) -> tuple[list[Work], VictimProblem | None]:
        """Those who could leave to some effect, and the question which of them must: in all members looked at, or the
        half of them, the best one among them, that is not too large to ask about, and so on."""
        sites = sorted(self.sites, key=lambda site: (site[1] != greedy.member, site))
        while sites:
            known, problem = self._question_about(sorted(sites), greedy)
            if problem is not None:
                return known, problem
            sites = sites[: len(sites) // 2]
        return [], None

    def _question_about(
        self, numbered: Sequence[tuple[int, str]], greedy: Choice
    ) -> tuple[list[Work], VictimProblem | None]:
        sites = [member for _, member in numbered]
        known = [work for member in sites for work in self._at(member)]
        known += self._elsewhere_at_most(set(sites))
        pods, chosen = sum(part.replicas for part in self._shape), {work.unit.id for work in greedy.victims}
        known = enough_of_each(self._scene, known, pods, self._freed, self._lacking, {}, chosen)
        terms: list[list[tuple[int, int]]] = [[] for _ in self._lacking]
        for index, work in enumerate(known):
            for row, amount in zip(terms, self._freed.get(work.unit.id, ()), strict=False):
                if amount:
                    row.append((index, amount))
        freed = [FreedRow(tuple(row), need) for row, (_, _, need) in zip(terms, self._lacking, strict=True)]
        hint = [index for index, work in enumerate(known) if work in greedy.victims]
        victims = [(work.unit, Victim(not work.borrows, work.lost)) for work in known]
        wanting = Wanting(self._shape, tuple((site, site) for site in range(len(sites))))
        return known, question(self._scene, (wanting,), sites, victims, freed, hint)
