"""Properties of every plan, whatever the world: the invariants of the design that the core answers for."""

from __future__ import annotations

import json
from dataclasses import fields

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.model.bounds import Bounds
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Phase, Unit
from fleet.core.notation.codec import decode_plan, decode_snapshot, encode_plan, encode_record, encode_snapshot, replay
from fleet.core.placement.problem import Solver
from fleet.core.quota.usage import Usage
from fleet.core.snapshot import Snapshot
from fleet.core.solver.cpsat import CpSat
from tests.builders import NOW
from tests.core.decide.commitment import committed
from tests.core.placement.situations import situation_of
from tests.worlds import worlds

GREEDY: Solver | None = None
SOLVERS = st.sampled_from((GREEDY, CpSat()))
many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def decided(world: Snapshot, solver: Solver | None) -> Plan:
    return decide(world, now=NOW, seed=7, solver=solver)


@many
@given(worlds(), SOLVERS)
def test_the_checker_passes_every_plan_and_each_gang_is_in_one_member(world: Snapshot, solver: Solver | None) -> None:
    plan = decided(world, solver)
    assert check(world, plan, now=NOW) == ()
    assert len({p.unit for p in plan.placements}) == len(plan.placements)
    assert "checker" not in plan.certificate.why
    assert set(plan.certificate.bounds) <= {bound.name for bound in fields(Bounds)}


@many
@given(worlds(), SOLVERS)
def test_no_plan_raises_usage_above_max_at_any_node(world: Snapshot, solver: Solver | None) -> None:
    after = committed(world, decided(world, solver))
    if world.tree is None:
        return
    then, now = (Usage.of(world.tree, w.units.values()) for w in (world, after))
    for path, node in world.tree.nodes.items():
        for resource, limit in node.max.items():
            assert now.used(path, resource) <= max(limit, then.used(path, resource))


@many
@given(worlds(), SOLVERS)
def test_planning_again_after_the_commit_starts_nothing(world: Snapshot, solver: Solver | None) -> None:
    after = committed(world, decided(world, solver))
    assert decided(after, solver).placements == ()
    assert decided(after, GREEDY).placements == ()


@many
@given(worlds(), SOLVERS)
def test_every_waiting_unit_has_exactly_one_reason_with_a_whole_text(world: Snapshot, solver: Solver | None) -> None:
    plan = decided(world, solver)
    started = {p.unit for p in plan.placements}
    waiting = {key for key, unit in world.units.items() if unit.phase is Phase.WAITING}
    assert set(plan.reasons) == waiting - started
    for reason in plan.reasons.values():
        assert reason.text and "?" not in reason.text and "{" not in reason.text


@many
@given(worlds(), SOLVERS)
def test_a_recorded_decision_replays_to_the_same_plan(world: Snapshot, solver: Solver | None) -> None:
    plan = decided(world, solver)
    record = json.loads(json.dumps(encode_record(world, plan, now=NOW, seed=7)))
    assert replay(record) == plan
    assert decided(world, solver) == plan


@many
@given(worlds())
def test_snapshots_and_plans_survive_json(world: Snapshot) -> None:
    again = decode_snapshot(json.loads(json.dumps(encode_snapshot(world))))
    assert again == world
    plan = decided(world, GREEDY)
    assert decode_plan(json.loads(json.dumps(encode_plan(plan)))) == plan


def _tiers(world: Snapshot) -> dict[str, int]:
    entitled = situation_of(world).entitled
    return {key: int(tier) for key, tier in entitled.tiers().items()} if entitled is not None else {}


@many
@given(worlds())
def test_the_solver_never_makes_a_plan_worse(world: Snapshot) -> None:
    tiers = _tiers(world)

    def value(plan: Plan) -> tuple[int, ...]:
        placed = [world.units[p.unit] for p in plan.placements]
        bands = sorted({(tiers.get(unit.id, 1), -unit.priority) for unit in world.units.values()})
        return tuple(sum(gpus_by_age(u) for u in placed if (tiers.get(u.id, 1), -u.priority) == band) for band in bands)

    def gpus_by_age(unit: Unit) -> int:
        total = unit.total["nvidia.com/gpu"]
        waited = NOW - unit.enqueued_at
        return max(1, total) * (4 + sum(waited >= age for age in (600, 3600, 21600)))

    assert value(decided(world, CpSat())) >= value(decided(world, GREEDY))
