"""`python -m tests.chaos.skewed FILE COMMAND…`: a `fleet` command whose clock jumps when it is told to.

The clock of every part of a hub process is the one that `fleet/cli/compose.py` makes. Here it runs apart from the
machine's by the seconds in FILE, which are read at the start and at each SIGUSR1. Monotonic time does not jump.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from pathlib import Path

from fleet.cli import compose, main
from fleet.simulate.wall import WallClock


class SkewedClock(WallClock):
    """All clocks of this process jump together."""

    ahead_s = 0.0

    def now(self) -> float:
        return time.time() + SkewedClock.ahead_s


def run() -> None:
    file = Path(sys.argv.pop(1))

    def jump(*_: object) -> None:
        with contextlib.suppress(OSError, ValueError):
            SkewedClock.ahead_s = float(file.read_text())

    signal.signal(signal.SIGUSR1, jump)
    compose.WallClock = SkewedClock  # type: ignore[misc]
    main.main()


if __name__ == "__main__":
    run()
