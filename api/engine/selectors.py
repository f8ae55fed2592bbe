"""Label and field selectors: from their text, or from a LabelSelector object, to a test on a body.

The texts of refusals are those of k8s.io/apimachinery, since kubectl shows them as they come.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from api.engine.bounds import int64
from api.engine.kind import Body, Kind
from api.engine.status import StatusError, bad_request
from api.engine.validate import value_text
from fleet.values import untyped
from fleet.values.jsonpath import BadPath, find
from fleet.values.names import label_value_problems, qualified_name_problems
from fleet.values.untyped import mapping, texts

Test = Callable[[Body], bool]

_TOKEN = re.compile(r"\s*(==|!=|=|!|,|\(|\)|<|>|[^\s=!,()<>]+)")
_SYMBOLS = frozenset({"=", "==", "!=", "!", ",", "(", ")", "<", ">"})
_OPERATORS = "in, notin, =, ==, !=, gt, lt"

REQUIREMENTS_MAX = 100  # of one selector: each may be asked of each object of a list
PRESENT = frozenset({"in", "exists", "gt", "lt"})  # operators that no object without the label satisfies
MARKED_MAX = 8  # values that are looked for one by one in an object
KEPT_CHARS = 512  # of a selector's text whose meaning is remembered


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on labels. `operator`: in, notin, exists, !, gt, lt."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, labels: Mapping[str, Any]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "in":
                return value in self.values
            case "notin":  # a label that is absent is in no set
                return value not in self.values
            case "exists":
                return self.key in labels
            case "!":
                return self.key not in labels
        bound = int(next(iter(self.values)))
        number = int64(value) if value.__class__ is str else None
        return number is not None and (number > bound if self.operator == "gt" else number < bound)


def holds(requirements: tuple[Requirement, ...], labels: Mapping[str, Any] | None) -> bool:
    present = labels or {}
    return all(requirement.holds(present) for requirement in requirements)


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """`a=b,c!=d,e in (f,g),h,!i,j>3`. StatusError 400 names the text that was found and the text that was expected."""
    return _known_labels(text) if len(text) <= KEPT_CHARS else _parsed_labels(text)


def _parsed_labels(text: str) -> tuple[Requirement, ...]:
    return tuple(_Parser(text).parse())


_known_labels = lru_cache(maxsize=1024)(_parsed_labels)


def labels_test(text: str) -> Test:
    """A test that costs what the object's labels cost, however many requirements there are."""
    requirements = parse_labels(text)
    absent = frozenset(wanted.key for wanted in requirements if wanted.operator == "!")
    present = frozenset(wanted.key for wanted in requirements if wanted.operator in PRESENT)
    excluded: dict[str, frozenset[str]] = {}
    for wanted in requirements:
        if wanted.operator == "notin":
            excluded[wanted.key] = excluded.get(wanted.key, frozenset()) | wanted.values
    comparisons = tuple(wanted for wanted in requirements if wanted.operator in ("in", "gt", "lt"))

    def test(body: Body) -> bool:
        labels = body["metadata"].get("labels") or {}
        if absent and not absent.isdisjoint(labels):
            return False
        if present and not present <= labels.keys():
            return False
        if excluded and any(value in excluded.get(key, ()) for key, value in labels.items()):
            return False
        return all(wanted.holds(labels) for wanted in comparisons)

    return test


def marks_of_labels(requirements: Iterable[Requirement]) -> tuple[tuple[bytes, ...], ...]:
    """For each requirement byte strings, one of which is in the JSON, as orjson writes it, of all that satisfy it.
    Labels have no characters that JSON escapes. `requirements`: with an operator in PRESENT."""
    return tuple(
        tuple(f'"{one.key}":"{value}"'.encode() for value in one.values)
        if one.operator == "in" and len(one.values) <= MARKED_MAX
        else (f'"{one.key}":'.encode(),)
        for one in requirements
    )


