"""Objects as no admission lets them in: every field of a good one gone, or of another type, one at a time."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from fleet.values.ports import Body

WRONG: tuple[Any, ...] = (None, 5, "x", [], {}, [None], {"x": None}, True, -1, 1e300)
KEPT = ("name", "namespace", "uid", "resourceVersion")  # of metadata: a store has no objects without them
MISSING = object()
Path = tuple[str | int, ...]


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in it, itself left out; of a list its first entry."""
    inside: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list) and value:
        inside = [(0, value[0])]
    for step, held in inside:
        here = (*at, step)
        named = here[0] in ("apiVersion", "kind") or here == ("metadata",)
        if not named and not (here[0] == "metadata" and here[1] in KEPT):
            yield here
        if here != ("metadata", "managedFields"):  # nobody but the engine reads what is in them
            yield from paths(held, here)


def changed(body: Body, path: Path, value: Any) -> Body:
    """A copy with `value` there; MISSING: with nothing there."""
    new = copy.deepcopy(body)
    place: Any = new
    for step in path[:-1]:
        place = place[step]
    if value is MISSING:
        del place[path[-1]]
    else:
        place[path[-1]] = copy.deepcopy(value)
    return new


def mutants(body: Body) -> Iterator[tuple[str, Body]]:
    """(what was done to it, the object)."""
    for path in paths(body):
        where = ".".join(str(step) for step in path)
        yield f"{where} missing", changed(body, path, MISSING)
        for value in WRONG:
            yield f"{where} = {value!r}", changed(body, path, value)
