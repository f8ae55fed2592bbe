"""CSV files of traces, plain or compressed. An error in one names file, line and column."""

from __future__ import annotations

import csv
import gzip
import lzma
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TextIO, cast

ROWS_MAX = 5_000_000


class BadTrace(ValueError):
    """The file is not what it should be; the text says where and why, in one line."""


class TableRow:
    """One line by column name. Values are read with the type that they should have."""

    __slots__ = ("_cells", "_path", "line")

    def __init__(self, path: Path, line: int, cells: dict[str, str]) -> None:
        self._path, self.line, self._cells = path, line, cells

    def text(self, column: str) -> str:
        return self._cells[column].strip()

    def number(self, column: str, *, least: float = 0.0) -> float:
        text = self.text(column)
        try:
            value = float(text)
        except ValueError:
            raise self.bad(column, f"{text!r} is not a number") from None
        if not least <= value < 1e15:  # NaN is refused here, too
            raise self.bad(column, f"{text} is not between {least:g} and 1e15")
        return value

    def whole(self, column: str, *, least: int = 0) -> int:
        value = self.number(column, least=least)
        if value != int(value):
            raise self.bad(column, f"{self.text(column)} is not a whole number")
        return int(value)

    def bad(self, column: str, problem: str) -> BadTrace:
        return BadTrace(f"{self._path}: line {self.line}, column {column}: {problem}")


def header(path: Path) -> tuple[str, ...]:
    """The names of the columns, in the first line that is not blank."""
    with _open(path) as lines:
        return tuple(_reader(path, lines).fieldnames or ())


def rows(path: Path, columns: Collection[str]) -> Iterator[TableRow]:
    """Every line that is not blank; `columns` must be there, others may."""
    with _open(path) as lines:
        reader = _reader(path, lines)
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise BadTrace(f"{path}: line 1: there is no column {missing[0]}")
        try:
            for number, cells in enumerate(reader):
                if number >= ROWS_MAX:
                    raise BadTrace(f"{path}: more than {ROWS_MAX} lines")
                if None in cells or None in cells.values():
                    raise BadTrace(f"{path}: line {reader.line_num}: not {len(reader.fieldnames or ())} columns")
                yield TableRow(path, reader.line_num, cells)
        except (UnicodeDecodeError, csv.Error, lzma.LZMAError, EOFError, OSError) as error:
            raise BadTrace(f"{path}: line {reader.line_num + 1}: cannot be read ({error})") from error


def _reader(path: Path, lines: TextIO) -> csv.DictReader[str]:
    reader = csv.DictReader(lines, strict=True)
    try:
        names = reader.fieldnames
    except (UnicodeDecodeError, csv.Error, lzma.LZMAError, EOFError, OSError) as error:
        raise BadTrace(f"{path}: cannot be read ({error})") from error
    if not names:
        raise BadTrace(f"{path}: is empty")
    reader.fieldnames = [name.strip() for name in names]
    return reader


def _open(path: Path) -> TextIO:
    try:
        if path.suffix == ".xz":
            return lzma.open(path, "rt", encoding="utf-8", newline="")
        if path.suffix == ".gz":
            return cast(TextIO, gzip.open(path, "rt", encoding="utf-8", newline=""))
        return path.open(encoding="utf-8", newline="")
    except OSError as error:
        raise BadTrace(f"{path}: cannot be read ({error.strerror or error})") from error
