"""Text columns exactly as kubectl prints them: three spaces between columns, none wider than needed.

kubectl uses a tab writer with a smallest cell of six and padding of three, and leaves the last column unpadded. So a
row whose last cell is empty ends in spaces, and so does ours.
"""

from __future__ import annotations

from collections.abc import Sequence

CELL_MIN = 6
PADDING = 3


def lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """`rows`, header first, all of one length; returns lines without the line break."""
    if not rows:
        return []
    widths = [max(CELL_MIN, *(len(row[i]) + PADDING for row in rows)) for i in range(len(rows[0]) - 1)]
    return ["".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + row[-1] for row in rows]


def cell(value: object) -> str:
    """One cell of a server's Table as text: nothing for null, first line only."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    breaks = [at for at in map(text.find, "\f\n\r") if at >= 0]
    return text[: min(breaks)] + "..." if breaks else text
