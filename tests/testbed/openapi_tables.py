"""Writes api/wire/protobuf/openapi.txt: the messages of OpenAPI documents of versions 2 and 3 in protobuf, as facts.

`python -m tests.testbed.openapi_tables` reads the Go module whose messages kubectl and client-go know.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.testbed.build import HERE
from tests.testbed.protobuf_tables import source_folder

TARGET = HERE.parent.parent / "api" / "wire" / "protobuf" / "openapi.txt"
MODULE = "github.com/google/gnostic-models"
_MESSAGE = re.compile(r"^message (\w+) \{$(.*?)^\}$", re.M | re.S)
_FIELD = re.compile(r"^ +(repeated )?([\w.]+) (\w+) = (\d+);", re.M)


def in_json(name: str) -> str:
    """`_ref` → `$ref`, `operation_id` → `operationId`."""
    if name == "_ref":
        return "$ref"
    head, *words = name.split("_")
    return head + "".join(word.title() for word in words)


def package(proto: Path, name: str) -> Iterator[str]:
    yield f"@ {name}"
    for message, body in _MESSAGE.findall(proto.read_text()):
        mark = "|" if "oneof oneof" in body else ""
        fields = [
            f"{number} {in_json(field)} {kind}{'*' if repeated else ''}"
            for repeated, kind, field, number in _FIELD.findall(body)
        ]
        yield f"{message}{mark}: {', '.join(fields)}"


def tables() -> str:
    """The whole file."""
    folder = source_folder(MODULE)
    head = [
        "# The protobuf messages of OpenAPI documents. tests/testbed/openapi_tables.py writes this file; the names,",
        f"# numbers and types are facts from {MODULE} {folder.name.partition('@')[2]}.",
        "# `@ VERSION`, then `MESSAGE: NUMBER NAME TYPE, ...`. `|` after a message: one of its fields stands for it.",
        "# `*` after a type: repeated.",
    ]
    second = package(folder / "openapiv2" / "OpenAPIv2.proto", "v2")
    third = package(folder / "openapiv3" / "OpenAPIv3.proto", "v3")
    return "\n".join([*head, *second, *third]) + "\n"


if __name__ == "__main__":
    TARGET.write_text(tables())
    print(TARGET)
