"""Printing lists: aligned text for people, JSON and YAML for programs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from fleet.amc import table, yamlout
from fleet.cli.options import Output


def show(
    records: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    output: Output,
    *,
    nothing: str = "",
    head: bool = True,
) -> None:
    """Print `records`. As a table: the named keys as columns, the keys upper-cased as header where `head`; `nothing`
    when empty."""
    if output is Output.json:
        sys.stdout.write(yamlout.as_json(list(records)))
    elif output is Output.yaml:
        sys.stdout.write(yamlout.as_yaml(list(records)))
    elif not records:
        if nothing:
            print(nothing, file=sys.stderr)
    else:
        header = [column.upper().replace("_", " ") for column in columns]
        rows = [[table.cell(record.get(column)) or "-" for column in columns] for record in records]
        printed = table.lines([header, *rows])
        sys.stdout.writelines(line.rstrip() + "\n" for line in (printed if head else printed[1:]))


def show_one(record: dict[str, Any], output: Output) -> None:
    """Print one record as JSON or YAML."""
    sys.stdout.write(yamlout.as_json(record) if output is Output.json else yamlout.as_yaml(record))
