"""Writes api/wire/protobuf/messages.txt: the messages of Kubernetes' built-in types, as facts.

`python -m tests.testbed.protobuf_tables` reads the Go modules of the test bed's kube-apiserver. Field numbers and types
come from generated.proto. The Go types beside it say what the wire does not: the name in JSON, and whether a zero value
is written in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.build import HERE, find_go, module_folder, run_go

TARGET = HERE.parent.parent / "api" / "wire" / "protobuf" / "messages.txt"
MODULES = (
    "k8s.io/api",
    "k8s.io/apimachinery",
    "k8s.io/apiextensions-apiserver",
    "k8s.io/kube-aggregator",
)
# Packages of types that a kube-apiserver does not serve.
LEFT_OUT = ("imagepolicy/", "testapigroup/", "pkg/runtime/schema/")
SPECIAL = {
    "machinery.runtime.RawExtension": "raw",
    "machinery.intstr.IntOrString": "intstr",
    "machinery.resource.Quantity": "quantity",
    "machinery.resource.QuantityValue": "quantity",
    "meta.v1.Time": "time",
    "meta.v1.MicroTime": "microtime",
    "meta.v1.Duration": "duration",
    "meta.v1.FieldsV1": "raw",
    "apiextensions.v1.JSON": "raw",
    "apiextensions.v1beta1.JSON": "raw",
}
SCALARS = {"string": "string", "bytes": "bytes", "bool": "bool", "double": "double", "int32": "int32", "int64": "int64"}
_MESSAGE = re.compile(r"^message (\w+) \{$(.*?)^\}$", re.M | re.S)
_FIELD = re.compile(r"^ *(?:(optional|repeated) ([\w.]+)|map<string, ([\w.]+)>) (\w+) = (\d+);", re.M)
_STRUCT = re.compile(r"^type (\w+) struct \{$(.*?)^\}$", re.M | re.S)
_GO_FIELD = re.compile(r"^\s+(?:\w+ +)?(\**[\w.\[\]*]+) +`([^`]*)`", re.M)
_TAG = re.compile(r'(\w+):"([^"]*)"')
_PACKAGE = re.compile(r"^package ([\w.]+);", re.M)
_GROUP = re.compile(r'^(?:const )?\s*GroupName\s*=\s*"([\w.]*)"', re.M)
_TYPE_META = re.compile(r"^\s+(?:metav1\.|v1\.)?TypeMeta +`json:\",inline\"", re.M)


@dataclass(frozen=True)
class GoField:
    """What the Go type says about a field: its name in JSON, and the flags of the table. `kept`: JSON has its zero."""

    json: str
    kept: bool
    inline: bool


def source_folder(module: str) -> Path:
    """The folder of a Go module of the test bed's kube-apiserver, fetched where the machine has only the binaries."""
    go = find_go()
    inside = HERE / "k8s"
    found = run_go([go, "list", "-m", "-f", "{{.Dir}}", module], inside, go, {}).strip()
    if not found:
        run_go([go, "mod", "download", module], inside, go, {})
    return module_folder(module, inside, go)


def short(package: str) -> str:
    """The name that a proto package has in the table: its group and version."""
    parts = package.split(".")
    if "apis" not in parts and "apimachinery" in parts:
        return f"machinery.{parts[-1]}"
    return ".".join(parts[-2:])


def go_fields(text: str) -> dict[int, GoField]:
    """The fields of a Go struct by their protobuf number."""
    fields = {}
    for kind, raw in _GO_FIELD.findall(text):
        tags = dict(_TAG.findall(raw))
        if "protobuf" not in tags or tags["protobuf"] == "-":
            continue
        name, *options = tags.get("json", "").split(",")
        number = int(tags["protobuf"].split(",")[1])
        kept = kind.startswith("*") or not ({"omitempty", "omitzero", "inline"} & set(options))
        fields[number] = GoField(name, kept, "inline" in options)
    return fields


def sources(folder: Path) -> str:
    """The Go files that declare the types of a package."""
    paths = sorted(folder.glob("*.go"))
    return "\n".join(p.read_text() for p in paths if not p.name.startswith("zz_") and "_test" not in p.name)


def package(proto: Path) -> Iterator[str]:
    """The lines of one package."""
    text = proto.read_text()
    path = _PACKAGE.search(text)
    assert path is not None
    own = short(path[1])
    go = sources(proto.parent)
    structs = dict(_STRUCT.findall(go))
    group = _GROUP.search(go)
    served = f"{group[1]}/{proto.parent.name}".lstrip("/") if group else own
    yield f"@ {own} {served}"

    def named(kind: str) -> str:
        if kind in SCALARS:
            return SCALARS[kind]
        head, _, tail = kind.rpartition(".")
        name = f"{short(head.lstrip('.'))}.{tail}" if head else f"{own}.{kind}"
        return SPECIAL.get(name, name)

    for message, body in _MESSAGE.findall(text):
        if f"{own}.{message}" in SPECIAL:
            continue
        known = go_fields(structs[message]) if message in structs else {}
        words = []
        for label, kind, value, name, number in _FIELD.findall(body):
            go_field = known.get(int(number), GoField(name, False, False))
            flags = "*" if label == "repeated" else ""
            flags += "?" if go_field.kept and not flags and not value else ""
            flags += "^" if go_field.inline else ""
            wanted = f"map:{named(value)}" if value else named(kind)
            wanted = wanted.replace(f"{own}.", ".")
            words.append(f"{number} {go_field.json or name} {wanted}{flags}")
        yield f"{message}{mark(message, structs.get(message), words)}: {', '.join(words)}".rstrip()


def mark(message: str, struct: str | None, fields: list[str]) -> str:
    """What the form of a message in JSON is, when it is no plain object."""
    if message.startswith("JSONSchemaPropsOr"):
        return "|"
    if struct is None and fields == ["1 items string*"]:
        return "="
    top = _TYPE_META.search(struct) if struct is not None else message == "List"
    return "!" if top else ""


def tables() -> str:
    """The whole file."""
    lines = [
        "# The protobuf messages of Kubernetes' built-in types. tests/testbed/protobuf_tables.py writes this file;",
        "# the names, numbers and types are facts from generated.proto and the Go types of these modules:",
    ]
    bodies: list[str] = []
    for module in MODULES:
        folder = source_folder(module)
        lines.append(f"# {module} {folder.name.partition('@')[2]}")
        for proto in sorted(folder.rglob("generated.proto")):
            if not any(part in str(proto) for part in LEFT_OUT):
                bodies.extend(package(proto))
    lines += [
        "# `@ PACKAGE GROUP/VERSION`, then `MESSAGE: NUMBER NAME TYPE, ...`; a type that begins with a dot is of the",
        "# same package. `!` after a message: an object of its own. `=`: a list by another name. `|`: in JSON one of",
        "# its fields stands for it. `*` after a type: repeated. `?`: a zero that is sent stands in JSON, too, since",
        "# the field is a pointer in Go, or never left out. `^`: inlined into its parent in JSON.",
    ]
    return "\n".join([*lines, *bodies]) + "\n"


if __name__ == "__main__":
    TARGET.write_text(tables())
    print(TARGET)
