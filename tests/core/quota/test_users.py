"""Limits per user: whose work counts where, and how a limit is written. (Stories: tests/scenarios.)"""

from __future__ import annotations

import pytest

from fleet.core.quota.tree import MAX_JOBS, QuotaTree
from fleet.core.quota.usage import Refusal, Usage, account_of, request_of
from fleet.core.quota.users import USER_MAX, USER_MAX_BY_NAME, UserCaps, user_caps
from fleet.values.quantity import BadQuantity
from tests.builders import GPU, UnitBuilder, tree, unit


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
        {USER_MAX: "8"},
        {USER_MAX: "["},
        {USER_MAX: '{"cpu": "many"}'},
        {USER_MAX: '{"cpu": -1}'},
        {USER_MAX_BY_NAME: '{"alice": 8}'},
        {USER_MAX_BY_NAME: '{"": {}}'},
        {USER_MAX_BY_NAME: '{"a": {"cpu": []}}'},
    ],
)
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
