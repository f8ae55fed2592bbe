"""One decision: a snapshot in, a plan out. Pure: no clock, no I/O, no randomness of its own, no logging.

The steps, in order: sort out who cannot start whatever happens; place the rest greedily, so that there is always an
answer; let the solver try to do better; ship the better of the two after `check` has seen it; say why the others wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fleet.check import check
from fleet.model.reason import Code, Reason
from fleet.model.unit import Phase, Unit
from fleet.placement.eligibility import Policies
from fleet.placement.greedy import Candidate, Ground, Pass, order, place
from fleet.placement.problem import Solver
from fleet.placement.room import MemberRoom, Space, rooms
from fleet.placement.why import Explainer, early
from fleet.plan import Certificate, Placement, Plan
from fleet.quota.usage import Usage, request_of
from fleet.snapshot import Snapshot

_MOST_ROUNDS = 8


class BadSnapshot(ValueError):
    """The snapshot contradicts itself. `problems` has (field, problem) for each contradiction."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{where}: {problem}" for where, problem in problems))
        self.problems = tuple(problems)


@dataclass(slots=True)
class _Outcome:
    """Placements so far, and the ground after them."""

    placed: list[tuple[Candidate, str]]
    ground: Ground
    done: Pass


class _Decision:
    """What the steps of one decision share."""

    def __init__(self, snapshot: Snapshot, now: float) -> None:
        self.snapshot = snapshot
        tree = snapshot.tree
        waiting = sorted((u for u in snapshot.units.values() if u.phase is Phase.WAITING), key=order)
        self.holding = [u for u in snapshot.units.values() if u.phase is not Phase.WAITING]
        self.reasons: dict[str, Reason] = {}
        able: list[Unit] = []
        for unit in waiting:
            reason = early(unit, tree, now)
            if reason is None:
                able.append(unit)
            else:
                self.reasons[unit.id] = reason
        self.space = Space([*able, *self.holding])
        self.policies = Policies(snapshot.members)
        requests = {}
        self.candidates: list[Candidate] = []
        for unit in able:
            shape = self.space.shape_of(unit)
            if shape not in requests:
                requests[shape] = request_of(unit)
            block = unit.leaf is not None and tree is not None and tree.nodes[unit.leaf].policy == "Block"
            self.candidates.append(Candidate(unit, shape, self.policies.of(unit), requests[shape], block))
        self.rooms: Mapping[str, MemberRoom] = rooms(snapshot.members, self.holding, self.space)
        self.usage = Usage.of(tree, self.holding) if tree is not None else None

    def ground(self) -> Ground:
        return Ground(self.rooms, self.usage, self.space)

    def settle(self, ground: Ground, placed: list[tuple[Candidate, str]]) -> _Outcome:
        """Fill up what is left until nothing more starts, each time on the room that the next cycle will see once
        this is committed: so that planning again changes nothing (I7)."""
        placed = list(placed)
        done = Pass()
        for _ in range(_MOST_ROUNDS):
            taken = {candidate.unit.id for candidate, _ in placed}
            done = place(ground, [c for c in self.candidates if c.unit.id not in taken])
            placed += done.placed
            if not placed:
                break
            new = [replace(c.unit, phase=Phase.PLACED, member=member, visible=()) for c, member in placed]
            seen = rooms(self.snapshot.members, [*self.holding, *new], self.space)
            ground = Ground(seen, ground.usage, self.space)
            if not done.placed:
                break
        return _Outcome(placed, ground, done)


def decide(snapshot: Snapshot, *, now: float, seed: int, solver: Solver | None) -> Plan:
    """The plan for a snapshot at time `now` (epoch seconds). `solver` None: the greedy answer only.

    The same snapshot, now, seed and solver's answer give the same plan (I8). Raises BadSnapshot when the snapshot
    contradicts itself; everything else that is wrong with a unit or a member is a reason.
    """
    problems = snapshot.problems()
    if problems:
        raise BadSnapshot(problems)
    decision = _Decision(snapshot, now)
    outcome = decision.settle(decision.ground(), [])
    certificate = Certificate(shipped="greedy")
    return _checked(decision, outcome, certificate, now)


def _plan(decision: _Decision, outcome: _Outcome, certificate: Certificate) -> Plan:
    taken = {candidate.unit.id for candidate, _ in outcome.placed}
    left = [candidate for candidate in decision.candidates if candidate.unit.id not in taken]
    explainer = Explainer(decision.snapshot.members, decision.rooms, outcome.ground, decision.space)
    reasons = decision.reasons | explainer.all(left, outcome.done)
    placements = tuple(Placement(candidate.unit.id, member) for candidate, member in outcome.placed)
    return Plan(placements, reasons, certificate)


def _checked(decision: _Decision, outcome: _Outcome, certificate: Certificate, now: float) -> Plan:
    """The plan less what the checker refuses of it: a plan that breaks a rule is never shipped."""
    plan = _plan(decision, outcome, certificate)
    violations = check(decision.snapshot, plan, now=now)
    if not violations:
        return plan
    refused = {violation.unit for violation in violations if violation.unit}
    keep = tuple(p for p in plan.placements if p.unit not in refused)
    reasons = dict(plan.reasons)
    for placement in plan.placements:
        if placement.unit in refused:
            numbers: dict[str, str | int] = {"member": placement.member, "short": 1, "what": "check of the plan"}
            reasons[placement.unit] = Reason(Code.LOST_TO_OTHERS, numbers)
    why = f"the checker dropped {len(plan.placements) - len(keep)}: {violations[0].text}"
    shipped = Plan(keep, reasons, replace(certificate, why=why))
    if check(decision.snapshot, shipped, now=now):
        waiting = {p.unit: reasons[p.unit] for p in plan.placements if p.unit in reasons}
        for placement in keep:
            waiting[placement.unit] = Reason(
                Code.LOST_TO_OTHERS, {"member": placement.member, "short": 1, "what": "check of the plan"}
            )
        shipped = Plan((), reasons | waiting, replace(certificate, why=why))
    return shipped
