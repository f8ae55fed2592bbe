"""One decision: a snapshot in, a plan out. Pure: no clock, no I/O, no randomness of its own, no logging.

The steps, in order: sort out who cannot start whatever happens; place the rest greedily, so that there is always an
answer; let the solver try to do better; ship the better of the two after `check` has seen it; say why the others wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fleet.check import Violation, check
from fleet.check.violation import Rule
from fleet.model.plan import Certificate, Placement, Plan
from fleet.model.reason import Code, Reason, instant
from fleet.placement.candidates.candidate import without
from fleet.placement.explain.why import Explainer
from fleet.placement.greedy.decision import MOST_ROUNDS, Decision, Outcome
from fleet.placement.greedy.greedy import Pass
from fleet.placement.linked.answers import Answers, Question
from fleet.placement.linked.linked import MOST_VARIABLES, build
from fleet.placement.preemption.reclaim import NOTHING_FOUND, Found
from fleet.placement.preemption.victims import Asking
from fleet.placement.problem import Solver
from fleet.snapshot import Snapshot

_OF_HEADS = (Rule.HEAD_UNSOUND, Rule.HEAD_UNENTITLED, Rule.HEAD_DROPPED)
VICTIMS_PART = 0.5  # of the time of a solve, for finding victims
PARTS = ("greedy", "solver", "reclaim", "reasons", "check")  # of a decision, in their order; the last to its end


class BadSnapshot(ValueError):
    """The snapshot contradicts itself. `problems` has (field, problem) for each contradiction."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{where}: {problem}" for where, problem in problems))
        self.problems = tuple(problems)


def _unmarked(part: str) -> None:
    return None


def decide(
    snapshot: Snapshot, *, now: float, seed: int, solver: Solver | None, mark: Callable[[str], None] = _unmarked
) -> Plan:
    """The plan for a snapshot at time `now` (epoch seconds). `solver` None: the greedy answer only. `mark` is told each
    of PARTS as it begins, for whoever has a clock.

    The same snapshot, now, seed and solver's answer give the same plan (I8). Raises BadSnapshot when the snapshot
    contradicts itself; everything else that is wrong with a unit or a member is a reason.
    """
    mark("greedy")
    problems = snapshot.problems()
    if problems:
        raise BadSnapshot(problems)
    decision = Decision(snapshot, now)
    greedy = decision.settle(decision.ground(), [])
    mark("solver")
    improved, certificate = _improved(decision, greedy, seed, solver, now)
    mark("reclaim")
    asking = Asking(solver, seed, snapshot.config.solve_limit_s * VICTIMS_PART)
    outcome, found = decision.reclaimed(improved, now, asking)
    certificate = replace(certificate, victims=found.searches, reclaim=found.cut)
    mark("reasons")
    plan = _plan(decision, outcome, certificate, found)
    mark("check")
    violations = check(snapshot, plan, now=now)
    if violations and found.claims:
        plan, violations = _spared(decision, outcome, plan, found, violations, now)
    if violations and found.claims:  # what evicts is not mended further: it is left to the next decision
        certificate = replace(certificate, why=f"the checker refused to evict: {violations[0].text}")
        decision = Decision(snapshot, now)
        greedy = decision.settle(decision.ground(), [])
        plan = _plan(decision, greedy if certificate.shipped == "greedy" else improved, certificate)
        violations = check(snapshot, plan, now=now)
    if violations and certificate.shipped != "greedy":
        mended = _mended(decision, improved, certificate, violations, now)
        if mended is not None and decision.worth(mended[0], now) > decision.worth(greedy, now):
            return mended[1]
        certificate = replace(certificate, shipped="greedy", why="the checker refused cp-sat's plan")
        plan = _plan(decision, greedy, certificate)
        violations = check(snapshot, plan, now=now)
    return _repaired(decision, greedy, plan, violations, now) if violations else plan


