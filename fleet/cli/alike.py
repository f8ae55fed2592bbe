"""Rows of a table that say the same of many jobs, as one."""

from __future__ import annotations

from collections.abc import Sequence

FROM = 4  # so many rows alike become one


def merged(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """`rows` of a name and its text. Runs of rows that say the same of names that differ in their number become one
    row, with the first name, the last, and how many they are."""
    result: list[list[str]] = []
    start = 0
    for end in range(1, len(rows) + 1):
        if end < len(rows) and _said(rows[end]) == _said(rows[start]):
            continue
        run = rows[start:end]
        if len(run) < FROM:
            result += [list(row) for row in run]
        else:
            result.append([f"{run[0][0]} … {run[-1][0]} ({len(run)})", *run[0][1:]])
        start = end
    return result


def _said(row: Sequence[str]) -> tuple[str, ...]:
    return (row[0].rstrip("0123456789"), *row[1:])
