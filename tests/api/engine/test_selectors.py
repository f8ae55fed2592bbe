"""Selectors by label and field: what they choose, and how they are refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.engine.selectors import (
    PRESENT,
    FieldTerm,
    both,
    field_text,
    fields_test,
    from_object,
    holds,
    labels_test,
    marks_of_fields,
    marks_of_labels,
    parse_labels,
)
from api.engine.status import StatusError

from .conftest import WIDGET

BODY: dict[str, Any] = {
    "metadata": {"name": "w", "namespace": "n", "labels": {"app": "x", "tier": "front", "level": "7"}},
    "status": {"phase": "Running", "ready": True},
}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("app=x", True),
        ("app==x", True),
        ("app=y", False),
        ("app!=y", True),
        ("app!=x", False),
        ("none!=x", True),
        ("app", True),
        ("none", False),
        ("!none", True),
        ("!app", False),
        ("app in (x,y)", True),
        ("app in (y)", False),
        ("app notin (y)", True),
        ("none notin (y)", True),
        ("app=x,tier=front", True),
        ("app=x,tier=back", False),
        ("level>6", True),
        ("level<6", False),
        ("none>1", False),
        ("app=", False),
        (" app = x , tier in ( front ) ", True),
        ("", True),
    ],
)
def test_a_label_selector_chooses(text: str, chosen: bool) -> None:
    assert labels_test(text)(BODY) is chosen


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("=b", "found '=', expected: !, identifier, or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a,,b", "found ',', expected: identifier after ','"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        (
            "a>x",
            'unable to parse requirement: values[0]: Invalid value: "x": '
            "for 'Gt', 'Lt' operators, the value must be an integer",
        ),
    ],
)
def test_a_label_selector_that_does_not_parse_says_where(text: str, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        parse_labels(text)
    assert (caught.value.code, caught.value.message) == (400, message)


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("metadata.name=w", True),
        ("metadata.name!=w", False),
        ("metadata.namespace=n,metadata.name=w", True),
        ("status.phase=Running", True),
        ("status.phase==Gone", False),
        ("status.ready=true", True),
        ("", True),
    ],
)
def test_a_field_selector_chooses(text: str, chosen: bool) -> None:
    kind = dataclasses.replace(WIDGET, selectable=("status.phase", "status.ready"))
    assert fields_test(kind, text)(BODY) is chosen


@pytest.mark.parametrize(
    ("builtin", "text", "message"),
    [
        (False, "spec.size=1", "field label not supported: spec.size"),
        (True, "foo=1", '"foo" is not a known field selector: only "metadata.name", "metadata.namespace"'),
        (False, "a", "invalid selector: 'a'; can't understand 'a'"),
        (False, "a=b=c", "invalid field selector: unescaped character in value: 61"),
    ],
)
def test_a_field_selector_is_refused_with(builtin: bool, text: str, message: str) -> None:
    with pytest.raises(StatusError) as caught:
        fields_test(dataclasses.replace(WIDGET, builtin=builtin), text)
    assert (caught.value.code, caught.value.message) == (400, message)


def test_labels_and_fields_combine() -> None:
    assert both(WIDGET, "", "") is None
    test = both(WIDGET, "app=x", "metadata.name=w")
    assert test is not None and test(BODY)
    test = both(WIDGET, "app=x", "metadata.name=other")
    assert test is not None and not test(BODY)


def test_a_selector_object_means_what_its_text_would() -> None:
    selector = {
        "matchLabels": {"app": "x"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["front"]},
            {"key": "none", "operator": "DoesNotExist"},
            {"key": "level", "operator": "Exists"},
            {"key": "app", "operator": "NotIn", "values": ["y"]},
        ],
    }
    assert holds(from_object(selector), BODY["metadata"]["labels"])
    assert not holds(from_object(selector), {"app": "x"})
    assert holds(from_object({}), None)
    with pytest.raises(ValueError, match="is not a valid label selector operator"):
        from_object({"matchExpressions": [{"key": "a", "operator": "Near"}]})


LABELS = st.dictionaries(st.sampled_from(("a", "b/c", "d-e")), st.sampled_from(("", "x", "y", "7")))
WANTED = st.sampled_from(("a", "a=x", "a=", "b/c in (x,7)", "a in (1,2,3,4,5,6,7,8,x,y)", "d-e>6", "a!=x", "!b/c"))
TEXTS = st.text()
VALUES = TEXTS | st.integers() | st.booleans() | st.floats(allow_nan=False) | st.dictionaries(TEXTS, TEXTS)


@given(LABELS, st.lists(WANTED, min_size=1, max_size=3).map(",".join))
def test_what_a_label_selector_passes_has_its_marks(labels: dict[str, str], text: str) -> None:
    body = {"metadata": {"labels": labels}}
    marks = marks_of_labels([one for one in parse_labels(text) if one.operator in PRESENT])
    marked = all(any(mark in orjson.dumps(body) for mark in one) for one in marks)
    assert marked or not labels_test(text)(body)


@given(VALUES)
def test_what_a_field_selector_passes_has_its_marks(value: Any) -> None:
    body = {"spec": {"x": value}}
    marks = marks_of_fields([FieldTerm("spec.x", field_text(body, "spec.x"))])
    assert all(mark in orjson.dumps(body) for (mark,) in marks)
    assert marks_of_fields([FieldTerm("spec.x", "a", negated=True)]) == ()


def test_a_text_that_is_looked_for_is_found_as_json_has_it() -> None:
    assert marks_of_fields([FieldTerm("spec.x", 'say "ü"')]) == ((b'"say \\"\xc3\xbc\\""',),)
