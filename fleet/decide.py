"""One decision: a snapshot in, a plan out. Pure: no clock, no I/O, no randomness of its own, no logging.

The steps, in order: sort out who cannot start whatever happens; place the rest greedily, so that there is always an
answer; let the solver try to do better; ship the better of the two after `check` has seen it; say why the others wait.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace

from fleet.check import Violation, check
from fleet.model.amounts import Amounts
from fleet.model.reason import Code, Reason, instant
from fleet.model.unit import Component, Phase, Unit
from fleet.placement.candidate import Candidate, order
from fleet.placement.eligibility import Policies
from fleet.placement.greedy import Pass, place
from fleet.placement.ground import Ground
from fleet.placement.linked import MOST_VARIABLES, Band, Pairs, band_of, build, decode, sound, weight
from fleet.placement.problem import Solver
from fleet.placement.reclaim import NOTHING_FOUND, Found, Reclaim
from fleet.placement.room import MemberRoom, Shape, Space, committed, rooms
from fleet.placement.why import Explainer, Nevers, defect, early
from fleet.plan import Certificate, Placement, Plan, Stage
from fleet.quota.entitlement import entitlement
from fleet.quota.tiers import Claimed, Tier
from fleet.quota.usage import Usage, request_of
from fleet.snapshot import Snapshot

_MOST_ROUNDS = 8


class BadSnapshot(ValueError):
    """The snapshot contradicts itself. `problems` has (field, problem) for each contradiction."""

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{where}: {problem}" for where, problem in problems))
        self.problems = tuple(problems)


@dataclass(slots=True)
class _Gang:
    """What follows from the components of a unit alone."""

    defect: tuple[str, str] | None
    request: Amounts
    shape: int = -1


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
        gangs: dict[tuple[tuple[Component, ...], bool, str], _Gang] = {}  # many units are alike: what follows is kept
        able: list[tuple[Unit, _Gang]] = []
        backing_off: list[Unit] = []
        for unit in waiting:
            alike = (unit.components, unit.preemptible, unit.topology)
            gang = gangs.get(alike)
            if gang is None:
                gang = gangs[alike] = _Gang(defect(unit.components), request_of(unit))
            reason = early(unit, gang.defect, tree, now)
            if reason is None:
                able.append((unit, gang))
                continue
            self.reasons[unit.id] = reason
            if reason.code is Code.BACK_OFF:
                backing_off.append(unit)
        sound = [alike for alike, gang in gangs.items() if gang.defect is None]
        topologies = {*(topology for _, _, topology in sound), *(unit.topology for unit in self.holding)}
        components = [*(alike[0] for alike in sound), *(unit.components for unit in self.holding)]
        self.space = Space(components, topologies)
        for alike in sound:
            gangs[alike].shape = self.space.number(alike[0], alike[2])
        policies = Policies(snapshot.members)
        strict = {path for path, node in tree.nodes.items() if node.policy == "Block"} if tree is not None else set()
        self.candidates = [
            Candidate(unit, gang.shape, policies.of(unit), gang.request, unit.leaf in strict) for unit, gang in able
        ]
        self.coming = [
            (unit.id, unit.member, committed(unit, self.space)) for unit in self.holding if unit.member is not None
        ]
        self.free = {name: MemberRoom.of(snapshot.members[name], self.space) for name in sorted(snapshot.members)}
        self.rooms = rooms(self.free, self.coming, self.space)
        self.usage: Usage | None = None
        self.nevers = Nevers(snapshot.members, self.space)
        self.tiers: dict[str, Tier] = {}
        if tree is not None:
            possible = [
                c for c in self.candidates if c.eligibility.allowed and not self.nevers.of(c.shape, c.eligibility)
            ]
            later = [Claimed(unit, request_of(unit)) for unit in backing_off]
            entitled = entitlement(tree, snapshot.members, self.holding, possible, later)
            self.usage = Usage.of(tree, self.holding, entitled.promises)
            self.tiers = dict(entitled.tiers)
            for candidate in self.candidates:
                if candidate.unit.leaf is not None:
                    candidate.tier = self.tiers.get(candidate.unit.id, Tier.BORROWED)
            self.candidates.sort(key=lambda candidate: candidate.tier)  # stable: in order within a tier
        self.first: Pairs = []  # units that claimed their room, and it is there
        self.kept: Pairs = []  # units for which room is kept
        self._honour([c for c in self.candidates if c.unit.claim is not None and _claims(c, now)])

    def _honour(self, claimed: Sequence[Candidate]) -> None:
        """Claimed room is given to nobody else: its unit starts now, or the room is kept."""
        if not claimed:
            return
        ground = self.ground()
        for candidate in claimed:
            member = candidate.unit.claim.member if candidate.unit.claim is not None else ""
            fit = ground.fit(candidate.shape, member) if ground.admits(candidate) else None
            if fit is not None:
                ground.take(candidate, member, fit)
                self.first.append((candidate, member))
            else:
                self.kept.append((candidate, member))
                ground.rooms[member].hold(self.space.shapes[candidate.shape], self.space.devices)
                if ground.usage is not None and candidate.unit.leaf is not None:
                    ground.usage.charge(candidate.unit.leaf, candidate.request)
        self.rooms, self.usage = ground.rooms, ground.usage
        gone = {candidate.unit.id for candidate in claimed}
        self.candidates = [candidate for candidate in self.candidates if candidate.unit.id not in gone]

    def _new(self, placed: Iterable[tuple[Candidate, str]]) -> list[tuple[str, str, Shape]]:
        return [(c.unit.id, member, self.space.shapes[c.shape]) for c, member in (*self.first, *placed)]

    def _laid_out(self, placed: Iterable[tuple[Candidate, str]]) -> dict[str, MemberRoom]:
        """The rooms that the next cycle sees once `placed` is committed, less what is kept."""
        found = rooms(self.free, [*self.coming, *self._new(placed)], self.space)
        for candidate, member in self.kept:
            found[member].hold(self.space.shapes[candidate.shape], self.space.devices)
        return found

    def reclaimed(self, outcome: _Outcome, now: float) -> tuple[_Outcome, Found]:
        """What must leave for those who have a right to room that they did not get, and the outcome beside it: what
        borrows is placed again in what is left."""
        found = NOTHING_FOUND
        if not self.snapshot.config.reclaim or self.usage is None:
            return outcome, found
        taken = {candidate.unit.id for candidate, _ in outcome.placed}
        preemptors = [
            c
            for c in self.candidates
            if c.tier < Tier.BORROWED
            and c.unit.leaf is not None
            and not c.block
            and c.unit.id not in taken
            and c.eligibility.choices
            and not self.nevers.of(c.shape, c.eligibility)
        ]
        firm = [(c, member) for c, member in outcome.placed if c.tier < Tier.BORROWED]
        usage = self.after(firm).usage
        if not preemptors or usage is None:
            return outcome, found
        coming = [*self.coming, *self._new(firm)]
        found = Reclaim(self.snapshot, self.space, coming, self.kept, usage, self.tiers, now).run(preemptors)
        if not found.claims:
            return outcome, found
        for candidate, _ in found.kept:
            self.usage.charge(candidate.unit.leaf or "", candidate.request)
        self.kept = [*self.kept, *found.kept]
        waiting = {candidate.unit.id for candidate, _ in found.kept}
        self.candidates = [candidate for candidate in self.candidates if candidate.unit.id not in waiting]
        return self.settle(self.after(firm), firm), found

    def after(self, placed: Sequence[tuple[Candidate, str]]) -> Ground:
        """The ground that the next cycle sees once `placed` is committed."""
        ground = self.ground()
        for candidate, _ in placed:
            if candidate.unit.leaf is not None and ground.usage is not None:
                ground.usage.charge(candidate.unit.leaf, candidate.request)
        return Ground(self._laid_out(placed), ground.usage, self.space)

    @property
    def bands(self) -> list[Band]:
        return sorted({band_of(candidate) for candidate in self.candidates})

    def value(self, outcome: _Outcome, now: float) -> dict[Band, int]:
        """What an outcome is worth, per tier and priority: the solver's own measure."""
        total: dict[Band, int] = {}
        for candidate, _ in outcome.placed:
            band = band_of(candidate)
            total[band] = total.get(band, 0) + weight(candidate, self.space, now)
        return total

    def ground(self) -> Ground:
        return Ground(self.rooms, self.usage, self.space)

    def settle(self, ground: Ground, placed: Sequence[tuple[Candidate, str]], barred: Container[str] = ()) -> _Outcome:
        """Fill up what is left until nothing more starts, each time on the room that the next cycle will see once
        this is committed: so that planning again changes nothing (I7)."""
        placed = list(placed)
        done = Pass()
        for _ in range(_MOST_ROUNDS):
            taken = {candidate.unit.id for candidate, _ in placed}
            done = place(ground, [c for c in self.candidates if c.unit.id not in taken], barred)
            placed += done.placed
            if not placed:
                break
            ground = Ground(self._laid_out(placed), ground.usage, self.space)
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
    greedy = decision.settle(decision.ground(), [])
    improved, certificate = _improved(decision, greedy, seed, solver, now)
    outcome, found = decision.reclaimed(improved, now)
    plan = _plan(decision, outcome, certificate, found)
    violations = check(snapshot, plan, now=now)
    if violations and found.claims:  # what evicts is never mended: it is left to the next decision
        certificate = replace(certificate, why=f"the checker refused to evict: {violations[0].text}")
        decision = _Decision(snapshot, now)
        greedy = decision.settle(decision.ground(), [])
        plan = _plan(decision, greedy, replace(certificate, shipped="greedy"))
        violations = check(snapshot, plan, now=now)
    if violations and certificate.shipped != "greedy":
        certificate = replace(certificate, shipped="greedy", why="the checker refused cp-sat's plan")
        plan = _plan(decision, greedy, certificate)
        violations = check(snapshot, plan, now=now)
    return _repaired(decision, greedy, plan, violations, now) if violations else plan


