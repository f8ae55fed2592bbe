"""Asking CP-SAT for more than the greedy answer: the better of the two outcomes, and the certificate of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fleet.model.plan import Certificate
from fleet.placement.greedy.settle import Outcome
from fleet.placement.greedy.situation import Situation
from fleet.placement.greedy.worth import value, worth
from fleet.placement.linked.answers import Answers
from fleet.placement.linked.linked import MOST_VARIABLES, build
from fleet.placement.problem import Solver


def improve(situation: Situation, greedy: Outcome, solver: Solver | None, seed: int) -> tuple[Outcome, Certificate]:
    """The better of the greedy outcome and the solver's, and the certificate of how that came about."""
    if solver is None:
        return greedy, Certificate("greedy", why="no solver was asked")
    if len(greedy.placed) == situation.waiting:
        return greedy, Certificate("greedy", why="optimal: everything that may start is placed")
    config, heads = situation.snapshot.config, situation.chosen.heads
    linked = build(situation.groups, situation.profile(), greedy.placed, now=situation.now, config=config, heads=heads)
    problem, found = linked.problem, value(situation, greedy)
    left_out = [f"the model has no {', no '.join(linked.left_out)}"] if linked.left_out else []
    if all(found.get(band, 0) >= bound for band, bound in zip(linked.bands, linked.trivial_bounds, strict=True)):
        grows = any(member.potential for member in situation.snapshot.members.values())
        where = " on the nodes that are there" if grows else ""  # for nodes that could be added nothing is proven
        return greedy, Certificate("greedy", why=_joined(f"optimal: no other gang could start{where}", left_out))
    if len(problem.classes) + len(problem.lanes) > MOST_VARIABLES:
        return greedy, Certificate("greedy", why=f"too large for the solver: {len(problem.lanes)} lanes")
    answers = Answers(situation, solver, seed)
    solved = answers.best(linked)
    why, notes = answers.certificate.why, [*answers.notes, *left_out]
    if solved is None:
        return greedy, replace(answers.certificate, why=_joined(why, notes))
    ours, theirs = worth(situation, greedy), worth(situation, solved)
    if theirs <= ours:
        why = why or ("greedy is as good" if theirs == ours else "greedy is better")
    shipped = "cp-sat" if theirs > ours else "greedy"
    certificate = replace(answers.certificate, shipped=shipped, why=_joined(why, notes))
    return solved if theirs > ours else greedy, certificate


def _joined(why: str, notes: Iterable[str]) -> str:
    """The cause with the bounds that the search met, each once: a replay hears all of them from the record."""
    for note in notes:
        if note not in why:
            why = f"{why}; {note}" if why else note
    return why
