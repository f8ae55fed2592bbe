"""Fleets with elastic jobs, decision after decision: every plan passes the checker, and sizes do not go to and fro.

`FLEET_SIZE_WORLDS=20000` runs as many worlds.
"""

from __future__ import annotations

import os
import random

import pytest

from fleet.core.decide import decide
from fleet.core.model.reason import Code
from fleet.core.quota.tree import QuotaTree
from fleet.core.snapshot import Config
from fleet.core.snapshot.surplus import at_least
from tests.builders import NOW, tree
from tests.core.placement.elasticfleet import LEAVING_S, Fleet, Job

WORLDS = int(os.environ.get("FLEET_SIZE_WORLDS", "300"))
PARTS = 6  # of the worlds, so that several processes share them
CYCLES = 10
GPU = "nvidia.com/gpu"
PROTECTION_S = 4 * LEAVING_S


def _tree(rng: random.Random) -> QuotaTree | None:
    if rng.random() < 0.3:
        return None
    policy = ("Priority", "Priority", "Block", "Intelligent")
    leaves = {
        name: {
            "policy": rng.choice(policy),
            "min": {GPU: rng.choice((0, 0, 4, 8))},
            **rng.choice(({}, {}, {"max": {GPU: rng.choice((8, 12, 16))}})),
            "one_at_a_time": rng.random() < 0.1,
        }
        for name in ("a", "b")
    }
    return tree(**leaves)


def _job(rng: random.Random, number: int, quota: QuotaTree | None, now: float) -> Job:
    asked, step = rng.randint(1, 8), rng.choice((1, 1, 1, 2))
    return Job(
        f"j{number}",
        asked,
        rng.choice((0, rng.randint(1, asked))),
        rng.choice((1, 1, 2, 4)),
        step,
        None if quota is None else rng.choice(("root/a", "root/b", None)),
        rng.choice((0, 0, 0, 5)),
        since=now - rng.choice((0, 60, 900)),
        runs_s=rng.choice((30.0, 60.0, 1e9)),
    )


def _fleet(rng: random.Random) -> Fleet:
    nodes = {
        name: {f"{name}{i}": rng.choice((4, 8, 8)) for i in range(rng.randint(1, 3))}
        for name in "xy"[: rng.randint(1, 2)]
    }
    config = Config(
        reclaim=rng.random() < 0.9,
        protection_s=PROTECTION_S,
        claim_s=60.0,
        head_after_s=rng.choice((0.0, 20.0)),
    )
    quota = _tree(rng)
    jobs = (_job(rng, number, quota, NOW) for number in range(rng.randint(1, 6)))
    return Fleet(nodes, *jobs, tree=quota, config=config)


def _goes_on(rng: random.Random, fleet: Fleet) -> None:
    for _ in range(CYCLES):
        world = fleet.snapshot()
        plan = fleet.decide()
        started = {placement.unit for placement in plan.placements}
        late = {key for key, reason in plan.reasons.items() if reason.code is Code.PODS_LEAVE}
        if not plan.evictions and not plan.claims:
            inelastic = decide(at_least(world, fleet.now), now=fleet.now, seed=1, solver=None)
            assert {placement.unit for placement in inelastic.placements} == started | late
        fleet.passes(rng.choice((1.0, LEAVING_S, 30.0)))
        if rng.random() < 0.5:
            job = _job(rng, len(fleet.jobs) + 100 * int(fleet.now - NOW), fleet.tree, fleet.now)
            fleet.jobs[job.name] = job


@pytest.mark.parametrize("part", range(PARTS))
def test_a_fleet_of_elastic_jobs_goes_on(part: int) -> None:
    for seed in range(part, WORLDS, PARTS):
        rng = random.Random(seed)
        fleet = _fleet(rng)
        try:
            _goes_on(rng, fleet)
        except AssertionError as error:
            raise AssertionError(f"world {seed}: {error}") from error
        for job in fleet.jobs.values():
            _keeps_still(seed, job)


def _keeps_still(seed: int, job: Job) -> None:
    """It does not grow within the protection time after it became smaller."""
    runs = [entry for entry in job.changes if entry[0] >= job.placed_at]
    for index, (at, size) in enumerate(runs[1:], 1):
        if size < runs[index - 1][1]:
            soon = [later for later, grown in runs[index + 1 :] if grown > size and later < at + PROTECTION_S]
            assert soon == [], f"world {seed}: {job.name} {job.changes}"
