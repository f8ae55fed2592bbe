"""Limits per user: whose work counts where, who is refused and by which limit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleet.decide import decide
from fleet.model.quantity import BadQuantity
from fleet.model.reason import Code
from fleet.quota.tree import MAX_JOBS, QuotaTree
from fleet.quota.usage import Refusal, Usage, account_of, request_of
from fleet.quota.users import USER_MAX, USER_MAX_BY_NAME, UserCaps, user_caps
from fleet.snapshot import Config
from tests.builders import GPU, NOW, UnitBuilder, member, snapshot, tree, unit


def capped(each: str = '{"nvidia.com/gpu": 8}', named: str = "{}", **more: object) -> QuotaTree:
    attributes = {USER_MAX: each, USER_MAX_BY_NAME: named}
    return tree(ml={"attributes": attributes, **more}, other={})


def of(user: str, name: str, gpus: int = 1) -> UnitBuilder:
    return unit(name).gpus(gpus).queue("root/ml").having(user=user)


def test_attributes_are_limits_for_each_user_and_for_some_by_name() -> None:
    given = {USER_MAX: '{"memory": "2Gi"}', USER_MAX_BY_NAME: '{"alice": {"cpu": 4, "kube-queue/max-jobs": 2}}'}
    caps = user_caps(given)
    assert caps == UserCaps({"memory": 2 << 30}, {"alice": {"cpu": 4000, MAX_JOBS: 2}})
    assert caps is not None
    assert (caps.of("alice"), caps.of("bob"), caps.of("")) == ({"cpu": 4000, MAX_JOBS: 2}, {"memory": 2 << 30}, {})
    assert user_caps({}) is None


@pytest.mark.parametrize(
    "attributes",
    [
        {USER_MAX: "8"}, {USER_MAX: "["}, {USER_MAX: '{"cpu": "many"}'}, {USER_MAX: '{"cpu": -1}'},
        {USER_MAX_BY_NAME: '{"alice": 8}'}, {USER_MAX_BY_NAME: '{"": {}}'}, {USER_MAX_BY_NAME: '{"a": {"cpu": []}}'},
    ],
)  # fmt: skip
def test_bad_limits_name_their_attribute(attributes: dict[str, str]) -> None:
    (name,) = attributes
    with pytest.raises(BadQuantity, match=name):
        user_caps(attributes)
    assert tree(ml={"attributes": attributes}).problems()[0][0] == "tree.nodes[root/ml].attributes"


def test_only_work_of_a_known_user_below_a_cap_has_an_account_of_its_own() -> None:
    limits = capped()
    assert account_of(limits, of("alice", "a").value) == "root/ml//alice"
    assert account_of(limits, of("", "a").value) == "root/ml"
    assert account_of(limits, unit("a").queue("root/other").having(user="alice").value) == "root/other"
    assert account_of(limits, unit("a").having(user="alice").value) is None


def test_each_user_has_a_limit_of_ones_own_beside_that_of_the_leaf() -> None:
    limits = capped(max={GPU: 12})
    usage = Usage.of(limits, [of("alice", "r", 6).runs_in("x").value])
    three = request_of(of("alice", "a", 3).value)
    assert usage.refusal("root/ml//alice", three) == Refusal("root/ml", GPU, 3, 6, 8, user="alice")
    assert usage.refusal("root/ml//bob", three) is None
    assert usage.refusal("root/ml//bob", request_of(of("bob", "b", 7).value)) == Refusal("root/ml", GPU, 7, 6, 12)
    assert (usage.used("root/ml", GPU), usage.used("root", GPU), usage.used("root/ml//alice", GPU)) == (6, 6, 6)


def test_a_cap_of_an_inner_node_counts_a_users_work_in_all_leaves_below_it() -> None:
    limits = tree(org={"attributes": {USER_MAX: '{"kube-queue/max-jobs": 2}'}}, org__a={}, org__b={})
    running = [unit(n).queue(f"root/org/{n}").having(user="al/ice").runs_in("x").value for n in ("a", "b")]
    usage = Usage.of(limits, running)
    one = request_of(unit("c").value)
    assert usage.refusal("root/org/a//al/ice", one) == Refusal("root/org", MAX_JOBS, 1, 2, 2, user="al/ice")
    assert usage.room("root/org//al/ice", MAX_JOBS) == 0


def test_a_copy_of_usage_knows_the_users_of_the_first_and_shares_no_amounts() -> None:
    usage = Usage(capped())
    other = usage.copy()
    other.charge("root/ml//alice", request_of(of("alice", "a", 8).value))
    assert usage.refusal("root/ml//alice", request_of(of("alice", "b", 8).value)) is None
    assert other.refusal("root/ml//alice", request_of(of("alice", "b", 1).value)) is not None


def test_work_of_a_leaf_that_is_gone_counts_against_its_users_above_it() -> None:
    limits = tree(org={"attributes": {USER_MAX: '{"nvidia.com/gpu": 4}'}}, org__a={})
    usage = Usage.of(limits, [unit("r").gpus(3).queue("root/org/gone").having(user="alice").runs_in("x").value])
    assert usage.refusal("root/org/a//alice", request_of(of("alice", "a", 2).value)) is not None
    assert usage.refusal("root/org/a//bob", request_of(of("bob", "b", 2).value)) is None


STORIES = [
    # what each user may have, what runs, what waits (in order), who starts
    ("one user cannot take the leaf", "{}", [], [("alice", 4)] * 4 + [("bob", 4)], [0, 1, 4]),
    ("a named user has another limit", '{"alice": {"nvidia.com/gpu": 16}}', [], [("alice", 4)] * 4, [0, 1, 2, 3]),
    ("a named user without limits has none", '{"alice": {}}', [], [("alice", 4)] * 4, [0, 1, 2, 3]),
    ("what runs counts", "{}", [("alice", 6)], [("alice", 3), ("alice", 2)], [1]),
    ("work without a known user is not capped", "{}", [], [("", 4)] * 4, [0, 1, 2, 3]),
    ("larger than one may have never starts", "{}", [], [("alice", 9), ("alice", 8)], [1]),
]


@pytest.mark.parametrize(
    ("named", "running", "waiting", "start"), [s[1:] for s in STORIES], ids=[s[0] for s in STORIES]
)
def test_stories(named: str, running: list[tuple[str, int]], waiting: list[tuple[str, int]], start: list[int]) -> None:
    world = snapshot(
        capped(named=named),
        *(of(user, f"r{i}", gpus).runs_in("x") for i, (user, gpus) in enumerate(running)),
        *(of(user, f"w{i}", gpus).since(100 - i) for i, (user, gpus) in enumerate(waiting)),
        member("x").nodes(8, gpu=16),
    )
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert sorted(p.unit for p in plan.placements) == [f"w{i}" for i in start]
    left = {f"w{i}" for i in range(len(waiting))} - {f"w{i}" for i in start}
    assert all(plan.reasons[name].code is Code.USER_LIMIT for name in left)


def test_the_reason_names_the_user_the_node_and_what_is_missing() -> None:
    world = snapshot(
        capped('{"nvidia.com/gpu": 8, "kube-queue/max-jobs": 2}'),
        of("alice", "r", 6).runs_in("x"), of("alice", "a", 4), of("alice", "b", 9), of("bob", "c", 1),
        member("x").nodes(4, gpu=16),
    )  # fmt: skip
    reasons = decide(world, now=NOW, seed=1, solver=None).reasons
    assert reasons["a"].text == (
        "user alice has reached the limit per user for nvidia.com/gpu in root/ml: requested 4, used 6, max 8;"
        " 2 more needed. Waits for jobs of this user to finish."
    )
    assert "at all: nvidia.com/gpu requested 9, max 8" in reasons["b"].text
    assert set(reasons) == {"a", "b"}


def test_who_is_at_a_limit_of_ones_own_takes_nothing_back_from_others() -> None:
    total = {GPU: 16}
    owned = tree(owner={"min": {GPU: 16}, "attributes": {USER_MAX: '{"nvidia.com/gpu": 4}'}}, guest={})
    owned = replace(owned, nodes={**owned.nodes, "root": replace(owned.nodes["root"], min=total, max=total)})
    running = unit("borrows").gpus(12).queue("root/guest").runs_in("x").having(placed_at=NOW - 9999)
    asks = unit("asks").gpus(8).queue("root/owner")
    world = snapshot(owned, running, member("x").nodes(1, gpu=16, free_gpu=4), Config(reclaim=True))
    for user, evicts in (("alice", 0), ("", 1)):
        plan = decide(
            replace(world, units={**world.units, "asks": asks.having(user=user).value}), now=NOW, seed=1, solver=None
        )
        assert len(plan.evictions) == evicts, plan
    assert plan.claims
