"""Before anybody leaves, what a plan starts is placed so that it is in nobody's way."""

from __future__ import annotations

import pytest

from fleet.check import check
from fleet.decide import decide
from fleet.model.plan import Plan
from fleet.model.unit import Claim, Seat
from fleet.placement.greedy import decision
from fleet.snapshot import Config, Snapshot
from tests.builders import GPU, NOW, MemberBuilder, UnitBuilder, amounts, member, snapshot, tree, unit
from tests.placement.reservation.test_heads import Part, runs

PROMISED = tree(a={"min": {GPU: 12}}, b={}, c={})
LONG = NOW - 5000


def mine(name: str, pods: int, gpu: int, cpu: int = 0, waits_s: float = 60) -> UnitBuilder:
    return unit(name).gang(pods, gpu=gpu, cpu=cpu).queue("root/a").since(waits_s)


def borrows(name: str, gpus: int, node: str, free: int, pool: int = 0, where: str = "x") -> UnitBuilder:
    return runs(name, gpus, node, free, pool=pool, leaf="root/c", since=LONG, where=where)


def nodes(*left: tuple[int, int]) -> MemberBuilder:
    """Member x, of one node for each (GPUs, CPUs) that are free there."""
    made = member("x")
    for gpus, cpus in left:
        made = made.nodes(1, free_gpu=gpus, free_cpu=cpus)
    return made


ON_THIRD = amounts(gpu=1, cpu=29, memory=768, pods=110)
RACKS = member("x").nodes(1, free_gpu=4, labels={"rack": "p"}).nodes(2, free_gpu=2, labels={"rack": "p"})
STORIES: dict[str, list[Part]] = {
    "in the same member, on other nodes": [
        mine("first", 2, 1, 2, waits_s=90), mine("then", 3, 1, 8), nodes((1, 8), (3, 15), (1, 29)),
        borrows("r", 4, "n", 1, pool=2).having(seats=(Seat("n", 2, ON_THIRD, amounts(gpu=4, pods=1)),)),
    ],
    "in another member": [
        mine("first", 1, 2, waits_s=90), mine("then", 1, 4).only_in("x"), borrows("r", 4, "n", 4),
        member("x").nodes(1, free_gpu=4), member("y").nodes(1),
    ],
    "two of them, in another": [
        mine("first", 1, 2, waits_s=90), mine("second", 1, 2, waits_s=80), mine("then", 1, 4).only_in("x"),
        borrows("r", 4, "n", 4), member("x").nodes(1, free_gpu=4), member("y").nodes(1),
    ],
    "beside a gang within one rack": [
        mine("first", 1, 4, waits_s=90), mine("then", 3, 2).within("rack"), borrows("r", 6, "n", 2, pool=1), RACKS,
        member("y").nodes(1, free_gpu=5),
    ],
}  # fmt: skip


def decided(world: Snapshot) -> Plan:
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert check(world, plan, now=NOW) == ()
    assert "checker" not in plan.certificate.why
    return plan


@pytest.mark.parametrize("story", STORIES)
def test_nobody_leaves_where_all_start_if_the_plan_places_them_otherwise(
    story: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = snapshot(*STORIES[story], PROMISED, Config(reclaim=True))
    waiting = {name for name, one in world.units.items() if one.member is None}
    plan = decided(world)
    assert {p.unit for p in plan.placements} == waiting and not plan.evictions and not plan.claims
    monkeypatch.setattr(decision, "rearranged", lambda fresh, after, placed, waiting, whole: placed)
    assert decided(world).evictions, "the story is of one that would evict"


def test_nobody_starts_behind_one_that_stops_its_queue_and_waits_for_claimed_room() -> None:
    first = unit("first").gpus(2).queue("root/c").since(90)
    claims = mine("claims", 1, 8, waits_s=900).having(claim=Claim("z", NOW + 300))
    strict = tree(a={"min": {GPU: 16}, "policy": "Block"}, b={}, c={"min": {GPU: 2}})
    members = member("x").nodes(1, free_gpu=4), member("y").nodes(1), member("z").nodes(1, free_gpu=0)
    plan = decided(snapshot(first, claims, mine("then", 1, 4).only_in("x"), *members, strict, Config(reclaim=True)))
    assert {p.unit for p in plan.placements} == {"first"}
