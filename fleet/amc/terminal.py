"""Text that a terminal may be given: what tenants and members write must not move its cursor, set its title or turn
round its lines.

The command lines print through `plain()`. Two things go past it: bytes that are the purpose of a command (logs, `exec`,
a backup, a picture), by `sys.stdout.buffer`, and the program's own colours, by `own()`.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

# C0 but tab and newline, DEL and C1; marks, embeddings, overrides and isolates of direction; the separators of lines
# that are no newline; halves of characters, which no encoding has.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
SIGN = "\ufffd"  # in place of each
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
CLEAR = "\x1b[H\x1b[2J"  # an empty screen, for `own`


def clean(text: str) -> str:
    """The text with a sign for each character that steers a terminal."""
    return UNSAFE.sub(SIGN, text)


class PlainStream:
    """A stream of text whose every character is shown, and nothing else done with it."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        self.stream.write(clean(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


@contextmanager
def plain() -> Iterator[None]:
    """Have all that this program prints meanwhile be plain. A stream that its caller has closed takes nothing."""
    before = sys.stdout, sys.stderr
    with open(os.devnull, "w") as nowhere:
        sys.stdout, sys.stderr = (cast(TextIO, PlainStream(stream or nowhere)) for stream in before)
        try:
            yield
        finally:
            sys.stdout, sys.stderr = before


def drop_output() -> None:
    """Have what is not printed yet, and all after it, go nowhere: its reader has gone, or its disk is full."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def own(stream: TextIO) -> TextIO:
    """The stream for text with the program's own escape sequences, in which all other text is clean."""
    return stream.stream if isinstance(stream, PlainStream) else stream
