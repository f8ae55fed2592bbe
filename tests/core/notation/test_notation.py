"""The notation: short forms stand for long ones, and the schema agrees with the decoder."""

from __future__ import annotations

import json
from typing import Any, get_args

import jsonschema
import pytest
from hypothesis import given, settings

from fleet.core.decide import BadSnapshot, decide
from fleet.core.foresee.edits import (
    AddMember,
    CordonMember,
    DrainMember,
    Edit,
    Hold,
    LoseMember,
    MoveTo,
    Prioritize,
    Remove,
    ReplaceTree,
    Resize,
    Scale,
    SetLimit,
    Submit,
)
from fleet.core.model.plan import Stage
from fleet.core.model.unit import Phase
from fleet.core.notation.byhand import MOST_COUNT
from fleet.core.notation.codec import decode_snapshot, encode_plan, encode_record, encode_snapshot, now_of
from fleet.core.notation.edits import decode_edits, encode_edits
from fleet.core.notation.schema import KINDS, described_fields, schema
from fleet.core.snapshot import Snapshot
from tests.builders import GPU, NOW, member, snapshot, tree, unit
from tests.core.notation.documents import BY_HAND
from tests.core.solver.traps import TRAP
from tests.worlds import worlds

VALIDATORS = {kind: jsonschema.Draft202012Validator(schema(kind)) for kind in KINDS}


def written(**parts: Any) -> Snapshot:
    return decode_snapshot({"version": 1, **parts})


def test_nodes_by_count_are_a_pool_of_equal_nodes() -> None:
    short = written(members=[{"name": "x", "nodes": [{"count": 3, GPU: 8, "cpu": "96", "memory": "768Gi"}]}])
    assert short.members["x"] == member("x").nodes(3).value


def test_what_others_use_of_a_node_is_not_free() -> None:
    node = {GPU: 8, "pods": 20, "used": {GPU: 6, "pods": 1}, "labels": {"model": "A100"}}
    [pool] = written(members=[{"name": "x", "nodes": [node]}]).members["x"].pools
    assert (pool.free[0][0][GPU], pool.allocatable[GPU], pool.free[0][1]) == (2, 8, 1)
    assert (pool.free[0][0]["pods"], pool.labels) == (19, (("model", "A100"),))


def test_nodes_that_could_be_added_are_written_as_nodes_are() -> None:
    of = {"count": 2, GPU: 8, "labels": {"rack": "r"}}
    found = written(members=[{"name": "x", "potential": [of]}]).members["x"]
    assert found.potential == written(members=[{"name": "x", "nodes": [of]}]).members["x"].pools
    document = {"version": 1, "members": [{"name": "x", "potential": [of]}]}
    VALIDATORS["Snapshot"].validate(document)


def test_a_gang_is_pods_by_gpus() -> None:
    short = written(units=[{"id": "a", "gang": "4x8"}]).units["a"]
    assert [(c.replicas, dict(c.requests)) for c in short.components] == [(4, {GPU: 8, "pods": 1})]


def test_requests_of_equal_pods_stand_for_one_component() -> None:
    short = written(units=[{"id": "a", "requests": {"cpu": "1", "memory": "4Gi"}, "replicas": 2}]).units["a"]
    assert [(c.replicas, c.requests["cpu"], c.requests["memory"]) for c in short.components] == [(2, 1000, 4 << 30)]


@pytest.mark.parametrize("levels", [(), ("rack",)])
def test_a_topology_is_short_for_the_one_rule_with_its_label(levels: tuple[str, ...]) -> None:
    """Older versions wrote every rule so."""
    rules = [{"level": level} for level in levels]
    old, new = {**UNIT, "topology": "".join(levels)}, {**UNIT, "rules": rules}
    short = written(units=[old])
    assert short == written(units=[new])
    assert [rule.level for rule in short.units["a"].rules] == list(levels)
    [again] = encode_snapshot(short)["units"]
    assert again.get("rules", []) == rules and "topology" not in again
    for entry in (old, new):
        VALIDATORS["Snapshot"].validate({"version": 1, "units": [entry]})
    assert not VALIDATORS["Snapshot"].is_valid({"version": 1, "units": [{**old, **new}]})


def test_a_count_makes_units_in_order() -> None:
    short = written(units=[{"id": "a", "gang": "1x1", "count": 10}, {"id": "b", "gang": "1x1", "count": 2}])
    assert list(short.units)[:2] == ["a-01", "a-02"]
    assert list(short.units)[-3:] == ["a-10", "b-1", "b-2"]


def test_who_has_a_member_runs_there() -> None:
    short = written(units=[{"id": "a", "gang": "1x1", "member": "x"}]).units["a"]
    assert short.phase is Phase.PLACED


def test_parents_follow_from_the_paths_of_a_tree() -> None:
    short = written(tree={"root/a/b": {"max": {GPU: 8}}, "root/c": {"policy": "Block"}}).tree
    assert short == tree(a__b={"max": {GPU: 8}}, c={"policy": "Block"})


