"""The fair shares of the queues, worked out of the decider's newest snapshot.

Decoding a snapshot of 100,000 jobs takes seconds. So this is done beside the requests, and no sooner than twenty times
as long after the last time as that took. A request waits for it for a moment, and else shows the shares before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import structlog

from api.engine.status import StatusError
from fleet.admission.latest import LatestSnapshots, StoredSnapshot
from fleet.core.snapshot.shares import fair_shares

PATIENCE_S = 0.5
PAUSE_MIN_S = 1.0
PAUSE_MAX_S = 60.0
PAUSE_PER_COST = 20.0

Shares = Mapping[str, Mapping[str, int]]  # base units by path and resource
log = structlog.get_logger(__name__)


class FairShares:
    """Those of the newest snapshot. It is safe to ask at every request."""

    def __init__(self, snapshots: LatestSnapshots) -> None:
        self._snapshots = snapshots
        self._found: Shares = {}
        self._of: int | None = None  # the snapshot's number
        self._task: asyncio.Task[None] | None = None
        self._due = 0.0

    async def now(self) -> Shares:
        """Empty before the first are found, and without a tree."""
        if (self._task is None or self._task.done()) and time.monotonic() >= self._due:
            self._task = asyncio.create_task(self._find(), name="fair shares")
        if self._task is not None and not self._task.done():
            await asyncio.wait((self._task,), timeout=PATIENCE_S)
        return self._found

    async def _find(self) -> None:
        began = time.monotonic()
        try:
            latest = await self._snapshots.latest()
            if latest.id != self._of:
                self._found = await asyncio.to_thread(_shares, latest)
                self._of = latest.id
        except StatusError as error:
            if error.code != 404:
                log.warning("the fair shares cannot be read", error=str(error))
        except Exception as error:
            log.warning("the fair shares cannot be found", error=repr(error)[:300])
        ended = time.monotonic()
        self._due = ended + min(PAUSE_MAX_S, max(PAUSE_MIN_S, PAUSE_PER_COST * (ended - began)))


def _shares(latest: StoredSnapshot) -> Shares:
    tree = latest.snapshot.tree
    return {} if tree is None or tree.problems() else fair_shares(latest.snapshot, tree)
