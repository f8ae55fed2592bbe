"""The checker: each rule has a corruption that only that rule catches, and its packer agrees with trying everything."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.core.check import Rule, check
from fleet.core.check.packer import Gang, first_unpackable
from fleet.core.decide import decide
from fleet.core.model.effort import Effort
from fleet.core.model.plan import Head, Placement, Plan
from fleet.core.model.reason import Code, Reason
from fleet.core.model.unit import AffinityGroup, Nomination, Phase
from fleet.core.quota.guarantee import LEND_LIMIT
from fleet.core.quota.users import USER_MAX
from fleet.core.snapshot import Snapshot
from tests.builders import (
    ANYWHERE,
    GPU,
    NOW,
    NodeClaim,
    Taint,
    amounts,
    member,
    snapshot,
    tree,
    unit,
)
from tests.core.check import reclaims, resizing

WORLD = snapshot(
    unit("good").queue("root/ml"),
    unit("running").queue("root/ml").runs_in("x"),
    unit("held").having(held=True),
    unit("backs-off").having(backoff_until=NOW + 9),
    unit("lost").queue("root/gone"),
    unit("above").having(leaf="root"),
    unit("greedy").gpus(8, pods=1).queue("root/small"),
    unit("jobs").queue("root/one"),
    unit("more-jobs").queue("root/one").since(1),
    unit("bound").only_in("y"),
    unit("intolerant"),
    unit("picky").gang(1, gpu=1, claim=NodeClaim(node_selector=(("model", "H800"),))),
    unit("kind").having(needs_kind="batch/Job"),
    unit("failed").having(excluded=frozenset({"x"})),
    unit("wide").gpus(8, pods=3),
    unit("first").gpus(8, pods=9).queue("root/strict").since(99),
    unit("second").queue("root/strict"),
    member("x").nodes(2).having(kinds=frozenset({"kubeflow.org/PyTorchJob"})),
    member("y").nodes(2),
    member("away").nodes(2).not_ready(),
    member("tainted").nodes(2).having(taints=(Taint("k"),)),
    unit("firm").queue("root/small").having(preemptible=False),
    unit("borrower").gpus(3).queue("root/shared/borrows"),
    unit("hog").gpus(3).queue("root/personal").having(user="ann"),
    tree(
        ml={},
        personal={"attributes": {USER_MAX: '{"nvidia.com/gpu": 2}'}},
        small={"max": {GPU: 4}},
        one={"jobs": 1},
        strict={"policy": "Block"},
        promised={"min": {GPU: 2}},
        shared={"max": {GPU: 4}},
        shared__borrows={},
        shared__keeps={"min": {GPU: 3}, "attributes": {LEND_LIMIT: '{"nvidia.com/gpu": 1}'}},
    ),
)
SOUND = decide(WORLD, now=NOW, seed=1, solver=None)


def having(*placements: tuple[str, str]) -> Plan:
    """A plan of these placements alone, with a reason for every other unit that waits."""
    placed = {name for name, _ in placements}
    waiting = {p.unit for p in SOUND.placements} | set(SOUND.reasons)
    reasons = {name: Reason(Code.HELD) for name in waiting - placed}
    return Plan(tuple(Placement(*pair) for pair in placements), reasons)


CORRUPTIONS = {
    Rule.UNKNOWN_UNIT: having(("nobody", "x")),
    Rule.UNKNOWN_MEMBER: having(("good", "nowhere")),
    Rule.TWICE: having(("good", "x"), ("good", "y")),
    Rule.NOT_WAITING: having(("running", "y")),
    Rule.HELD: having(("held", "x")),
    Rule.BACK_OFF: having(("backs-off", "x")),
    Rule.NO_LEAF: having(("lost", "x")),
    Rule.NOT_READY: having(("good", "away")),
    Rule.POLICY: having(("bound", "x")),
    Rule.MAX: having(("greedy", "x")),
    Rule.MIN: having(("firm", "x")),
    Rule.LENT: having(("borrower", "x")),
    Rule.USER_MAX: having(("hog", "x")),
    Rule.BLOCK_ORDER: having(("second", "x")),
    Rule.ROOM: having(("wide", "x")),
    Rule.HEAD_UNSOUND: replace(having(("good", "x")), heads=(Head("good", Nomination("x", NOW, NOW)),)),
    Rule.REASON_MISSING: replace(having(("good", "x")), reasons={}),
    Rule.REASON_EXTRA: Plan(having(("good", "x")).placements, having().reasons),
}


def test_every_rule_has_a_corruption() -> None:
    assert {*CORRUPTIONS, *reclaims.CORRUPTIONS, *resizing.CORRUPTIONS} == set(Rule)


@pytest.mark.parametrize("rule", Rule)
def test_every_rule_says_in_a_sentence_what_it_protects(rule: Rule) -> None:
    assert rule.protects[0].isupper() and rule.protects.endswith(".")


@pytest.mark.parametrize("rule", CORRUPTIONS)
def test_a_corruption_is_caught_by_its_rule_alone(rule: Rule) -> None:
    assert {violation.rule for violation in check(WORLD, CORRUPTIONS[rule], now=NOW)} == {rule}


@pytest.mark.parametrize(
    ("rule", "placements"),
    [
        (Rule.NO_LEAF, [("above", "x")]),
        (Rule.MAX, [("jobs", "x"), ("more-jobs", "x")]),
        (Rule.POLICY, [("intolerant", "tainted")]),
        (Rule.POLICY, [("kind", "x")]),
        (Rule.POLICY, [("failed", "x")]),
        (Rule.ROOM, [("picky", "y")]),
        (Rule.ROOM, [("wide", "y")]),
    ],
)
def test_other_ways_to_break_a_rule(rule: Rule, placements: list[tuple[str, str]]) -> None:
    found = check(WORLD, having(*placements), now=NOW)
    assert [(violation.rule, violation.unit) for violation in found] == [(rule, placements[-1][0])]


def test_a_sound_plan_has_no_violations() -> None:
    assert check(WORLD, SOUND, now=NOW) == ()


def test_usage_above_a_lowered_max_is_no_fault_of_a_plan_that_does_not_raise_it() -> None:
    world = snapshot(
        unit("r").gpus(8).queue("root/ml").runs_in("x"),
        unit("cpu").gang(1, cpu=4).queue("root/ml"),
        member("x").nodes(2),
        tree(ml={"max": {GPU: 4}}),
    )
    assert check(world, Plan((Placement("cpu", "x"),)), now=NOW) == ()


def test_each_of_two_gangs_that_only_together_overflow_is_fine_alone_and_the_later_is_refused() -> None:
    world = snapshot(unit("a").gpus(6), unit("b").gpus(6), member("x").nodes(1))
    plan = Plan((Placement("b", "x"), Placement("a", "x")))
    assert [(v.rule, v.unit) for v in check(world, plan, now=NOW)] == [(Rule.ROOM, "a")]


def test_a_refused_gang_is_not_charged_to_those_after_it() -> None:
    world = snapshot(
        unit("a").gpus(8).queue("root/ml"), unit("b").queue("root/ml"), member("x").nodes(2), tree(ml={"max": {GPU: 4}})
    )
    plan = Plan((Placement("a", "x"), Placement("b", "x")))
    assert [(v.rule, v.unit) for v in check(world, plan, now=NOW)] == [(Rule.MAX, "a")]


def test_coming_pods_of_placed_units_take_their_room_first() -> None:
    world = snapshot(unit("r").gpus(8).runs_in("x", visible=0), unit("a").gpus(1), member("x").nodes(1))
    assert [v.rule for v in check(world, Plan((Placement("a", "x"),)), now=NOW)] == [Rule.ROOM]


def test_the_search_finds_a_packing_that_largest_first_misses() -> None:
    """Two resources: the two big pods need the two different nodes that each alone would not choose."""
    free = [amounts(gpu=4, cpu=10), amounts(gpu=5, cpu=6)]
    x = member("x").nodes(0).value
    pools = tuple(replace(x.pools[0], free=((vector, 1),), allocatable=vector) for vector in free)
    pods = [(4, 5), (3, 6), (1, 4)]
    gangs = [Gang(f"g{i}", ((1, amounts(gpu=gpu, cpu=cpu), ANYWHERE),)) for i, (gpu, cpu) in enumerate(pods)]
    assert _tried([(4, 10_000), (5, 6_000)], [(gpu, cpu * 1000) for gpu, cpu in pods])
    assert first_unpackable(replace(x, pools=pools), [], gangs) == []


small = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
vectors = st.tuples(st.integers(0, 8), st.integers(0, 6))


@small
@given(st.lists(vectors, max_size=4), st.lists(st.tuples(st.integers(0, 8), st.integers(0, 4)), min_size=1, max_size=5))
def test_the_packer_agrees_with_trying_everything(nodes: list[tuple[int, int]], pods: list[tuple[int, int]]) -> None:
    pools = tuple(
        replace(member("x").nodes(0).value.pools[0], free=((amounts(gpu=gpu, cpu=cpu), 1),)) for gpu, cpu in nodes
    )
    gangs = [Gang(f"g{i}", ((1, amounts(gpu=gpu, cpu=cpu), ANYWHERE),)) for i, (gpu, cpu) in enumerate(pods)]
    refused = first_unpackable(replace(member("x").value, pools=pools), [], gangs)
    assert (not refused) == _tried(nodes, pods)


def _tried(nodes: Sequence[tuple[int, ...]], pods: Sequence[tuple[int, ...]]) -> bool:
    if not pods:
        return True
    for index, have in enumerate(nodes):
        if all(room >= need for room, need in zip(have, pods[0], strict=True)):
            left = tuple(room - need for room, need in zip(have, pods[0], strict=True))
            if _tried([*nodes[:index], left, *nodes[index + 1 :]], pods[1:]):
                return True
    return False


@pytest.mark.parametrize(("gpus", "expected"), [((3, 2, 2), set()), ((3, 3, 2), {"check_orders"}), ((4, 4, 4), set())])
def test_a_bound_that_ended_the_search_for_a_refused_gang_is_named(gpus: tuple[int, ...], expected: set[str]) -> None:
    """Two nodes of four GPUs take three, two and two. Three, three and two are no more than they have in all."""
    gangs = [Gang(f"g{number}", ((1, amounts(gpu=size), ANYWHERE),)) for number, size in enumerate(gpus)]
    effort = Effort()
    first_unpackable(member("x").nodes(2, free_gpu=4).value, [], gangs, effort=effort)
    assert effort.bounds == expected


SELECTORS = (ANYWHERE, *(NodeClaim(node_selector=(("zone", zone),)) for zone in "ab"))
kinds = st.tuples(st.integers(1, 2), st.integers(0, 5), st.integers(0, 3), st.sampled_from(SELECTORS))


@small
@given(
    st.lists(st.tuples(vectors, st.sampled_from("ab")), max_size=4),
    st.lists(st.lists(kinds, min_size=1, max_size=2), min_size=1, max_size=3),
)
def test_the_packer_agrees_with_trying_everything_where_gangs_name_their_nodes(
    nodes: list[tuple[tuple[int, int], str]], gangs: list[list[tuple[int, int, int, NodeClaim]]]
) -> None:
    empty = member("x").nodes(0).value.pools[0]
    pools = tuple(
        replace(empty, labels=(("zone", zone),), free=((amounts(gpu=gpu, cpu=cpu), 1),)) for (gpu, cpu), zone in nodes
    )
    made = [
        Gang(f"g{i}", tuple((count, amounts(gpu=gpu, cpu=cpu), claim) for count, gpu, cpu, claim in parts))
        for i, parts in enumerate(gangs)
    ]
    # As amounts: room on a node of each zone, which is none on the other's nodes.
    rows = [(gpu, cpu, 9 * (zone == "a"), 9 * (zone == "b")) for (gpu, cpu), zone in nodes]
    pods = [
        (gpu, cpu, int(claim is SELECTORS[1]), int(claim is SELECTORS[2]))
        for parts in gangs
        for count, gpu, cpu, claim in parts
        for _ in range(count)
    ]
    assert (not first_unpackable(replace(member("x").value, pools=pools), [], made)) == _tried(rows, pods)


def test_decide_never_ships_what_the_checker_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the planner believe that quota allows everything: the checker drops what quota does not allow."""
    monkeypatch.setattr("fleet.core.quota.usage.Usage.refusal", lambda self, leaf, request: None)
    world: Snapshot = snapshot(
        unit("a").gpus(4).queue("root/ml").since(99),
        unit("b").gpus(4).queue("root/ml"),
        member("x").nodes(9),
        tree(ml={"max": {GPU: 6}}),
    )
    plan = decide(world, now=NOW, seed=1, solver=None)
    assert [p.unit for p in plan.placements] == ["a"]
    assert set(plan.reasons) == {"b"}
    assert plan.certificate.why == "the checker dropped 1: default/b raises nvidia.com/gpu of root/ml above 6"


