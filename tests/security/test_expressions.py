"""Expressions of users run in bounded time: patterns on RE2, rules in CEL within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from api.engine.crd import kind_of, validate
from api.engine.kind import Kind
from api.engine.rules import COST_MAX, EXCEEDED, RuleBudget, compile_rules, evaluate
from api.engine.schema import compiled
from api.engine.validate import WORK_MAX
from api.engine.validate import validate as check
from api.objects.definitions import definitions
from fleet.values.cel.parse import parse
from fleet.values.cel.tree import BadExpression, ExpressionTooLarge
from fleet.values.cel.words import CHARACTERS_MAX
from fleet.values.pattern import BadPattern, Pattern

SECONDS_MAX = 3.0  # of CPU, for what is bounded to about 0.2 s: a slow machine passes, a runaway expression does not


# `...`: a lambda in a loop binds its variable by a default, which mypy refuses for `[]`
def cpu(work: Callable[..., Any]) -> tuple[float, Any]:
    began = time.thread_time()
    outcome = work()
    return time.thread_time() - began, outcome


def crd(spec: dict[str, Any]) -> dict[str, Any]:
    """A CRD whose objects have this schema under `spec`."""
    schema = {"type": "object", "properties": {"spec": spec}}
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def gadget(spec: dict[str, Any]) -> Kind:
    kind = kind_of(crd(spec), definitions())
    assert kind is not None
    return kind


def causes(spec_schema: dict[str, Any], spec: Any) -> list[str]:
    body = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": spec}
    return [f"{cause.field}: {cause.message}" for cause in check(compiled(gadget(spec_schema)), body)]


# -- patterns


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|aa)+$", "^(.*)*b$", "(x+x+)+y"])
def test_a_pattern_that_backtracks_elsewhere_takes_linear_time(pattern: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}
    seconds, found = cpu(lambda: causes(schema, {"a": "a" * 50_000 + "!"}))
    assert seconds < SECONDS_MAX
    assert len(found) == 1
    assert "should match" in found[0]
    assert len(found[0]) < 2_000


def test_a_pattern_whose_matching_is_too_much_work_is_refused_by_name() -> None:
    """RE2 is linear in instructions × characters, and users write both."""
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(.*a){500}b"}}}
    value = "ab" * 500_000
    assert Pattern("(.*a){500}b").cost(value) > WORK_MAX
    seconds, found = cpu(lambda: causes(schema, {"a": value}))
    assert seconds < SECONDS_MAX
    assert found == [
        "spec.a: Too many: validation budget exceeded: matching a pattern would take too long",
    ]


def test_alternatives_of_a_schema_share_one_budget() -> None:
    """Many alternatives for each of many items: neither is long by itself."""
    alternatives = [{"enum": [f"x{i}"]} for i in range(2_000)]
    items = {"type": "string", "anyOf": alternatives}
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": items}}}
    seconds, found = cpu(lambda: causes(schema, {"a": ["x1999"] * 100_000}))
    assert seconds < SECONDS_MAX
    assert "validation budget exceeded" in found[0]
    assert causes(schema, {"a": ["x1999"] * 10}) == []


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "[", "a{2000}", "((a{100}){100}){100}", "x" * 20_000])
def test_a_pattern_that_re2_does_not_take_is_refused_with_its_crd(pattern: str) -> None:
    with pytest.raises(BadPattern):
        Pattern(pattern)
    body = crd({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}})
    found = validate(body)
    place = "spec.validation.openAPIV3Schema.properties[spec].properties[a].pattern"
    assert [cause.field for cause in found] == [place]
    # One that is stored already is served, and checks nothing.
    assert validate(body, stored=True) == []
    assert causes({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}}, {"a": "b"}) == []


def test_half_a_surrogate_matches_no_pattern() -> None:
    assert not Pattern(".").matches("\ud800")


# -- rules

THINGS = {
    "type": "object",
    "properties": {
        "l": {"type": "array", "items": {"type": "integer"}},
        "s": {"type": "string"},
        "word": {"type": "string"},
        "missing": {"type": "integer"},
        "o": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "value": {"type": "integer"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
        "parts": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "weight": {"type": "integer"},
                },
            },
        },
    },
}
OVER = "no further validation rules will be run"


def outcome(rule: str, value: Any) -> tuple[list[str], int]:
    """The verdict of the rule, and its cost."""
    budget = RuleBudget()
    rules = compile_rules({**THINGS, "x-kubernetes-validations": [{"rule": rule}]})
    assert not rules[0].error
    found = evaluate(rules, value, None, "object", "spec", budget)
    return [cause.message for cause in found], COST_MAX - budget.balance


EXPENSIVE = [
    "self.l.all(a, self.l.all(b, self.l.all(c, a + b + c >= 0)))",
    "size(self.l.map(a, self.l.map(b, [a, b]))) > 0",
    "size([self.l]" + ".map(a, a + a)" * 20 + "[0]) > 0",
    "size(self.o.map(x, self.o)) > 0",
    "self.o.all(a, self.o.exists(b, self.o.exists_one(c, c == a && b == c)))",
    "self.l.all(x, x in self.l.map(y, y))",
    "self.l.all(i, self.s.matches('(.*a){400}b'))",
    "self.l.all(a, size(self.s + self.s + self.s) > 0)",
    "self.l.map(x, x % 7).distinct().sort().sum() > 0",
    "lists.range(1000000000).size() > 0",
    "self.l.all(x, self.s.replace('', self.s).size() > 0)",
    "self.l.all(x, self.s.findAll('.').join(self.s).size() > 0)",
    "size([self.s]" + ".map(a, a + a)" * 40 + "[0]) > 0",
    "self.l.all(x, '%s'.format([self.o]) != '')",
    "self.o == self.o.map(x, x) && self.l.all(x, self.o == self.o.map(y, y))",
    "self.l.all(x, self.s.split('').size() > 0 && sets.equivalent(self.l, self.l))",
    " + ".join(["self.o[0].tags"] * 100) + " != []",
]


@pytest.mark.parametrize("rule", EXPENSIVE)
@pytest.mark.parametrize("size", [10, 20_000])
def test_no_rule_takes_long_whatever_the_object(rule: str, size: int) -> None:
    value = {
        "l": list(range(size)),
        "s": "ab" * size,
        "o": [{"name": f"n{i}", "value": i, "tags": ["x", "y"]} for i in range(size)],
    }
    seconds, (found, spent) = cpu(lambda: outcome(rule, value))
    assert seconds < SECONDS_MAX
    assert (spent > COST_MAX) == any(OVER in text for text in found)


def test_rules_of_one_write_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cheap rule for each of many items: what they cost together counts."""
    rule = {"rule": "self.tags.all(t, self.tags.exists_one(u, u == t))", "message": "tags are unique"}
    item = {
        "type": "object",
        "x-kubernetes-validations": [rule],
        "properties": {"tags": {"type": "array", "maxItems": 50, "items": {"type": "string", "maxLength": 9}}},
    }
    schema = {"type": "object", "properties": {"items": {"type": "array", "maxItems": 5_000, "items": item}}}
    one = {"tags": [f"t{i}" for i in range(50)]}
    assert causes(schema, {"items": [one] * 3}) == []
    monkeypatch.setattr("api.engine.rules.COST_MAX", COST_MAX // 10)
    seconds, found = cpu(lambda: causes(schema, {"items": [one] * 5_000}))
    assert seconds < SECONDS_MAX
    assert len(found) == 1
    assert EXCEEDED in found[0]
    assert found[0].startswith("spec.items[")


def test_ordinary_rules_run() -> None:
    value = {"parts": [{"name": f"n{i}", "weight": i} for i in range(64)], "word": "abc"}
    for rule in (
        "self.parts.all(a, self.parts.exists_one(b, a.name == b.name))",
        "self.parts.map(p, p.weight).all(w, w >= 0)",
        "self.word.matches('^[a-c]+$') && matches(self.word, 'b')",
        "self.parts.filter(p, p.weight > 60).size() == 3",
        "!has(self.missing) || self.missing == 1 ? true : false",
        r"""self.word != "matches('a')" || r"\d" == self.word""",
    ):
        assert outcome(rule, value)[0] == []
    assert outcome("self.word == 'x'", value)[0] == ["Invalid value: failed rule: self.word == 'x'"]
    said = outcome("self.missing == 1", value)[0]
    assert said == ['Invalid value: "object": no such key: missing evaluating rule: self.missing == 1']
    assert "evaluating rule" in outcome("self.word.matches(self.word + '(?=a)')", value)[0][0]


@pytest.mark.parametrize(
    "text",
    [
        "1" + "+1" * CHARACTERS_MAX,
        "1" + "+1" * 1_000,
        "(" * 1_000 + "1" + ")" * 1_000,
        "[" * 60 + "]" * 60,
        "true?1:" * 100 + "1",
        "self" + ".a" * 2_000,
    ],
    ids=["long", "chain", "brackets", "lists", "conditions", "fields"],
)
def test_a_rule_that_would_need_a_deep_stack_is_refused(text: str) -> None:
    with pytest.raises(ExpressionTooLarge):
        parse(text)
    body = crd({"type": "object", "x-kubernetes-validations": [{"rule": text}]})
    place = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    assert [cause.field for cause in validate(body)] == [place]
    assert validate(body, stored=True) == []
    assert causes({"type": "object", "x-kubernetes-validations": [{"rule": text}]}, {}) == []


def test_the_longest_expressions_that_pass_are_compiled_and_run() -> None:
    alike = " && ".join(["self.word == 'a'"] * 140)
    for text in ("1" + "+1" * 148 + ">0", "!" * 4_000 + "true", alike, "-" * 31 + "1<0", "(" * 35 + "true" + ")" * 35):
        seconds, (found, _) = cpu(lambda text=text: outcome(text, {"word": "a"}))
        assert seconds < SECONDS_MAX
        assert found == []


@pytest.mark.parametrize("text", ["", "self.", "a b", "self.all(", "'abc", "§", "[1,,2]", "a ? b"])
def test_what_is_no_expression_is_a_rule_with_an_error(text: str) -> None:
    with pytest.raises(BadExpression):
        parse(text)
    assert compile_rules({"type": "object", "x-kubernetes-validations": [{"rule": text}]})[0].error


def test_a_rule_too_expensive_for_what_its_schema_lets_through_is_refused_with_its_crd() -> None:
    rule = {"rule": "self.all(a, self.all(b, a.name != b.name || a == b))"}
    items = {"type": "object", "properties": {"name": {"type": "string"}}}
    unbounded = {"type": "array", "items": items, "x-kubernetes-validations": [rule]}
    found = validate(crd({"type": "object", "properties": {"a": unbounded}}))
    place = "spec.validation.openAPIV3Schema.properties[spec].properties[a].x-kubernetes-validations[0].rule"
    assert found[0].field == place
    assert "estimated rule cost exceeds budget by factor of more than 100x" in found[0].message
    items = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}}
    bounded = {"type": "array", "maxItems": 64, "items": items, "x-kubernetes-validations": [rule]}
    assert validate(crd({"type": "object", "properties": {"a": bounded}})) == []


@pytest.mark.parametrize(
    "rule",
    [
        "self == oldSelf",
        "self.size > 0 && self.size < 10",
        "self.tags.all(t, t.startsWith('a'))",
        "has(self.word) != has(self.size)",
        "self.tags.exists(t, t == 'a')",
        "size(self.word) < 64",
    ],
)
def test_common_rules_pass_with_nothing_bounded(rule: str) -> None:
    schema = {
        "type": "object",
        "x-kubernetes-validations": [{"rule": rule}],
        "properties": {
            "size": {"type": "integer"},
            "word": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}},
        },
    }
    assert validate(crd(schema)) == []
