"""What holds of any object, any patch and any sequence of writers."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from api.engine import fields
from api.engine.apply import apply_new, apply_to, check_configuration
from api.engine.default import default
from api.engine.prune import prune
from api.engine.schema import compiled
from api.engine.validate import validate
from api.engine.write import Author, prepare_create, prepare_update

from .conftest import WIDGET

FEW = settings(max_examples=50, deadline=None)  # the machine may be busy; time is not what is tested
ROOT = compiled(WIDGET)
NAMES = st.sampled_from(["a", "b", "c"])
PARTS = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES}, optional={"weight": st.integers(0, 2), "words": st.lists(NAMES, max_size=2)}
    ),
    min_size=1,  # an empty map list or set names nothing, so nobody owns it and it may stay
    max_size=3,
    unique_by=lambda part: part["name"],
)
SPECS = st.fixed_dictionaries(
    {"size": st.integers(1, 3)},
    optional={
        "color": st.sampled_from(["red", "blue"]),
        "tags": st.dictionaries(NAMES, NAMES, max_size=3),
        "parts": PARTS,
        "marks": st.lists(NAMES, min_size=1, max_size=3, unique=True),
        "note": NAMES,
    },
)
JUNK = st.recursive(
    st.one_of(st.integers(), NAMES), lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner))
)
_NO_SET: st.SearchStrategy[dict[str, Any]] = st.just({})
SETS = st.recursive(
    _NO_SET,
    lambda inner: st.dictionaries(st.sampled_from(["f:a", "f:b", "."]), inner, min_size=1, max_size=3).map(
        lambda node: fields.union(None, {**node, **({".": {}} if "." in node else {})}) or {}
    ),
    max_leaves=6,
).filter(bool)


def members(node: dict[str, Any] | None) -> set[str]:
    return set(fields.paths(node))


def config(spec: dict[str, Any]) -> dict[str, Any]:
    body = {"metadata": {"name": "w"}, "spec": copy.deepcopy(spec)}
    check_configuration(WIDGET, "default", "w", body)
    return body


def applied(old: dict[str, Any] | None, who: str, spec: dict[str, Any]) -> dict[str, Any]:
    if old is None:
        return apply_new(WIDGET, "default", config(spec), Author(who), now=0.0, uid="u").body
    return apply_to(WIDGET, old, config(spec), Author(who), now=1.0, force=True).body


def agrees(live: Any, wanted: Any) -> bool:
    """Does `live` hold everything that `wanted` names?"""
    if isinstance(wanted, dict):
        return all(key in live and agrees(live[key], value) for key, value in wanted.items())
    if isinstance(wanted, list) and all(isinstance(item, dict) for item in wanted):
        by_name = {item["name"]: item for item in live}
        return all(item["name"] in by_name and agrees(by_name[item["name"]], item) for item in wanted)
    return set(wanted) <= set(live) if isinstance(wanted, list) and wanted != live else wanted == live


@FEW
@given(SETS, SETS)
def test_sets_of_fields_obey_the_laws_of_sets(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert members(fields.union(a, b)) == members(a) | members(b)
    assert members(fields.difference(a, b)) == members(a) - members(b)
    assert members(fields.intersection(a, b)) == members(a) & members(b)


@FEW
@given(SPECS, SPECS)
def test_an_apply_is_idempotent(first: dict[str, Any], second: dict[str, Any]) -> None:
    body = applied(applied(None, "me", first), "me", second)
    assert applied(body, "me", second) is body


@FEW
@given(SPECS, SPECS, SPECS)
def test_what_the_last_applier_names_is_what_stands(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    body = applied(applied(applied(None, "me", a), "you", b), "me", c)
    assert agrees(body["spec"], c)


@FEW
@given(SPECS, SPECS)
def test_a_sole_applier_gets_what_it_names_and_defaults(first: dict[str, Any], second: dict[str, Any]) -> None:
    body = applied(applied(None, "me", first), "me", second)
    fresh = applied(None, "me", second)

    def arranged(spec: dict[str, Any]) -> dict[str, Any]:
        return {
            k: sorted(v, key=lambda item: json.dumps(item, sort_keys=True)) if isinstance(v, list) else v
            for k, v in spec.items()
        }

    assert arranged(body["spec"]) == arranged(fresh["spec"])


@FEW
@given(SPECS, SPECS)
def test_nothing_but_a_writer_s_own_change_is_credited_to_it(first: dict[str, Any], second: dict[str, Any]) -> None:
    old = prepare_create(
        WIDGET, "default", {"metadata": {"name": "w"}, "spec": first}, Author("a"), now=0.0, uid="u"
    ).body
    new = prepare_update(WIDGET, old, {"metadata": {"name": "w"}, "spec": second}, Author("b"), now=1.0).body
    credited = {m["manager"]: members(m["fieldsV1"]) for m in new["metadata"].get("managedFields", [])}
    present = members(fields.compare(ROOT, {"metadata": {}}, {**fields.owned(WIDGET, new), "metadata": {}})[0])
    assert credited.get("a", set()) | credited.get("b", set()) == present
    assert not credited.get("a", set()) & credited.get("b", set())


@FEW
@given(st.dictionaries(st.sampled_from(["spec", "status", "x", "size"]), st.dictionaries(NAMES, JUNK)))
def test_what_is_pruned_has_no_unknown_field_left(body: dict[str, Any]) -> None:
    prune(ROOT, body, "", [])
    again: list[str] = []
    prune(ROOT, body, "", again)
    assert again == []


@FEW
@given(SPECS, st.dictionaries(st.sampled_from(["x", "y"]), JUNK))
def test_a_valid_object_with_unknown_fields_is_valid_once_they_are_pruned(
    spec: dict[str, Any], more: dict[str, Any]
) -> None:
    body = {"spec": {**spec, **more}, **more}
    unknown: list[str] = []
    prune(ROOT, body, "", unknown)
    default(ROOT, body)
    assert validate(ROOT, body) == []
    assert sorted(unknown) == sorted([*more, *(f"spec.{key}" for key in more)])


@FEW
@given(SPECS)
def test_an_update_to_the_same_is_the_old_body_itself(spec: dict[str, Any]) -> None:
    body = {"metadata": {"name": "w"}, "spec": spec}
    old = prepare_create(WIDGET, "default", copy.deepcopy(body), Author("a"), now=0.0, uid="u").body
    assert prepare_update(WIDGET, old, copy.deepcopy(old), Author("b"), now=9.0).body is old


@FEW
@given(SPECS, SPECS)
def test_no_write_changes_what_it_was_given_to_compare_with(first: dict[str, Any], second: dict[str, Any]) -> None:
    old = applied(None, "me", first)
    before = copy.deepcopy(old)
    applied(old, "you", second)
    prepare_update(WIDGET, old, {"metadata": {"name": "w"}, "spec": copy.deepcopy(second)}, Author("b"), now=1.0)
    prepare_update(
        dataclasses.replace(WIDGET, status=False),
        old,
        {"metadata": {"name": "w"}, "spec": second},
        Author("b"),
        now=1.0,
    )
    assert old == before
