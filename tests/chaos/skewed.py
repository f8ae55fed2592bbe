"""`python -m tests.chaos.skewed FILE COMMAND…`: a `fleet` command whose clock jumps, or whose event loop is held, when
it is told to.

The clock of every part of a hub process is the one that `fleet/hub/compose.py` makes. Here it runs apart from the
machine's by the seconds in FILE, which are read at the start and at each SIGUSR1. Monotonic time does not jump.

SIGUSR2 holds the event loop for as long as the file of `hold_file(FILE)` exists. Other threads go on.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from pathlib import Path

from fleet.cli import main
from fleet.hub import compose
from fleet.simulate.wall import WallClock

HOLD_MAX_S = 300.0  # whatever became of the process that was to end it


class SkewedClock(WallClock):
    """All clocks of this process jump together."""

    ahead_s = 0.0

    def now(self) -> float:
        return time.time() + SkewedClock.ahead_s


def hold_file(clock_file: Path) -> Path:
    return clock_file.with_suffix(".hold")


def run() -> None:
    file = Path(sys.argv.pop(1))

    def jump(*_: object) -> None:
        with contextlib.suppress(OSError, ValueError):
            SkewedClock.ahead_s = float(file.read_text())

    def hold(*_: object) -> None:
        """Python calls this in the thread of the event loop, between two of its steps or within one."""
        end = time.monotonic() + HOLD_MAX_S
        while hold_file(file).exists() and time.monotonic() < end:
            time.sleep(0.05)

    signal.signal(signal.SIGUSR1, jump)
    signal.signal(signal.SIGUSR2, hold)
    compose.WallClock = SkewedClock  # type: ignore[attr-defined]
    main.main()


if __name__ == "__main__":
    run()
