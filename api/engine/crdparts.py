"""The flaws of a CRD's names, columns, selectable fields and scale, in the words of a kube-apiserver.

Of a CRD that is `stored` only those count without which no kind can be made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from api.engine.fieldpath import BadFieldPath, field_path, field_schema
from api.engine.status import Cause, cut
from api.engine.validate import value_text
from fleet.values.jsonpath import BadPath, compile_path
from fleet.values.names import dns1035_problems, subdomain_problems
from fleet.values.untyped import mapping, rows, text, texts

LISTED_MAX = 100  # versions, columns, names of one definition: each is looked at for every object
SELECTABLE_MAX = 8
_SCOPES = ("Cluster", "Namespaced")
_COLUMN_TYPES = "boolean,date,integer,number,string"
_COLUMN_FORMATS = "byte,date,date-time,double,float,int32,int64,password"


def name_flaws(spec: Mapping[str, Any], stored: bool) -> Iterator[Cause]:
    group, names = text(spec.get("group")), mapping(spec.get("names"))
    if not group:
        yield required("spec.group")
    elif found := subdomain_problems(group):
        yield invalid("spec.group", group, ",".join(found))
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    scope = text(spec.get("scope"))
    if not scope:
        yield required("spec.scope")
    elif scope not in _SCOPES:
        yield unsupported("spec.scope", scope, _SCOPES)
    lower = "may have mixed case, but should otherwise match: "
    for key, prefix in (("plural", ""), ("singular", ""), ("kind", lower), ("listKind", lower)):
        name = text(names.get(key))
        if not name and (key in ("plural", "kind") or not stored):
            yield required(f"spec.names.{key}")
        elif name and (key in ("plural", "kind") or not stored):
            problems = dns1035_problems(name.lower() if prefix else name)
            yield from [invalid(f"spec.names.{key}", name, prefix + ",".join(problems))] if problems else []
    if stored:
        return
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        yield invalid("spec.names.listKind", names["listKind"], "kind and listKind may not be the same")
    for key in ("shortNames", "categories"):
        yield from too_many(f"spec.names.{key}", names.get(key))
        for index, name in enumerate(texts(names.get(key))[:LISTED_MAX]):
            if problems := dns1035_problems(name):
                yield invalid(f"spec.names.{key}[{index}]", name, ",".join(problems))


def column_flaws(where: str, columns: Any, stored: bool) -> Iterator[Cause]:
    yield from () if stored else too_many(where, columns)
    for index, column in enumerate(rows(columns)[:LISTED_MAX]):
        spot, kind = f"{where}[{index}]", text(column.get("type"))
        if not text(column.get("name")):
            yield required(f"{spot}.name")
        if not kind:
            yield required(f"{spot}.type", f"must be one of {_COLUMN_TYPES}")
        elif kind not in _COLUMN_TYPES.split(","):
            yield invalid(f"{spot}.type", kind, f"must be one of {_COLUMN_TYPES}")
        form = text(column.get("format"))
        if form and not stored and form not in _COLUMN_FORMATS.split(","):
            yield invalid(f"{spot}.format", form, f"must be one of {_COLUMN_FORMATS}")
        path = text(column.get("jsonPath"))
        if not path:
            yield required(f"{spot}.JSONPath")
        else:
            yield from _path_flaws(f"{spot}.JSONPath", path)


def _path_flaws(where: str, path: str) -> Iterator[Cause]:
    if not path.startswith("."):
        yield invalid(where, path, "must be a simple json path starting with .")
        return
    try:
        compile_path(path)
    except BadPath as error:
        yield invalid(where, path, str(error))


def selectable_flaws(where: str, fields: Any, schema: Mapping[str, Any], stored: bool) -> Iterator[Cause]:
    field_names: set[str] = set()
    for index, field in enumerate(rows(fields)[:LISTED_MAX]):
        spot, path = f"{where}[{index}].jsonPath", text(field.get("jsonPath"))
        if not path:
            yield required(spot)
            continue
        if stored:
            yield from _path_flaws(spot, path)
            continue
        try:
            if "[" in path:
                raise BadFieldPath("array notation is not allowed")
            field_name = field_path(path, schema)
        except BadFieldPath as problem:
            yield invalid(spot, path, f"is an invalid path: {problem}")
            continue
        if field_name.split(".")[0] == "metadata":
            yield invalid(spot, path, "must not point to fields in metadata")
        if field_schema(path, schema).get("type") not in ("string", "boolean", "integer"):
            kinds = "must point to a field of type string, boolean or integer."
            yield invalid(spot, path, f"{kinds} Enum string fields and strings with formats are allowed.")
        if field_name in field_names:
            yield Cause(spot, f"Duplicate value: {value_text(path)}", "FieldValueDuplicate")
        field_names.add(field_name)
    if len(field_names) > SELECTABLE_MAX:
        yield Cause(
            where, f"Too many: {len(field_names)}: must have at most {SELECTABLE_MAX} items", "FieldValueTooMany"
        )


_SCALE: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("specReplicasPath", (".spec.",), "should be a json path under .spec"),
    ("statusReplicasPath", (".status.",), "should be a json path under .status"),
    ("labelSelectorPath", (".spec.", ".status."), "should be a json path under either .spec or .status"),
)


def scale_flaws(where: str, scale: Mapping[str, Any]) -> Iterator[Cause]:
    for key, starts, message in _SCALE:
        path = text(scale.get(key))
        if not path:
            yield from () if key == "labelSelectorPath" else [required(f"{where}.{key}")]
        elif not path.startswith("."):
            yield invalid(f"{where}.{key}", path, "must be a simple json path starting with .")
        elif not path.startswith(starts):
            yield invalid(f"{where}.{key}", path, message)


def too_many(where: str, given: Any) -> list[Cause]:
    if not isinstance(given, list) or len(given) <= LISTED_MAX:
        return []
    return [Cause(where, f"Too many: {len(given)}: must have at most {LISTED_MAX} items", "FieldValueTooMany")]


def required(where: str, detail: str = "") -> Cause:
    return Cause(where, f"Required value: {detail}" if detail else "Required value", "FieldValueRequired")


def invalid(where: str, value: Any, message: str) -> Cause:
    return Cause(where, f"Invalid value: {value_text(value)}: {message}")


def unsupported(where: str, value: Any, supported: tuple[str, ...]) -> Cause:
    allowed = ", ".join(f'"{s}"' for s in supported)
    return Cause(
        where, f'Unsupported value: "{cut(str(value))}": supported values: {allowed}', "FieldValueNotSupported"
    )
