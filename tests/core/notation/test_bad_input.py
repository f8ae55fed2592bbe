"""Bad input: whatever a snapshot says, there is a typed error that names the field, or a plan that check passes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.core.check import check
from fleet.core.decide import BadSnapshot, decide
from fleet.core.model.member import Pool
from fleet.core.model.reason import Code
from fleet.core.model.unit import Component
from fleet.core.notation.codec import decode_snapshot, encode_snapshot
from fleet.core.placement.problem import Solver
from fleet.core.snapshot import Config, Snapshot
from fleet.core.solver.cpsat import CpSat
from tests.builders import GPU, NOW, amounts, member, snapshot, tree, unit
from tests.worlds import worlds

SOLVERS: tuple[Solver | None, ...] = (None, CpSat())


def code(world: Snapshot, key: str = "a", now: float = NOW) -> Code:
    plan = decide(world, now=now, seed=1, solver=CpSat())
    assert check(world, plan, now=now) == ()
    return plan.reasons[key].code


def test_nothing_fits_where_there_is_less_room_than_nothing() -> None:
    assert code(snapshot(unit("a").gang(1, cpu=1), member("x").nodes(1, free_cpu=-5))) is Code.NO_MEMBER_FITS


def test_a_number_of_nodes_below_zero_is_a_contradiction() -> None:
    with pytest.raises(BadSnapshot) as refused:
        decide(snapshot(unit("a"), member("x").nodes(-1)), now=NOW, seed=1, solver=None)
    assert refused.value.problems[0][0] == "members[x].pools[0].free"


def test_more_nodes_than_a_cluster_can_have_are_a_contradiction() -> None:
    for made in (member("x").nodes(2_000_000), member("x").having(potential=member("x").nodes(2_000_000).value.pools)):
        with pytest.raises(BadSnapshot, match=r"members\[x\]: has 2000000 nodes"):
            decide(snapshot(unit("a"), made), now=NOW, seed=1, solver=None)


def test_a_leaf_that_is_unknown_is_a_reason() -> None:
    assert code(snapshot(unit("a").queue("root/gone"), member("x").nodes(1), tree(q={}))) is Code.NO_LEAF


def test_a_queue_without_any_tree_is_a_reason() -> None:
    assert code(snapshot(unit("a").queue("root/q"), member("x").nodes(1))) is Code.NO_LEAF


def test_a_unit_larger_than_everything_is_a_reason() -> None:
    assert code(snapshot(unit("a").gpus(8, pods=1_000_000), member("x").nodes(1))) is Code.TOO_LARGE


def test_a_fleet_without_members_is_a_reason() -> None:
    assert code(snapshot(unit("a"))) is Code.NO_MEMBERS


def test_members_without_nodes_are_a_reason() -> None:
    assert code(snapshot(unit("a"), member("x"))) in (Code.NO_MEMBER_FITS, Code.TOO_LARGE)


def test_a_snapshot_without_anything_is_decided() -> None:
    assert decide(Snapshot(), now=NOW, seed=1, solver=CpSat()).placements == ()


@pytest.mark.parametrize("now", [0.0, -1e12, NOW, 1e18])
def test_clocks_that_go_backwards_or_far_ahead_change_no_rule(now: float) -> None:
    world = snapshot(
        unit("a").gpus(8).queue("root/q").since(-5000),
        unit("b").gpus(8).queue("root/p"),
        unit("r").gpus(8).queue("root/q").runs_in("x").having(placed_at=NOW + 9999, walltime_s=5.0),
        unit("c").gpus(8).queue("root/p").having(backoff_until=NOW + 1),
        member("x").nodes(1),
        tree(p={"min": {GPU: 8}}, q={}),
        Config(reclaim=True),
    )
    plan = decide(world, now=now, seed=1, solver=CpSat())
    assert check(world, plan, now=now) == ()
    assert all(reason.text for reason in plan.reasons.values())


def test_amounts_beyond_every_machine_word_are_a_reason_or_fit() -> None:
    huge = 1 << 80
    rich = member("x").having(pools=member("x").nodes(1).value.pools)
    asked = snapshot(unit("a").having(components=(unit("a").value.components[0],)), rich, tree(q={"max": {GPU: huge}}))
    assert [p.unit for p in decide(asked, now=NOW, seed=1, solver=CpSat()).placements] == ["a"]
    greedy = unit("a").gang(1, gpu=huge)
    assert code(snapshot(greedy, rich)) is Code.BAD_UNIT
    pool = member("x").nodes(1).value.pools[0]
    roomy = member("x").having(pools=(type(pool)(free=((amounts(gpu=huge, pods=huge), 9),)),))
    assert [p.unit for p in decide(snapshot(unit("a"), roomy), now=NOW, seed=1, solver=CpSat()).placements] == ["a"]


def refused_of(document: dict[str, Any]) -> list[str]:
    with pytest.raises(BadSnapshot) as refused:
        decide(decode_snapshot({"version": 1, **document}), now=NOW, seed=1, solver=None)
    return [field for field, _ in refused.value.problems]


@pytest.mark.parametrize(
    "name", ["protection_s", "claim_s", "head_after_s", "guarantee_delay_s", "solve_limit_s", "relative_gap"]
)
def test_times_and_gaps_below_zero_are_a_contradiction(name: str) -> None:
    assert refused_of({"config": {name: -1}}) == [f"config.{name}"]


@pytest.mark.parametrize(
    ("name", "number"), [("priority", 1 << 31), ("priority", -(1 << 31) - 1), ("priority", 10**30), ("walltime_s", -1)]
)
def test_priorities_that_no_class_has_and_times_below_zero_are_named(name: str, number: int) -> None:
    assert refused_of({"units": [{"id": "a", "gang": "1x1", name: number}]}) == [f"units[0].{name}"]


def test_every_priority_that_a_class_may_have_is_taken() -> None:
    for number in (-(1 << 31), (1 << 31) - 1):
        document = {"version": 1, "units": [{"id": "a", "gang": "1x1", "priority": number, "walltime_s": 0}]}
        assert decode_snapshot(encode_snapshot(decode_snapshot(document))).units["a"].priority == number


def test_who_reclaims_without_any_time_to_keep_room_contradicts_itself() -> None:
    assert refused_of({"config": {"claim_s": 0, "reclaim": True}}) == ["config.claim_s"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shared-weight", "0"),
        ("preempt-policy", "never"),
        ("alibabacloud.com/lendlimit", "4"),
        ("fleet.io/oversell-rate", "0.5"),
        ("fleet.io/user-max", '{"cpu": "x"}'),
    ],
)
def test_an_attribute_of_a_tree_by_hand_that_means_nothing_is_named(name: str, text: str) -> None:
    assert refused_of({"tree": {"root/a": {"attributes": {name: text}}}}) == [f"tree[root/a].attributes[{name}]"]


def test_a_policy_that_no_queue_has_is_named() -> None:
    assert refused_of({"tree": {"root/a": {"policy": "Round"}}}) == ["tree[root/a].policy"]


def test_a_resource_with_the_name_of_the_limit_of_jobs_counts_as_nothing() -> None:
    pod = amounts(pods=1, **{"kube-queue/max-jobs": 5})
    asks = unit("a").queue("root/q").having(components=(Component("worker", 1, pod),))
    roomy = member("x").having(pools=(Pool(free=((amounts(pods=9, **{"kube-queue/max-jobs": 9}), 1),)),))
    plan = decide(snapshot(asks, roomy, tree(q={"jobs": 2})), now=NOW, seed=1, solver=None)
    assert [p.unit for p in plan.placements] == ["a"]


# -- mutated documents -------------------------------------------------------------------------------------------------

BASE: dict[str, Any] = json.loads("""
{"version": 1, "config": {"reclaim": true},
 "tree": {"root/a": {"min": {"nvidia.com/gpu": 8}, "max": {"nvidia.com/gpu": 16}, "namespaces": ["n"]},
          "root/b/c": {"policy": "Block", "attributes": {"shared-weight": "3"}}},
 "units": [{"id": "r", "leaf": "root/b/c", "gang": "2x4", "member": "x", "placed_at": 9, "count": 2, "walltime_s": 60},
           {"id": "u", "leaf": "root/a", "requests": {"cpu": "500m", "nvidia.com/gpu": 3}, "replicas": 3,
            "priority": 5, "enqueued_at": 7, "affinity_groups": [{"name": "g", "members": ["x"]}]},
           {"id": "v", "gang": "1x8", "claim": {"member": "y", "until": 2000000}, "topology": "rack"},
           {"id": "w", "leaf": "root/b/c", "gang": "9x8", "excluded": ["x"], "backoff_until": 50,
            "rules": [{"level": "rack"}]}],
 "members": [{"name": "x", "nodes": [{"count": 2, "nvidia.com/gpu": 8, "cpu": "96", "labels": {"rack": "1"}}]},
             {"name": "y", "price": 3, "pools": [{"free": [[{"nvidia.com/gpu": 5, "pods": 9}, 3]], "domain": "d",
              "taints": [{"key": "k", "effect": "NoExecute"}]}], "kinds": ["batch/Job"]}]}
