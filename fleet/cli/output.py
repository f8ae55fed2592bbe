"""Printing lists: aligned text for people, JSON and YAML for programs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fleet.amc import table, yamlout
from fleet.cli.colors import painted
from fleet.cli.options import Output

STATE = "state"  # the column that has colours
LAST_LEAST = 12  # characters of the last column that a narrow terminal leaves


class Table:
    """Aligned text that may come in parts: a later part is as wide as those before it, or wider.

    `width`: of the terminal, where the last column is cut with an ellipsis; None: nothing is cut.
    """

    def __init__(
        self, columns: Sequence[str], *, head: bool = True, color: bool = False, width: int | None = None
    ) -> None:
        self._columns = columns
        self._head = head
        self._color = color
        self._width = width
        self._widths: list[int] = []

    def lines(self, records: Iterable[Mapping[str, Any]]) -> list[str]:
        """The next lines, with the header where they are the first."""
        header = [column.upper().replace("_", " ") for column in self._columns]
        rows = [[table.cell(record.get(column)) or "-" for column in self._columns] for record in records]
        self._widths = table.widths([header, *rows], self._widths)
        printed = ([header] if self._head else []) + rows
        heads, self._head = int(self._head), False
        return [self._line(row, colored=at >= heads) for at, row in enumerate(printed)]

    def _line(self, row: Sequence[str], *, colored: bool) -> str:
        cells = [*(cell.ljust(width) for cell, width in zip(row, self._widths, strict=False)), row[-1]]
        if self._width is not None:
            room = max(LAST_LEAST, self._width - sum(self._widths))
            cells[-1] = row[-1] if len(row[-1]) <= room else row[-1][: room - 1] + "…"
        if self._color and colored and STATE in self._columns:
            at = self._columns.index(STATE)
            text = cells[at].rstrip()
            cells[at] = painted(text, row[at]) + " " * (len(cells[at]) - len(text))
        return "".join(cells).rstrip()


def terminal_width() -> int | None:
    """Columns of the terminal that stdout is; None where it is none."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


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
        printed = Table(columns, head=head, width=terminal_width()).lines(records)
        sys.stdout.writelines(line + "\n" for line in printed)


def show_one(record: dict[str, Any], output: Output) -> None:
    """Print one record as JSON or YAML."""
    sys.stdout.write(yamlout.as_json(record) if output is Output.json else yamlout.as_yaml(record))
