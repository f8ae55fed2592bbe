"""A sink of audit lines."""

from __future__ import annotations


class Kept:
    """A Sink of tests."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    def put(self, line: bytes) -> None:
        self.lines.append(line)
