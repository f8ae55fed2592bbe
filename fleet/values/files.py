"""Files that only their owner may read."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
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


@contextlib.contextmanager
def whole_private(path: Path) -> Iterator[BinaryIO]:
    """A file to write, which has its name once it is whole and on the disk. Else nothing of it is left: where the
    system knows files without a name, not even after a kill. OSError."""
    if path.is_dir():  # known now, and not only when all is written
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.unlink(missing_ok=True)
    descriptor = _unnamed(path.parent)
    has_name = descriptor is None
    if descriptor is None:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE)
    output = os.fdopen(descriptor, "wb")
    try:
        yield output
        output.flush()
        os.fsync(descriptor)
        if not has_name:
            # With a descriptor, which an absolute path does not need, Python follows the link to the file.
            os.link(f"/proc/self/fd/{descriptor}", partial, src_dir_fd=descriptor)
        output.close()
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):  # of bytes that are not on the disk yet
            output.close()
        partial.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)  # a key must not be lost before what was written with it
    finally:
        os.close(folder)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, whole or not at all. OSError."""
    with whole_private(path) as output:
        output.write(content)


def _unnamed(folder: Path) -> int | None:
    """A new file without a name; None where there are no such files."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, PRIVATE)
    except (AttributeError, OSError):
        return None


def tighten(what: int | Path, mode: int = PRIVATE) -> None:
    """Take away what the mode does not allow; a file of another owner stays as it is."""
    with contextlib.suppress(OSError):
        now = os.stat(what).st_mode & 0o777  # noqa: PTH116
        if now & ~mode:
            os.chmod(what, now & mode)  # noqa: PTH101  # of a descriptor too