def test_a_tree_may_be_an_elasticquotatree() -> None:
    spec = {"root": {"name": "root", "children": [{"name": "a", "namespaces": ["ml"], "max": {GPU: 8}}]}}
    short = written(
        tree={"apiVersion": "scheduling.sigs.k8s.io/v1beta1", "kind": "ElasticQuotaTree", "spec": spec}
    ).tree
    assert short == tree(a={"max": {GPU: 8}, "namespaces": ("ml",)})


def test_the_clock_stands_at_the_newest_time_of_a_snapshot_unless_it_says_another() -> None:
    document = {"version": 1, "units": [{"id": "a", "gang": "1x1", "enqueued_at": 50}]}
    assert now_of(document, decode_snapshot(document)) == 50
    assert now_of({**document, "now": 70}, decode_snapshot({**document, "now": 70})) == 70
    assert now_of({}, Snapshot()) == 0


def test_trees_by_hand_give_each_pool_its_places_with_paths_from_the_root() -> None:
    labels = {"block": "b1", "rack": "r1", "model": "H100"}
    document = {
        "version": 1,
        "members": [
            {"name": "x", "trees": [["block", "rack"], ["model"], ["zone", "rack"]], "nodes": [{"labels": labels}]}
        ],
    }
    (pool,) = decode_snapshot(document).members["x"].pools
    assert pool.places == (("block", "/b1"), ("rack", "/b1/r1"), ("model", "/H100"), ("rack", "//r1"))


UNIT: dict[str, Any] = {"id": "a", "gang": "1x1"}


@pytest.mark.parametrize(
    ("parts", "field"),
    [
        ({"units": [{"id": "a", "gang": "8"}]}, "units[0].gang"),
        ({"units": [{"id": "a", "gang": 8}]}, "units[0].gang"),
        ({"units": [{"id": "a", "gang": "1x1\n"}]}, "units[0].gang"),
        ({"units": [{"id": "a", "gang": "9" * 5000 + "x1"}]}, "units[0].gang"),
        ({"units": [{**UNIT, "requests": {}}]}, "units[0].requests"),
        ({"units": [{**UNIT, "replicas": 3}]}, "units[0].replicas"),
        ({"units": [{"id": "a", "requests": {"cpu": "x"}}]}, "units[0].requests[cpu]"),
        ({"units": [{"id": "a", "requests": {}, "replicas": "2"}]}, "units[0].replicas"),
        ({"units": [{"id": "a"}]}, "units[0].components"),
        ({"units": [{"gang": "1x1"}]}, "units[0].id"),
        ({"units": [{"gang": "1x1", "count": 2}]}, "units[0].id"),
        ({"units": [{**UNIT, "id": 7, "count": 2}]}, "units[0].id"),
        ({"units": [{**UNIT, "count": -1}]}, "units[0].count"),
        ({"units": [{**UNIT, "count": True}]}, "units[0].count"),
        ({"units": [{**UNIT, "count": MOST_COUNT + 1}]}, "units[0].count"),
        ({"units": [{**UNIT, "count": 1}, {**UNIT, "id": "b", "count": MOST_COUNT}]}, "units[1].count"),
        ({"units": [{**UNIT, "id": "a-1"}, {**UNIT, "count": 1}]}, "units"),
        ({"units": [{**UNIT, "enqueued_at": 10**400}]}, "units[0].enqueued_at"),
        ({"units": [{**UNIT, "topology": ["rack"]}]}, "units[0].topology"),
        ({"units": [{**UNIT, "topology": "rack", "rules": []}]}, "units[0].topology"),
        ({"units": [{**UNIT, "rules": [{"level": "rack"}, {"level": ""}]}]}, "units[0].rules[1].level"),
        ({"units": [{**UNIT, "rules": [{"level": "rack", "limit": 2}]}]}, "units[0].rules[0].limit"),
        ({"units": [{**UNIT, "rules": [{"level": "rack", "size": 2}]}]}, "units[0].rules[0].size"),
        ({"members": [{"name": "x", "trees": ["rack"], "nodes": []}]}, "members[0].trees[0]"),
        ({"members": [{"name": "x", "trees": [], "pools": [{"places": []}]}]}, "members[0].pools[0].places"),
        ({"members": [{"name": "x", "nodes": [], "pools": []}]}, "members[0].nodes"),
        ({"members": [{"name": "x", "nodes": {}}]}, "members[0].nodes"),
        ({"members": [{"name": "x", "nodes": [{"count": "two"}]}]}, "members[0].nodes[0].count"),
        ({"members": [{"name": "x", "nodes": [{"kind": "big"}]}]}, "members[0].nodes[0][kind]"),
        ({"members": [{"name": "x", "nodes": [{GPU: "7500m"}]}]}, f"members[0].nodes[0][{GPU}]"),
        ({"members": [{"name": "x", "nodes": [{"used": {"cpu": []}}]}]}, "members[0].nodes[0].used[cpu]"),
        ({"members": [{"name": "x", "nodes": [{"labels": {"gpu": 1}}]}]}, "members[0].nodes[0].labels[gpu]"),
        ({"members": [{"name": "x", "nodes": [{"taints": [{}]}]}]}, "members[0].nodes[0].taints[0].key"),
        ({"members": [{"name": "x", "potential": [{"count": "two"}]}]}, "members[0].potential[0].count"),
        ({"units": [{**UNIT, "preferences": {"x": "much"}}]}, "units[0].preferences[x]"),
        ({"tree": {"root/a": 3}}, "tree[root/a]"),
        ({"tree": {"root/a": {"limit": 3}}}, "tree[root/a].limit"),
        ({"tree": {"spec": {"root": {"name": "a", "children": [{}]}}}}, "tree.spec.root.children[0].name"),
        ({"tree": {"a": {"parent": "b"}, "b": {"parent": "a"}}}, "tree[a].parent"),
        ({"tree": {"/".join("abcdefghijklmnopqrst"): {}}}, "tree[a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t].parent"),
    ],
)
def test_a_short_form_that_is_wrong_is_refused_with_what_was_written(parts: dict[str, Any], field: str) -> None:
    with pytest.raises(BadSnapshot) as refused:
        written(**parts)
    assert refused.value.problems[0][0] == field