def _improved(
    decision: _Decision, greedy: _Outcome, seed: int, solver: Solver | None, now: float
) -> tuple[_Outcome, Certificate]:
    """The better of the greedy outcome and the solver's, and the certificate of how that came about."""
    if solver is None:
        return greedy, Certificate("greedy", why="no solver was asked")
    if len(greedy.placed) == len(decision.candidates):
        return greedy, Certificate("greedy", why="optimal: everything that may start is placed")
    members = {candidate.unit.id: member for candidate, member in greedy.placed}
    ground = decision.ground()
    linked = build(decision.candidates, ground, members, now=now, config=decision.snapshot.config)
    problem = linked.problem
    value = decision.value(greedy, now)
    bounds = zip(linked.bands, linked.trivial_bounds, strict=True)
    if all(value.get(band, 0) >= bound for band, bound in bounds):
        return greedy, Certificate("greedy", why="optimal: no other gang could start")
    if len(problem.classes) + len(problem.lanes) > MOST_VARIABLES:
        return greedy, Certificate("greedy", why=f"too large for the solver: {len(problem.lanes)} lanes")
    try:
        answer = solver.solve(problem, seed=seed, limit_s=decision.snapshot.config.solve_limit_s)
    except Exception as error:  # a solver may fail in any way it likes; there is an answer without it
        return greedy, Certificate("greedy", why=f"the solver failed ({type(error).__name__})")
    stages = tuple(Stage(s.name, s.value, s.bound, s.status, s.seconds) for s in answer.stages)
    said = (answer.admitted, answer.placed)
    if answer.empty:
        return greedy, Certificate("greedy", stages, answer.why or "the solver found no answer", said)
    if not sound(problem, answer):
        return greedy, Certificate("greedy", stages, "the solver's answer does not belong to the problem", said)
    solved = decision.settle(*decode(linked, answer, decision.candidates, decision.ground))
    ours, theirs = (
        tuple(decision.value(outcome, now).get(band, 0) for band in decision.bands) for outcome in (greedy, solved)
    )
    if theirs <= ours:
        why = answer.why or ("greedy is as good" if theirs == ours else "greedy is better")
        return greedy, Certificate("greedy", stages, why, said)
    return solved, Certificate("cp-sat", stages, answer.why, said)


