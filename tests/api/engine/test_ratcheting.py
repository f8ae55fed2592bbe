"""A changed schema and objects that were stored before it, as a kube-apiserver has it: what a write leaves as it was
keeps its flaws, except for rules about the change of a value."""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest

from api.engine.kind import Body, Kind
from api.engine.rules import AT_ONCE, CostlyWrite
from api.engine.schema import compiled
from api.engine.status import StatusError
from api.engine.validate import RULES_NOT_CHECKED
from api.engine.write import Author, prepare_create, prepare_update

from .conftest import WIDGET

ME = Author("tests")
SPEC: Body = {
    "type": "object",
    "properties": {
        "one": {"type": "object", "properties": {"word": {"type": "string"}, "other": {"type": "string"}}},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": {
                "type": "object",
                "required": ["key"],
                "properties": {"key": {"type": "string"}, "word": {"type": "string"}},
            },
        },
        "atomic": {"type": "array", "items": {"type": "string"}},
        "map": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"word": {"type": "string"}}},
        },
    },
}
STORED: Body = {
    "one": {"word": "old"},
    "keyed": [{"key": "a", "word": "old"}, {"key": "b", "word": "old"}],
    "atomic": ["old"],
    "map": {"k": {"word": "old"}},
}
WORDS = (("one", "properties"), ("keyed", "items", "properties"), ("map", "additionalProperties", "properties"))


def kind(spec: Body) -> Kind:
    return dataclasses.replace(WIDGET, schema={"type": "object", "properties": {"spec": spec}})


def with_words(**word: Any) -> Kind:
    """The kind with `word` as the schema of each word."""
    spec = copy.deepcopy(SPEC)
    for place in WORDS:
        node = spec["properties"]
        for key in place:
            node = node[key]
        node["word"] = {"type": "string", "maxLength": 9, **word}
    return kind(spec)


def create(spec: Body) -> Body:
    body = {"metadata": {"name": "w"}, "spec": copy.deepcopy(spec)}
    return prepare_create(kind(SPEC), "default", body, ME, now=1.0, uid="u").body


def fields_refused(of: Kind, old: Body, spec: Body, **labels: str) -> list[str]:
    """The fields that an update of the object is refused for."""
    new = {**old, "spec": copy.deepcopy(spec), "metadata": {**old["metadata"], "labels": labels}}
    try:
        prepare_update(of, old, new, ME, now=2.0)
    except StatusError as error:
        return [cause.field for cause in error.causes]
    return []


def test_a_rule_about_change_refuses_a_value_that_stays_as_it_was() -> None:
    places = ["spec.one.word", "spec.keyed[0].word", "spec.keyed[1].word", "spec.map[k].word"]
    changing = with_words(**{"x-kubernetes-validations": [{"rule": "self != oldSelf"}]})
    assert fields_refused(changing, create(STORED), STORED, a="b") == places
    rule = {"rule": "!oldSelf.hasValue() || self != oldSelf.value()", "optionalOldSelf": True}
    optional = with_words(**{"x-kubernetes-validations": [rule]})
    assert fields_refused(optional, create(STORED), STORED, a="b") == places
    new = {"one": {"word": "new"}, "keyed": [{"key": "c", "word": "old"}], "map": {"k": {"word": "new"}}}
    assert fields_refused(optional, create(STORED), new) == []
    assert compiled(changing).child("spec") is not None
    assert compiled(changing).compares and not compiled(kind(SPEC)).compares


@pytest.mark.parametrize("stricter", [{"enum": ["new"]}, {"x-kubernetes-validations": [{"rule": "self == 'new'"}]}])
def test_a_value_keeps_its_flaws_beside_one_that_changes(stricter: Body) -> None:
    of = with_words(**stricter)
    old = create(STORED)
    beside: Body = copy.deepcopy(STORED)
    beside["one"]["other"] = "changed"
    beside["keyed"] = [{"key": "new", "word": "new"}, *reversed(beside["keyed"])]
    beside["map"]["l"] = {"word": "new"}
    assert fields_refused(of, old, beside) == []
    beside["keyed"][0]["word"] = beside["map"]["l"]["word"] = beside["one"]["word"] = "worse"
    places = [place.replace("[", ".").replace("]", "") for place in fields_refused(of, old, beside)]
    assert places == ["spec.one.word", "spec.keyed.0.word", "spec.map.l.word"]


def test_an_item_without_a_key_is_looked_at_again_with_its_list() -> None:
    spec = copy.deepcopy(SPEC)
    spec["properties"]["atomic"]["items"]["enum"] = ["new"]
    old = create(STORED)
    assert fields_refused(kind(spec), old, {**STORED, "one": {}}) == []
    assert fields_refused(kind(spec), old, {**STORED, "atomic": ["old", "new"]}) == ["spec.atomic[0]"]


def test_rules_that_take_long_end_at_once_where_somebody_waits() -> None:
    rule = {"rule": "self.all(a, self.all(b, a == b))"}
    numbers = {"type": "array", "maxItems": 700, "items": {"type": "integer"}, "x-kubernetes-validations": [rule]}
    of = kind({"type": "object", "properties": {"numbers": numbers}})

    def new() -> Body:
        body = {"metadata": {"name": "w"}, "spec": {"numbers": [1] * 700}}
        return prepare_create(of, "default", body, ME, now=1.0, uid="u").body

    token = AT_ONCE.set(True)
    try:
        with pytest.raises(CostlyWrite):
            new()
    finally:
        AT_ONCE.reset(token)
    with pytest.raises(StatusError, match="call cost exceeds limit"):
        new()


def test_rules_that_were_not_asked_are_mentioned_whether_or_not_they_have_a_value() -> None:
    of = with_words(**{"x-kubernetes-validations": [{"rule": "self == 'new'"}]})
    with pytest.raises(StatusError) as caught:
        prepare_create(of, "default", {"metadata": {"name": "w"}, "spec": {"atomic": 1}}, ME, now=1.0, uid="u")
    assert [cause.field for cause in caught.value.causes] == ["spec.atomic", "<nil>"]
    assert RULES_NOT_CHECKED in caught.value.causes[1].message
