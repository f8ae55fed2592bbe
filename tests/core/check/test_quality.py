"""The checker measures a fault of plans that it does not enforce: evictions that no claim needs."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from fleet.core.check import check
from fleet.core.check.quality import needless
from fleet.core.decide import decide
from fleet.core.model.plan import Placement, Plan
from fleet.core.snapshot import Snapshot
from tests.builders import NOW
from tests.core.check import reclaims
from tests.worlds import worlds

IN_Y = replace(reclaims.CLAIM, member="y")  # a member with room though no unit leaves


@pytest.mark.parametrize(
    ("plan", "measured"),
    [
        pytest.param(reclaims.SOUND, (), id="one leaves, as it must"),
        pytest.param(reclaims.plan(("s3", "y"), claims=(IN_Y,)), ("s3",), id="one leaves where there is room"),
        pytest.param(reclaims.plan(("s1", "x"), ("s2", "x")), ("s1",), id="one of two suffices"),
        pytest.param(reclaims.plan(("s2", "x"), ("s1", "x")), ("s2",), id="one of two suffices, the other first"),
        pytest.param(reclaims.plan(("s2", "x"), ("s3", "y")), ("s3",), id="one leaves where nothing is claimed"),
    ],
)
def test_a_unit_that_all_claims_can_do_without_is_needless(plan: Plan, measured: tuple[str, ...]) -> None:
    assert check(reclaims.WORLD, plan, now=NOW) == ()
    assert needless(reclaims.WORLD, plan, now=NOW) == measured


def test_a_unit_leaves_for_a_claim_beside_what_starts_there() -> None:
    starts = (Placement("small", "y"),)
    plan = reclaims.plan(("s3", "y"), claims=(IN_Y,), starts=starts)
    assert check(reclaims.WORLD, plan, now=NOW) == ()
    assert needless(reclaims.WORLD, plan, now=NOW) == ()


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(worlds())
def test_no_plan_evicts_needlessly(world: Snapshot) -> None:
    assert needless(world, decide(world, now=NOW, seed=7, solver=None), now=NOW) == ()


def test_at_most_one_of_a_hundred_plans_that_evict_does_so_needlessly() -> None:
    measured = []
    for seed in range(300):
        world = reclaims.contested(random.Random(seed))
        plan = decide(world, now=NOW, seed=7, solver=None)
        if plan.evictions:
            measured.append(bool(needless(world, plan, now=NOW)))
    assert len(measured) > 50
    assert sum(measured) * 100 <= len(measured)
