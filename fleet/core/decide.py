"""One decision: a snapshot in, a plan out. Pure: no clock, no I/O, no randomness of its own, no logging.

The steps are numbered in `decide`. Each is a function from values to values. No step changes a value of another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import replace

from fleet.core.check import Violation, check
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.plan import Certificate, Head, Placement, Plan
from fleet.core.model.reason import Code, Reason
from fleet.core.model.tier import Tier
from fleet.core.model.unit import Unit
from fleet.core.placement.explain.why import reasons
from fleet.core.placement.greedy.greedy import GreedyOutcome, settle, worth
from fleet.core.placement.greedy.situation import Pairs, Situation, claims_of, sort, with_claims, with_heads
from fleet.core.placement.linked.improve import improve
from fleet.core.placement.preemption.preempt import NOTHING_FOUND, PlanVictims, preempt
from fleet.core.placement.preemption.victims import VictimSolver
from fleet.core.placement.problem import Solver
from fleet.core.placement.sizes.sizing import sizing
from fleet.core.snapshot import Snapshot
from fleet.core.snapshot.surplus import at_least

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
    of PARTS as it begins, for a caller that has a clock.

    The same snapshot, now, seed and solver's answer give the same plan. Raises BadSnapshot when the snapshot
    contradicts itself; everything else that is wrong with a unit or a member is a reason.
    """
    mark("greedy")
    problems = snapshot.problems()
    if problems:
        raise BadSnapshot(problems)
    groups = sort(at_least(snapshot, now), now)  # 1: units in groups with their tiers, room, usage
    claims = with_claims(groups)  # 2: claims start, or keep their room
    situation = with_heads(claims)  # 3: heads, each with a member
    greedy = settle(situation, situation.profile(), ())  # 4: start, or else reserve, in service order
    mark("solver")
    outcome, certificate = improve(situation, greedy, solver, seed)  # 5: CP-SAT on the linked model
    mark("reclaim")
    asking = VictimSolver(solver, seed, snapshot.config.solve_limit_s * VICTIMS_PART)
    situation, outcome, preemption = preempt(situation, outcome, asking)  # 6: victims leave, and their room is claimed
    bounds = (*certificate.bounds, *greedy.bounds)
    certificate = replace(certificate, victims=preemption.searches, reclaim=preemption.cut, bounds=bounds)
    mark("reasons")
    plan = _plan(snapshot, situation, outcome, certificate, preemption)  # 7: sizes; a reason for each unit that waits
    mark("check")
    violations = check(snapshot, plan, now=now)  # 8: safety, by arithmetic of its own
    if not violations:
        return plan
    # 9: without what the checker refuses
    outcome, plan = _repaired(snapshot, situation, outcome, plan, violations, preemption)
    if certificate.shipped == "greedy" or worth(situation, outcome) > worth(situation, greedy):
        return plan
    certificate = replace(plan.certificate, shipped="greedy", causes=(Cause(CauseCode.REFUSED_SOLVER),))
    return replace(decide(snapshot, now=now, seed=seed, solver=None), certificate=certificate)


def _with_bounds(certificate: Certificate, bounds: Iterable[str]) -> Certificate:
    """The certificate with more bounds that ended a search."""
    return replace(certificate, bounds=tuple(sorted({*certificate.bounds, *bounds})))


def _plan(
    snapshot: Snapshot,
    situation: Situation,
    outcome: GreedyOutcome,
    certificate: Certificate,
    preemption: PlanVictims,
    sizes_kept: Collection[str] = (),
) -> Plan:
    """`snapshot`: with the surplus of elastic units; `sizes_kept`: units that keep the size that they have."""
    placed = [*situation.first, *outcome.placed]
    sizes = sizing(snapshot, situation, placed, outcome.profile, sizes_kept)
    placed = sizes.starts
    outcome = replace(outcome, placed=placed[len(situation.first) :])
    started = {candidate.unit.id for candidate, _ in placed} | situation.new
    heads = situation.head_choice.plan_heads(outcome.profile.spans, started, situation.now)
    heads = (*heads, *_late_heads(snapshot, placed, sizes.late, heads))
    placed = [pair for pair in placed if pair[0].unit.id not in sizes.late]
    crossing = {head.candidate.unit.id for head in situation.head_choice.heads if head.crossing}
    crossing |= {candidate.unit.id for candidate, _ in situation.first if candidate.tier > Tier.SHARE}
    grows = situation.growing(outcome.placed)
    placements = tuple(
        Placement(
            unit.id,
            member,
            _share_until(situation, unit) if unit.id in crossing else None,
            unit.id in grows,
            sizes.larger.get(unit.id, ()),
        )
        for unit, member in ((candidate.unit, member) for candidate, member in placed)
    )
    reasons_by_unit = reasons(situation, outcome, {claim.unit: claim for claim in preemption.claims})
    reasons_by_unit |= {key: Reason(Code.PODS_LEAVE, {"member": member}) for key, member in sizes.late.items()}
    bounds = situation.head_choice.bounds | outcome.bounds | preemption.bounds | sizes.bounds
    certificate = _with_bounds(certificate, bounds | situation.space.effort.bounds)
    return Plan(placements, reasons_by_unit, certificate, preemption.evictions, preemption.claims, heads, sizes.resizes)