HEAD = Head("u", Nomination("x", NOW, NOW))
OTHER = replace(HEAD, unit="v")
ELSEWHERE = AffinityGroup("home", frozenset({"y"}))


@pytest.mark.parametrize(
    ("change", "heads", "named"),
    [
        pytest.param({}, (HEAD, replace(OTHER, unit="w")), None, id="sound heads of two leaves"),
        pytest.param({"enqueued_at": NOW}, (HEAD,), None, id="a head that has not waited: the planner's matter"),
        pytest.param({}, (replace(HEAD, unit="nobody"),), "nobody", id="no unit"),
        pytest.param({"phase": Phase.PLACED, "member": "x"}, (HEAD,), "u", id="a unit that runs"),
        pytest.param({"held": True}, (HEAD,), "u", id="a unit that is held"),
        pytest.param({"backoff_until": NOW + 9}, (HEAD,), "u", id="a unit that backs off"),
        pytest.param({"leaf": "root/gone"}, (HEAD,), "u", id="a unit without a leaf"),
        pytest.param({"affinity_groups": (ELSEWHERE,)}, (HEAD,), "u", id="where its policy forbids it"),
        pytest.param({}, (replace(HEAD, nomination=Nomination("gone", NOW, NOW)),), "u", id="in no member"),
        pytest.param({}, (replace(HEAD, nomination=Nomination("away", NOW, NOW)),), "u", id="in a silent member"),
        pytest.param({}, (replace(HEAD, nomination=Nomination("", NOW, NOW)),), None, id="in no member yet"),
        pytest.param({}, (HEAD, OTHER), "v", id="two of one leaf"),
    ],
)
def test_a_head_waits_may_start_where_it_collects_and_is_the_only_one_of_its_leaf(
    change: dict[str, Any], heads: tuple[Head, ...], named: str | None
) -> None:
    world = snapshot(
        unit("u").queue("root/a").since(5000).having(**change),
        unit("v").queue("root/a").since(5000),
        unit("w").queue("root/b").since(5000),
        member("x").nodes(1),
        member("y").nodes(1),
        member("away").nodes(1).not_ready(),
        tree(a={}, b={}),
    )
    waiting = [key for key, one in world.units.items() if one.phase is Phase.WAITING]
    plan = Plan((), {key: Reason(Code.HELD) for key in waiting}, heads=heads)
    found = [(violation.rule, violation.unit) for violation in check(world, plan, now=NOW)]
    assert found == ([(Rule.HEAD_UNSOUND, named)] if named else [])