def from_object(selector: Mapping[str, Any] | None) -> tuple[Requirement, ...]:
    """A LabelSelector {matchLabels, matchExpressions}: no requirement at all selects everything. ValueError names a
    wrong operator."""
    out: list[Requirement] = []
    for key, value in mapping(mapping(selector).get("matchLabels")).items():
        out.append(Requirement(key, "in", frozenset({untyped.text(value)})))
    for expression in mapping(selector).get("matchExpressions") or ():
        if expression.__class__ is not dict:
            raise ValueError(f"{value_text(expression)} is not a requirement")
        key, values = untyped.text(expression.get("key")), frozenset(texts(expression.get("values")))
        match expression.get("operator"):
            case "In":
                out.append(Requirement(key, "in", values))
            case "NotIn":
                out.append(Requirement(key, "notin", values))
            case "Exists":
                out.append(Requirement(key, "exists"))
            case "DoesNotExist":
                out.append(Requirement(key, "!"))
            case other:
                raise ValueError(f"{value_text(other)} is not a valid label selector operator")
    return tuple(out)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def parse(self) -> list[Requirement]:
        out: list[Requirement] = []
        first = self._peek()
        if first in _SYMBOLS and first != "!":
            raise bad_request(f"found '{first}', expected: !, identifier, or 'end of string'")
        while self._peek():
            out.append(self._requirement())
            if len(out) > REQUIREMENTS_MAX:
                raise bad_request(f"a selector may have {REQUIREMENTS_MAX} requirements at most")
            token = self._next()
            if token == ",":
                if not self._peek() or (self._peek() in _SYMBOLS and self._peek() != "!"):
                    raise bad_request(f"found '{self._peek()}', expected: identifier after ','")
            elif token:
                raise bad_request(f"found '{token}', expected: ',' or 'end of string'")
        return out

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _requirement(self) -> Requirement:
        absent = self._peek() == "!"
        if absent:
            self._next()
        key = self._next()
        if not key or key in _SYMBOLS:
            raise _unparsed(f"found '{key}', expected: identifier")
        problems = qualified_name_problems(key)
        if problems:
            raise _unparsed(f"<nil>: Invalid value: {value_text(key)}: {'; '.join(problems)}")
        if absent:
            return Requirement(key, "!")
        if self._peek() in ("", ","):
            return Requirement(key, "exists")
        return self._operation(key)

    def _operation(self, key: str) -> Requirement:
        operator = self._next()
        match operator:
            case "=" | "==" | "!=":
                value = "" if self._peek() in ("", ",") else self._next()
                if value in _SYMBOLS:
                    raise _unparsed(f"found '{value}', expected: identifier")
                self._check_value(key, value)
                return Requirement(key, "notin" if operator == "!=" else "in", frozenset({value}))
            case "in" | "notin":
                return Requirement(key, operator, self._values(key))
            case ">" | "<" | "gt" | "lt":
                value = self._next()
                if int64(value) is None:
                    text = "for 'Gt', 'Lt' operators, the value must be an integer"
                    raise _unparsed(f"values[0]: Invalid value: {value_text(value)}: {text}")
                return Requirement(key, "gt" if operator in (">", "gt") else "lt", frozenset({value}))
        raise _unparsed(f"found '{operator}', expected: {_OPERATORS}")

    def _values(self, key: str) -> frozenset[str]:
        opened = self._next()
        if opened != "(":
            raise _unparsed(f"found '{opened}' expected: '('")
        values: set[str] = set()
        expected_value = True
        while True:
            token = self._next()
            if token == ")":
                if expected_value:
                    values.add("")
                return frozenset(values)
            if token == ",":
                if expected_value:
                    values.add("")
                expected_value = True
            elif not token or token in _SYMBOLS or not expected_value:
                raise _unparsed(f"found '{token}', expected: ',' or ')'")
            else:
                self._check_value(key, token)
                values.add(token)
                expected_value = False

    @staticmethod
    def _check_value(key: str, value: str) -> None:
        problems = label_value_problems(value)
        if problems:
            raise _unparsed(f"values[0][{key}]: Invalid value: {value_text(value)}: {'; '.join(problems)}")


