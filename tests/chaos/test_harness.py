"""The short form of `make chaos`: one seed, a few faults of each sort, every invariant judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.harness import Harness
from tests.chaos.plan import Kind, network, steps
from tests.chaos.proxy import FAULTS

pytestmark = pytest.mark.xdist_group("chaos")


@pytest.mark.timeout(900)  # most of a minute; much longer where many others work on the machine
def test_a_few_kills_among_a_few_jobs_break_no_invariant(tmp_path: Path) -> None:
    harness = Harness(tmp_path / "run", seed=3, jobs=20, kills=6, members=2, minutes=8, idle_s=3)
    result = harness.run()
    assert result.findings == []
    assert (result.figures["kills"], result.figures["jobs"]) == (6, 20)
    assert result.figures["faults of networks"] > 0 and result.figures["connections struck"] > 0
    assert len(result.after_kills) == 6
    assert result.figures["copies"] >= 20 and result.figures["looks"] > 20


def test_a_seed_draws_the_same_faults_again() -> None:
    assert steps(5, 40) == steps(5, 40) != steps(6, 40)
    first, second = network(5), network(5)
    assert [next(first) for _ in range(50)] == [next(second) for _ in range(50)]


def test_a_plan_has_all_its_kills_and_every_other_fault() -> None:
    plan = steps(1, 1000)
    assert sum(step.kind is Kind.KILL for step in plan) == 1000
    assert {step.kind for step in plan} == set(Kind)
    assert all(step.seconds <= 24 and step.pause_s <= 1 for step in plan)
    faults = network(1)
    drawn = [next(faults) for _ in range(200)]
    assert {fault.mode for fault in drawn} == set(FAULTS) and max(fault.seconds for fault in drawn) <= 6
