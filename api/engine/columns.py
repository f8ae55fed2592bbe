"""The cells of `kubectl get`: by JSON path for custom kinds, by a function where kubectl shows more than a field.

The functions say what a kube-apiserver's own printers say, word for word, since scripts and people read them. A kind
file gives the name of its function in `compute`; the functions are in the files columns_*.py beside this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from api.engine.columns_admission import ADMISSION
from api.engine.columns_others import OTHERS
from api.engine.columns_pods import PODS
from api.engine.columns_services import SERVICES
from api.engine.columns_workloads import WORKLOADS
from api.engine.kind import Column, Kind
from fleet.values.durations import age
from fleet.values.jsonpath import BadPath, find

COMPUTED = {**PODS, **OTHERS, **SERVICES, **WORKLOADS, **ADMISSION}

# The value that a printer meets in an object that was stored before its schema forbade it: shown in the cell, and no
# other row's business.
_UNREADABLE = (TypeError, AttributeError, KeyError, IndexError, ValueError, OverflowError)
INVALID = "<invalid>"
_VALUES_MAX = 1000  # of a path that leads to many
_CHARACTERS_MAX = 10_000  # of a cell

_NAME = Column("Name", "string", ".metadata.name", format="name", description="Name of the object.")


def columns_of(kind: Kind) -> tuple[Column, ...]:
    """All columns of the kind, Name among them; a kind that says none shows its age."""
    columns = kind.columns or (Column("Age", "date", ".metadata.creationTimestamp"),)
    return columns if any(column.format == "name" for column in columns) else (_NAME, *columns)


def column_definitions(kind: Kind, more: Sequence[Column] = ()) -> list[dict[str, Any]]:
    """`columnDefinitions` of a Table, with `more` after those of the kind."""
    return [
        {
            "name": column.name,
            "type": _sent_type(kind, column),
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in (*columns_of(kind), *more)
    ]


def _sent_type(kind: Kind, column: Column) -> str:
    """Ages are sent as text for people ("3m44s"): a client must not parse them. The time of creation is a date."""
    if column.type != "date" or column.compute == "created_at":
        return column.type
    return "string" if kind.builtin or column.compute else "date"


def cells(kind: Kind, body: dict[str, Any], now: float) -> list[Any]:
    """One row: a cell for every column; None where the object has nothing to show. `now` in epoch seconds."""
    return [cell(column, body, now) for column in columns_of(kind)]


def cell(column: Column, body: dict[str, Any], now: float) -> Any:
    """One cell; "<invalid>" for a part of an object that cannot be read."""
    try:
        found = COMPUTED[column.compute](body, now) if column.compute else _found(column, body, now)
    except _UNREADABLE:
        return INVALID if column.type in ("string", "date") else None
    if isinstance(found, int) and not -(2**63) <= found < 2**63:
        return None  # no JSON that we write holds it
    return found


def _found(column: Column, body: dict[str, Any], now: float) -> Any:
    try:
        values = find(body, column.json_path)
    except BadPath:
        return None
    if not values:
        return column.missing
    value = values[0]
    match column.cell or column.type:
        case "string":
            return " ".join(_text(v) for v in values[:_VALUES_MAX])[:_CHARACTERS_MAX]
        case "integer":
            return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        case "number":
            return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
        case "boolean":
            return value if isinstance(value, bool) else None
        case "date":
            return age(value, now) if isinstance(value, str) else None
    return None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (dict, list)):
        return str(value).replace("'", '"')
    return str(value)
