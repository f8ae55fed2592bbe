"""JSON, merge and strategic merge patches."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from api.engine.patch import difference, json_patch, merge, merge_patch
from api.engine.schema import Node
from api.engine.status import StatusError
from api.engine.strategic import strategic_patch

FEW = settings(max_examples=50, deadline=None)  # the machine may be busy; time is not what is tested
SCALARS = st.one_of(st.booleans(), st.integers(-9, 9), st.text("abc", max_size=2))
KEYS = st.text("abcd", min_size=1, max_size=1)


def objects(nulls: bool) -> st.SearchStrategy[dict[str, Any]]:
    leaves = st.one_of(SCALARS, st.none()) if nulls else SCALARS
    values = st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(KEYS, inner, max_size=3)),
        max_leaves=8,
    )
    return st.dictionaries(KEYS, values, max_size=4)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return value


@FEW
@given(objects(False), objects(True))
def test_a_merge_patch_applied_twice_is_applied_once(body: dict[str, Any], patch: dict[str, Any]) -> None:
    once = merge_patch(body, patch)
    assert merge_patch(once, patch) == once


@FEW
@given(objects(False))
def test_a_merge_patch_of_nothing_changes_nothing(body: dict[str, Any]) -> None:
    assert merge_patch(body, {}) == body


@FEW
@given(objects(False), objects(True))
def test_a_merge_patch_leaves_the_old_body_alone(body: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy(body)
    merge_patch(body, patch)
    assert body == before


@FEW
@given(objects(True))
def test_a_merge_patch_on_nothing_is_the_patch_without_its_nulls(patch: dict[str, Any]) -> None:
    assert merge({}, patch) == without_nulls(patch)


@FEW
@given(objects(False), objects(False))
def test_the_difference_of_two_objects_leads_from_one_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    def plain(value: Any) -> Any:  # True is not 1 here
        return repr(value) if not isinstance(value, dict) else {k: plain(v) for k, v in value.items()}

    assert plain(merge_patch(old, difference(old, new))) == plain(new)


def test_a_json_patch_that_does_not_fit_changes_nothing() -> None:
    body = {"a": {"b": 1}}
    patch = [{"op": "replace", "path": "/a/b", "value": 2}, {"op": "test", "path": "/a/b", "value": 3}]
    with pytest.raises(StatusError) as caught:
        json_patch(body, patch)
    assert (caught.value.code, caught.value.message) == (
        422,
        "the server rejected our request due to an error in our request",
    )
    assert body == {"a": {"b": 1}}
    assert json_patch(body, patch[:1]) == {"a": {"b": 2}}


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        (
            {"a": 1},
            400,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        ([{"op": "foo", "path": "/a"}], 422, "the server rejected our request due to an error in our request"),
        ([{"op": "remove", "path": "/none"}], 422, "the server rejected our request due to an error in our request"),
        ([5], 422, "the server rejected our request due to an error in our request"),
    ],
)
def test_a_json_patch_is_refused_with(patch: Any, code: int, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        json_patch({"a": 1}, patch)
    assert (caught.value.code, caught.value.message) == (code, message)


POD = Node(
    {
        "type": "object",
        "properties": {
            "containers": {
                "type": "array",
                "x-kubernetes-patch-strategy": "merge",
                "x-kubernetes-patch-merge-key": "name",
                "items": {"type": "object", "properties": {"name": {"type": "string"}, "args": {"type": "array"}}},
            },
            "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
            "strategy": {"type": "object", "x-kubernetes-patch-strategy": "retainKeys", "additionalProperties": {}},
            "tolerations": {"type": "array", "items": {"type": "object"}},
        },
    },
    True,
)
A, B = {"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"}


@pytest.mark.parametrize(
    ("body", "patch", "expected"),
    [
        pytest.param(
            {"containers": [A, B]},
            {"containers": [{"name": "b", "image": "3"}]},
            {"containers": [A, {"name": "b", "image": "3"}]},
            id="an item merges by its key",
        ),
        pytest.param(
            {"containers": [A]},
            {"containers": [{"name": "c"}], "$setElementOrder/containers": [{"name": "a"}, {"name": "c"}]},
            {"containers": [A, {"name": "c"}]},
            id="a new item stands where the order says",
        ),
        pytest.param(
            {"containers": [A, B]},
            {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]},
            {"containers": [B, A]},
            id="an order alone reorders",
        ),
        pytest.param(
            {"containers": [A, B]},
            {"containers": [{"$patch": "delete", "name": "a"}]},
            {"containers": [B]},
            id="an item is deleted",
        ),
        pytest.param(
            {"containers": [A, B]},
            {"containers": [{"$patch": "replace"}, {"name": "c"}]},
            {"containers": [{"name": "c"}]},
            id="the list is replaced",
        ),
        pytest.param(
            {"containers": [A]},
            {"containers": [{"name": "a", "args": ["y"], "image": None}]},
            {"containers": [{"name": "a", "args": ["y"]}]},
            id="a list without a strategy is replaced, null removes",
        ),
        pytest.param(
            {"finalizers": ["a", "b"]},
            {"$deleteFromPrimitiveList/finalizers": ["a"]},
            {"finalizers": ["b"]},
            id="a scalar is deleted",
        ),
        pytest.param(
            {"finalizers": ["a"]},
            {"finalizers": ["a", "c"], "$setElementOrder/finalizers": ["a", "c"]},
            {"finalizers": ["a", "c"]},
            id="scalars unite",
        ),
        pytest.param(
            {"strategy": {"type": "x", "old": 1}},
            {"strategy": {"$retainKeys": ["type"], "type": "y"}},
            {"strategy": {"type": "y"}},
            id="only the retained keys stay",
        ),
        pytest.param(
            {"strategy": {"type": "x", "old": 1}},
            {"strategy": {"$patch": "replace", "new": 2}},
            {"strategy": {"new": 2}},
            id="a map is replaced",
        ),
        pytest.param(
            {"strategy": {"type": "x"}, "tolerations": [{"key": "a"}]},
            {"strategy": {"$patch": "delete"}, "tolerations": [{"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="a map is deleted",
        ),
    ],
)
def test_a_strategic_merge_patch(body: dict[str, Any], patch: dict[str, Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy(body)
    assert strategic_patch(POD, body, patch) == expected
    assert body == before


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"containers": [{"image": "q"}]}, 400, "map: map[image:q] does not contain declared merge key: name"),
        ({"$patch": "foo"}, 400, "unknown patch type: foo in map: map[$patch:foo]"),
        ([1], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
    ],
)
def test_a_strategic_merge_patch_is_refused_with(patch: Any, code: int, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        strategic_patch(POD, {"containers": [A]}, patch)
    assert (caught.value.code, caught.value.message) == (code, message)
