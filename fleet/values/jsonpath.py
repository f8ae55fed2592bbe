"""The JSON paths of printer columns and selectable fields: fields, indices, slices, `*` and one kind of filter.

`.status.conditions[-1:].type`, `.status.conditions[?(@.type=="Ready")].status`, `.metadata.labels.app\\.io/name`,
`.spec['host-name']`. CRDs use no more than these; anything else is refused when the path is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from fleet.values.untyped import at

Step = Callable[[list[Any]], list[Any]]


CHARACTERS_MAX = 1000  # of one path


class BadPath(ValueError):
    """The text is not a JSON path of the kind that is read here."""


_STEP = re.compile(
    r"""\.(?P<field>(?:\\.|[^.\[\]\\])+)
      |\[['"](?P<quoted>[^'"]+)['"]\]
      |\[(?P<index>-?\d+)\]
      |\[(?P<start>-?\d*):(?P<stop>-?\d*)\]
      |(?P<every>\[\*\]|\.\*)
      |\[\?\(\s*@\.(?P<key>[\w.\-/]+)\s*(?P<op>==|!=)\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[\w.\-]+))\s*\)\]
    """,
    re.VERBOSE,
)


@lru_cache(maxsize=1024)
def compile_path(path: str) -> tuple[Step, ...]:
    """The steps of a path; braces around it and a leading `$` are allowed. Raises BadPath."""
    if len(path) > CHARACTERS_MAX:
        raise BadPath(f"must be at most {CHARACTERS_MAX} characters long")
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$")
    if text and text[0] not in ".[":
        raise BadPath(f"{path!r} must start with a dot")
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise BadPath(f"{path!r} is not understood at {text[position:]!r}")
        steps.append(_step(match))
        position = match.end()
    return tuple(steps)


def find(body: Any, path: str) -> list[Any]:
    """Every value that the path leads to; empty when there is none. Raises BadPath."""
    found = [body]
    for step in compile_path(path):
        found = step(found)
        if not found:
            break
    return found


def _step(match: re.Match[str]) -> Step:
    if match["field"] == "*" or match["every"]:
        return lambda found: [
            child
            for value in found
            for child in (value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
        ]
    if match["field"] or match["quoted"]:
        name = match["quoted"] or re.sub(r"\\(.)", r"\1", match["field"])
        return lambda found: [v[name] for v in found if isinstance(v, dict) and v.get(name) is not None]
    if match["index"]:
        index = int(match["index"])
        return lambda found: [v[index] for v in found if isinstance(v, list) and -len(v) <= index < len(v)]
    if match["key"]:
        keys, wanted = match["key"].split("."), match["double"] or match["single"] or match["bare"] or ""
        equal = match["op"] == "=="
        return lambda found: [
            item for v in found if isinstance(v, list) for item in v if (_text(at(item, *keys)) == wanted) is equal
        ]
    start = int(match["start"]) if match["start"] else None
    stop = int(match["stop"]) if match["stop"] else None
    return lambda found: [item for v in found if isinstance(v, list) for item in v[start:stop]]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
