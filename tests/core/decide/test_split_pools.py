"""A pool that names a free vector twice has the nodes of both."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import HealthCheck, given, settings

from fleet.core.decide import decide
from fleet.core.model.member import Member, Pool
from fleet.core.model.unit import Nomination
from fleet.core.snapshot import Config, Snapshot
from fleet.core.solver.cpsat import CpSat
from tests.builders import GPU, NOW, member, snapshot, tree, unit
from tests.worlds import worlds


def split(world: Snapshot) -> Snapshot:
    """The same, with one node of each entry named apart."""

    def pools(of: tuple[Pool, ...]) -> tuple[Pool, ...]:
        return tuple(
            replace(pool, free=tuple((vector, n) for vector, nodes in pool.free for n in (1, nodes - 1) if nodes > 0))
            for pool in of
        )

    def apart(at: Member) -> Member:
        return replace(at, pools=pools(at.pools), potential=pools(at.potential))

    return replace(world, members={name: apart(at) for name, at in world.members.items()})


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(worlds())
def test_the_plan_is_the_same(world: Snapshot) -> None:
    assert decide(split(world), now=NOW, seed=0, solver=None) == decide(world, now=NOW, seed=0, solver=None)


def test_room_for_a_head_is_counted_whole() -> None:
    """Three of its four nodes are free, and the fourth is soon: its start is known."""
    head = Nomination("x", NOW - 60, NOW + 300, True)
    world = snapshot(
        member("x").nodes(3).nodes(1, free_gpu=0),
        unit("runs").gpus(8).runs_in("x").having(walltime_s=305.0),
        unit("large").gpus(8, pods=4).since(900).having(head=head),
    )
    plans = [decide(of, now=NOW, seed=0, solver=None) for of in (world, split(world))]
    assert plans[0] == plans[1] and plans[1].heads[0].nomination.at == NOW + 300


def test_room_beside_a_victim_is_counted_whole() -> None:
    world = snapshot(
        Config(reclaim=True, protection_s=0.0),
        tree(a={"min": {GPU: 32}}, b={}),
        member("x").nodes(3).nodes(1, free_gpu=0),
        unit("borrows").gpus(8).queue("root/b").runs_in("x"),
        unit("owner").gpus(8, pods=4).queue("root/a"),
    )
    plans = [decide(of, now=NOW, seed=0, solver=CpSat()) for of in (world, split(world))]
    assert plans[0].evictions == plans[1].evictions and [eviction.unit for eviction in plans[1].evictions] == [
        "borrows"
    ]
