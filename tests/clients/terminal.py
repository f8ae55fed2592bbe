"""A program in a terminal of its own, and what a person sees there."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import selectors
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import pyte

COLUMNS, ROWS = 180, 50


class Terminal:
    """`with Terminal(command, environment) as terminal`; at the end the program is killed."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            list(command),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**environment, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # k9s draws on /dev/tty
        )
        os.close(slave)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(10)
        os.close(self._master)

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display)

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, what: str, seen: Callable[[str], object], within_s: float = 120) -> str:
        """The screen once `seen` holds of it."""
        end = time.monotonic() + within_s
        while not seen(self.text):
            assert time.monotonic() < end, f"{what} was not seen within {within_s:g} s:\n{self.text}"
            assert self._read(1.0) or self._process.poll() is None, f"ended before {what}:\n{self.text}"
        return self.text

    def _read(self, within_s: float) -> bool:
        with selectors.DefaultSelector() as selector:
            selector.register(self._master, selectors.EVENT_READ)
            if not selector.select(within_s):
                return False
        try:
            data = os.read(self._master, 65536)
        except OSError as error:
            if error.errno != errno.EIO:  # the program has closed the other end
                raise
            data = b""
        self._stream.feed(data)
        return bool(data)
