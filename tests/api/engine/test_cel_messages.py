"""Messages in CEL: which can be made, what is wrong with them, what they cost, and their form in JSON."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.values.cel.messages import as_json, message_type, misnamed
from fleet.values.cel.program import BadExpression, Budget, NoValue, compile_expression
from fleet.values.cel.types import DYN, STRING, Type

POINT = message_type("Point", {"name": STRING, "at": DYN})


def messages(name: str) -> Type | None:
    return POINT if name == "Point" else message_type(name) if name.partition(".")[0] == "Object" else None


def made(text: str) -> tuple[Any, int]:
    """(the value, the cost)"""
    budget = Budget(10_000)
    value = compile_expression(text, {"d": DYN}, messages=messages).evaluate({"d": {"n": [1, 2]}}, budget)
    return value, 10_000 - budget.balance


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Object{}", {}),
        ("Object{spec: Object.spec{replicas: 1 + 2}}", {"spec": {"replicas": 3}}),
        ("Object{list: d.n.map(x, Object.list{x: x})}", {"list": [{"x": 1}, {"x": 2}]}),
        ("Object{?a: optional.none(), ?b: optional.of(1),}", {"b": 1}),
        ("Object{?a: optional.ofNonZeroValue(Object.a{})}", {}),
        ("Object{in_: {'a': dyn(b'xy'), 'b': dyn(duration('90s'))}}", {"in_": {"a": "eHk=", "b": "90s"}}),
        ("Point{name: 'a', at: [dyn(1u), dyn(2.5), dyn(null)]}", {"name": "a", "at": [1, 2.5, None]}),
        ("Object{a: [1, 2]}.a.sum()", 3),
        ("Object{}.missing", None),
        ("Object{a: 1}.?a.orValue(2) + Object{}.?a.orValue(2)", 3),
        ("has(Object{a: 1}.a) && !has(Object{}.a)", True),
        ("Object{a: Object.a{b: 1}} == Object{a: Object.a{b: 1}}", True),
        ("dyn(Object{a: 1}) == Object.a{a: 1}", False),
        ("type(Object.spec{}) == Object.spec", True),
        ("[Point{}] + (true ? [Point{name: 'b'}] : [])", [{}, {"name": "b"}]),
    ],
)
def test_a_message_has_its_fields(text: str, found: Any) -> None:
    assert as_json(made(text)[0]) == found


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("Other{}", "1:6", "undeclared reference to 'Other' (in container '')"),
        ("Point{name: 1}", "1:11", "expected type of field 'name' is 'string' but provided type is 'int'"),
        ("Point{size: 1}", "1:11", "undefined field 'size'"),
        ("Point{}.size", "1:8", "undefined field 'size'"),
        ("Point{?name: 'a'}", "1:14", "expected type 'optional_type(string)' but found 'string'"),
        ("int{}", "1:4", "'int' is not a message type"),
        ("d{}", "1:2", "'dyn' is not a type"),
        ("Point{name: 'a'", "1:16", "mismatched input '<EOF>' expecting {'}', ','}"),
        ("Point{1: 'a'}", "1:7", "mismatched input '1' expecting IDENTIFIER"),
    ],
)
def test_what_is_wrong_with_a_message_is_said_with_its_place(text: str, place: str, problem: str) -> None:
    with pytest.raises(BadExpression) as refused:
        made(text)
    assert f"ERROR: <input>:{place}: " in str(refused.value) and problem in str(refused.value)


@pytest.mark.parametrize(("text", "cost"), [("Object{}", 40), ("Object{a: Object.a{b: d.n}, c: [1]}", 82)])
def test_a_message_costs_what_it_costs_in_kubernetes(text: str, cost: int) -> None:
    assert made(text)[1] == cost


def test_types_that_do_not_say_where_they_are_are_found() -> None:
    assert list(misnamed(made("Object{spec: Object.spec{a: [Object.spec.a{}]}}")[0])) == []
    assert list(misnamed(made("Object{spec: {'x': Object.status{}}}")[0])) == [
        'unexpected type name "Object.status", expected "Object.spec", which matches field name path from root Object '
        "type"
    ]


def test_what_json_does_not_have_is_refused() -> None:
    for text in ("{1: 2}", "Object{a: type(1)}", "[quantity('1')]"):
        with pytest.raises(NoValue):
            as_json(made(text)[0])
