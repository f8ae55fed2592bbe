"""CEL: what expressions are worth, what they cost, and what is wrong with them."""

from __future__ import annotations

from typing import Any

import cel
import pytest

from fleet.values.cel.kubernetes import AuthorizerQuestion
from fleet.values.cel.program import BadExpression, Budget, NoValue, OverBudget, Program, compile_expression
from fleet.values.cel.shapes import escaped, type_of_schema
from fleet.values.cel.types import AUTHORIZER, BOOL, DYN, Type

SCHEMA = {
    "type": "object",
    "properties": {
        "x": {"type": "integer"},
        "s": {"type": "string"},
        "n": {"type": "number"},
        "when": {"type": "string", "format": "date-time"},
        "times": {"type": "array", "items": {"type": "string", "format": "date-time"}},
        "l": {"type": "array", "items": {"type": "integer"}},
        "m": {"type": "object", "additionalProperties": {"type": "integer"}},
        "q": {
            "type": "array",
            "items": {"type": "object", "properties": {"n": {"type": "string"}, "f": {"type": "number"}}},
        },
        "namespace": {"type": "string"},
        "a-b": {"type": "string"},
        "ios": {"x-kubernetes-int-or-string": True},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "keyed": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
        },
    },
}
VALUES: dict[str, Any] = {
    "x": 3,
    "s": "abc",
    "n": 2,
    "when": "2020-01-02T03:04:05Z",
    "l": [1, 2, 3],
    "m": {"a": 1, "b": 2},
    "times": ["2020-01-01T00:00:00Z", "2021-01-01T00:00:00+01:00"],
    "q": [{"n": "a", "f": 1}, {"n": "b"}],
    "namespace": "ns",
    "a-b": "ab",
    "ios": "50%",
    "set": ["a", "b"],
    "keyed": [{"k": "a", "v": 1}, {"k": "b"}],
}
SELF = type_of_schema(SCHEMA)
assert SELF is not None
NAMES: dict[str, Type] = {"self": SELF, "d": DYN}
BUDGET = 1_000_000


def run(text: str, values: dict[str, Any] | None = None) -> tuple[Any, int]:
    """(the value, the cost)"""
    budget = Budget(BUDGET)
    program: Program = compile_expression(text, NAMES)
    value = program.evaluate({"self": VALUES, "d": {"foo": {"bar": 3}}, **(values or {})}, budget)
    return value, BUDGET - budget.balance