@pytest.mark.parametrize("kind", KINDS)
def test_each_schema_is_one(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(kind))


def test_the_descriptions_of_fields_are_their_comments() -> None:
    assert described_fields(Stage) == {}
    assert schema("Snapshot")["$defs"]["Unit"]["properties"]["id"]["description"] == "uid of the binding"
    assert schema("Snapshot")["$defs"]["Config"]["properties"]["solve_limit_s"]["default"] == 1.5


def test_what_is_written_by_hand_is_valid() -> None:
    VALIDATORS["Snapshot"].validate(json.loads(BY_HAND))


@settings(max_examples=60, deadline=None)
@given(worlds())
def test_whatever_is_encoded_is_valid_and_comes_back(world: Snapshot) -> None:
    plan = decide(world, now=NOW, seed=1, solver=None)
    document = json.loads(json.dumps(encode_snapshot(world)))
    VALIDATORS["Snapshot"].validate(document)
    VALIDATORS["Plan"].validate(json.loads(json.dumps(encode_plan(plan))))
    assert decode_snapshot(document) == world


def test_a_decision_record_is_valid() -> None:
    record = encode_record(TRAP, decide(TRAP, now=NOW, seed=3, solver=None), now=NOW, seed=3)
    VALIDATORS["Decision"].validate(json.loads(json.dumps(record)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"version": 2},
        {"version": 1, "unit": []},
        {"version": 1, "units": [{"id": "a"}]},
        {"version": 1, "units": [{**UNIT, "requests": {}}]},
        {"version": 1, "units": [{**UNIT, "priority": "high"}]},
        {"version": 1, "units": [{**UNIT, "replicas": 2}]},
        {"version": 1, "members": [{"nodes": []}]},
        {"version": 1, "members": [{"name": "x", "nodes": [], "pools": []}]},
        {"version": 1, "members": [{"name": "x", "nodes": [{"cpu": 0.5}]}]},
        {"version": 1, "tree": {"root/a": {"limit": 3}}},
    ],
)
def test_what_the_decoder_refuses_the_schema_refuses(wrong: dict[str, Any]) -> None:
    assert not VALIDATORS["Snapshot"].is_valid(wrong)
    with pytest.raises(BadSnapshot):
        decode_snapshot(wrong)


def test_a_waiting_unit_that_names_a_member_comes_back_waiting() -> None:
    world = snapshot(unit("a").having(member="x"), member("x"))
    assert decode_snapshot(encode_snapshot(world)) == world


def test_the_gap_of_a_stage_is_what_it_may_lack() -> None:
    assert [Stage("", value, bound, "").gap for value, bound in ((90, 100), (100, 100), (0, 0))] == [0.1, 0.0, 0.0]


def test_edits_come_back_from_json() -> None:
    edits: list[Edit] = [
        AddMember(member("n").nodes(2).value),
        CordonMember("x"),
        CordonMember("x", False),
        DrainMember("x"),
        LoseMember("x"),
        LoseMember("x", None),
        LoseMember("x", frozenset({"a"})),
        Scale("x", 0, -1),
        SetLimit("root/q", "max", GPU, None),
        SetLimit("root/q", "min", GPU, 4),
        ReplaceTree(None),
        ReplaceTree(tree(a__b={"max": {GPU: 8}})),
        Submit(unit("a").gpus(3).queue("root/q").value),
        Remove("a"),
        Hold("a"),
        Hold("a", False),
        Prioritize("a", 5),
        MoveTo("a", "root/q"),
        Resize("a", "worker", 2),
    ]
    assert {type(edit) for edit in edits} == set(get_args(Edit))
    assert decode_edits(json.loads(json.dumps(encode_edits(edits)))) == edits