def _improved(
    decision: Decision, greedy: Outcome, seed: int, solver: Solver | None, now: float
) -> tuple[Outcome, Certificate]:
    """The better of the greedy outcome and the solver's, and the certificate of how that came about."""
    if solver is None:
        return greedy, Certificate("greedy", why="no solver was asked")
    if len(greedy.placed) == decision.waiting:
        return greedy, Certificate("greedy", why="optimal: everything that may start is placed")
    linked = build(decision.groups, decision.ground(), greedy.placed, now=now, config=decision.snapshot.config)
    problem = linked.problem
    value = decision.value(greedy, now)
    bounds = zip(linked.bands, linked.trivial_bounds, strict=True)
    if all(value.get(band, 0) >= bound for band, bound in bounds):
        grows = any(member.potential for member in decision.snapshot.members.values())
        where = " on the nodes that are there" if grows else ""  # of those that could be added nothing is proven
        return greedy, Certificate("greedy", why=f"optimal: no other gang could start{where}")
    if len(problem.classes) + len(problem.lanes) > MOST_VARIABLES:
        return greedy, Certificate("greedy", why=f"too large for the solver: {len(problem.lanes)} lanes")
    answers = Answers(
        solver=solver,
        seed=seed,
        limit_s=decision.snapshot.config.solve_limit_s,
        settle=decision.settle,
        worth=lambda outcome: decision.worth(outcome, now),
        narrower=lambda outcome: _narrower(decision, outcome, now),
    )
    solved = answers.best(Question(linked, decision.groups, decision.ground))
    certificate = answers.certificate
    if solved is None:
        return greedy, certificate
    ours, theirs = answers.worth(greedy), answers.worth(solved)
    if theirs <= ours:
        why = certificate.why or ("greedy is as good" if theirs == ours else "greedy is better")
        return greedy, replace(certificate, why=why)
    return solved, replace(certificate, shipped="cp-sat")


def _narrower(decision: Decision, outcome: Outcome, now: float) -> Question | None:
    """What else could start beside what is guaranteed in an outcome and the room that is kept for the sake of heads;
    None where none is kept."""
    found = decision.beside_kept(outcome)
    if found is None:
        return None
    ground, fixed, rest = found
    groups = without({candidate.unit.id for candidate, _ in fixed}, decision.groups)
    linked = build(groups, ground, rest, now=now, config=decision.snapshot.config)
    return Question(linked, groups, ground.copy, fixed, narrow=True)


def _plan(decision: Decision, outcome: Outcome, certificate: Certificate, found: Found = NOTHING_FOUND) -> Plan:
    placed = [*decision.first, *outcome.placed]
    started = {candidate.unit.id for candidate, _ in placed} | decision.aside
    newly = [pair for pair in decision.kept if pair[0].unit.id in decision.aside]
    explainer = Explainer(
        decision.nevers, decision.rooms, outcome.ground, decision.space, decision.overdue,
        placed=[*outcome.placed, *newly], kept=decision.kept,
    )  # fmt: skip
    reasons = decision.reasons | explainer.all(decision.groups, started, outcome.done) | _unpackable(outcome.out)
    reasons |= explainer.behind_kept(decision.behind, [candidate for candidate, _ in decision.kept], started)
    placements = tuple(Placement(candidate.unit.id, member) for candidate, member in placed)
    until = {claim.unit: claim.until for claim in found.claims}
    for candidate, member in decision.kept:
        unit = candidate.unit
        end = until.get(unit.id, unit.claim.until if unit.claim is not None else 0.0)
        numbers = {"member": member, "until": instant(end), "tier": candidate.tier.name.capitalize()}
        reasons[unit.id] = Reason(Code.ROOM_CLAIMED, numbers)
    heads = decision.heads.named(outcome.ground.holds, started)
    return Plan(placements, reasons, certificate, found.evictions, found.claims, heads)


def _unpackable(units: Mapping[str, str]) -> dict[str, Reason]:
    """Reasons for units that would fit their member, but for what else is placed there."""
    return {unit: Reason(Code.LOST_TO_OTHERS, {"member": at}) for unit, at in units.items()}


