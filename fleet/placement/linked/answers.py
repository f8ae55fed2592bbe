"""What the solver says to the linked model, made into placements; and asking it again where its answer did not pack.

An answer counts gangs by member; whether a member's nodes take them shows when they are packed. Where they do not, the
same question is put again with these members modelled node by node (bynode.py), from the best answer so far, a bounded
number of times and within one limit of time. The time that counts is what the solver says it took, since there is no
clock here: a solver that has none left is asked once more and has nothing to say.

What the model does not know at all is the room that is kept for the sake of heads (bypass.py): which it is follows from
what is guaranteed in the answer, and where that lies. So where an answer loses something and room is kept, a narrower
question follows: what is guaranteed, and heads that start, stay where they are, and the rest is asked for beside them
and what is kept. Its bounds are of that rest only, so those of the first question are the ones that are told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Protocol, TypeVar

from fleet.model.plan import Certificate, Stage
from fleet.placement.candidates.candidate import Group
from fleet.placement.greedy.ground import Ground
from fleet.placement.linked.bynode import askable, refined
from fleet.placement.linked.decode import decode, sound
from fleet.placement.linked.linked import Linked, Pairs
from fleet.placement.linked.repack import repacked
from fleet.placement.problem import Answer, Problem, Solved, Solver
from fleet.quota.tiers import Tier

_MOST_ANSWERS = 8
_LEAST_LIMIT_S = 0.05
_FIRST_PART = 0.6  # of the time, for the first answer where it may have to be asked for again
_FIT_PART = 0.15  # of the time for an answer then, for cheap lanes


class Placed(Protocol):
    """What packing an answer comes to."""

    @property
    def placed(self) -> Pairs: ...


Result = TypeVar("Result", bound=Placed)


@dataclass(frozen=True, slots=True)
class Question:
    """What may start of `groups` on a `fresh()` ground, beside what is `fixed` there already."""

    linked: Linked
    groups: Sequence[Group]
    fresh: Callable[[], Ground]
    fixed: Pairs = field(default_factory=list)
    precise: frozenset[str] = frozenset()  # members that are modelled node by node
    narrow: bool = False  # it is about a rest

    def posed(self, problem: Problem) -> Question:
        return replace(self, linked=replace(self.linked, problem=problem))

    @property
    def places(self) -> frozenset[tuple[str, str]]:
        """Of what is fixed, units and members."""
        return frozenset((candidate.unit.id, member) for candidate, member in self.fixed)

    def open(self, placed: Pairs) -> Pairs:
        """Those of all that are placed that are asked for."""
        fixed = {candidate.unit.id for candidate, _ in self.fixed}
        return [pair for pair in placed if pair[0].unit.id not in fixed]


@dataclass(slots=True)
class Answers(Generic[Result]):
    """All answers to one question. `settle` makes an outcome of what was packed on a ground; `worth` compares;
    `narrower` is the question beside what is kept in an outcome, if anything is."""

    solver: Solver
    seed: int
    limit_s: float
    settle: Callable[[Ground, Pairs], Result]
    worth: Callable[[Result], tuple[int, ...]]
    narrower: Callable[[Result], Question | None]
    certificate: Certificate = field(default_factory=lambda: Certificate("greedy"))

    def best(self, question: Question) -> Result | None:
        """The outcome that is worth most, or None when there is no answer; `certificate` tells how it came about."""
        left_s = self.limit_s
        best: tuple[tuple[int, ...], Result] | None = None
        lanes = question.linked.problem.lanes
        if askable(question.linked.problem, question.fresh()):
            question = question.posed(replace(question.linked.problem, part=_FIRST_PART, fit_part=_FIT_PART))
        open_: list[Question] = [question]
        narrowed: set[frozenset[tuple[str, str]]] = set()
        for _ in range(_MOST_ANSWERS):
            if not open_:
                break
            question = open_.pop()
            linked = question.linked
            # else it was told to look elsewhere, or of a rest, and proves nothing in general
            whole = not question.narrow and linked.problem.lanes == lanes
            answer = self._ask(linked, max(_LEAST_LIMIT_S, left_s), whole)
            if answer is None:
                break
            left_s -= sum(stage.seconds for stage in answer.stages)
            gains = linked.gains(answer)
            if gains <= 0:  # packing it cannot make it better than what is packed already
                if best is None and not self.certificate.why:
                    why = "greedy is better" if gains < 0 else "greedy is as good"
                    self.certificate = replace(self.certificate, why=why)
                continue
            ground, packed, dropped = decode(linked, answer, question.groups, question.fresh)
            anew = repacked(ground, question.fresh().rooms, question.groups, packed, dropped) if dropped else None
            outcome = self.settle(ground, [*question.fixed, *packed])
            best = self._better(best, outcome)
            if anew is not None:
                ground, packed, dropped = anew
                outcome = self.settle(ground, [*question.fixed, *packed])
                best = self._better(best, outcome)
            packed, dropped = _kept(packed, dropped, outcome.placed)
            more = _more(question, answer, packed, dropped, best[1].placed)
            open_ += [more] if more is not None else []
            if not question.narrow and dropped and all(pair[0].tier > Tier.GUARANTEED for pair in dropped):
                rest = self.narrower(outcome)
                fixed = rest.places if rest is not None else frozenset()
                if rest is not None and fixed not in narrowed:
                    narrowed.add(fixed)
                    open_.append(rest)
        return None if best is None else best[1]

    def _better(self, best: tuple[tuple[int, ...], Result] | None, other: Result) -> tuple[tuple[int, ...], Result]:
        """The outcome that is worth more, with its worth; of two that are worth the same the one before."""
        worth = self.worth(other)
        return (worth, other) if best is None or worth > best[0] else best

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


def _more(question: Question, answer: Answer, packed: Pairs, dropped: Pairs, best: Pairs) -> Question | None:
    """The question put again, node by node where something was `dropped`; None where nothing would come of it. `best`:
    all that is placed in the best outcome so far."""
    more = refined(question.linked.problem, packed, dropped, question.precise, question.fresh())
    if more is None:
        return None
    problem, precise = more
    hint = question.linked.hint(question.open(best))
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