def _unparsed(text: str) -> StatusError:
    return bad_request(f"unable to parse requirement: {text}")


# -- fields


@dataclass(frozen=True, slots=True)
class FieldTerm:
    path: str
    value: str
    negated: bool = False


def split_fields(text: str) -> tuple[FieldTerm, ...]:
    """`metadata.name=a,status.phase!=Running` as terms; `\\,`, `\\=` and `\\\\` are escapes. StatusError 400."""
    return _known_fields(text) if len(text) <= KEPT_CHARS else _split_fields(text)


def _split_fields(text: str) -> tuple[FieldTerm, ...]:
    terms: list[FieldTerm] = []
    for part in re.split(r"(?<!\\),", text):
        if not part:
            continue
        found = re.match(r"([^=!\\]+)(==|!=|=)(.*)\Z", part)
        if found is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        path, operator, value = found.groups()
        if re.search(r"(?<!\\)=", value):
            raise bad_request("invalid field selector: unescaped character in value: 61")
        terms.append(FieldTerm(path, re.sub(r"\\([\\,=])", r"\1", value), operator == "!="))
    if len(terms) > REQUIREMENTS_MAX:
        raise bad_request(f"a selector may have {REQUIREMENTS_MAX} requirements at most")
    return tuple(terms)


_known_fields = lru_cache(maxsize=1024)(_split_fields)


def parse_fields(kind: Kind, text: str) -> tuple[FieldTerm, ...]:
    """The terms, every path of which the kind can be selected by; else StatusError 400."""
    terms = split_fields(text)
    known = {"metadata.name", *(("metadata.namespace",) if kind.namespaced else ()), *kind.selectable}
    for term in terms:
        if term.path not in known:
            if kind.builtin and not kind.selectable:
                raise bad_request(
                    f'"{term.path}" is not a known field selector: only "metadata.name", "metadata.namespace"'
                )
            raise bad_request(f"field label not supported: {term.path}")
    return terms


def marks_of_fields(terms: Iterable[FieldTerm]) -> tuple[tuple[bytes, ...], ...]:
    """As `marks_of_labels`: a text that a field has is in the JSON. What may be a number or a boolean has no mark."""
    return tuple((orjson.dumps(term.value),) for term in terms if not term.negated and _is_text(term.value))


def _is_text(value: str) -> bool:
    """Whether a field that selectors see as this can only be a string (see `field_text`)."""
    if value in ("", "true", "false") or value[0] in "{[":
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


def fields_test(kind: Kind, text: str) -> Test:
    equal: dict[str, str] = {}
    other: dict[str, set[str]] = {}
    never = False
    for term in parse_fields(kind, text):
        if term.negated:
            other.setdefault(term.path, set()).add(term.value)
        elif equal.setdefault(term.path, term.value) != term.value:
            never = True

    def test(body: Body) -> bool:
        return (
            not never
            and all(field_text(body, path) == value for path, value in equal.items())
            and all(field_text(body, path) not in values for path, values in other.items())
        )

    return test


def field_text(body: Body, path: str) -> str:
    """A field as selectors see it: "" when absent, numbers and booleans in words."""
    value: Any = body
    if path.replace(".", "").isalnum():
        for key in path.split("."):
            value = value.get(key) if value.__class__ is dict else None
    else:
        try:
            found = find(body, path if path.startswith((".", "[")) else "." + path)
        except BadPath:
            return ""
        value = found[0] if found else None
    if path == "source":
        return event_source(body)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def event_source(body: Body) -> str:
    """The field `source` of an Event by which clients select: its component, in the old field or in the new one."""
    source = body.get("source")
    component = source.get("component") if source.__class__ is dict else None
    return str(component or body.get("reportingComponent") or "")


def both(kind: Kind, labels: str, fields: str) -> Test | None:
    """One test for the two parameters of a list or watch; None when neither is given."""
    tests = ([labels_test(labels)] if labels else []) + ([fields_test(kind, fields)] if fields else [])
    if not tests:
        return None
    return tests[0] if len(tests) == 1 else lambda body: all(test(body) for test in tests)
