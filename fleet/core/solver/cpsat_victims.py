"""CP-SAT on the choice of victims, so that one gang or several have quota, and room in their members.

The stages: the fewest victims within their share, the fewest victims, the least lost work, and the members that
policies prefer. The value of a stage is an upper limit for all stages after it. No gap ends a stage: a proof takes
milliseconds, and the work of users is at stake.
"""

from __future__ import annotations

from collections.abc import Callable

from ortools.sat.python import cp_model

from fleet.core.model.plan import Answer, Stage
from fleet.core.placement.problem import Demand, SiteNodes, VictimProblem
from fleet.core.solver.stages import Stages


class Victims:
    """One solve. The variables: whether each victim leaves, how many of each gang go to each site, and how many pods of
    each demand lie on each place."""

    def __init__(self, problem: VictimProblem, seed: int, limit_s: float, emit: Callable[[Answer], None]) -> None:
        self._problem = problem
        self._emit = emit
        model = self._model = cp_model.CpModel()
        self._stages = Stages(model, seed, limit_s, problem.deterministic_limit)
        self._leaves = [model.new_bool_var(f"x{index}") for index in range(len(problem.victims))]
        self._at: list[dict[int, cp_model.IntVar]] = []  # of each gang: how many go to a site
        self._used = [model.new_bool_var(f"s{site}") for site in range(len(problem.sites))]
        for gang, (sites, count) in enumerate(zip(problem.gangs, problem.counts, strict=True)):
            at = {site: model.new_int_var(0, count, f"m{gang}.{site}") for site, _ in sites}
            model.add(sum(at.values()) == count)
            for site, number in at.items():
                model.add(number <= count * self._used[site])
            self._at.append(at)

    def run(self) -> Answer:
        problem, answer = self._problem, Answer()
        self._constrain()
        within = [(var, 1) for var, victim in zip(self._leaves, problem.victims, strict=True) if victim.within]
        lost = [(var, victim.lost) for var, victim in zip(self._leaves, problem.victims, strict=True)]
        order = [
            (at[site], number) for at, sites in zip(self._at, problem.gangs, strict=True) for site, number in sites
        ]
        hint = [int(index in problem.hint) for index in range(len(problem.victims))]
        all_victims = [(var, 1) for var in self._leaves]
        least = 1 if problem.hint else 0  # a hint means that some victim must leave
        self._model.add(sum(self._leaves) >= least)
        known = {"within": 0, "evictions": least} if problem.hint else {}
        for name, terms in (("within", within), ("evictions", all_victims), ("lost", lost), ("member", order)):
            if not any(weight for _, weight in terms):
                continue
            value = sum(hint[var.index] * weight for var, weight in terms) if name in known else -1
            if name in known and value == known[name]:  # the known answer is the best there is
                self._stages.entries.append(Stage(name, value, value, "OPTIMAL"))
            else:
                found = self._stage(name, terms, hint)
                if found is None:
                    break
                answer, hint = found, list(found.admitted)
                value = self._stages.entries[-1].value
            self._model.add(sum(weight * var for var, weight in terms) <= value)
            if answer.admitted and not any(answer.admitted):
                break
        return Answer(answer.admitted, answer.placed, tuple(self._stages.entries))

    def _constrain(self) -> None:
        problem, model = self._problem, self._model
        for row in problem.freed:
            self._stages.at_most([(self._leaves[index], -amount) for index, amount in row.terms], -row.need)
        pods: list[list[tuple[int, cp_model.IntVar, int]]] = [[] for _ in problem.places]  # demand, variable, its cap
        per_demand: list[list[tuple[int, cp_model.IntVar]]] = [[] for _ in problem.demands]  # place, variable
        for number, demand in enumerate(problem.demands):
            for index, place in enumerate(problem.places):
                cap = self._cap(demand, place)
                if cap:
                    variable = model.new_int_var(0, cap, f"y{number}.{index}")
                    pods[index].append((number, variable, cap))
                    per_demand[number].append((index, variable))
        for number, demand in enumerate(problem.demands):
            self._demand(demand, per_demand[number])
        for place, here in zip(problem.places, pods, strict=True):
            self._place(place, here)
        if problem.together:
            self._together(pods)
        for where, victims in problem.cuts:
            others = [var for index, var in enumerate(self._leaves) if index not in victims]
            model.add(sum(others) >= 1).only_enforce_if(*(self._goes(gang, site, many) for gang, site, many in where))
        for leaves, victim in zip(self._leaves, problem.victims, strict=True):
            if victim.site >= 0:
                comes = [self._at[gang][victim.site] for gang in victim.by if victim.site in self._at[gang]]
                model.add(leaves <= sum(comes))

    def _goes(self, gang: int, site: int, many: int) -> cp_model.IntVar:
        """Whether so many of a gang go to a site, or more."""
        known = self._model.new_bool_var("g")
        self._model.add(self._at[gang][site] <= many - 1).only_enforce_if(known.negated())
        return known

    def _demand(self, demand: Demand, variables: list[tuple[int, cp_model.IntVar]]) -> None:
        if demand.site >= 0:
            gone = sum(pods * self._leaves[victim] for victim, pods in demand.less)
            found = self._model.add(sum(variable for _, variable in variables) + gone >= demand.replicas)
            found.only_enforce_if(self._used[demand.site])
            return
        for number, chosen in self._at[demand.gang].items():
            at = [variable for index, variable in variables if self._problem.places[index].site == number]
            self._model.add(sum(at) == demand.replicas * chosen)

    def _place(self, place: SiteNodes, variables: list[tuple[int, cp_model.IntVar, int]]) -> None:
        if not variables or (len(variables) == 1 and not place.holds and place.owner < 0):
            return  # the cap of the variable is the limit
        if place.count > 1 and not place.holds and place.owner < 0:
            self._slots(place, variables)
        used = None
        if any(amount < 0 for amount in place.free):  # overcommitted, which binds only pods that come there
            used = self._model.new_bool_var("u")
            for _, variable, cap in variables:
                self._model.add(variable <= cap * used)
        for resource in sorted(
            {index for number, _, _ in variables for index, _ in self._problem.demands[number].need}
        ):
            terms = [
                (variable, amount)
                for number, variable, _ in variables
                for index, amount in self._problem.demands[number].need
                if index == resource
            ]
            most = place.count * place.free[resource]
            if place.owner < 0 and sum(amount * variable.proto.domain[1] for variable, amount in terms) <= most:
                continue  # enough for all pods, though no victim leaves
            if place.owner >= 0:
                terms.append((self._leaves[place.owner], -most))
                most = 0
            terms += [(self._leaves[victim], -held[resource]) for victim, held in place.holds]
            row = self._stages.at_most(terms, most)
            if used is not None:
                row.only_enforce_if(used)

    def _slots(self, place: SiteNodes, variables: list[tuple[int, cp_model.IntVar, int]]) -> None:
        """Limit the pods at least as large as the pods of one demand: no more of them fit than of these."""
        demands = self._problem.demands
        for need in sorted({demands[number].need for number, _, _ in variables if demands[number].need}):
            larger = [
                variable
                for number, variable, _ in variables
                if all(dict(demands[number].need).get(index, 0) >= amount for index, amount in need)
            ]
            if len(larger) > 1:
                each = min(max(0, place.free[index]) // amount for index, amount in need)
                self._model.add(sum(larger) <= place.count * each)

    def _together(self, pods: list[list[tuple[int, cp_model.IntVar, int]]]) -> None:
        domains: dict[tuple[int, int, str], cp_model.IntVar] = {}
        for place, here in zip(self._problem.places, pods, strict=True):
            for number, variable, cap in here:
                demand = self._problem.demands[number]
                if demand.site < 0 and demand.gang in self._problem.together:
                    at = (demand.gang, place.site, place.domain)
                    if at not in domains:
                        domains[at] = self._model.new_bool_var(f"d{at}")
                    self._model.add(variable <= cap * domains[at])
        for gang in self._problem.together:
            for site, chosen in self._at[gang].items():
                self._model.add(sum(var for at, var in domains.items() if at[:2] == (gang, site)) == chosen)

    def _cap(self, demand: Demand, place: SiteNodes) -> int:
        """How many pods of a demand one place takes at most, once all victims have left it."""
        if not place.takes[demand.node_claim] or demand.site not in (-1, place.site):
            return 0
        if demand.site < 0:
            barred = place.wide or (demand.gang in self._problem.together and not place.domain)
            if barred or place.site not in self._at[demand.gang]:
                return 0
        most = list(place.free)
        for _, held in place.holds:
            most = [have + more for have, more in zip(most, held, strict=True)]
        pods = demand.replicas * (self._problem.counts[demand.gang] if demand.site < 0 else 1)
        each = min((most[index] // amount for index, amount in demand.need), default=pods)
        return max(0, min(pods, place.count * each))

    def _stage(self, name: str, terms: list[tuple[cp_model.IntVar, int]], hint: list[int]) -> Answer | None:
        self._model.minimize(sum(weight * var for var, weight in terms))
        solver = self._stages.run(name, zip(self._leaves, hint, strict=True), self._stages.work, quick=True)
        if solver is None:
            return None
        leaves = tuple(map(solver.value, self._leaves))
        where = tuple(site for at in self._at for site, var in sorted(at.items()) for _ in range(solver.value(var)))
        answer = Answer(leaves, where, tuple(self._stages.entries))
        self._emit(answer)
        return answer
