"""The snapshot as the decider sees it now, kept where other processes can read it: for questions such as `what-if`.

The API process has no inventory of the members. So the decider leaves its newest snapshot in the store's history, one
row that the next replaces, outside the objects and their log. A fleet that changes all the time must not pay for
readers that may never come: a row is written only when the snapshot is another, and no sooner than twenty times the
processor time of the last one, so that it costs a twentieth of a processor at most. The row may be so much older.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from time import thread_time
from typing import Any

import structlog

from api.loops.controller import cancelled
from fleet.controllers.decide.record import RowPacker
from fleet.controllers.runtime.hub import Hub
from fleet.core.snapshot import Snapshot
from fleet.values.ports import StoreUnavailable

log = structlog.get_logger(__name__)

KIND = "snapshot"  # of the store's history
PAUSE_MIN_S = 1.0  # between two rows
PAUSE_MAX_S = 60.0
PAUSE_PER_COST = 20.0


class LatestSnapshot:
    """Takes every snapshot of the decider, and writes the newest when it is due."""

    def __init__(self, hub: Hub, packer: RowPacker) -> None:
        self._hub = hub
        self._packer = packer
        self._offered: tuple[Callable[[], Snapshot], float] | None = None
        self._written: Snapshot | None = None
        self._writing: asyncio.Task[None] | None = None
        self._due = 0.0
        self.rows = 0  # written; tests read it

    def offer(self, made: Callable[[], Snapshot], now: float) -> None:
        """Returns at once. `made` is called when a row is due; `now`: the epoch second that the snapshot is of."""
        if not self._hub.config.record_decisions:
            return
        self._offered = (made, now)
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_when_due(), name="latest snapshot")

    async def close(self) -> None:
        """Write no more; an offered row is forgotten."""
        self._offered = None
        await cancelled(self._writing)

    async def _write_when_due(self) -> None:
        while self._offered is not None:
            await self._hub.clock.sleep(max(0.0, self._due - self._hub.clock.monotonic()))
            (made, now), self._offered = self._offered, None
            cost_s, began = 0.0, thread_time()  # waiting, for the store or for others on this machine, costs nothing
            try:
                snapshot = made()
                if snapshot == self._written:
                    continue
                making_s = thread_time() - began
                row, packing_s = await asyncio.to_thread(self._packed, snapshot, now)
                cost_s = making_s + packing_s
                await self._hub.store.history(KIND, row, keep=1)
                self._written = snapshot
                self.rows += 1
            except Exception as error:
                bug = None if isinstance(error, StoreUnavailable) else error
                log.warning("the latest snapshot is not written", error=str(error), exc_info=bug)
            self._due = self._hub.clock.monotonic() + min(PAUSE_MAX_S, max(PAUSE_MIN_S, PAUSE_PER_COST * cost_s))

    def _packed(self, snapshot: Snapshot, now: float) -> tuple[Mapping[str, Any], float]:
        """The row, and the seconds of processor time that it took."""
        began = thread_time()
        return self._packer.pack_snapshot(snapshot, now), thread_time() - began