def _late_heads(snapshot: Snapshot, placed: Pairs, late: Container[str], others: Iterable[Head]) -> list[Head]:
    """The heads among the units that start once pods have left: they keep their turn. `others`: heads that wait on."""
    leaves = {snapshot.units[head.unit].leaf for head in others}
    heads: list[Head] = []
    for unit in (candidate.unit for candidate, _ in placed if candidate.unit.id in late):
        if unit.head is not None and unit.leaf not in leaves:
            leaves.add(unit.leaf)
            heads.append(Head(unit.id, unit.head))
    return heads


def _share_until(situation: Situation, unit: Unit) -> float:
    """Until when a head that crosses its leaf's share, started from its reservation or its claim, counts as within the
    share: for as long as it had waited, at least the protection time. Each run is longer than the run before, so a
    gang that is evicted again and again ends."""
    return situation.now + max(situation.snapshot.config.protection_s, situation.now - unit.enqueued_at)


def _repaired(
    snapshot: Snapshot,
    situation: Situation,
    outcome: GreedyOutcome,
    plan: Plan,
    violations: Sequence[Violation],
    preemption: PlanVictims,
) -> tuple[GreedyOutcome, Plan]:
    """The plan without the starts that the checker refuses: filled up once, and checked; later refusals are dropped for
    good. In the end, a plan that starts and evicts nothing."""
    now = situation.now
    refused: dict[str, str] = {}
    sizes_kept: set[str] = set()
    certificate = plan.certificate
    for fill in (True, False):
        units = {violation.unit for violation in violations}
        if units - _starts(situation, outcome).keys() and preemption.claims:
            situation, preemption = _without_evictions(situation), NOTHING_FOUND
        starts = _starts(situation, outcome)
        sizes_kept |= units
        refused |= {key: starts[key] for key in starts.keys() & units}
        pairs = [pair for pair in outcome.placed if pair[0].unit.id not in refused]
        first = [pair for pair in situation.first if pair[0].unit.id not in refused]
        waiting = [pair for pair in situation.first if pair[0].unit.id in refused]
        situation = replace(situation, first=first, claims=(*situation.claims, *claims_of(waiting, now)))
        chosen = situation.head_choice.without(units)
        situation = replace(situation, head_choice=chosen)
        profile = situation.after(pairs)
        outcome = (
            settle(situation, profile, pairs, refused) if fill else replace(outcome, placed=pairs, profile=profile)
        )
        outcome = replace(outcome, out={**outcome.out, **refused})
        dropped = Cause(CauseCode.DROPPED, {"starts": len(refused), **_broken(violations)})
        certificate = _refused(certificate, violations, dropped)
        plan = _plan(snapshot, situation, outcome, certificate, preemption, sizes_kept)
        violations = check(snapshot, plan, now=now)
        if not violations:
            return outcome, plan
    nothing = replace(outcome, placed=[], profile=situation.profile())
    situation = _without_evictions(situation)
    claims = (*situation.claims, *claims_of(situation.first, now))
    situation = replace(situation, first=[], claims=claims)
    certificate = _refused(certificate, violations, Cause(CauseCode.REFUSED_ALL, _broken(violations)))
    return nothing, _plan(snapshot, situation, nothing, certificate, NOTHING_FOUND, snapshot.units)


def _refused(certificate: Certificate, violations: Sequence[Violation], cause: Cause) -> Certificate:
    """The certificate of what is left of a plan, with the bounds that the checker met."""
    certificate = _with_bounds(certificate, (bound for violation in violations for bound in violation.bounds))
    return replace(certificate, causes=(cause,))


def _broken(violations: Sequence[Violation]) -> dict[str, str]:
    """The first broken rule, as the numbers of a cause."""
    return {"rule": violations[0].rule.value, "fault": violations[0].text}


def _starts(situation: Situation, outcome: GreedyOutcome) -> dict[str, str]:
    return {candidate.unit.id: member for candidate, member in (*situation.first, *outcome.placed)}


def _without_evictions(situation: Situation) -> Situation:
    """The situation before this plan claimed room for anybody."""
    return with_heads(with_claims(sort(situation.snapshot, situation.now)))
