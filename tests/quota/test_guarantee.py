"""What min promises: to work that may not be preempted, in a fleet that shrinks, and what of it is never lent."""

from __future__ import annotations

import pytest

from fleet.decide import decide
from fleet.model.plan import Plan
from fleet.model.quantity import BadQuantity
from fleet.model.reason import Code
from fleet.quota.guarantee import LEND_LIMIT, capacity, guarantees, lend_limit
from fleet.quota.parse import validate_tree
from fleet.snapshot import Snapshot
from tests.builders import GPU, MAX_JOBS, NOW, member, snapshot, tree, unit


def plan_of(world: Snapshot) -> Plan:
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert "checker" not in plan.certificate.why
    return plan


def started(world: Snapshot) -> set[str]:
    return {placement.unit for placement in plan_of(world).placements}


FIRM = unit("firm").gpus(4).queue("root/org/a").having(preemptible=False)
PROMISED = tree(org={}, org__a={"min": {GPU: 8}}, org__b={"min": {GPU: 8}})


def test_work_that_may_not_be_preempted_starts_within_min() -> None:
    assert started(snapshot(FIRM, member("x").nodes(9), PROMISED)) == {"firm"}


def test_work_that_may_not_be_preempted_never_borrows_although_max_allows_it() -> None:
    running = unit("r").gpus(6).queue("root/org/a").having(preemptible=False).runs_in("x")
    reason = plan_of(snapshot(FIRM, running, member("x").nodes(9), PROMISED)).reasons["firm"]
    assert reason.code is Code.MIN_EXHAUSTED
    assert reason.text == (
        "insufficient unused min for nvidia.com/gpu in root/org/a, and a job that may not be preempted never borrows:"
        " requested 4, used 6, min 8; 2 more needed. Waits for such jobs there to finish."
    )


def test_preemptible_work_of_the_leaf_does_not_use_up_its_min() -> None:
    running = unit("r").gpus(8).queue("root/org/a").runs_in("x")
    assert started(snapshot(FIRM, running, member("x").nodes(9), PROMISED)) == {"firm"}


def test_a_gang_larger_than_min_needs_a_higher_one() -> None:
    big = unit("big").gpus(8, pods=2).queue("root/org/a").having(preemptible=False)
    reason = plan_of(snapshot(big, member("x").nodes(9), PROMISED)).reasons["big"]
    assert reason.text.startswith("it may not be preempted, and is larger than min of root/org/a")


def test_min_of_a_parent_binds_all_its_leaves_together() -> None:
    promises = tree(org={"min": {GPU: 5}}, org__a={"min": {GPU: 4}}, org__b={"min": {GPU: 1}})
    beside = unit("r").gpus(4).queue("root/org/b").having(preemptible=False).runs_in("x")
    assert started(snapshot(FIRM, beside, member("x").nodes(9), promises)) == set()


def test_a_resource_that_no_min_names_binds_nobody() -> None:
    firm = unit("firm").gang(1, gpu=4, cpu=64).queue("root/org/a").having(preemptible=False)
    assert started(snapshot(firm, member("x").nodes(9), PROMISED)) == {"firm"}


def test_a_resource_that_another_min_names_is_zero_where_it_is_missing() -> None:
    firm = unit("firm").gpus(4).queue("root/c").having(preemptible=False)
    assert plan_of(snapshot(firm, member("x").nodes(9), tree(a={"min": {GPU: 8}}, c={}))).reasons["firm"].code is (
        Code.MIN_EXHAUSTED
    )


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


def test_what_a_leaf_does_not_lend_stays_free_for_it() -> None:
    world = [member("x").nodes(9), tree(org={"max": {GPU: 16}}, org__a=LENDER, org__b={})]
    assert started(snapshot(unit("ten").gpus(5, pods=2).queue("root/org/b"), *world)) == {"ten"}
    reason = plan_of(snapshot(unit("more").gpus(1, pods=11).queue("root/org/b"), *world)).reasons["more"]
    assert reason.text == (
        "insufficient unused quota for nvidia.com/gpu in root/org: requested 11, used 0, 6 guaranteed to others and not"
        " lent, max 16; 1 more needed. Waits for jobs there to finish."
    )
    assert started(snapshot(unit("own").gpus(8, pods=2).queue("root/org/a"), *world)) == {"own"}


def test_what_is_kept_counts_once_when_its_owner_uses_it() -> None:
    world = [member("x").nodes(9), tree(org={"max": {GPU: 16}}, org__a=LENDER, org__b={})]
    owner = unit("owner").gpus(6).queue("root/org/a").runs_in("x")
    assert started(snapshot(owner, unit("ten").gpus(5, pods=2).queue("root/org/b"), *world)) == {"ten"}


def test_a_lend_limit_is_an_object_of_quantities() -> None:
    assert lend_limit({LEND_LIMIT: '{"cpu": "1500m"}'}) == {"cpu": 1500}
    with pytest.raises(BadQuantity):
        lend_limit({LEND_LIMIT: "4"})
    spec = {"root": {"name": "root", "attributes": {LEND_LIMIT: '{"cpu": -1}'}}}
    assert [(flaw.field, flaw.message) for flaw in validate_tree(spec)] == [
        (f"spec.root.attributes[{LEND_LIMIT}]", "Invalid value: cpu: must not be negative")
    ]
