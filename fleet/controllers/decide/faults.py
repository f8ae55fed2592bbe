"""Telling of bugs in the decider: a metric, an Event that `kubectl get events` shows, and the snapshot that it failed
on.

The snapshot is kept so that the bug can be had again on another machine (`fleet decide FILE`). A snapshot is large, so
the same error is kept once in a while only, and of all of them the newest few.
"""

from __future__ import annotations

import asyncio
import traceback
from collections import OrderedDict
from collections.abc import Sequence

import structlog

from fleet.controllers.decide.decider import ASIDE_S, Resort, text_of
from fleet.controllers.decide.record import RowPacker
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.core.snapshot import Snapshot
from fleet.values.ports import StoreUnavailable
from fleet.wellknown import DECISION_FAILED, SYSTEM_NAMESPACE

log = structlog.get_logger(__name__)

KIND = "fault"  # of the store's history
KEPT = 5  # rows
AGAIN_S = 600.0  # before the same error is kept again
KNOWN_MOST = 100
TRACE_MAX = 8_000  # characters, the last ones
_DONE = {
    Resort.WITHOUT_SOLVER: f"decisions are made without the solver for {ASIDE_S:g} s",
    Resort.LEFT_OUT: "others are decided without {jobs}",
    Resort.WITHOUT_RECLAIM: f"nothing is taken back for {ASIDE_S:g} s",
    Resort.UNREAD: "others are decided without {jobs}, whose ResourceBinding cannot be read",
    Resort.UNDECIDED: "nobody is placed; it is tried again, after 30 s at most",
}


class Faults:
    """See the module."""

    def __init__(self, hub: Hub, events: EventRecorder, packer: RowPacker) -> None:
        self._hub = hub
        self._events = events
        self._packer = packer
        self._clocks: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def tell(
        self,
        error: Exception,
        resort: Resort,
        snapshot: Snapshot | None,
        now: float,
        left_out: Sequence[str] = (),
    ) -> None:
        """`snapshot`: the input of the decision, None when there was none yet; `left_out`: names of the jobs, if some
        are."""
        self._hub.metrics.faults.labels(resort.value).inc()
        jobs = ", ".join(left_out[:5]) + (f" and {len(left_out) - 5} more" if left_out[5:] else "")
        trace = error if resort is not Resort.UNDECIDED else None  # which the caller logs itself
        log.error("deciding failed", error=text_of(error), resort=resort.value, left_out=jobs, exc_info=trace)
        message = f"{text_of(error)}. This is a bug of Fleet; {_DONE[resort].format(jobs=jobs)}."
        about = {"apiVersion": "v1", "kind": "Namespace", "name": SYSTEM_NAMESPACE}
        try:
            await self._events.record(about, DECISION_FAILED, message, warning=True)
            if snapshot is not None and self._news(error, resort):
                await self._keep(error, resort, snapshot, now)
        except StoreUnavailable as away:
            log.warning("a fault is told in the log alone", error=str(away))

    def _news(self, error: Exception, resort: Resort) -> bool:
        """Whether it was not kept a moment ago."""
        frames = traceback.extract_tb(error.__traceback__)
        told = getattr(error, "__notes__", ())  # by the decider's process, whose frames these are
        where = f"{type(error).__name__} {frames[-1].filename}:{frames[-1].lineno}" if frames else text_of(error)
        where = "\n".join((where, *told))
        clock = self._hub.clock.monotonic()
        key = (where, resort.value)
        if key in self._clocks and clock < self._clocks[key] + AGAIN_S:
            return False
        self._clocks[key] = clock
        self._clocks.move_to_end(key)
        while len(self._clocks) > KNOWN_MOST:
            self._clocks.popitem(last=False)
        return True

    async def _keep(self, error: Exception, resort: Resort, snapshot: Snapshot, now: float) -> None:
        row = await asyncio.to_thread(self._packer.pack_snapshot, snapshot, now)
        trace = "".join(traceback.format_exception(error))[-TRACE_MAX:]
        said = {"error": text_of(error), "resort": resort.value, "trace": trace}
        await self._hub.store.history(KIND, {**row, **said}, keep=KEPT)
