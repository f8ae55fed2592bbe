"""Places in a body: as a declaration writes them (`object.spec.template`), and as keys from its top.

A step is the key of an object, or the position in a list. A change makes a copy along its way and leaves the rest
shared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

Step = str | int
Steps = tuple[Step, ...]
Getter = Callable[[Mapping[str, Any]], Any]

_STEP = re.compile(r"""\.([A-Za-z_]\w*)|\[(?:"([^"\\]+)"|'([^'\\]+)')\]""")
_PATH = re.compile(r"""[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[(?:"[^"\\]+"|'[^'\\]+')\])*""")


def is_path(text: str) -> bool:
    return _PATH.fullmatch(text) is not None


def parsed(text: str) -> tuple[str, tuple[str, ...]]:
    """The name that a path begins with, and its steps: `object.a["b.c"]` is ("object", ("a", "b.c")). For texts that
    `is_path` takes."""
    root = re.match(r"\w+", text)
    assert root is not None
    return root[0], tuple(dotted or double or single for dotted, double, single in _STEP.findall(text, root.end()))


def getter(root: str, steps: tuple[str, ...]) -> Getter:
    """Reads the place in the values that an expression sees; None when anything on the way is missing."""
    if not steps:
        return lambda values: values.get(root)
    if len(steps) == 1:
        only = steps[0]

        def near(values: Mapping[str, Any]) -> Any:
            value = values.get(root)
            return value.get(only) if value.__class__ is dict else None

        return near

    def far(values: Mapping[str, Any]) -> Any:
        value = values.get(root)
        for step in steps:
            if value.__class__ is not dict:
                return None
            value = value.get(step)
        return value

    return far


def spelled(steps: Steps) -> str:
    """`spec.replicatedJobs[0].template`"""
    return "".join(f"[{step}]" if step.__class__ is int else f".{step}" for step in steps).removeprefix(".")


def put(body: dict[str, Any], steps: Steps, part: Any, fresh: set[int]) -> None:
    """Put `part` at these steps of a body whose own entries may be changed. All else on the way is copied first, but
    for what `fresh` has the ids of: copies that were made before. Objects on the way that are missing are made."""
    node: Any = body  # of any type, as `below` is
    for at, step in enumerate(steps[:-1], start=1):
        below: Any = node[step] if step.__class__ is int else node.get(step)
        if id(below) not in fresh:
            kept = below.__class__ is (list if steps[at].__class__ is int else dict)
            node[step] = below = below.copy() if kept else {}
            fresh.add(id(below))
        node = below
    node[steps[-1]] = part


def drop(body: dict[str, Any], where: tuple[str, ...], names: frozenset[str], fresh: set[int]) -> None:
    """Take these entries out of the object at `where`, copying as `put` does; nothing where it has none of them."""
    there: Any = body
    for step in where:
        there = there.get(step) if there.__class__ is dict else None
    if there.__class__ is not dict or names.isdisjoint(there):
        return
    kept = {name: entry for name, entry in there.items() if name not in names}
    if where:
        put(body, where, kept, fresh)
        fresh.add(id(kept))
    else:
        for name in names:
            body.pop(name, None)


def with_part(body: dict[str, Any], steps: Steps, part: Any) -> dict[str, Any]:
    """A copy of the body with `part` at these steps."""
    copied = dict(body)
    put(copied, steps, part, set())
    return copied
