"""A process that writes COUNT times, or until SIGTERM. Prints `name revision` for each acknowledged write.

usage: python -m tests.api.store.writer_process DSN KEY_FILE PREFIX COUNT CONCURRENCY
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import structlog

from api.store.postgres import PostgresStore
from fleet.simulate.wall import WallClock
from fleet.values.ports import ABSENT, CommitResult, Put, StoreUnavailable
from tests.api.store.world import body, key


async def main(dsn: str, key_file: str, prefix: str, count: int, concurrency: int) -> None:
    store = PostgresStore(dsn, WallClock(), secret_key_file=Path(key_file))
    await store.start()
    numbers = iter(range(count))
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, told.set)

    async def work() -> None:
        for number in numbers:
            if told.is_set():
                return
            name = f"{prefix}-{number}"
            try:
                outcome = await store.commit([Put(key(name), body(name), ABSENT)])
            except StoreUnavailable as error:
                print(f"{name} unavailable {error}", file=sys.stderr, flush=True)
                continue
            assert isinstance(outcome, CommitResult), outcome
            print(name, outcome.revision, flush=True)

    await asyncio.gather(*(work() for _ in range(concurrency)))
    await store.stop()


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is for answers
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
