"""Files that only their owner may read."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import BinaryIO

PRIVATE = 0o600


def append_private(path: Path) -> BinaryIO:
    """The file, open for appending; made with mode 0600, and given it where it has another."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
    try:
        tighten(descriptor)
        return os.fdopen(descriptor, "ab")
    except BaseException:
        os.close(descriptor)
        raise


def tighten(what: int | Path, mode: int = PRIVATE) -> None:
    """Take away what the mode does not allow; a file of another owner stays as it is."""
    with contextlib.suppress(OSError):
        now = os.stat(what).st_mode & 0o777  # noqa: PTH116
        if now & ~mode:
            os.chmod(what, now & mode)  # noqa: PTH101  # of a descriptor too
