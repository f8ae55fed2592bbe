"""A simulated month: `python -m tests.accounts.month [JOBS] [DAYS]` says how well GPU hours of the history add up.

It takes minutes, so that it is no test; test_adds_up.py does the same for some hours.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from api.store.embedded import EmbeddedPostgres
from tests.accounts.replay import HOUR, counted, replayed, seen_in_members


def main(jobs: int, days: float) -> None:
    done, hub = replayed(days, jobs)
    saw = seen_in_members(done)
    with tempfile.TemporaryDirectory(prefix="fleet-month-") as directory:
        server = EmbeddedPostgres(Path(directory))
        dsn = asyncio.run(server.start())
        try:
            found = counted(dsn, hub)
        finally:
            asyncio.run(server.stop())
    off = abs(found.gpu_s - saw) / saw
    print(f"{jobs} jobs in {days:g} days, {found.ended} ended, {found.evictions} evictions")
    print(f"members {saw / HOUR:.3f} GPU h, history {found.gpu_s / HOUR:.3f} GPU h: {off:.6%} apart")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60, float(sys.argv[2]) if len(sys.argv) > 2 else 30.0)
