"""Makes reference/python.md from the docstrings and signatures of fleet.client."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import fleet.client

HEAD = """# The Python client

Made by `docs/generate.py` from `fleet/client`. [Use Fleet from Python](../how-to/use-python.md) is the guide.

`Fleet` and `AsyncFleet` have the same methods. Those of `AsyncFleet` are awaited; iterators are read with `async for`. A `job` is its name, KIND/NAME, or a value with namespace, kind and name. `namespace` is of a job that is named by a text, and of objects that name none.
"""  # noqa: E501
METHODS = (
    "submit",
    "run",
    "apply",
    "delete",
    "job",
    "jobs",
    "watch",
    "watch_objects",
    "wait",
    "explain",
    "events",
    "pods",
    "logs",
    "all_logs",
    "hold",
    "release",
    "suspend",
    "resume",
    "priority",
    "cancel",
    "queues",
    "clusters",
    "status",
    "usage",
    "what_if",
    "history",
    "report",
    "close",
)


def page() -> str:
    public = {
        name for name, _ in inspect.getmembers(fleet.client.Fleet, inspect.isfunction) if not name.startswith("_")
    }
    if public != set(METHODS):
        raise SystemExit(f"docs/python_reference.py: METHODS differs by {', '.join(sorted(public ^ set(METHODS)))}")
    return "\n".join([HEAD, *_methods(), *_values(), *_errors()]) + "\n"


def _methods() -> Iterator[str]:
    yield "## Fleet, AsyncFleet\n"
    yield _call("Fleet", fleet.client.Fleet)
    yield f"{_told(fleet.client.Fleet.__init__)}\n"
    for name in METHODS:
        method = getattr(fleet.client.Fleet, name)
        yield f"### {name}\n"
        yield _call(name, method)
        yield f"{_told(method)}\n"


def _call(name: str, method: Callable[..., Any]) -> str:
    parameters = [one for one in inspect.signature(method).parameters.values() if one.name != "self"]
    shown, named = [], False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not named:
            named = True
            shown.append("*")
        default = "" if one.default is one.empty else f"={one.default!r}"
        shown.append(f"{one.name}{default}")
    return f"```text\n{name}({', '.join(shown)})\n```\n"


def _values() -> Iterator[str]:
    yield "## Values\n"
    yield (
        "Each is frozen. All but `Cause`, `JobChange`, `LogLine` and `ObjectChange` have `raw`, the JSON of the hub."
        " [REST](rest.md) has the meaning of each field.\n"
    )
    yield "| value | fields | |\n|---|---|---|"
    for name in fleet.client.__all__:
        value = getattr(fleet.client, name)
        if dataclasses.is_dataclass(value) and isinstance(value, type) and not issubclass(value, Exception):
            fields = ", ".join(f"`{field.name}`" for field in dataclasses.fields(value) if field.name != "raw")
            yield f"| `{name}` | {fields} | {_told(value)} |"
    yield f"\n`Rows`: {_told(fleet.client.Rows)} `Submission`: {_told(fleet.client.Submission)}"
    yield f"`Items`: {_told(fleet.client.Items)} All three have `df()`; `Items` and `AsyncItems` have `all()`.\n"


def _errors() -> Iterator[str]:
    yield "## Exceptions\n"
    yield "| exception | is a | |\n|---|---|---|"
    for name in fleet.client.__all__:
        value = getattr(fleet.client, name)
        if isinstance(value, type) and issubclass(value, Exception):
            yield f"| `{name}` | `{value.__bases__[0].__name__}` | {_told(value)} |"


def _told(what: Any) -> str:
    return " ".join((inspect.getdoc(what) or "").split()).replace("|", "\\|")
