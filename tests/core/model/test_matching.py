"""An index of pools answers as the rule for one pool does, whatever a claim says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.core.model.matching import PoolIndex, member_bars, pool_takes, repelled_by
from fleet.core.model.member import TAINT_CORDON, TAINT_DRAIN, Member, Pool, Taint
from fleet.core.model.unit import NodeClaim, Requirement, Toleration, Unit

KEYS, VALUES = st.sampled_from("abc"), st.sampled_from(["", "1", "2", "30", "x", "-4", "1_0"])
PAIRS = st.dictionaries(KEYS, VALUES, max_size=3).map(lambda labels: tuple(sorted(labels.items())))
EFFECTS = st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"])
TAINTS = st.lists(st.builds(Taint, KEYS, VALUES, EFFECTS), max_size=2).map(tuple)
POOLS = st.lists(st.builds(Pool, labels=PAIRS, taints=TAINTS), max_size=6)
OPERATORS = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"])
REQUIREMENTS = st.builds(Requirement, KEYS, OPERATORS, st.lists(VALUES, max_size=3).map(tuple))
TERMS = st.lists(REQUIREMENTS, max_size=3).map(tuple)
TOLERATIONS = st.builds(Toleration, KEYS | st.just(""), st.sampled_from(["Equal", "Exists"]), VALUES, EFFECTS)
CLAIMS = st.builds(
    NodeClaim, PAIRS, st.lists(TOLERATIONS, max_size=2).map(tuple), st.lists(TERMS, max_size=3).map(tuple)
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(POOLS, CLAIMS)
def test_the_pools_that_take_a_claim_are_those_that_take_it_one_by_one(pools: list[Pool], claim: NodeClaim) -> None:
    index = PoolIndex([(pool.labels, pool.taints) for pool in pools])
    able = index.takes(claim)
    assert [bool(able >> place & 1) for place in range(len(pools))] == [pool_takes(pool, claim) for pool in pools]
    distinct = list(dict.fromkeys(pool.taints for pool in pools))
    assert list(index.repellers(claim.tolerations)) == [repelled_by(taints, claim.tolerations) for taints in distinct]


def test_a_claim_counts_its_hash_once_and_equal_claims_stay_equal() -> None:
    one, other = (NodeClaim((("a", "1"),), (Toleration("b"),)) for _ in range(2))
    assert hash(one) == hash(other) == hash(one)
    assert one == other and {one: "known"}[other] == "known"


@pytest.mark.parametrize(
    ("taint", "bar"),
    [
        (Taint(TAINT_CORDON), "were cordoned"),
        (Taint(TAINT_DRAIN, "10", "NoExecute"), "were being drained"),
        (Taint("team", "red"), "had untolerated taint {team: red}"),
    ],
)
def test_a_member_out_of_service_is_named_by_the_verb_that_people_know(taint: Taint, bar: str) -> None:
    assert member_bars(Unit("a", "team/a", ()), Member("m", taints=(taint,))) == bar