def _spared(
    decision: Decision, outcome: Outcome, plan: Plan, found: Found, violations: tuple[Violation, ...], now: float
) -> tuple[Plan, tuple[Violation, ...]]:
    """The plan with its evictions, but for those that the checker shows to be needless, and without who starts where it
    sees claimed room: else a stream of small ones might keep somebody from taking back for ever. And what the checker
    says then."""
    barred: dict[str, str] = {}
    for _ in range(MOST_ROUNDS):
        members = {candidate.unit.id: member for candidate, member in outcome.placed}
        stay = {v.unit for v in violations if v.rule is Rule.EVICTS_NEEDLESSLY}
        taking = {v.unit: members[v.unit] for v in violations if v.unit in members}
        if not violations or len(stay) + len(taking) < len({v.unit for v in violations}):
            break
        found = replace(found, evictions=tuple(e for e in found.evictions if e.unit not in stay))
        plan = replace(plan, evictions=found.evictions)
        if taking:
            barred |= taking
            kept = [(candidate, member) for candidate, member in outcome.placed if candidate.unit.id not in barred]
            outcome = decision.settle(decision.after(kept), kept, barred)
            plan = _plan(decision, outcome, plan.certificate, found)
            plan = replace(plan, reasons={**plan.reasons, **_unpackable(barred)})
        violations = check(decision.snapshot, plan, now=now)
    return plan, violations


def _mended(
    decision: Decision, outcome: Outcome, certificate: Certificate, violations: Sequence[Violation], now: float
) -> tuple[Outcome, Plan] | None:
    """The solver's outcome without those whom the checker refuses, filled up again, and its plan; None where it refuses
    anything else, or somebody every time."""
    barred: dict[str, str] = {}
    for _ in range(MOST_ROUNDS):
        members = {candidate.unit.id: member for candidate, member in outcome.placed}
        if any(v.unit not in members for v in violations):
            return None
        barred |= {v.unit: members[v.unit] for v in violations}
        kept = [(candidate, member) for candidate, member in outcome.placed if candidate.unit.id not in barred]
        outcome = decision.settle(decision.after(kept), kept, barred)
        why = f"the checker dropped {len(barred)}: {violations[0].text}"
        plan = _plan(decision, outcome, replace(certificate, why=why))
        plan = replace(plan, reasons={**plan.reasons, **_unpackable(barred)})
        violations = check(decision.snapshot, plan, now=now)
        if not violations:
            return outcome, plan
    return None


def _repaired(decision: Decision, outcome: Outcome, plan: Plan, violations: Sequence[Violation], now: float) -> Plan:
    """The plan without what the checker refuses, filled up again with whoever may start instead; if it refuses
    something every time, a plan that starts nothing."""
    barred: dict[str, str] = {}
    certificate = plan.certificate
    for _ in range(MOST_ROUNDS):
        decision.heads.dismiss({v.unit for v in violations if v.rule in _OF_HEADS})
        members = {candidate.unit.id: member for candidate, member in (*decision.first, *outcome.placed)}
        barred |= {v.unit: members[v.unit] for v in violations if v.unit in members}
        kept = [(candidate, member) for candidate, member in outcome.placed if candidate.unit.id not in barred]
        decision.first = [pair for pair in decision.first if pair[0].unit.id not in barred]
        outcome = decision.settle(decision.after(kept), kept, barred)
        why = f"the checker dropped {len(barred)}: {violations[0].text}"
        plan = _plan(decision, outcome, replace(certificate, why=why))
        plan = replace(plan, reasons={**plan.reasons, **_unpackable(barred)})
        violations = check(decision.snapshot, plan, now=now)
        if not violations:
            return plan
    decision.kept, decision.first = [*decision.kept, *decision.first], []
    nothing = Outcome([], decision.ground(), Pass())
    return _plan(decision, nothing, replace(certificate, why=f"the checker refused everything: {violations[0].text}"))
