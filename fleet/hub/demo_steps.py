"""The steps of `fleet demo`: each is headed by its number, and in a terminal a line below shows that it goes on."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from fleet.cli.colors import Color, wanted


class Steps:
    """So many steps, counted as they begin."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._number = 0
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the first step was to begin."""
        return time.monotonic() - self._began

    def begin(self, text: str) -> None:
        """Head the next step: its number, what happens in it, the seconds so far."""
        self._number += 1
        line = f"── Step {self._number} of {self._count} · {text} · {self.seconds:.0f} s ──"
        bold, plain = ("\033[1m", "\033[0m") if wanted(Color.auto) else ("", "")
        print(f"\n{bold}{line}{plain}", flush=True)

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """A line that counts seconds while the block runs, and is gone afterwards. Not a terminal: nothing."""
        if not sys.stdout.isatty():
            yield
            return
        from rich.progress import Progress, TextColumn, TimeElapsedColumn

        # Nothing else prints meanwhile, so that output is never wrapped by another than the terminal.
        columns = TextColumn("{task.description}", markup=False), TimeElapsedColumn()
        with Progress(*columns, transient=True, redirect_stdout=False, redirect_stderr=False) as line:
            line.add_task(f"  step {self._number} of {self._count}: {what}", total=None)
            yield