def test_a_reason_for_a_unit_that_is_not_there_is_one_for_nobody() -> None:
    sound = having(("good", "x"))
    plan = replace(sound, reasons={**sound.reasons, "gone": Reason(Code.HELD)})
    assert [(v.rule, v.text) for v in check(WORLD, plan, now=NOW)] == [
        (Rule.REASON_EXTRA, "gone has a reason but does not wait")
    ]


def test_a_back_off_that_ends_now_is_over() -> None:
    world = snapshot(unit("u").having(backoff_until=NOW), member("x").nodes(1))
    assert check(world, Plan((Placement("u", "x"),)), now=NOW) == ()


def test_work_of_a_leaf_that_is_gone_counts_at_the_nodes_above_it() -> None:
    world = snapshot(
        unit("r").gpus(6).queue("root/org/gone").runs_in("x"),
        unit("u").gpus(4).queue("root/org/here"),
        member("x").nodes(2),
        tree(org={"max": {GPU: 8}}, org__here={}),
    )
    assert [v.rule for v in check(world, Plan((Placement("u", "x"),)), now=NOW)] == [Rule.MAX]


def test_two_of_one_user_that_only_together_are_above_the_limit_are_told_apart() -> None:
    capped = {"attributes": {USER_MAX: '{"nvidia.com/gpu": 4}'}}
    world = snapshot(
        unit("a").gpus(3).queue("root/team/x").having(user="ann"),
        unit("b").gpus(3).queue("root/team/y").having(user="ann"),
        unit("c").gpus(3).queue("root/team/y").having(user="bob"),
        unit("d").gpus(9).queue("root/team/y"),
        member("x").nodes(3, gpu=16),
        tree(team=capped, team__x={}, team__y={}),
    )
    plan = Plan(tuple(Placement(name, "x") for name in "abcd"))
    assert [(v.rule, v.unit) for v in check(world, plan, now=NOW)] == [(Rule.USER_MAX, "b")]


