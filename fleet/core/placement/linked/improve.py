"""Asking CP-SAT for more than the greedy answer: the better of the two outcomes, and the certificate of it.

An answer counts gangs by member; packing shows whether the nodes take them. If not, the question is put again with the
nodes of these members (decode.py), from the best answer so far, a bounded number of times and within one limit of time.
The core has no clock, so the time that counts is the solver's own report: a solver without time left gets one more
question and answers nothing. `notes` has a cause for each bound that ends the search, for the certificate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fleet.core.model.bounds import BOUNDS
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.plan import Answer, Certificate, Stage
from fleet.core.placement.greedy.greedy import GreedyOutcome, settle, value, worth
from fleet.core.placement.greedy.situation import Pairs, Situation
from fleet.core.placement.linked.decode import askable, decode, refined, repacked, sound
from fleet.core.placement.linked.model import LinkedProblem, build
from fleet.core.placement.problem import Solver
from fleet.core.placement.reservation.profile import Profile

_LEAST_LIMIT_S = 0.05
_FIRST_PART = 0.6  # of the time, for the first answer where it may have to be asked for again
_FIT_PART = 0.15  # of the time for an answer then, for cheap lanes


@dataclass(slots=True)
class Answers:
    """All answers to one question about a situation, and the best outcome of them so far. `bounds`: those that ended a
    search."""

    situation: Situation
    solver: Solver
    seed: int
    certificate: Certificate = field(default_factory=lambda: Certificate("greedy"))
    outcome: GreedyOutcome | None = None
    notes: list[Cause] = field(default_factory=list)
    bounds: set[str] = field(default_factory=set)

    def best(self, linked: LinkedProblem) -> GreedyOutcome | None:
        """The outcome that is worth most, or None without an answer; `certificate` says how it came about."""
        situation, lanes = self.situation, linked.problem.lanes
        left_s = situation.snapshot.config.solve_limit_s
        precise: frozenset[str] = frozenset()  # members that are modelled node by node
        if askable(linked.problem, situation.profile()):
            linked = replace(linked, problem=replace(linked.problem, part=_FIRST_PART, fit_part=_FIT_PART))
        for _ in range(BOUNDS.answers):
            whole = linked.problem.lanes == lanes  # else some lanes are narrower, and a bound holds for these only
            answer = self._ask(linked, max(_LEAST_LIMIT_S, left_s), whole)
            if answer is None:
                return self.outcome
            left_s -= sum(stage.seconds for stage in answer.stages)
            gains = linked.gains(answer)
            if gains <= 0:  # packing cannot make it better than the known answer
                if self.outcome is None and not self.certificate.causes:
                    cause = Cause(CauseCode.BETTER if gains < 0 else CauseCode.AS_GOOD)
                    self.certificate = replace(self.certificate, causes=(cause,))
                return self.outcome
            packed, dropped = self._outcome(linked, answer)
            more = self._more(linked, precise, answer, packed, dropped)
            if more is None:
                return self.outcome
            linked, precise = more
        self.bounds.add("answers")
        self.notes.append(Cause(CauseCode.ASKED_OFTEN, {"questions": BOUNDS.answers}))
        return self.outcome

    def _outcome(self, linked: LinkedProblem, answer: Answer) -> tuple[Pairs, Pairs]:
        """Pack an answer, one gang after another and then anew. Return its gangs that are placed, and the others. The
        layout of the next cycle may lose gangs that a packing one by one places."""
        situation = self.situation
        packing = decode(linked, answer, situation.groups, situation.profile)
        anew = repacked(packing, situation.rooms, situation.groups) if packing.dropped else packing
        outcome = self._settled(packing.profile, packing.packed)
        if len(anew.packed) > len(packing.packed):
            outcome = self._settled(anew.profile, anew.packed)
        self.bounds |= anew.bounds
        packed = anew.packed
        there = {(candidate.unit.id, member) for candidate, member in outcome.placed}
        kept = [(candidate, member) for candidate, member in packed if (candidate.unit.id, member) in there]
        lost = [(candidate, member) for candidate, member in packed if (candidate.unit.id, member) not in there]
        return kept, [*anew.dropped, *lost]

    def _settled(self, profile: Profile, packed: Pairs) -> GreedyOutcome:
        """The outcome of a packing. An outcome that is worth more than the best so far takes its place."""
        found = settle(self.situation, profile, packed)
        self.bounds |= found.bounds
        if self.outcome is None or worth(self.situation, found) > worth(self.situation, self.outcome):
            self.outcome = found
        return found

    def _more(
        self, linked: LinkedProblem, precise: frozenset[str], answer: Answer, packed: Pairs, dropped: Pairs
    ) -> tuple[LinkedProblem, frozenset[str]] | None:
        """The question with the nodes of members where gangs were `dropped`, and all members that have rows for their
        nodes then. None where the best outcome reaches every proven bound, or where there is nothing to add."""
        if not dropped or self.outcome is None:
            return None
        more = refined(linked.problem, packed, dropped, precise, self.situation.profile())
        if more is None:
            self.bounds.add("node_variables")
        if more is None or (more[1] == precise and more[0].lanes == linked.problem.lanes):
            self.notes.append(Cause(CauseCode.NOT_PACKED))
            return None
        problem, precise = more
        hint = linked.hint(self.outcome.placed)
        if linked.gains(Answer(*hint)) <= 0:
            hint = problem.hint
        proven, reached = _proven(linked.values(hint[0]), answer.stages)
        problem = replace(problem, hint=hint, proven=proven, part=1.0)
        return None if reached else (replace(linked, problem=problem), precise)

    def _ask(self, linked: LinkedProblem, limit_s: float, whole: bool) -> Answer | None:
        """One answer that belongs to the problem, or None. Bounds that hold for the `whole` question are kept."""
        first = not self.certificate.answers
        try:
            answer = self.solver.solve(linked.problem, seed=self.seed, limit_s=limit_s)
        except Exception as error:  # a solver may fail in any way, and greedy has an answer
            answer = Answer(cause=Cause(CauseCode.FAILED, {"detail": type(error).__name__}))
        belongs = not answer.empty and sound(linked.problem, answer)
        if answer.empty:
            self.notes.append(answer.cause or Cause(CauseCode.NO_ANSWER))
        elif not belongs:
            self.notes.append(Cause(CauseCode.FOREIGN))
        certificate = replace(self.certificate, answers=(*self.certificate.answers, answer))
        if first or belongs:
            stages = answer.stages if first or whole else certificate.stages
            causes = (answer.cause,) if answer.cause is not None else ()
            certificate = replace(certificate, stages=stages, causes=causes)
        self.certificate = certificate
        return answer if belongs else None


def _proven(hint: Sequence[int], stages: Sequence[Stage]) -> tuple[tuple[int, ...], bool]:
    """The bounds of the first bands, up to a bound that the known answer does not reach, since later bounds rest on
    more; and whether the known answer reaches all bounds."""
    bounds: list[int] = []
    for reached, stage in zip(hint, stages, strict=False):
        if stage.status not in ("OPTIMAL", "FEASIBLE") or reached > stage.bound:
            break
        bounds.append(stage.bound)
        if reached < stage.bound:
            break
    return tuple(bounds), tuple(hint) == tuple(bounds)


def improve(
    situation: Situation, greedy: GreedyOutcome, solver: Solver | None, seed: int
) -> tuple[GreedyOutcome, Certificate]:
    """The better of the greedy outcome and the solver's, and the certificate of how that came about."""
    if solver is None:
        return greedy, Certificate("greedy", causes=(Cause(CauseCode.NOT_ASKED),))
    if len(greedy.placed) == situation.waiting:
        return greedy, Certificate("greedy", causes=(Cause(CauseCode.ALL_PLACED),))
    config, heads = situation.snapshot.config, situation.head_choice.heads
    linked = build(situation.groups, situation.profile(), greedy.placed, now=situation.now, config=config, heads=heads)
    problem, found = linked.problem, value(situation, greedy)
    bounds = tuple(linked.bounds)
    if all(found.get(band, 0) >= bound for band, bound in zip(linked.bands, linked.trivial_bounds, strict=True)):
        grows = any(member.potential for member in situation.snapshot.members.values())
        # for nodes that could be added nothing is proven
        cause = Cause(CauseCode.NO_OTHER_HERE if grows else CauseCode.NO_OTHER)
        return greedy, Certificate("greedy", causes=(cause, *linked.left_out), bounds=bounds)
    if len(problem.classes) + len(problem.lanes) > BOUNDS.variables:
        cause = Cause(CauseCode.TOO_LARGE, {"lanes": len(problem.lanes)})
        return greedy, Certificate("greedy", causes=(cause,), bounds=(*bounds, "variables"))
    answers = Answers(situation, solver, seed)
    solved = answers.best(linked)
    causes, notes, bounds = answers.certificate.causes, (*answers.notes, *linked.left_out), (*bounds, *answers.bounds)
    if solved is None:
        return greedy, replace(answers.certificate, causes=_each_once(*causes, *notes), bounds=bounds)
    ours, theirs = worth(situation, greedy), worth(situation, solved)
    if theirs <= ours:
        causes = causes or (Cause(CauseCode.AS_GOOD if theirs == ours else CauseCode.BETTER),)
    shipped = "cp-sat" if theirs > ours else "greedy"
    certificate = replace(answers.certificate, shipped=shipped, causes=_each_once(*causes, *notes), bounds=bounds)
    return solved if theirs > ours else greedy, certificate


def _each_once(*causes: Cause) -> tuple[Cause, ...]:
    """The causes without those that came before: where no answer came, its cause is that of the certificate, too."""
    return tuple(cause for number, cause in enumerate(causes) if cause not in causes[:number])
