"""A small language for what Kubernetes requires of its own kinds.

A `Check` gets an object and its path, and yields causes. `at` leads checks to a place: `containers[]` is each item of a
list, `labels{}` each value of a map. The others are named for what they require of a field. The words of each refusal
are those of pkg/apis/*/validation of Kubernetes 1.36. The schema has passed: types are right, and nothing is null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from api.admission.causes import forbidden, invalid, required, unsupported
from api.engine.selectors import from_object, holds
from api.engine.status import Cause
from fleet.values import names
from fleet.values.quantity import BadQuantity, nanos

Object = Mapping[str, Any]
Check = Callable[[Object, str], Iterable[Cause]]

NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
_PORT_MAX = 65535
_PERCENT = re.compile(r"[0-9]{1,18}%")
_PERCENT_TEXT = (
    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
    "validation is '[0-9]+%')"
)
_QUANTITY_FORM = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def join(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def every(*checks: Check) -> Check:
    """All the checks, of one object."""

    def check(obj: Object, path: str) -> Iterator[Cause]:
        for one in checks:
            yield from one(obj, path)

    return check


def at(place: str, *checks: Check) -> Check:
    """The checks, of each object at `place`."""
    steps = place.split(".")
    inner = every(*checks)

    def walk(obj: Object, path: str, index: int) -> Iterator[Cause]:
        if index == len(steps):
            yield from inner(obj, path)
            return
        step = steps[index]
        name = step.removesuffix("[]").removesuffix("{}")
        value = obj.get(name)
        field = join(path, name)
        if step.endswith("[]"):
            for position, item in enumerate(value or ()):
                yield from walk(item, f"{field}[{position}]", index + 1)
        elif step.endswith("{}"):
            for key, item in (value or {}).items():
                yield from walk(item, f"{field}[{key}]", index + 1)
        elif value is not None:
            yield from walk(value, field, index + 1)

    return lambda obj, path: walk(obj, path, 0)


def of_spec(*checks: Check) -> Check:
    """The checks, of the spec; where there is none, Go makes an empty one."""
    inner = every(*checks)
    return lambda body, path: inner(body.get("spec") or {}, "spec")


def of(field: str, judge: Callable[[Any], Iterable[str]]) -> Check:
    """Each fault that `judge` names in the field, where it is not empty."""

    def check(obj: Object, path: str) -> Iterator[Cause]:
        value = obj.get(field)
        if value not in (None, "", []):
            yield from (invalid(join(path, field), value, why) for why in judge(value))

    return check


def needed(*fields: str) -> Check:
    """The fields are there, and not empty."""

    def check(obj: Object, path: str) -> Iterator[Cause]:
        yield from (required(join(path, field)) for field in fields if obj.get(field) in (None, "", [], {}))

    return check


def natural(*fields: str) -> Check:
    """No number is negative."""

    def check(obj: Object, path: str) -> Iterator[Cause]:
        for field in fields:
            value = obj.get(field)
            if value is not None and value < 0:
                yield invalid(join(path, field), value, NEGATIVE)

    return check


def between(field: str, low: int, high: int) -> Check:
    return of(field, lambda value: () if low <= value <= high else (f"must be between {low} and {high}, inclusive",))


def one_of(field: str, *supported: str, needed: bool = True) -> Check:
    """The field is one of the texts; with `needed` it may not be empty either."""

    def check(obj: Object, path: str) -> Iterator[Cause]:
        value = obj.get(field)
        if value in (None, ""):
            if needed:
                yield required(join(path, field))
        elif value not in supported:
            yield unsupported(join(path, field), value, supported)

    return check


def subset_of(field: str, *supported: str) -> Check:
    """Every item of the list is one of the texts."""

    def check(obj: Object, path: str) -> Iterator[Cause]:
        for index, value in enumerate(obj.get(field) or ()):
            if value not in supported:
                yield unsupported(f"{join(path, field)}[{index}]", value, supported)

    return check


def label(field: str) -> Check:
    """A DNS label of 63 characters."""
    return of(field, names.label_problems)


def subdomain(field: str) -> Check:
    return of(field, names.subdomain_problems)


def port_problems(value: Any) -> Iterable[str]:
    return () if 1 <= value <= _PORT_MAX else (f"must be between 1 and {_PORT_MAX}, inclusive",)


def immutable(new: Object, old: Object, path: str, *fields: str) -> Iterator[Cause]:
    """A cause for each field that the write changes."""
    for field in fields:
        if new.get(field) != old.get(field):
            yield invalid(join(path, field), new.get(field), IMMUTABLE)


def amount(value: Any, path: str, *, whole: bool = False) -> Iterator[Cause]:
    """A quantity that is not negative, and with `whole` an integer."""
    try:
        parts = nanos(value)
    except BadQuantity:
        yield invalid(path, value, _QUANTITY_FORM)
        return
    if parts < 0:
        yield invalid(path, value, NEGATIVE)
    if whole and parts % 10**9:
        yield invalid(path, value, "must be an integer")


def number_or_percent(value: Any, path: str) -> Iterator[Cause]:
    """A number that is not negative, or a percentage."""
    if isinstance(value, str):
        if not _PERCENT.fullmatch(value):
            yield invalid(path, value, _PERCENT_TEXT)
    elif isinstance(value, int) and value < 0:
        yield invalid(path, value, NEGATIVE)


def at_most_all(value: Any, path: str) -> Iterator[Cause]:
    """No more than 100 %."""
    if isinstance(value, str) and _PERCENT.fullmatch(value) and int(value[:-1]) > 100:
        yield invalid(path, value, "must not be greater than 100%")


def metadata_name(judge: Callable[[str], Iterable[str]]) -> Check:
    """The object's own name, where its kind allows less than a DNS subdomain."""

    def check(obj: Object, path: str) -> Iterator[Cause]:
        name = obj["metadata"].get("name") or ""
        yield from (invalid("metadata.name", name, why) for why in judge(name))

    return check


def labels_at(labels: Object | None, path: str) -> Iterator[Cause]:
    """Labels, a node selector or the labels of a selector."""
    for key, value in (labels or {}).items():
        yield from (invalid(path, key, why) for why in names.qualified_name_problems(key))
        yield from (invalid(path, value, why) for why in names.label_value_problems(value))


def selector_at(selector: Object | None, path: str) -> Iterator[Cause]:
    """A label selector."""
    if selector is None:
        return
    yield from labels_at(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, term in enumerate(selector.get("matchExpressions") or ()):
        place, operator = f"{path}.matchExpressions[{index}]", term.get("operator") or ""
        if operator in ("In", "NotIn"):
            if not term.get("values"):
                yield required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if term.get("values"):
                yield forbidden(f"{place}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        else:
            yield invalid(f"{place}.operator", operator, "not a valid selector operator")
        key = term.get("key") or ""
        yield from (invalid(f"{place}.key", key, why) for why in names.qualified_name_problems(key))
        for position, value in enumerate(term.get("values") or ()):
            problems = names.label_value_problems(value)
            yield from (invalid(f"{place}.values[{position}]", value, why) for why in problems)


def readable(selector: Object) -> bool:
    """Whether a selector can be asked at all. One that cannot is refused for that alone."""
    operators = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
    terms = selector.get("matchExpressions") or ()
    return all(operators.get(term.get("operator")) is bool(term.get("values")) for term in terms)


def matches(selector: Object, labels: Object | None) -> bool:
    """Whether a readable selector takes the labels."""
    return holds(from_object(selector), labels or {})