""")
HUGE = (2**31, 2**63, 2**200, 10**400, -1, -(2**70), 0)
ODD: tuple[object, ...] = (
    None,
    True,
    "",
    "x",
    "root",
    "root/a",
    "1Zi",
    "-5",
    "9" * 60,
    0.5,
    -0.5,
    1e300,
    [],
    {},
    [[]],
    [1],
    {"x": 1},
    {"": {}},
)


def places(at: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a document below its top."""
    items = at.items() if isinstance(at, dict) else enumerate(at) if isinstance(at, list) else ()
    found = [(*path, key) for key, _ in items]
    return [*found, *(deeper for key, value in items for deeper in places(value, (*path, key)))]


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A document with up to four things wrong."""
    document = copy.deepcopy(draw(st.sampled_from((BASE, BASE, encode_snapshot(draw(worlds()))))))
    document = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 4))):
        where = places(document)
        if not where:
            break
        path = draw(st.sampled_from(where))
        at = document
        for step in path[:-1]:
            at = at[step]
        match draw(st.sampled_from(("huge", "odd", "gone", "copied", "renamed"))):
            case "huge":
                at[path[-1]] = draw(st.sampled_from(HUGE))
            case "odd":
                at[path[-1]] = copy.deepcopy(draw(st.sampled_from(ODD)))
            case "gone":
                del at[path[-1]]
            case "copied":
                other = draw(st.sampled_from(where))
                found: Any = document
                for step in other:
                    found = found[step] if isinstance(found, dict) and step in found else None
                at[path[-1]] = copy.deepcopy(found)
            case "renamed" if isinstance(at, dict):
                at[draw(st.sampled_from(("root", "root/a", "x", "", "parent", "a/b/c/d")))] = at.pop(path[-1])
            case _:
                pass
    return document


def held_up(document: Any, solver: Solver | None) -> None:
    """Decide the document: a typed error with a field, or a sound plan with a text for everybody who waits."""
    try:
        world = decode_snapshot(document)
        plan = decide(world, now=NOW, seed=1, solver=solver)
    except BadSnapshot as error:
        assert error.problems and all(field and problem for field, problem in error.problems)
        return
    assert check(world, plan, now=NOW) == ()
    assert all(reason.text and "?" not in reason.text for reason in plan.reasons.values())


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(mutated(), st.sampled_from(SOLVERS))
def test_a_document_with_mistakes_is_refused_with_its_field_or_decided_soundly(
    document: Any, solver: Solver | None
) -> None:
    held_up(document, solver)
