"""Asking CP-SAT for more than the greedy answer: the better of the two outcomes, and the certificate of it."""

from __future__ import annotations

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
    bounds = zip(linked.bands, linked.trivial_bounds, strict=True)
    if all(found.get(band, 0) >= bound for band, bound in bounds):
        grows = any(member.potential for member in situation.snapshot.members.values())
        where = " on the nodes that are there" if grows else ""  # of those that could be added nothing is proven
        return greedy, Certificate("greedy", why=f"optimal: no other gang could start{where}")
    if len(problem.classes) + len(problem.lanes) > MOST_VARIABLES:
        return greedy, Certificate("greedy", why=f"too large for the solver: {len(problem.lanes)} lanes")
    answers = Answers(situation, solver, seed)
    solved = answers.best(linked)
    certificate = answers.certificate
    if solved is None:
        return greedy, certificate
    ours, theirs = worth(situation, greedy), worth(situation, solved)
    if theirs <= ours:
        why = certificate.why or ("greedy is as good" if theirs == ours else "greedy is better")
        return greedy, replace(certificate, why=why)
    return solved, replace(certificate, shipped="cp-sat")