@pytest.mark.parametrize(("gpus", "broken"), [(2, []), (3, [Rule.MIN])])
def test_what_runs_and_may_not_be_preempted_counts_within_min_and_other_work_does_not(
    gpus: int, broken: list[Rule]
) -> None:
    world = snapshot(
        unit("firm").gpus(2).queue("root/a").having(preemptible=False).runs_in("x"),
        unit("soft").gpus(4).queue("root/a").runs_in("x"),
        unit("u").gpus(gpus).queue("root/a").having(preemptible=False),
        member("x").nodes(2),
        tree(a={"min": {GPU: 4}}),
    )
    assert [v.rule for v in check(world, Plan((Placement("u", "x"),)), now=NOW)] == broken


@pytest.mark.parametrize(("gpus", "broken"), [(1, []), (2, [Rule.USER_MAX])])
def test_what_a_user_runs_counts_within_the_limit_of_the_user(gpus: int, broken: list[Rule]) -> None:
    world = snapshot(
        unit("r").gpus(3).queue("root/a").having(user="ann").runs_in("x"),
        unit("u").gpus(gpus).queue("root/a").having(user="ann"),
        unit("free").gpus(8).queue("root/b").having(user="ann"),
        member("x").nodes(3),
        tree(a={"attributes": {USER_MAX: '{"nvidia.com/gpu": 4}'}}, b={}),
    )
    plan = Plan((Placement("free", "x"), Placement("u", "x")))
    assert [v.rule for v in check(world, plan, now=NOW)] == broken