@pytest.mark.parametrize(
    "text",
    [
        "self.x == 3 && self.n / 4.0 == 0.5 && self.q[0].f == 1.0",
        "self.when.getFullYear() == 2020 && self.when.getHours('+02:00') == 5",
        "self.times.all(t, t < timestamp('2022-01-01T00:00:00Z')) && self.times[1].getHours() == 23",
        "self.__namespace__ == 'ns' && self.namespace == 'ns' && self.a__dash__b == 'ab'",
        r"type(self.ios) == string && self.ios.matches(r'(\d+(\.\d+)?%)')",
        "self.set == ['b', 'a'] && self.l != [3, 2, 1]",
        "self.l.map(x, x * 2).sum() == 12 && self.l.map(x, x > 1, x + 1) == [3, 4]",
        "self.m.transformMap(k, v, v + 1) == {'a': 2, 'b': 3} && self.l.transformList(i, v, i * v) == [0, 2, 6]",
        "self.m.all(k, v, v < 3) && self.l.exists(i, v, i == 2 && v == 3) && self.l.exists_one(i, v, v == 2)",
        "self.m.transformMapEntry(k, v, {k + 'x': v}) == {'ax': 1, 'bx': 2}",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('1') == quantity('1000m')",
        "quantity('50k').add(20).sub(quantity('1')).asInteger() == 50019 && !isQuantity('x')",
        "ip('::1').isLoopback() && cidr('10.0.0.0/8').containsIP('10.1.2.3') && !isIP('10.0.0')",
        "cidr('10.1.0.0/8').masked() == cidr('10.0.0.0/8') && string(cidr('10.0.0.0/8').ip()) == '10.0.0.0'",
        "cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('::/0').prefixLength() == 0",
        "url('https://a.b:8080/c d?x=1&y=2').getPort() == '8080' && url('/p?x=1').getQuery() == {'x': ['1']}",
        "url('https://[::1]:80/').getHostname() == '::1' && !isURL('a b')",
        "'%s is %d and %.2f %x %s'.format(['a', 1, 2.5, 255, [1, 2]]) == 'a is 1 and 2.50 ff [1, 2]'",
        "format.dns1123Label().validate('A').hasValue() && !format.uuid().validate(self.s).hasValue() == false",
        "!format.named('nothing').hasValue() && format.named('date').value().validate('2020-01-01') == optional.none()",
        "self.?x.orValue(1) == 3 && self.q[?5].?n.orValue('none') == 'none' && self.q[?1].?f == optional.none()",
        "optional.of(1).optMap(v, v + 1).value() == 2 && optional.ofNonZeroValue(0).or(optional.of(5)).value() == 5",
        "[3, 1, 2].sort() == [1, 2, 3] && self.q.sortBy(e, e.n)[0].n == 'a' && [1, 2, 2].distinct() == [1, 2]",
        "[[1], [2, 3]].flatten() == [1, 2, 3] && [1, 2, 3].slice(1, 3) == [2, 3] && lists.range(2).reverse() == [1, 0]",
        "sets.contains(self.l, [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 2], [2, 1, 1])",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('v1.2', true).major() == 1 && !isSemver('1.2')",
        "'a,b'.split(',') + ['x'].map(z, z + 'y') == ['a', 'b', 'xy'] && ['a', 'b'].join('-') == 'a-b'",
        "'abc'.replace('b', 'xx').upperAscii() == 'AXXC' && ' a '.trim() == 'a' && 'abc'.substring(1, 2) == 'b'",
        "'abcabc'.findAll('[ab]') == ['a', 'b', 'a', 'b'] && 'abc'.find('b+') == 'b' && 'abc'.lastIndexOf('c') == 2",
        "duration('90m').getHours() == 1 && string(duration('90m')) == '5400s' && duration('1h') > duration('59m')",
        "timestamp('2020-01-01T00:00:00Z') + duration('1h') == timestamp('2020-01-01T01:00:00Z')",
        "'a' in self.m && 2 in self.l && !('z' in self.m) && has(self.x) && !has(self.q[1].f)",
        "[1, 2].exists(x, 1 / (x - 1) > 0) && (1 / 0 > 0 || true) && !(false && 1 / 0 > 0)",
        "b'ab' == bytes('ab') && 7 % 4 == 3 && -7 / 2 == -3 && -7 % 4 == -3 && 1u + 2u == 3u && dyn(1) == 1u",
        "{'a': 1, ?'b': self.q[1].?f.optMap(v, 2)} == {'a': 1} && [1, ?optional.none()] == [1]",
        "strings.quote('a\"b') == '\"a\\\\\"b\"' && string(1.5) == '1.5' && int('7') == 7 && double('1') == 1.0",
        "type(1) == int && type(self) == type(self) && type(self.when) == google.protobuf.Timestamp",
        "self.l.min() == 1 && self.l.max() == 3 && self.l.isSorted() && self.l.first().value() == 1",
        "self.x == 3 ? self.s == 'abc' : 1 / 0 == 0",
        "d.foo.bar == 3 && has(d.foo) && !has(d.other)",
    ],
)
def test_an_expression_holds(text: str) -> None:
    assert run(text)[0] is True


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("self.q[1].f > 0.0", "no such key: f"),
        ("self.l[7] == 1", "index out of bounds: 7"),
        ("self.m['c'] == 1", "no such key: c"),
        ("1 / 0 == 1", "division by zero"),
        ("1 % 0 == 1", "modulus by zero"),
        ("dyn('a') + 1 == 1", "no such overload"),
        ("9223372036854775807 + 1 == 1", "integer overflow"),
        ("1u - 2u == 1u", "unsigned integer overflow"),
        ("[1, 2].all(x, 1 / (x - 1) >= 0)", "division by zero"),
        ("quantity('1.5').asInteger() == 1", "cannot convert value to integer"),
        ("optional.none().value() == 1", "optional.none() dereference"),
        ("[1].slice(0, 3) == [1]", "cannot slice(0, 3), list is length 1"),
        ("'abc'.charAt(9) == 'a'", "index out of range: 9"),
        ("ip('10.0.0.1%eth0').family() == 4", "IP Address "),
    ],
)
def test_an_expression_without_a_value_says_why(text: str, fault: str) -> None:
    with pytest.raises(NoValue) as raised:
        run(text)
    assert str(raised.value).startswith(fault)


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("self.y == 1", "1:5", "undefined field 'y'"),
        ("self.x == 'a'", "1:8", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.l.all(x, y)", "1:15", "undeclared reference to 'y' (in container '')"),
        ("self.x.all(k, true)", "1:5", "expression of type 'int' cannot be range of a comprehension"),
        ("self.x &&\n self.s", "2:6", "expected type 'bool' but found 'string'"),
        ("[1, 'a'] == []", "1:5", "expected type 'int' but found 'string'"),
        ("self.s.matches('[')", "1:16", "invalid matches argument"),
        ("timestamp('x') == self.when", "1:11", "invalid timestamp argument"),
        ("has(self)", "1:5", "invalid argument to has() macro"),
        ("for == 1", "1:1", "reserved identifier: for"),
        ("self.x == 99999999999999999999", "1:11", "invalid int literal"),
        ("self.x ==", "1:10", "Syntax error: mismatched input '<EOF>' expecting"),
        ("(self.x", "1:8", "Syntax error: missing ')' at '<EOF>'"),
        ("'%d'.format([1, 2]) == ''", "1:12", "too many arguments supplied to string.format (expected 1, got 2)"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, place: str, problem: str) -> None:
    with pytest.raises(BadExpression) as raised:
        compile_expression(text, NAMES)
    assert f"ERROR: <input>:{place}: {problem}" in str(raised.value)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        ("self.x == 3", 3),
        ("self.l.all(x, x > 0)", 18),
        ("self.s.contains('b')", 3),
        ("has(self.x)", 1),
        ("self.m.all(k, self.m[k] > 0)", 17),
        ("self.m.all(k, v, v > 0)", 13),
        ("self.m.exists_one(k, self.m[k] == 2)", 14),
        ("size(self.m.filter(k, self.m[k] > 1)) == 1", 26),
    ],
)
def test_the_cost_is_that_of_kubernetes(text: str, cost: int) -> None:
    assert run(text)[1] == cost


