"""What becomes of each field of a spec, as data (fields.yaml): read, passed on, warned or refused.

Admission asks the table for the fields that have no effect, and for those that no object may have. The
writer hears of both when a write brings the field, or another value of it: a stored object goes on as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from api.admission.causes import forbidden
from api.engine.status import Cause
from api.objects.writing import Review
from fleet.admission.operators import asked_anew
from fleet.kinds import interpreter_for
from fleet.values.ports import Body
from fleet.values.untyped import mapping

POD_TEMPLATE = "pod template"
READ, PASSED_ON, WARNED, REFUSED, OF = "read", "passed on", "warned", "refused", "of"
_REFUSED_BY = "refused by"
_WARNINGS_MAX = 10
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Field:
    """`about`: the module that reads or refuses it, the words for its writer, or the table that has what is below.
    `reports`: whether admission reports the field to its writer, by this table. `unless`: values without a report."""

    path: str  # spec.rules[].name
    word: str
    about: str = ""
    reports: bool = False
    unless: tuple[Any, ...] = ()


@cache
def tables() -> Mapping[str, tuple[Field, ...]]:
    """The fields by kind ("batch Job"), and by the name of a part that several kinds have."""
    text = yaml.load(files("fleet.admission").joinpath("fields.yaml").read_bytes(), Loader=_Loader)
    found = {name: _fields(listed) for names, listed in text["kinds"].items() for name in names.split(", ")}
    return {**found, **{name: _fields(listed) for name, listed in text["tables"].items()}}


def _fields(listed: Mapping[str, Any]) -> tuple[Field, ...]:
    return tuple(_field(path, entry) for path, entry in listed.items())


def _field(path: str, entry: Mapping[str, Any]) -> Field:
    word = next(iter(entry))
    if word == PASSED_ON:
        return Field(path, word)
    reports = word in (WARNED, REFUSED)
    word_of_table = REFUSED if word == _REFUSED_BY else word
    return Field(path, word_of_table, str(entry[word]), reports, tuple(entry.get("unless", ())))


def fields_of(name: str) -> dict[str, Field]:
    """By path: the fields of a kind or of a part, with those of the parts that it names."""
    found: dict[str, Field] = {}
    for field in tables().get(name, ()):
        found.setdefault(field.path, field)
        if field.word == OF:
            found |= {f"{field.path}.{path}".rstrip("."): inner for path, inner in fields_of(field.about).items()}
    return found


@dataclass(slots=True)
class _Branch:
    """A field, and those below it by the next step of their paths."""

    field: Field | None = None
    below: dict[str, _Branch] = dataclass_field(default_factory=dict)


@cache
def _reports(table: str) -> dict[str, _Branch]:
    """The fields of this table that admission reports; none of them is in a list. Pod templates have a table of their
    own."""
    parts = {path for path, field in fields_of(table).items() if field.word == OF and field.about == POD_TEMPLATE}
    root = _Branch()
    for path, field in fields_of(table).items():
        if field.reports and not any(path.startswith(f"{part}.") for part in parts):
            branch = root
            for step in path.split("."):
                branch = branch.below.setdefault(step, _Branch())
            branch.field = field
    return root.below


def unread(review: Review) -> Sequence[Cause]:
    """The check of any object: refuses what no object may have, and warns of what has no effect."""
    of_table = _reports(f"{review.kind.group} {review.kind.kind}")
    if not of_table and interpreter_for(review.kind) is None:
        return ()
    if review.new is None or review.user.hub or not asked_anew(review):
        return ()
    causes, warnings = list[Cause](), list[str]()
    for field, place, value in _changes(review, review.new):
        if value in field.unless:
            continue
        if field.word == REFUSED:
            causes.append(forbidden(place, field.about))
        else:
            warnings.append(f"{place}: {field.about}")
    review.warnings.extend(warnings[:_WARNINGS_MAX])
    return causes


def _changes(review: Review, body: Body) -> Iterator[tuple[Field, str, Any]]:
    """The fields to report that this write sets or changes, each with its place and its value."""
    before = {place: value for _, place, value in _values(review, review.old)} if review.old is not None else {}
    for field, place, value in _values(review, body):
        if before.get(place) != value:
            yield field, place, value


def _values(review: Review, body: Body) -> Iterator[tuple[Field, str, Any]]:
    yield from _below(body, _reports(f"{review.kind.group} {review.kind.kind}"), "")
    interpreter = interpreter_for(review.kind)
    for template in interpreter.templates(body) if interpreter is not None else ():
        if template.own:
            yield from _below(template.template, _reports(POD_TEMPLATE), f"{template.path}.")


def _below(body: Body, branches: Mapping[str, _Branch], place: str) -> Iterator[tuple[Field, str, Any]]:
    """The fields that are set, each with its place and its value."""
    for name, branch in branches.items():
        value = body.get(name)
        if not value:
            continue
        if branch.field is not None:
            yield branch.field, f"{place}{name}", value
        yield from _below(mapping(value), branch.below, f"{place}{name}.")
