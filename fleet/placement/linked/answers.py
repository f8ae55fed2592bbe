"""The solver's answers to the linked model, made into placements; and asking again where one did not pack.

An answer counts gangs by member; whether a member's nodes take them shows when they are packed. Where they do not, the
same question is put again with these members modelled node by node (bynode.py), from the best answer so far, a bounded
number of times and within one limit of time. The time that counts is what the solver says it took, since there is no
clock here: a solver that has none left is asked once more and has nothing to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fleet.model.plan import Certificate, Stage
from fleet.placement.greedy.settle import Outcome, settle
from fleet.placement.greedy.situation import Pairs, Situation
from fleet.placement.greedy.worth import worth
from fleet.placement.linked.bynode import askable, refined
from fleet.placement.linked.decode import decode, sound
from fleet.placement.linked.linked import Linked
from fleet.placement.linked.repack import repacked
from fleet.placement.problem import Answer, Problem, Solved, Solver

_MOST_ANSWERS = 8
_LEAST_LIMIT_S = 0.05
_FIRST_PART = 0.6  # of the time, for the first answer where it may have to be asked for again
_FIT_PART = 0.15  # of the time for an answer then, for cheap lanes


@dataclass(frozen=True, slots=True)
class Question:
    """A linked model; `precise` members are modelled node by node."""

    linked: Linked
    precise: frozenset[str] = frozenset()

    def posed(self, problem: Problem) -> Question:
        return replace(self, linked=replace(self.linked, problem=problem))


@dataclass(slots=True)
class Answers:
    """All answers to one question about a situation."""

    situation: Situation
    solver: Solver
    seed: int
    certificate: Certificate = field(default_factory=lambda: Certificate("greedy"))

    def best(self, linked: Linked) -> Outcome | None:
        """The outcome that is worth most, or None when there is no answer; `certificate` tells how it came about."""
        situation = self.situation
        question: Question | None = Question(linked)
        left_s = situation.snapshot.config.solve_limit_s
        best: tuple[tuple[int, ...], Outcome] | None = None
        lanes = linked.problem.lanes
        if askable(linked.problem, situation.profile()):
            question = Question(linked).posed(replace(linked.problem, part=_FIRST_PART, fit_part=_FIT_PART))
        for _ in range(_MOST_ANSWERS):
            if question is None:
                break
            linked = question.linked
            whole = linked.problem.lanes == lanes  # else it was told to look elsewhere, and proves nothing in general
            answer = self._ask(linked, max(_LEAST_LIMIT_S, left_s), whole)
            if answer is None:
                break
            left_s -= sum(stage.seconds for stage in answer.stages)
            gains = linked.gains(answer)
            if gains <= 0:  # packing it cannot make it better than what is packed already
                if best is None and not self.certificate.why:
                    why = "greedy is better" if gains < 0 else "greedy is as good"
                    self.certificate = replace(self.certificate, why=why)
                break
            profile, packed, dropped = decode(linked, answer, situation.groups, situation.profile)
            anew = repacked(profile, situation.rooms, situation.groups, packed, dropped) if dropped else None
            outcome = settle(situation, profile, packed)
            best = self._better(best, outcome)
            if anew is not None:
                profile, packed, dropped = anew
                outcome = settle(situation, profile, packed)
                best = self._better(best, outcome)
            packed, dropped = _kept(packed, dropped, outcome.placed)
            question = _more(situation, question, answer, packed, dropped, best[1].placed)
        return None if best is None else best[1]

    def _better(self, best: tuple[tuple[int, ...], Outcome] | None, other: Outcome) -> tuple[tuple[int, ...], Outcome]:
        """The outcome that is worth more, with its worth; of two that are worth the same the one before."""
        found = worth(self.situation, other)
        return (found, other) if best is None or found > best[0] else best

    def _ask(self, linked: Linked, limit_s: float, whole: bool) -> Answer | None:
        """One answer that belongs to the problem, or None. Bounds that hold for the `whole` question are kept."""
        known, first = self.certificate, self.certificate.answer is None
        try:
            answer = self.solver.solve(linked.problem, seed=self.seed, limit_s=limit_s)
        except Exception as error:  # a solver may fail in any way it likes; there is an answer without it
            if first:
                self.certificate = replace(known, why=f"the solver failed ({type(error).__name__})")
            return None
        said = (answer.admitted, answer.placed)
        stages = tuple(Stage(s.name, s.value, s.bound, s.status, s.seconds) for s in answer.stages)
        belongs = not answer.empty and sound(linked.problem, answer)
        if first:
            why = answer.why
            if answer.empty:
                why = why or "the solver found no answer"
            elif not belongs:
                why = "the solver's answer does not belong to the problem"
            self.certificate = replace(known, stages=stages, why=why, answer=said)
        elif belongs:
            stages = stages if whole else known.stages
            self.certificate = replace(known, stages=stages, why=answer.why, more=(*known.more, said))
        return answer if belongs else None


def _kept(packed: Pairs, dropped: Pairs, placed: Pairs) -> tuple[Pairs, Pairs]:
    """What of `packed` is `placed` in the end, and what is not, with what was `dropped` before: packed one after
    another, a set may lie in a member as it does not once all is laid out."""
    there = {(candidate.unit.id, member) for candidate, member in placed}
    kept = [(candidate, member) for candidate, member in packed if (candidate.unit.id, member) in there]
    lost = [(candidate, member) for candidate, member in packed if (candidate.unit.id, member) not in there]
    return kept, [*dropped, *lost]


def _more(
    situation: Situation, question: Question, answer: Answer, packed: Pairs, dropped: Pairs, best: Pairs
) -> Question | None:
    """The question put again, node by node where something was `dropped`; None where nothing would come of it. `best`:
    all that is placed in the best outcome so far."""
    more = refined(question.linked.problem, packed, dropped, question.precise, situation.profile())
    if more is None:
        return None
    problem, precise = more
    hint = question.linked.hint(best)
    if question.linked.gains(Answer(*hint)) <= 0:
        hint = problem.hint
    problem = replace(problem, hint=hint)
    proven, reached = _proven(problem, answer.stages)
    return None if reached else replace(question.posed(replace(problem, proven=proven, part=1.0)), precise=precise)


def _proven(problem: Problem, stages: Sequence[Solved]) -> tuple[tuple[int, ...], bool]:
    """The bounds of the first bands, up to one that the known answer does not reach, as those after it rest on more;
    and whether it reaches all of them, so that there is nothing more to ask for."""
    known = [0] * len(problem.bands)
    for cls, count in zip(problem.classes, problem.hint[0], strict=True):
        known[cls.band] += cls.weight * count
    bounds: list[int] = []
    for reached, stage in zip(known, stages, strict=False):
        if stage.status not in ("OPTIMAL", "FEASIBLE") or reached > stage.bound:
            break
        bounds.append(stage.bound)
        if reached < stage.bound:
            break
    return tuple(bounds), tuple(known) == tuple(bounds)
