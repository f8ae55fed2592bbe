"""Printing lists: aligned text for people, JSON and YAML for programs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from fleet.amc import table, yamlout
from fleet.cli.options import Output


def show(records: Sequence[dict[str, Any]], columns: Sequence[str], output: Output, *, nothing: str = "") -> None:
    """Print `records`. As a table: the named keys as columns, the keys upper-cased as header; `nothing` when empty."""
    if output is Output.json:
        sys.stdout.write(yamlout.as_json(list(records)))
    elif output is Output.yaml:
        sys.stdout.write(yamlout.as_yaml(list(records)))
    elif not records:
        print(nothing, file=sys.stderr)
    else:
        head = [column.upper().replace("_", " ") for column in columns]
        rows = [[table.cell(record.get(column)) or "-" for column in columns] for record in records]
        sys.stdout.writelines(line.rstrip() + "\n" for line in table.lines([head, *rows]))


def show_one(record: dict[str, Any], output: Output) -> None:
    """Print one record as JSON or YAML."""
    sys.stdout.write(yamlout.as_json(record) if output is Output.json else yamlout.as_yaml(record))
