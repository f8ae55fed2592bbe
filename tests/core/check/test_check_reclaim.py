"""The checker on evictions and claims: each way to break their rules is caught, by the rule that says so alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.core.check import Rule, check
from fleet.core.model.plan import Eviction, Placement, Plan, RoomClaim
from fleet.core.model.reason import Code, Reason
from fleet.core.model.unit import Claim, Nomination, Phase
from fleet.core.quota.guarantee import LEND_LIMIT
from fleet.core.quota.tree import QuotaTree
from fleet.core.quota.users import USER_MAX
from fleet.core.snapshot import Config, SnapshotChanges
from tests.builders import GPU, NOW, UnitBuilder, amounts, member, snapshot, tree, unit
from tests.core.check import reclaims


def put(changed: UnitBuilder) -> SnapshotChanges:
    return SnapshotChanges(put_units=(changed.value,))


def of(quota: QuotaTree) -> SnapshotChanges:
    return SnapshotChanges(tree=quota, new_tree=True)


def promised(policy: str) -> QuotaTree:
    return tree(a={"min": {GPU: 16}, "attributes": {"preempt-policy": policy}}, c={}, d={})


@pytest.mark.parametrize("rule", reclaims.CORRUPTIONS)
def test_a_corrupted_eviction_is_caught_by_its_rule_alone(rule: Rule) -> None:
    assert check(reclaims.WORLD, reclaims.SOUND, now=NOW) == ()
    found = check(reclaims.WORLD, reclaims.CORRUPTIONS[rule], now=NOW)
    assert {violation.rule for violation in found} == {rule}


IN_Y = replace(reclaims.CLAIM, member="y")  # where there is room though nobody leaves
RUNS = reclaims.runs("s3", "c", where="y", since=reclaims.LONG + 4)
OTHER_EVICTIONS: dict[str, tuple[Rule, SnapshotChanges]] = {
    "of work that may not be preempted": (Rule.EVICTS_PROTECTED, put(RUNS.having(preemptible=False))),
    "of work outside quota": (Rule.EVICTS_PROTECTED, put(RUNS.queue(None))),
    "where nobody may evict": (Rule.EVICTS_PROTECTED, SnapshotChanges(config=Config(), new_config=True)),
    "of work of the own leaf": (Rule.EVICTS_HIGHER, put(RUNS.queue("root/a"))),
    "of what is guaranteed": (Rule.EVICTS_HIGHER, of(tree(a={"min": {GPU: 16}}, c={"min": {GPU: 40}}, d={}))),
    "by a leaf that evicts nobody": (Rule.EVICTS_HIGHER, of(promised("Never"))),
    "of equal priority where only lower may leave": (Rule.EVICTS_HIGHER, of(promised("PreemptLowerPriority"))),
    "of work that leaves already": (Rule.EVICTS_NOBODY, put(RUNS.having(phase=Phase.EVICTING))),
    "of work that is elsewhere": (Rule.EVICTS_NOBODY, put(RUNS.having(member="x"))),
}


@pytest.mark.parametrize("story", OTHER_EVICTIONS)
def test_other_evictions_that_are_refused(story: str) -> None:
    rule, changes = OTHER_EVICTIONS[story]
    found = check(reclaims.WORLD.apply(changes), reclaims.plan(("s3", "y"), claims=(IN_Y,)), now=NOW)
    assert {violation.rule for violation in found} == {rule}


OTHER_CLAIMS = {
    "of nobody": replace(IN_Y, unit="nobody"),
    "of one that runs": replace(IN_Y, unit="s3"),
    "in no member": replace(IN_Y, member="nowhere"),
    "for less than the gang": replace(IN_Y, room=amounts(gpu=4)),
}


@pytest.mark.parametrize("story", OTHER_CLAIMS)
def test_other_claims_that_are_refused(story: str) -> None:
    found = check(reclaims.WORLD, reclaims.plan(claims=(OTHER_CLAIMS[story],)), now=NOW)
    assert {violation.rule for violation in found} == {Rule.CLAIM_UNSOUND}


def test_a_claim_is_made_once_and_by_who_waits_on_where_it_may_go() -> None:
    twice = reclaims.plan(claims=(IN_Y, IN_Y))
    starts = reclaims.plan(claims=(IN_Y,), starts=(Placement("owner", "y"),))
    bound = reclaims.WORLD.apply(put(reclaims.OWNER.only_in("x")))
    for world, plan in ((reclaims.WORLD, twice), (reclaims.WORLD, starts), (bound, reclaims.plan(claims=(IN_Y,)))):
        assert {violation.rule for violation in check(world, plan, now=NOW)} == {Rule.CLAIM_UNSOUND}


def test_who_evicts_claims_the_room() -> None:
    found = check(reclaims.WORLD, reclaims.plan(("s2", "x"), claims=()), now=NOW)
    assert {violation.rule for violation in found} == {Rule.CLAIM_UNSOUND}


LOWER = {"preempt-policy": "PreemptLowerPriority"}
KEEPS = {"min": {GPU: 8}, "attributes": {LEND_LIMIT: '{"nvidia.com/gpu": 0}'}}
LIMITS = {
    "none": tree(a={"min": {GPU: 16}, "attributes": LOWER}),
    "max": tree(a={"max": {GPU: 8}, "attributes": LOWER}),
    "jobs": tree(a={"jobs": 1, "attributes": LOWER}),
    "min, since it may not be preempted": tree(a={"min": {GPU: 8}, "attributes": LOWER}),
    "a limit of its user": tree(a={"min": {GPU: 16}, "attributes": {**LOWER, USER_MAX: '{"nvidia.com/gpu": 8}'}}),
    "what others do not lend": tree(o={"max": {GPU: 16}}, o__a={"attributes": LOWER}, o__keeps=KEEPS),
}


@pytest.mark.parametrize("limit", LIMITS)
def test_what_is_claimed_has_quota_of_every_kind_once_all_that_leaves_is_gone(limit: str) -> None:
    leaf = "o/a" if "root/o/a" in LIMITS[limit].nodes else "a"
    firm = {"user": "ann", "preemptible": leaf != "a"}
    owner = reclaims.waits("owner", leaf).priority(1).having(**firm)
    world = snapshot(
        owner,
        reclaims.runs("stays", leaf, where="y").priority(1).having(**firm),
        reclaims.runs("leaves", leaf).having(user="bob"),
        member("x").nodes(1, free_gpu=0),
        member("y").nodes(1, free_gpu=0),
        LIMITS[limit],
        reclaims.RECLAIM,
    )
    claim = RoomClaim("owner", "x", owner.value.total, NOW + 900)
    evictions = (Eviction("leaves", "x", "owner"),)
    plan = Plan((), {"owner": Reason(Code.HELD)}, evictions=evictions, claims=(claim,))
    found = {violation.rule for violation in check(world, plan, now=NOW)}
    assert found == (set() if limit == "none" else {Rule.CLAIM_TOO_SMALL})


def test_nothing_starts_in_quota_that_is_claimed() -> None:
    """Eight of sixteen GPUs are claimed and four are used: eight more have room and quota now, and not beside it."""
    world = snapshot(
        reclaims.waits("claimant", "a").having(claim=Claim("x", NOW + 99)),
        reclaims.waits("late", "c"),
        reclaims.waits("small", "c", 4),
        reclaims.runs("r", "c", 4, where="y"),
        member("x").nodes(1),
        member("y").nodes(2),
        tree(a={}, c={}, d={}),
        reclaims.RECLAIM,
    )
    assert world.tree is not None
    quota = replace(world.tree, nodes={**world.tree.nodes, "root": replace(world.tree.nodes["root"], max={GPU: 16})})
    world = world.apply(of(quota))
    for name, expected in (("small", []), ("late", [(Rule.CLAIM_TAKEN, "late")])):
        reasons = {key: Reason(Code.HELD) for key in {"claimant", "late", "small"} - {name}}
        found = check(world, Plan((Placement(name, "y"),), reasons), now=NOW)
        assert [(violation.rule, violation.unit) for violation in found] == expected


@pytest.mark.parametrize("starts", ["other", "urgent"])
def test_a_claim_holds_though_a_unit_ahead_stops_its_queue(starts: str) -> None:
    """Neither another leaf nor the unit ahead gets its room."""
    world = snapshot(
        reclaims.waits("claimant", "a").having(claim=Claim("x", NOW + 99)),
        reclaims.waits("urgent", "a").priority(5),
        reclaims.waits("other", "c"),
        member("x").nodes(1),
        tree(a={"policy": "Intelligent"}, c={}),
        reclaims.RECLAIM,
    )
    reasons = {key: Reason(Code.HELD) for key in {"claimant", "urgent", "other"} - {starts}}
    found = check(world, Plan((Placement(starts, "x"),), reasons), now=NOW)
    assert [violation.rule for violation in found] == [Rule.CLAIM_TAKEN]


@pytest.mark.parametrize(
    ("pods", "changes", "expected"),
    [
        pytest.param(1, {}, [], id="within its leaf's share"),
        pytest.param(2, {}, [Rule.EVICTS_HIGHER], id="past its leaf's share"),
        pytest.param(2, {"enqueued_at": NOW - 700}, [], id="past it, but it has waited past the bound"),
        pytest.param(2, {"head": Nomination("x", NOW - 9, NOW)}, [], id="past it, but it is a head"),
    ],
)
def test_a_unit_that_takes_its_leaf_past_its_share_evicts_only_as_a_head(
    pods: int, changes: dict[str, Any], expected: list[Rule]
) -> None:
    """Two leaves share 24 GPUs: twelve each."""
    owner = unit("owner").gpus(8, pods=pods).queue("root/a").having(**changes)
    works = [reclaims.runs(f"r{number}", "c", since=reclaims.LONG + number) for number in range(3)]
    world = snapshot(
        owner,
        *works,
        member("x").nodes(3, free_gpu=0),
        tree(a={}, c={}),
        reclaims.RECLAIM,
    )
    claim = RoomClaim("owner", "x", owner.value.total, NOW + 900)
    plan = Plan((), {"owner": Reason(Code.HELD)}, evictions=(Eviction("r2", "x", "owner"),), claims=(claim,))
    rules = [violation.rule for violation in check(world, plan, now=NOW)]
    assert [rule for rule in rules if rule is not Rule.CLAIM_TOO_SMALL] == expected
