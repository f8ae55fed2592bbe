"""Messages that an expression makes: `Object.spec{replicas: 3}`. Each has a type by its name, and fields.

`Messages` finds the type behind a name. A type without declared fields is open: it takes any field, of any type.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fleet.values.cel.types import DYN, Type
from fleet.values.cel.values import Duration, NoValue, Timestamp, equal

Messages = Callable[[str], Type | None]


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """A value of a message type."""

    TYPE: Type
    fields: dict[str, Any]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and self.TYPE.name == other.TYPE.name and equal(self.fields, other.fields)

    def __hash__(self) -> int:
        return hash(self.TYPE.name)


def none_known(name: str) -> None:
    """`Messages` where an expression can make none."""


def message_type(name: str, fields: dict[str, Type] | None = None) -> Type:
    return Type("struct", name, fields=fields, constructible=True)


def field_type(message: Type, name: str) -> Type | None:
    """The type of a field; None for one that the message does not have."""
    return DYN if message.fields is None else message.fields.get(name)


def as_json(value: Any) -> Any:
    """A value as JSON has it. Raises NoValue for one that has no form there."""
    if value is None or isinstance(value, bool | str | float):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, dict | Message):
        fields = value.fields if isinstance(value, Message) else value
        for key in fields:
            if not isinstance(key, str):
                raise NoValue(f'map key "{key}" is not a string')
        return {key: as_json(item) for key, item in fields.items()}
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, Timestamp | Duration):
        return str(value)
    raise NoValue("a value has no form in JSON")


def misnamed(value: Any, path: str = "") -> Iterator[str]:
    """Messages whose type does not say where they are: `Object{spec: Object.status{}}`. `path`: where the value is."""
    if isinstance(value, Message):
        path = path or value.TYPE.name
        if value.TYPE.name != path:
            wanted = f'unexpected type name "{value.TYPE.name}", expected "{path}"'
            yield f"{wanted}, which matches field name path from root Object type"
        for key, inner in value.fields.items():
            yield from misnamed(inner, f"{path}.{key}")
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from misnamed(inner, path)