def _claims(candidate: Candidate, now: float) -> bool:
    """Whether room is claimed for it that it may still use. A queue with policy Block has an order of its own."""
    claim = candidate.unit.claim
    return (
        claim is not None
        and claim.until > now
        and not candidate.block
        and any(choice.member == claim.member for choice in candidate.eligibility.choices)
    )


def _plan(decision: _Decision, outcome: _Outcome, certificate: Certificate, found: Found = NOTHING_FOUND) -> Plan:
    placed = [*decision.first, *outcome.placed]
    taken = {candidate.unit.id for candidate, _ in placed}
    left = [candidate for candidate in decision.candidates if candidate.unit.id not in taken]
    explainer = Explainer(decision.nevers, decision.rooms, outcome.ground, decision.space)
    reasons = decision.reasons | explainer.all(left, outcome.done)
    placements = tuple(Placement(candidate.unit.id, member) for candidate, member in placed)
    until = {claim.unit: claim.until for claim in found.claims}
    for candidate, member in decision.kept:
        unit = candidate.unit
        end = until.get(unit.id, unit.claim.until if unit.claim is not None else 0.0)
        numbers = {"member": member, "until": instant(end), "tier": candidate.tier.name.capitalize()}
        reasons[unit.id] = Reason(Code.ROOM_CLAIMED, numbers)
    return Plan(placements, reasons, certificate, found.evictions, found.claims)


def _repaired(decision: _Decision, outcome: _Outcome, plan: Plan, violations: Sequence[Violation], now: float) -> Plan:
    """The plan without what the checker refuses, filled up again with whoever may start instead; if it refuses
    something every time, a plan that starts nothing."""
    barred: dict[str, str] = {}
    certificate = plan.certificate
    for _ in range(_MOST_ROUNDS):
        members = {candidate.unit.id: member for candidate, member in (*decision.first, *outcome.placed)}
        barred |= {v.unit: members[v.unit] for v in violations if v.unit in members}
        kept = [(candidate, member) for candidate, member in outcome.placed if candidate.unit.id not in barred]
        decision.first = [pair for pair in decision.first if pair[0].unit.id not in barred]
        outcome = decision.settle(decision.after(kept), kept, barred)
        why = f"the checker dropped {len(barred)}: {violations[0].text}"
        plan = _plan(decision, outcome, replace(certificate, why=why))
        unpackable = {
            unit: Reason(Code.LOST_TO_OTHERS, {"member": member, "short": 1, "what": "packing that the checker finds"})
            for unit, member in barred.items()
        }
        plan = replace(plan, reasons={**plan.reasons, **unpackable})
        violations = check(decision.snapshot, plan, now=now)
        if not violations:
            return plan
    decision.kept, decision.first = [*decision.kept, *decision.first], []
    nothing = _Outcome([], decision.ground(), place(decision.ground(), [], ()))
    return _plan(decision, nothing, replace(certificate, why=f"the checker refused everything: {violations[0].text}"))
