"""Documents that are refused, each with its field; and two ways of writing that mean the same."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet.core.decide import BadSnapshot, decide
from fleet.core.notation.codec import decode_snapshot, loads
from fleet.core.notation.edits import decode_edits
from tests.builders import GPU, NOW

NODE = {"name": "m", "nodes": [{GPU: 8}]}


def refused_of(**document: Any) -> list[tuple[str, str]]:
    with pytest.raises(BadSnapshot) as refused:
        decide(decode_snapshot({"version": 1, **document}), now=NOW, seed=1, solver=None)
    str(refused.value).encode()  # it can be printed
    return list(refused.value.problems)


@pytest.mark.parametrize(
    ("tree", "field", "problem"),
    [
        ({"root/a": {"max": {GPU: -1}}}, f"tree[root/a].max[{GPU}]", "-1 is below zero"),
        ({"root/a": {"min": {"cpu": "-1"}}}, "tree[root/a].min[cpu]", "-1000 is below zero"),
        ({"root/a": {"min": {GPU: 9}, "max": {GPU: 8}}}, f"tree[root/a].min[{GPU}]", "9 is above max, which is 8"),
        ({"root/a": {"max": {"kube-queue/max-jobs": -1}}}, "tree[root/a].max[kube-queue/max-jobs]", "-1 is below zero"),
        (
            {"root": "root", "nodes": {"root": {}, "root/a": {"parent": "root", "max": {GPU: -1}}}},
            f"tree.nodes[root/a].max[{GPU}]",
            "-1 is below zero",
        ),
    ],
    ids=["a max below zero", "a min below zero", "a min above max", "a number of jobs", "as programs write it"],
)
def test_a_tree_with_limits_that_cannot_be_meant_is_refused(tree: Any, field: str, problem: str) -> None:
    assert refused_of(tree=tree) == [(field, problem)]


def test_an_object_where_a_list_of_nodes_belongs_is_refused() -> None:
    pool = {"free": {GPU: 8}}
    assert refused_of(members=[{"name": "m", "pools": [pool]}]) == [("members[0].pools[0].free", "is not a list")]


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({"units": [{"id": "a\ud800", "gang": "1x1"}]}, "units[0].id"),
        ({"units": [{"id": "a", "gang": "1x1", "\udfff": 1}]}, "units[0]"),
        ({"members": [{"name": "m", "nodes": [{"labels": {"rack": "\ud8ff"}}]}]}, "members[0].nodes[0].labels.rack"),
        ({"tree": {"root/\udc00": {}}}, "tree"),
        ({"\ud800": 1}, "document"),
    ],
)
def test_half_a_character_in_a_text_is_refused(document: Any, field: str) -> None:
    """JSON can write a lone surrogate, as "\\ud800", and no text in UTF-8 can hold it."""
    read: Any = loads(json.dumps(document))
    told = refused_of(**read)
    assert told == [(field, "holds a lone surrogate, which is no character")]


def test_half_a_character_in_an_edit_is_refused() -> None:
    with pytest.raises(BadSnapshot) as refused:
        decode_edits([{"DrainMember": {"member": "\ud800"}}])
    assert refused.value.problems[0][0] == "edits[0].DrainMember.member"


@pytest.mark.parametrize("short", [{"gang": "3x1"}, {"requests": {GPU: 1}, "replicas": 3}])
def test_each_pod_of_a_gang_that_is_written_short_takes_a_slot_for_a_pod(short: dict[str, Any]) -> None:
    node = {"name": "m", "nodes": [{GPU: 8, "pods": 2}]}
    snapshot = decode_snapshot({"version": 1, "units": [{"id": "a", **short}], "members": [node]})
    assert [part.requests["pods"] for part in snapshot.units["a"].components] == [1]
    assert decide(snapshot, now=NOW, seed=1, solver=None).placements == ()


def test_a_free_vector_that_stands_twice_counts_as_both() -> None:
    def member(*free: list[Any]) -> Any:
        return {"name": "m", "pools": [{"free": list(free)}], "potential": [{"free": list(free)}]}

    vector = {GPU: 8, "pods": 110}
    twice, once = (
        decode_snapshot({"version": 1, "members": [made]}).members["m"]
        for made in (member([vector, 2], [{GPU: 4}, 1], [vector, 3]), member([vector, 5], [{GPU: 4}, 1]))
    )
    assert twice == once


def test_a_number_of_nodes_below_zero_is_not_hidden_by_another_entry() -> None:
    free = [[{GPU: 8}, -1], [{GPU: 8}, 2]]
    assert refused_of(members=[{"name": "m", "pools": [{"free": free}]}])[0][0] == "members[m].pools[0].free"


@pytest.mark.parametrize(
    ("document", "field", "problem"),
    [
        ({"units": [{"id": "a", "gang": "1x1", "priority": "high"}]}, "units[0].priority", "'high' is no whole number"),
        ({"units": [{"id": "a", "gang": "1x1", "count": 2.5}]}, "units[0].count", "2.5 is no whole number"),
        ({"units": [{"id": "a", "gang": "1x1", "enqueued_at": "now"}]}, "units[0].enqueued_at", "'now' is no number"),
        ({"units": [{"id": "a", "gang": "1x1", "held": "no"}]}, "units[0].held", "'no' is neither true nor false"),
        ({"units": [{"id": 7, "gang": "1x1"}]}, "units[0].id", "7 is no text"),
    ],
)
def test_a_value_of_another_type_is_refused_in_words_of_json(document: Any, field: str, problem: str) -> None:
    assert (field, problem) in refused_of(**document)


def test_a_document_without_a_version_and_an_empty_one_are_refused_as_such() -> None:
    with pytest.raises(BadSnapshot, match="version: is missing; this reads version 1"):
        decode_snapshot({"units": []})
    with pytest.raises(BadSnapshot, match="document: is empty"):
        loads(b"\n")


@pytest.mark.parametrize(
    ("levels", "problem"),
    [
        (["rack", "rack"], "names rack twice"),
        ([], "needs the label of each level"),
        (["block", ""], "needs the label of each level"),
    ],
)
def test_a_place_tree_has_levels_and_each_once(levels: list[str], problem: str) -> None:
    found = refused_of(members=[{**NODE, "trees": [["zone"], levels]}])
    assert found == [("members[0].trees[1]", problem)]
