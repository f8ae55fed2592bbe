"""The metrics of the controllers' process, while jobs live their lives."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client import generate_latest

from api.access.oidc.metrics import OidcMetrics
from api.admission.dynamic.failing import FailingHooks
from api.audit.metrics import AuditMetrics
from api.engine.registry import Registry
from api.objects.objects import Objects
from api.server.health import Metrics as ApiMetrics
from api.store.memory import MemoryStore
from api.wire.unsentbytes import UnsentBytes
from fleet.admission.filling import filled
from fleet.cli.datadir import DataDir
from fleet.controllers.runtime.gauges import LEAVES_MOST, OTHERS, OUTSIDE, UNKNOWN
from fleet.controllers.runtime.metrics import CountedSolver, Metrics, outcome_of
from fleet.core.decide import PARTS
from fleet.core.model.cause import Cause, CauseCode
from fleet.core.model.plan import Answer, Stage
from fleet.core.model.unit import Phase, Unit
from fleet.core.placement.problem import Problem, VictimProblem
from fleet.core.quota.parse import parse_tree
from fleet.core.snapshot import Snapshot
from fleet.hub.certificates import Certificates
from fleet.relays.relays import Relays
from fleet.simulate.wall import RandomIds, WallClock
from tests.controllers.decide.plans import waiting
from tests.controllers.fastloop import eventually
from tests.controllers.runtime.metrics_page import assert_told, listed_metrics
from tests.controllers.world import World, hub, member, policy, pytorchjob, tree


def sample(world: World, name: str, **labels: str) -> float:
    return world.hub.metrics.registry.get_sample_value(name, labels) or 0.0


def units(metrics: Metrics) -> dict[tuple[str, str], float]:
    families = {family.name: family for family in metrics.registry.collect()}
    return {(s.labels["leaf"], s.labels["phase"]): s.value for s in families["fleet_units"].samples}


async def test_decisions_placements_and_those_who_wait_are_told() -> None:
    async with hub(member("cfa"), member("cfb")) as world:
        await world.apply(tree(max_jobs=1), policy(queue=True), pytorchjob("one"), pytorchjob("two"))
        await eventually(lambda: sample(world, "fleet_jobs_waiting", code="MaxJobsReached") == 1)
        first = next(name for name in ("one", "two") if world.placed(name))
        await world.running(first)
        leaf = "root/child-2"
        await eventually(lambda: sample(world, "fleet_units", leaf=leaf, phase="placed") == 1)
        assert sample(world, "fleet_units", leaf=leaf, phase="waiting") == 1
        assert sample(world, "fleet_placements_total") == 1
        assert sample(world, "fleet_unit_wait_seconds_count", leaf=leaf, size="2-8") == 1
        where = world.placed(first)
        await eventually(lambda: sample(world, "fleet_member_dispatch_seconds_count", member=where) == 1)
        assert sample(world, "fleet_quota_used", queue=leaf, resource="nvidia.com/gpu") > 0
        assert sample(world, "fleet_member_gpus", member=where, model="", state="allocated") > 0
        assert sample(world, "fleet_member_last_heard_timestamp_seconds", member=where) > 0
        assert sample(world, "fleet_decisions_total", shipped="greedy") >= 1
        assert sample(world, "fleet_decision_cycles_total", outcome="decided") >= 1
        assert sample(world, "fleet_decision_last_timestamp_seconds") > 0
        counts = {sample(world, "fleet_decision_phase_seconds_count", phase=p) for p in ("snapshot", *PARTS, "commit")}
        assert counts == {sample(world, "fleet_decision_seconds_count")} and counts != {0.0}
        assert [sample(world, "fleet_member_ready", member=name) for name in ("cfa", "cfb")] == [1, 1]
        world.members.set_down("cfb", True)
        await eventually(lambda: sample(world, "fleet_member_ready", member="cfb") == 0)


async def test_evictions_are_counted_by_their_reason() -> None:
    async with hub(member("cfa", no_pods=True)) as world:
        await world.apply(tree(), policy(queue=True), pytorchjob("one"))
        await eventually(lambda: sample(world, "fleet_evictions_total", reason="GangNotWhole") >= 1, within_s=90)


async def test_what_is_stale_when_it_is_committed_is_counted_by_what_changed() -> None:
    async with hub(member("cfa")) as world:
        picture, placements, committer = await waiting(world, "one", "two", "three")
        await world.edit("QueueUnit", "two-pytorchjob-rb-qu", lambda unit: unit["spec"].update(active=False))
        await committer.commit(picture, placements)
        assert sample(world, "fleet_commit_refusals_total", cause="unit") == 1
        assert sample(world, "fleet_placements_total") == 2
        await world.apply(tree(max_jobs=3))
        await committer.commit(picture, placements)
        assert sample(world, "fleet_commit_refusals_total", cause="tree") == 1


async def test_a_changed_policy_is_told_apart_from_a_changed_unit() -> None:
    async with hub(member("cfa")) as world:
        picture, placements, committer = await waiting(world, "one")
        await world.apply(policy(queue=True, priority=5))
        await committer.commit(picture, placements)
        assert sample(world, "fleet_commit_refusals_total", cause="policy") == 1


def test_labels_are_bounded_whatever_users_call_their_leaves() -> None:
    metrics = Metrics()
    names = [f"leaf{number:03}" for number in range(LEAVES_MOST + 50)]
    quota = parse_tree({"root": {"name": "root", "max": {}, "children": [{"name": name} for name in names]}})
    made = [
        Unit(f"{name}/{n}", name, (), f"root/{name}") for name in names for n in range(2 if name < "leaf010" else 1)
    ]
    made += [Unit(f"x{n}", "x", (), f"made-up-{n}") for n in range(300)]
    made += [Unit("o", "o", (), None, phase=Phase.PLACED, member="m")]
    metrics.see(Snapshot(quota, {unit.id: unit for unit in made}))
    found = units(metrics)
    assert len(found) == LEAVES_MOST + 1
    assert (found[UNKNOWN, "waiting"], found["root/leaf000", "waiting"]) == (300, 2)
    assert sum(found.values()) == len(made)
    assert (OUTSIDE, "placed") in found or (OTHERS, "placed") in found


ANSWERS = [
    (Answer((1,), (1,), (Stage("a", 1, 1, "OPTIMAL"),)), "optimal"),
    (Answer((1,), (1,), (Stage("a", 1, 1, "OPTIMAL"), Stage("b", 1, 2, "FEASIBLE"))), "feasible"),
    (Answer(), "none"),
    (Answer(cause=Cause(CauseCode.NO_TIME)), "none"),
    (Answer((1,), (1,), (), Cause(CauseCode.LATE, {"limit_s": 1.5})), "late"),
    (Answer(cause=Cause(CauseCode.STARTING)), "starting"),
    (Answer(cause=Cause(CauseCode.FAILED, {"detail": "exit status -9"})), "failed"),
]


@pytest.mark.parametrize(("answer", "outcome"), ANSWERS)
def test_answers_of_the_solver_are_counted_by_outcome(answer: Answer, outcome: str) -> None:
    class Says:
        def solve(self, problem: Problem | VictimProblem, *, seed: int, limit_s: float) -> Answer:
            return answer

    metrics = Metrics()
    problem = Problem((), (), (), (), ())
    assert CountedSolver(Says(), metrics).solve(problem, seed=1, limit_s=1.0) is answer
    assert outcome_of(answer) == outcome
    assert metrics.registry.get_sample_value("fleet_solver_answers_total", {"outcome": outcome}) == 1


async def test_the_page_lists_every_metric_with_its_labels_and_no_other() -> None:
    others = ("fleet_api_", "fleet_store_", "fleet_agent_", "fleet_trace_", "fleet_tunnel_")
    listed = {name: row for name, row in listed_metrics().items() if not name.startswith(others)}
    async with hub(member("cfa")) as world:
        await world.apply(tree(max_jobs=1), policy(queue=True), pytorchjob("one"), pytorchjob("two"))
        await eventually(lambda: sample(world, "fleet_jobs_waiting", code="MaxJobsReached"))
        text = generate_latest(world.hub.metrics.registry).decode()
    assert_told(text, listed)


def test_the_page_lists_the_metrics_of_the_api() -> None:
    metrics = ApiMetrics()
    metrics.count("get", "pods", 200, 0.1)
    UnsentBytes(metrics.registry)
    clock = WallClock()
    relays = Relays(Objects(MemoryStore(clock), Registry([]), clock, RandomIds(), fill=filled), "hub")
    for others in (
        OidcMetrics(),
        AuditMetrics(),
        relays,
        Certificates(DataDir(Path("nowhere")), ()),
        FailingHooks(clock),
    ):
        others.show(metrics.registry)
    listed = {
        name: row for name, row in listed_metrics().items() if name.startswith(("fleet_api_", "fleet_build_info"))
    }
    assert_told(generate_latest(metrics.registry).decode(), listed)
