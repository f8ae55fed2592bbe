"""Label and field selectors of a request, as one test on a body.

The same test runs on stored objects and on what the log keeps of previous states, so it reads nothing but labels,
name, namespace and the selectable fields of the kind.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from api.http import Request
from fleet.engine.kind import Kind
from fleet.engine.meta import is_label_value, is_qualified_name
from fleet.engine.status import bad_request
from fleet.ports import Body, Selector

Test = Callable[[Mapping[str, Any]], bool]
MAX_SELECTOR_CHARS = 65_536


@dataclass(frozen=True, slots=True)
class Selection:
    """`selector` is None when everything is selected; `name` is set when it can only be one object."""

    selector: Selector | None = None
    name: str | None = None


EVERYTHING = Selection()
_LABEL = re.compile(
    r"""\s*(?:
      (?P<absent>!)\s*(?P<key1>[^\s=!,()<>]+)
    | (?P<key2>[^\s=!,()<>]+)\s+(?P<in>in|notin)\s*\(\s*(?P<values>[^()]*)\)
    | (?P<key3>[^\s=!,()<>]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s=!,()<>]*)
    | (?P<key4>[^\s=!,()<>]+)\s*(?P<cmp>[<>])\s*(?P<number>-?\d+)
    | (?P<key5>[^\s=!,()<>]+)
    )\s*(?:,|$)""",
    re.VERBOSE,
)


def parse_selection(request: Request, kind: Kind) -> Selection:
    """The request's labelSelector and fieldSelector; StatusError 400 for one that does not parse."""
    query = request.query
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not labels and not fields:
        return EVERYTHING
    if len(labels) > MAX_SELECTOR_CHARS or len(fields) > MAX_SELECTOR_CHARS:
        raise bad_request("the selector is too long")
    tests: list[Selector] = []
    name = None
    if labels.strip():
        tests.append(label_selector(labels))
    if fields.strip():
        test, name = field_selector(fields, kind.kind, kind.api_version, kind.selectable)
        tests.append(test)
    if not tests:
        return EVERYTHING
    if len(tests) == 1:
        return Selection(tests[0], name)
    first, second = tests
    return Selection(lambda body: first(body) and second(body), name)


@lru_cache(maxsize=2048)
def label_selector(text: str) -> Selector:
    """A test on a body's labels for the text of a label selector; StatusError 400."""
    tests: list[Test] = []
    at = 0
    while at < len(text):
        match = _LABEL.match(text, at)
        if match is None or match.end() == at:
            raise bad_request(
                f'unable to parse requirement: found "{text[at : at + 60].strip()}", expected a requirement'
            )
        if text[match.end() - 1] == "," and not text[match.end() :].strip():
            raise bad_request(f'unable to parse requirement: "{text[:60]}" ends with a comma')
        tests.append(_requirement(match))
        at = match.end()
    wanted = tuple(tests)
    if len(wanted) == 1:
        only = wanted[0]
        return lambda body: only(body.get("metadata", {}).get("labels") or {})

    def test(body: Body) -> bool:
        labels = body.get("metadata", {}).get("labels") or {}
        return all(one(labels) for one in wanted)

    return test


def _requirement(match: re.Match[str]) -> Test:
    key = next(match[group] for group in ("key1", "key2", "key3", "key4", "key5") if match[group])
    problems = is_qualified_name(key)
    if problems:
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{key[:80]}": {problems[0]}')
    if match["absent"]:
        return lambda labels: key not in labels
    if match["in"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        for value in values:
            _check_value(value)
        if match["in"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: key not in labels or labels[key] not in values
    if match["op"]:
        value = match["value"]
        _check_value(value)
        if match["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if match["cmp"]:
        number, greater = int(match["number"]), match["cmp"] == ">"
        return lambda labels: _compares(labels.get(key), number, greater)
    return lambda labels: key in labels


def _check_value(value: str) -> None:
    problems = is_label_value(value)
    if problems:
        raise bad_request(f'unable to parse requirement: values[0]: Invalid value: "{value[:80]}": {problems[0]}')


def _compares(value: Any, number: int, greater: bool) -> bool:
    try:
        return int(value) > number if greater else int(value) < number
    except (TypeError, ValueError):
        return False


@lru_cache(maxsize=2048)
def field_selector(text: str, kind: str, api_version: str, selectable: tuple[str, ...]) -> tuple[Selector, str | None]:
    """A test on a body's fields, and the one name it can be; StatusError 400 for fields that cannot be selected."""
    tests: list[tuple[tuple[str, ...], str, bool]] = []
    name = None
    for term in _split(text):
        if not term.strip():
            continue
        path, operator, value = _term(term)
        if path not in ("metadata.name", "metadata.namespace") and path not in selectable:
            raise bad_request(f"field label not supported: {path[:80]}")
        equal = operator != "!="
        if path == "metadata.name" and equal:
            name = value
        tests.append((tuple(path.split(".")), value, equal))
    wanted = tuple(tests)

    def test(body: Body) -> bool:
        for steps, value, equal in wanted:
            found: Any = body
            for step in steps:
                found = found.get(step) if isinstance(found, dict) else None
            if (_text(found) == value) is not equal:
                return False
        return True

    return test, name


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _split(text: str) -> list[str]:
    return re.split(r"(?<!\\),", text)


def _term(term: str) -> tuple[str, str, str]:
    match = re.match(r"([^=!\\]+)(==|!=|=)(.*)$", term, re.DOTALL)
    if match is None:
        raise bad_request(f"invalid selector: '{term[:80]}'; can't understand '{term[:80]}'")
    return match[1].strip(), match[2], re.sub(r"\\(.)", r"\1", match[3])
