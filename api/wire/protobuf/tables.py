"""The messages of Kubernetes' built-in types, read from messages.txt: each is parsed when it is first needed."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import NamedTuple

META = "meta.v1"
NUMBERS = frozenset(("int32", "int64", "bool"))
SCALARS = NUMBERS | {"string", "bytes", "double"}
SPECIAL = frozenset(("time", "microtime", "quantity", "intstr", "raw"))
# Kinds of the meta package are sent under the version of another package: `v1`, or the group of the object.
_META_KINDS = (
    "Status",
    "DeleteOptions",
    "CreateOptions",
    "UpdateOptions",
    "PatchOptions",
    "GetOptions",
    "ListOptions",
    "APIVersions",
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
)


class Field(NamedTuple):
    """One field: `type` is a scalar, a special type or the name of a message; `keeps_zero`: a zero sent stays."""

    number: int
    name: str
    type: str
    repeated: bool
    map: bool
    keeps_zero: bool
    inline: bool


class MessageTable(NamedTuple):
    """One message: `wrapped` is a list by another name, `choice` is written as one of its fields."""

    name: str
    wrapped: bool
    choice: bool
    fields: tuple[Field, ...]


@cache
def _lines() -> tuple[dict[str, str], dict[str, str]]:
    """The lines by message, and the messages by apiVersion/kind."""
    lines: dict[str, str] = {}
    kinds: dict[str, str] = {}
    package = served = ""
    for line in (files("api.wire.protobuf") / "messages.txt").read_text().splitlines():
        if line.startswith("@"):
            _, package, served = line.split()
        elif not line.startswith("#"):
            marked, _, fields = line.partition(":")
            name = f"{package}.{marked.rstrip('!=|')}"
            lines[name] = f"{marked[-1]}{fields}"
            if marked[-1] == "!" and not package.startswith("machinery."):
                kinds[f"{served}/{marked[:-1]}"] = name
    kinds["/APIVersions"] = f"{META}.APIVersions"
    for kind in _META_KINDS:
        kinds[f"v1/{kind}"] = f"{META}.{kind}"
    kinds["meta.k8s.io/v1beta1/PartialObjectMetadata"] = f"{META}.PartialObjectMetadata"
    return lines, kinds


def message_names() -> tuple[str, ...]:
    return tuple(_lines()[0])


def kinds() -> dict[str, str]:
    """The message of each kind that is an object of its own, by `apiVersion/kind`."""
    return _lines()[1]


def kind_message(api_version: str, kind: str) -> str | None:
    """The message of a kind, None when the kind has no protobuf form."""
    if kind == "DeleteOptions":  # clients send them under the version of the object
        return f"{META}.DeleteOptions"
    return kinds().get(f"{api_version}/{kind}")


@cache
def message(name: str) -> MessageTable:
    """A message by name; LookupError when there is none."""
    line = _lines()[0][name]
    package = name.rpartition(".")[0]
    fields = []
    for text in line[1:].split(","):
        words = text.split()
        if not words:
            continue
        number, field, kind = words
        bare = kind.rstrip("*?^")
        flags = kind[len(bare) :]
        is_map = bare.startswith("map:")
        bare = bare.removeprefix("map:")
        bare = package + bare if bare.startswith(".") else bare
        fields.append(Field(int(number), field, bare, "*" in flags, is_map, "?" in flags, "^" in flags))
    return MessageTable(name, line[0] == "=", line[0] == "|", tuple(fields))
