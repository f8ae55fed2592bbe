"""All gangs that a member gets fit it together, decision after decision, with sizes that do not divide each other.

The verifier tries every way to put the pods onto the nodes; it knows nothing of the planner or the checker.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.decide import decide
from fleet.core.model.unit import Phase, Unit
from fleet.core.snapshot import Snapshot
from tests.builders import GPU, NOW, UnitBuilder, member, snapshot, unit
from tests.core.placement.packing.verifier import committed, packs

SIZES = st.integers(1, 8)
GANGS = st.lists(st.tuples(st.integers(1, 3), SIZES), min_size=1, max_size=4)
NODES = st.lists(st.integers(1, 8), min_size=2, max_size=5)


def gangs(prefix: str, sizes: list[tuple[int, int]]) -> list[UnitBuilder]:
    return [unit(f"{prefix}{i}").gpus(gpus, pods=pods).since(9 - i) for i, (pods, gpus) in enumerate(sizes)]


def fits(world: Snapshot, units: dict[str, Unit]) -> bool:
    pools = world.members["x"].pools
    free = tuple((vector[GPU],) for pool in pools for vector, nodes in pool.free for _ in range(nodes))
    pods = sorted(
        (
            c.requests[GPU]
            for u in units.values()
            if u.phase is Phase.PLACED
            for c in u.components
            for _ in range(c.replicas)
        ),
        reverse=True,
    )
    return packs(free, tuple(((gpus,), (True,) * len(free)) for gpus in pods))


@settings(max_examples=70, deadline=None)
@given(NODES, GANGS, GANGS, GANGS)
def test_all_that_was_ever_sent_to_a_member_fits_it(
    free: list[int], first: list[tuple[int, int]], second: list[tuple[int, int]], third: list[tuple[int, int]]
) -> None:
    made = member("x")
    for gpus in free:
        made = made.nodes(1, free_gpu=gpus)
    world = snapshot(made)
    for number, sizes in enumerate((first, second, third)):
        world = replace(world, units={**world.units, **snapshot(*gangs(f"{number}-", sizes)).units})
        world = replace(world, units=committed(world, decide(world, now=NOW, seed=1, solver=None)))
        assert fits(world, dict(world.units))


def crowded(seed: int) -> Snapshot:
    """More work of all sizes than a member of twelve half-free nodes has room for."""
    rng = random.Random(seed)
    made = member("x")
    for _ in range(12):
        made = made.nodes(1, free_gpu=rng.randint(0, 8))
    sizes = [(rng.choice((1, 1, 1, 2, 3, 4, 8)), rng.randint(1, 8)) for _ in range(60)]
    return snapshot(made, *(unit(f"u{i}").gpus(gpus, pods=pods).since(i) for i, (pods, gpus) in enumerate(sizes)))


@pytest.mark.parametrize("seed", range(40))
def test_no_member_is_given_more_than_it_has(seed: int) -> None:
    world = crowded(seed)
    plan = decide(world, now=NOW, seed=1, solver=None)
    free = sum(vector[GPU] * nodes for pool in world.members["x"].pools for vector, nodes in pool.free)
    assert sum(world.units[placement.unit].total[GPU] for placement in plan.placements) <= free
    again = decide(replace(world, units=committed(world, plan)), now=NOW, seed=1, solver=None)
    assert not again.placements
    assert "checker" not in plan.certificate.why
