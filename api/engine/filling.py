"""A small language for the values that a kube-apiserver fills in.

A `Fill` says where, and which fields. A place is a dotted path: `containers[]` is each item of a list, `strategy+` an
object that is made where there is none, `data{}` each value of a map. A field that is absent, null or an empty text
gets its value; a value that is a function is asked with the object around it, and None leaves the field out. Values of
a wrong type are left alone: validation names them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Body = dict[str, Any]
Filler = Callable[[Body], None]


class Zero:
    """A value that a number of 0 is replaced by, too: Go cannot tell it from an absent one."""

    def __init__(self, value: int) -> None:
        self.value = value


def fill(place: str, fields: Mapping[str, Any]) -> Filler:
    """A filler of `fields` at `place`, below the object that it is called with."""
    given = tuple(fields.items())

    def filler(body: Body) -> None:
        _set(body, given)

    return at_each(place, filler)


def at_each(place: str, filler: Filler) -> Filler:
    """`filler` for each object at `place`."""
    steps = tuple(_step(step) for step in place.split(".")) if place else ()

    def walk(body: Body, index: int = 0) -> None:
        if index == len(steps):
            filler(body)
            return
        name, many, make = steps[index]
        inner = body.get(name)
        if inner is None and make:
            inner = body[name] = {}
        if many:
            items: Iterable[Any] = ()
            if inner.__class__ is list and many == "[]":
                items = inner or ()
            elif inner.__class__ is dict and many == "{}":
                items = (inner or {}).values()
            for item in items:
                if item.__class__ is dict:
                    walk(item, index + 1)
        elif inner.__class__ is dict:
            walk(inner or body[name], index + 1)

    return walk


def all_of(*fillers: Filler) -> Filler:
    """The fillers in turn."""

    def filler(body: Body) -> None:
        for one in fillers:
            one(body)

    return filler


def _new(value: Any) -> Any:
    """Two objects may not share one empty map."""
    return {} if value.__class__ is dict else [] if value.__class__ is list else value


def _step(text: str) -> tuple[str, str, bool]:
    many = next((mark for mark in ("[]", "{}") if text.endswith(mark)), "")
    make = text.endswith("+")
    return text.removesuffix(many).removesuffix("+"), many, make


def _set(body: Body, fields: Iterable[tuple[str, Any]]) -> None:
    for name, value in fields:
        current = body.get(name)
        if current.__class__ is not str and current.__class__ is not int:
            if current is not None:
                continue
        elif current or not (current == "" or value.__class__ is Zero):
            continue
        if value.__class__ is Zero:
            value = value.value
        elif callable(value):
            value = value(body)
        if value is not None:
            body[name] = copy.deepcopy(value) if value.__class__ in (dict, list) and value else _new(value)
