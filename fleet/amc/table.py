"""Text columns exactly as kubectl prints them: three spaces between columns, none wider than needed.

kubectl uses a tab writer with a smallest cell of six and padding of three, and leaves the last column unpadded. So a
row whose last cell is empty ends in spaces, and so does ours.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.amc.terminal import clean

CELL_MIN = 6
PADDING = 3


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """`rows`, header first, all of one length; returns lines without the line break."""
    if not rows:
        return []
    wide = widths(rows)
    return [line(row, wide) for row in rows]


def widths(rows: Sequence[Sequence[str]], least: Sequence[int] = ()) -> list[int]:
    """The width of each column but the last; `least`: of the rows that were printed before these."""
    floor = least or [CELL_MIN] * (len(rows[0]) - 1)
    return [max(floor[i], *(len(row[i]) + PADDING for row in rows)) for i in range(len(rows[0]) - 1)]


def line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + row[-1]


def cell(value: object) -> str:
    """One cell of a server's Table as text: nothing for null, first line only."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    breaks = [at for at in map(text.find, "\f\n\r") if at >= 0]
    return clean(text[: min(breaks)] + "..." if breaks else text)
