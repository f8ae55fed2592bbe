"""The promises of min in a fleet that shrinks, and the notation of a lend limit. (Stories: tests/scenarios.)"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.model.plan import Plan
from fleet.core.quota.guarantee import LEND_LIMIT, capacity, guarantees, lend_limit
from fleet.core.quota.parse import validate_tree
from fleet.core.snapshot import Snapshot
from fleet.values.quantity import BadQuantity
from tests.builders import GPU, MAX_JOBS, NOW, member, snapshot, tree, unit


def test_promises_shrink_in_proportion_when_members_are_lost() -> None:
    world = snapshot(member("x").nodes(1), member("lost").nodes(3).not_ready())
    total = capacity(world.members, ())
    assert total[GPU] == 8
    promises = guarantees(tree(a={"min": {GPU: 11}}, b={"min": {GPU: 20}}, c={"min": {GPU: 1}}), total)
    assert {path: promises.min[path][GPU] for path in promises.min} == {
        "root": 8,
        "root/a": 2,
        "root/b": 5,
        "root/c": 0,
    }
    assert promises.short == {GPU: (8, 32)}


def test_what_runs_in_an_unreachable_member_keeps_its_place_in_the_total() -> None:
    world = snapshot(
        unit("r").gpus(8, pods=2).queue("root/a").runs_in("lost"), member("x").nodes(1), member("lost").not_ready()
    )
    assert capacity(world.members, world.units.values())[GPU] == 24


def test_jobs_are_counted_but_never_promised() -> None:
    assert guarantees(tree(a={"min": {MAX_JOBS: 3}}), {}).resources == frozenset()


LENDER = {"min": {GPU: 8}, "attributes": {LEND_LIMIT: '{"nvidia.com/gpu": "2"}'}}


def plan_of(world: Snapshot) -> Plan:
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert check(world, plan, now=NOW) == ()
    return plan


def started(world: Snapshot) -> set[str]:
    return {placement.unit for placement in plan_of(world).placements}


@pytest.mark.parametrize("limit", [{}, {"max": {GPU: 800}}], ids=["without a max", "with a max of ten fleets"])
def test_what_a_leaf_does_not_lend_is_kept_of_what_the_fleet_has(limit: dict[str, Any]) -> None:
    made = tree(a=LENDER, b={})
    made = replace(made, nodes={**made.nodes, "root": replace(made.nodes["root"], **limit)})
    ten, more = unit("ten").gpus(5, pods=2).queue("root/b"), unit("more").gpus(1, pods=11).queue("root/b")
    assert started(snapshot(ten, member("x").nodes(2), made)) == {"ten"}
    plan = plan_of(snapshot(more, member("x").nodes(2), made))
    assert plan.reasons["more"].text == (
        "insufficient unused quota for nvidia.com/gpu in root: requested 11, used 0, 6 guaranteed to others and not"
        " lent, the fleet has 16; 1 more needed. Waits for jobs there to finish."
    )
    outside = unit("outside").gpus(4).runs_in("x")
    assert started(snapshot(outside, ten, member("x").nodes(2), made)) == set(), "12 are left for the tree, 6 are kept"
    assert started(snapshot(unit("own").gpus(8, pods=2).queue("root/a"), member("x").nodes(2), made)) == {"own"}


def test_a_lend_limit_is_an_object_of_quantities() -> None:
    assert lend_limit({LEND_LIMIT: '{"cpu": "1500m"}'}) == {"cpu": 1500}
    with pytest.raises(BadQuantity):
        lend_limit({LEND_LIMIT: "4"})
    spec = {"root": {"name": "root", "attributes": {LEND_LIMIT: '{"cpu": -1}'}}}
    assert [(flaw.field, flaw.message) for flaw in validate_tree(spec)] == [
        (f"spec.root.attributes[{LEND_LIMIT}]", "Invalid value: cpu: must not be negative")
    ]