def test_what_costs_too_much_is_stopped() -> None:
    with pytest.raises(OverBudget):
        run("self.l.all(x, self.l.all(y, self.l.all(z, x + y + z >= 0)))", {"self": {"l": list(range(200))}})


def test_the_outcome_has_the_type_that_is_wanted() -> None:
    with pytest.raises(BadExpression, match="must evaluate to bool"):
        compile_expression("self.x", NAMES, BOOL)
    assert compile_expression("self.x > 1", NAMES, BOOL).uses == {"self"}


def test_an_authorizer_is_asked() -> None:
    class Asked:
        def authorize(self, asked: dict[str, str]) -> tuple[bool, str, str]:
            return asked == {"group": "apps", "resource": "deployments", "name": "a", "verb": "get"}, "so", ""

    text = "authorizer.group('apps').resource('deployments').name('a').check('get').allowed()"
    program = compile_expression(text, {"authorizer": AUTHORIZER}, BOOL)
    assert program.evaluate({"authorizer": AuthorizerQuestion(Asked())}, Budget(BUDGET)) is True


def test_names_of_fields_are_escaped() -> None:
    assert [escaped(name) for name in ("a", "a-b", "a.b/c", "a__b", "for", "1a", "ä")] == [
        "a",
        "a__dash__b",
        "a__dot__b__slash__c",
        "a__underscores__b",
        "__for__",
        "",
        "",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "d.a + 1 == 2",
        "d.l.map(x, x * 2)",
        "d.l.filter(x, x > 1).size()",
        "d.l.exists_one(x, x == 2)",
        "d.t.size()",
        "d.t.contains('b') && d.t.startsWith('a') && d.t.endsWith('c')",
        "-7 / 2",
        "-7 % 4",
        "7.0 / 2.0",
        "d.l[1]",
        "d.m.all(k, d.m[k] > 0)",
        "'a' in d.m",
        "d.t < 'b'",
        "int('12') + int(3.9)",
        "true ? 1 : 2",
        "!false || d.a == 7",
        "has(d.a) && !has(d.b)",
        "d.t.matches('^a.c$')",
        "[1] + [2]",
    ],
)
def test_the_standard_means_what_a_library_means(text: str) -> None:
    values = {"d": {"a": 1, "l": [1, 2, 3], "t": "abc", "m": {"a": 1}}}
    ours = compile_expression(text, {"d": DYN}).evaluate(values, Budget(BUDGET))
    assert ours == cel.compile(text).execute(cel.Context(values))
