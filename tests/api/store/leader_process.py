"""A process that leads and writes until it is fenced; ends with status 3 then.

usage: python -m tests.api.store.leader_process DSN KEY_FILE
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import structlog

from api.store.leadership import PostgresLeadership
from api.store.postgres import PostgresStore
from fleet.simulate.wall import WallClock
from fleet.values.ports import StaleEpoch
from tests.api.store.world import put


async def main(dsn: str, key_file: str) -> int:
    store = PostgresStore(dsn, WallClock(), secret_key_file=Path(key_file))
    await store.start()
    leadership = PostgresLeadership(dsn)
    epoch = await leadership.acquire("controllers", "one")
    print(epoch, flush=True)
    number = 0
    while True:
        try:
            await store.commit([put(f"by-the-old-leader-{number}")], epoch=epoch)
        except StaleEpoch:
            print("fenced", flush=True)
            await store.stop()
            return 3
        if number == 0:
            print("wrote", flush=True)
        number += 1


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # stdout is for answers
    sys.exit(asyncio.run(main(sys.argv[1], sys.argv[2])))
