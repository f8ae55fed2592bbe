"""CPU beside GPUs: a resource that a leaf's `min` does not name turns no GPU share into borrowing."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from fleet.core.decide import decide
from fleet.core.model.tier import Tier
from fleet.core.snapshot import Config, Snapshot
from tests.builders import GPU, NOW, UnitBuilder, member, snapshot, tree, unit
from tests.core.quota.tiers import tiers_of

MIN_OF_GPUS = tree(x={}, y={"min": {GPU: 4}})


def jobs(leaf: str, count: int, *, cpu: int = 1) -> list[UnitBuilder]:
    """Jobs of one GPU each, x0 the oldest of leaf x."""
    return [unit(f"{leaf}{n}").gang(1, gpu=1, cpu=cpu).queue(f"root/{leaf}").since(300 - n) for n in range(count)]


def counted(world: Snapshot, leaf: str) -> Counter[str]:
    tiers = tiers_of(world)
    return Counter(tier.name for name, tier in tiers.items() if name.startswith(leaf))


@pytest.mark.parametrize("cpu", [8, 96], ids=["as much CPU as the GPUs need", "more CPU than anybody needs"])
def test_a_min_of_gpus_alone_leaves_the_leaf_its_share_of_what_is_beyond_it(cpu: int) -> None:
    """8 GPUs: 4 are promised to y, and the other 4 are divided: 2 for x, 6 for y."""
    world = snapshot(*jobs("x", 8), *jobs("y", 8), member("m").nodes(1, cpu=cpu), MIN_OF_GPUS)
    assert counted(world, "x") == {"SHARE": 2, "BORROWED": 6}
    assert counted(world, "y") == {"GUARANTEED": 4, "SHARE": 2, "BORROWED": 2}
    started = Counter(placement.unit[0] for placement in decide(world, now=NOW, seed=1, solver=None).placements)
    assert started == {"x": 2, "y": 6}


def test_a_leaf_that_runs_exactly_its_share_loses_nothing() -> None:
    """x runs one job of the two that it may count on. The GPU for the other is taken by pods that are not Fleet's."""
    running = [job.runs_in("m").having(placed_at=NOW - 900) for job in (*jobs("y", 6), *jobs("x", 1))]
    waiting = [job.having(id=f"w{n}", name=f"w{n}") for n, job in enumerate(jobs("x", 7))]
    node = member("m").nodes(1, cpu=8, free_gpu=0, free_cpu=0)
    world = snapshot(*running, *waiting, node, MIN_OF_GPUS, Config(reclaim=True))
    assert decide(world, now=NOW, seed=1, solver=None).evictions == ()


def test_cpu_that_is_there_in_plenty_limits_no_share() -> None:
    """Three leaves share 8 GPUs. The first jobs of x ask for much CPU, and nobody lacks any."""
    heavy = [unit(f"x{n}").gang(1, gpu=1, cpu=20 if n < 2 else 1).queue("root/x").since(300 - n) for n in range(8)]
    world = snapshot(*heavy, *jobs("y", 8), *jobs("z", 8), member("m").nodes(1, cpu=96), tree(x={}, y={}, z={}))
    assert [counted(world, leaf)["SHARE"] for leaf in "xyz"] == [3, 3, 2]


def test_a_gpu_min_holds_although_the_root_says_how_much_cpu_there_is() -> None:
    """The root's min is its max, so it names all that the fleet has. It promises CPU to no leaf."""
    root: dict[str, Any] = {"min": {GPU: 8, "cpu": 96_000}, "max": {GPU: 8, "cpu": 96_000}}
    made = replace(MIN_OF_GPUS, nodes={**MIN_OF_GPUS.nodes, "root": replace(MIN_OF_GPUS.nodes["root"], **root)})
    world = snapshot(*jobs("x", 8), *jobs("y", 8), member("m").nodes(1), made)
    assert counted(world, "y")["GUARANTEED"] == 4


def test_cpu_that_is_promised_to_another_leaf_is_not_promised_to_this_one() -> None:
    world = snapshot(
        *jobs("x", 2), *jobs("y", 2), member("m").nodes(1), tree(x={"min": {"cpu": 4000}}, y={"min": {GPU: 4}})
    )
    assert {tiers_of(world)[name] for name in ("x0", "y0")} == {Tier.SHARE}
