"""Who has to leave its member waits again, and keeps its turn: nobody behind it takes its quota on the way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.check import check
from fleet.decide import decide
from fleet.model.plan import Plan
from fleet.model.reason import Code
from fleet.model.unit import Phase
from fleet.snapshot import Changes, Snapshot
from tests.builders import GPU, NOW, UnitBuilder, member, snapshot, tree, unit
from tests.check.reclaims import RECLAIM

DRAINED = member("m").nodes(3, free_gpu=0)
TREE = tree(v={"max": {GPU: 32}, "min": {GPU: 16}})
LEAVES = unit("leaves").gpus(8, pods=3).queue("root/v").since(900)
YOUNGER = unit("younger").gpus(8, pods=2).queue("root/v").since(100)


def decided(world: Snapshot) -> Plan:
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert check(world, plan, now=NOW) == ()
    return plan


def drained(*others: UnitBuilder) -> Snapshot:
    return snapshot(LEAVES.evicting_from("m"), *others, DRAINED, member("n").nodes(4), TREE, RECLAIM)


def test_quota_that_an_older_job_of_the_leaf_brings_along_is_claimed_by_nobody_behind_it() -> None:
    world = drained(YOUNGER)
    plan = decided(world)
    assert (plan.claims, plan.placements) == ((), ())
    assert plan.reasons["younger"].code is Code.QUOTA_EXHAUSTED
    waits = replace(LEAVES.value, phase=Phase.WAITING)
    plan = decided(world.apply(Changes(put_units=(waits,))))
    assert [(p.unit, p.member) for p in plan.placements] == [("leaves", "n")]


@pytest.mark.parametrize(
    "first",
    [YOUNGER.since(1000), YOUNGER.priority(1)],
    ids=["who has waited for longer", "who has a higher priority"],
)
def test_who_is_before_it_claims_its_quota(first: UnitBuilder) -> None:
    assert [claim.unit for claim in decided(drained(first)).claims] == ["younger"]


def test_who_has_quota_beside_it_claims_room_as_ever() -> None:
    small = unit("small").gpus(8).queue("root/v").since(100).only_in("m")
    assert [claim.unit for claim in decided(drained(small)).claims] == ["small"]


def test_one_that_has_been_leaving_for_too_long_comes_back_to_no_turn() -> None:
    """Its quota is not counted on any more, by those behind it as by others."""
    stuck = LEAVES.evicting_from("m").having(leaving_at=NOW - 1000)
    world = snapshot(stuck, YOUNGER, DRAINED, member("n").nodes(4), TREE, RECLAIM)
    assert decided(world).claims == ()
