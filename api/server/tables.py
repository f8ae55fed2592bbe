"""Objects as rows: the form in which kubectl asks for everything it prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from api.engine.columns import cells, column_definitions
from api.engine.status import bad_request
from api.wire.servedkind import ServedKind
from fleet.values.ports import Body, StoredObject


def metadata_only(body: Mapping[str, Any], version: str) -> Body:
    """The PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": body.get("metadata", {}),
    }


def table(
    served: ServedKind,
    items: Sequence[StoredObject],
    version: str,
    include_object: str,
    revision: int,
    now: float,
    *,
    columns: bool = True,
) -> bytes:
    """A Table as JSON. `include_object`: "", "Metadata", "Object" or "None" as the query parameter says; `now` in epoch
    seconds, since ages are text here; `columns` is False for all but the first table of a watch."""
    rows = table_rows(served, items, version, include_object, now)
    return table_of(served, rows, version, {"resourceVersion": str(revision)}, columns=columns)


def table_rows(
    served: ServedKind, items: Sequence[StoredObject], version: str, include_object: str, now: float
) -> list[bytes]:
    """The rows of a Table, each as JSON. StatusError 400 for an unknown `include_object`."""
    if include_object not in ("", "Metadata", "Object", "None"):
        raise bad_request(f'unrecognized includeObject value: "{include_object[:50]}"')
    rows = []
    more = served.joined.cells(served.kind, items) if served.joined is not None else ((),) * len(items)
    for stored, joined in zip(items, more, strict=True):
        row: dict[str, Any] = {"cells": [*cells(served.kind, stored.body, now), *joined]}
        if include_object == "Object":
            row["object"] = orjson.Fragment(served.outward(stored.raw))
        elif include_object != "None":
            row["object"] = metadata_only(stored.body, version)
        rows.append(orjson.dumps(row))
    return rows


def table_of(
    served: ServedKind, rows: Sequence[bytes], version: str, meta: Mapping[str, Any], *, columns: bool = True
) -> bytes:
    """A Table of these rows."""
    more = served.joined.columns if served.joined is not None else ()
    return orjson.dumps(
        {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": meta,
            "columnDefinitions": column_definitions(served.kind, more) if columns else None,
            "rows": [orjson.Fragment(row) for row in rows],
        }
    )
