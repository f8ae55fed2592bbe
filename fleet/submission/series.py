"""One job as many: over the values of parameters (a sweep), or over numbers (an array); and what a job starts after."""

from __future__ import annotations

import copy
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.submission.request import Body, RequestFault
from fleet.wellknown import (
    ANNOTATION_AFTER,
    ANNOTATION_AT_MOST,
    ANNOTATION_SWEEP_PLACE,
    ANNOTATION_SWEEP_VALUES,
    LABEL_SWEEP,
)

MOST = 1_000  # jobs of one sweep
INDEX = "index"  # the parameter of an array
ARRAY_VARIABLE = "FLEET_ARRAY_INDEX"
SWEEP_VARIABLE = "FLEET_SWEEP_"  # and the name of the parameter, in upper case
_NAME = re.compile(r"[A-Za-z_][-._A-Za-z0-9]*")
_RANGE = re.compile(r"(-?\d{1,9})\.\.(-?\d{1,9})")
_NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_CONTAINERS = ("initContainers", "containers")


@dataclass(frozen=True, kw_only=True)
class Series:
    """What is asked of a job beside its manifest. `sweep`: NAME=VALUE,VALUE or NAME=FIRST..LAST each; their product is
    made. `array`: 0-9, 1,4,7 or 0-99%4, where 4 run at once. `at_most`: so many jobs run at once. `after`: the jobs to
    start after, NAME[:ok|:any] each."""

    sweep: Sequence[str] = ()
    array: str = ""
    at_most: int | None = None
    after: Sequence[str] = ()

    @property
    def many(self) -> bool:
        """Whether one job becomes several."""
        return bool(self.sweep or self.array)


def expanded(job: Body, series: Series) -> list[Body]:
    """The jobs that a named job becomes. Raises RequestFault."""
    if series.sweep and series.array:
        raise RequestFault("array", "a job is swept over parameters or over an array, not over both")
    if series.at_most is not None and not series.many:
        raise RequestFault("at-most", "is about a sweep or an array")
    if series.at_most is not None and series.at_most < 1:
        raise RequestFault("at-most", f"{series.at_most} is less than 1")
    if series.after:
        job = copy.deepcopy(job)
        _marks(job, "annotations")[ANNOTATION_AFTER] = ",".join(series.after)
    if not series.many:
        return [job]
    if series.array:
        points, at_once = array(series.array)
        variables = {INDEX: ARRAY_VARIABLE}
    else:
        points, at_once = list(product(series.sweep)), None
        variables = {name: variable(name) for name in points[0]}
    if len(set(variables.values())) < len(variables):
        raise RequestFault("sweep", f"{', '.join(variables)}: two of these have the same variable")
    most = series.at_most or at_once
    found = []
    for number, point in enumerate(points, start=1):
        one = _at(job, str(point[INDEX] if series.array else number), point, variables, most)
        one["metadata"]["annotations"][ANNOTATION_SWEEP_PLACE] = f"{number}/{len(points)}"
        found.append(one)
    return found


def product(texts: Sequence[str]) -> Iterator[dict[str, str]]:
    """Each combination of the values of some parameters. Raises RequestFault."""
    values: dict[str, list[str]] = {}
    total = 1
    for line in texts:
        name, equals, listed = line.partition("=")
        if not equals or not _NAME.fullmatch(name):
            raise RequestFault("sweep", f"{line}: is not of the form lr=0.1,0.01 or seed=1..5")
        if name in values:
            raise RequestFault("sweep", f"{name}: is given twice")
        values[name] = list(dict.fromkeys(_values(line, listed)))
        total *= len(values[name])
        if total > MOST:
            raise RequestFault("sweep", f"makes more than {MOST} jobs")
    return (dict(zip(values, point, strict=True)) for point in itertools.product(*values.values()))


def _values(said: str, listed: str) -> Iterator[str]:
    for value in listed.split(","):
        between = _RANGE.fullmatch(value)
        if not value or (between and int(between[1]) > int(between[2])):
            raise RequestFault(
                "sweep", f"{said}: {value or 'a value'} is {'no range upwards' if between else 'missing'}"
            )
        if between is None:
            yield value
            continue
        first, last = int(between[1]), int(between[2])
        if last - first >= MOST:
            raise RequestFault("sweep", f"makes more than {MOST} jobs")
        yield from map(str, range(first, last + 1))


def array(text: str) -> tuple[list[dict[str, str]], int | None]:
    """The numbers of 0-9 or 1,4,7, and how many run at once where %4 stands behind them. Raises RequestFault."""
    listed, percent, most = text.partition("%")
    if percent and not (most.isdigit() and int(most)):
        raise RequestFault("array", f"{text}: %{most} is no number of jobs at once")
    numbers: dict[int, None] = {}
    for part in listed.split(","):
        found = _NUMBERS.fullmatch(part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if first > last:
            raise RequestFault("array", f"{text}: is not of the form 0-9, 1,4,7 or 0-99%4")
        if last - first >= MOST or len(numbers) + last - first >= MOST:
            raise RequestFault("array", f"makes more than {MOST} jobs")
        numbers.update(dict.fromkeys(range(first, last + 1)))
    return [{INDEX: str(number)} for number in numbers], int(most) if percent else None


def variable(parameter: str) -> str:
    """The environment variable that has its value."""
    return SWEEP_VARIABLE + re.sub(r"[^A-Z0-9]", "_", parameter.upper())


def _at(job: Body, suffix: str, point: Mapping[str, str], variables: Mapping[str, str], most: int | None) -> Body:
    """The job with one combination of values, in environment variables. Its command and arguments may name a value as
    {NAME}."""
    body = copy.deepcopy(job)
    metadata = body["metadata"]
    whole = metadata["name"]
    metadata["name"] = f"{whole}-{suffix}"
    _marks(body, "labels")[LABEL_SWEEP] = whole
    annotations = _marks(body, "annotations")
    annotations[ANNOTATION_SWEEP_VALUES] = json.dumps(point)
    if most is not None:
        annotations[ANNOTATION_AT_MOST] = str(most)
    values = {variables[name]: value for name, value in point.items()}
    for container in _containers(body.get("spec")):
        for field in ("command", "args"):
            if isinstance(container.get(field), list):
                container[field] = [_filled(word, point) for word in container[field]]
        kept = [one for one in container.get("env") or () if one.get("name") not in values]
        container["env"] = [*kept, *({"name": name, "value": value} for name, value in values.items())]
    return body


def _marks(body: Body, place: str) -> Body:
    """Its labels or annotations, to be added to."""
    found: Body = {**(body["metadata"].get(place) or {})}
    body["metadata"][place] = found
    return found


def _filled(word: Any, point: Mapping[str, str]) -> Any:
    for name, value in point.items():
        word = word.replace(f"{{{name}}}", value) if isinstance(word, str) else word
    return word


def _containers(spec: Any) -> Iterator[Body]:
    """The containers of all pod templates in the spec of a job, of whatever kind it is."""
    if isinstance(spec, list):
        for entry in spec:
            yield from _containers(entry)
    elif isinstance(spec, dict):
        for field, entry in spec.items():
            if field in _CONTAINERS and isinstance(entry, list):
                yield from (container for container in entry if isinstance(container, dict))
            else:
                yield from _containers(entry)
