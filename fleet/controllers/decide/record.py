"""Decision records: input and result of each decision, so that it can be replayed.

Records are history, not state: a record that cannot be written is lost and counted, and never holds up a decision. The
snapshot is most of a record, and compresses tenfold; of it, only what is another object than in the record before is
encoded again. Each record has a short row beside it, for lists (decisionrow.py).
"""

from __future__ import annotations

import asyncio
import base64
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import structlog

from api.loops.controller import cancelled
from fleet.controllers.decide.decisionrow import listed
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.member import Member
from fleet.core.model.plan import Plan
from fleet.core.model.unit import Unit
from fleet.core.notation.codec import encode_one, encode_record, encode_snapshot
from fleet.core.snapshot import Snapshot
from fleet.values.ports import StoreUnavailable

log = structlog.get_logger(__name__)

KIND = "decision"  # of the store's history: the rows of lists
RECORD = "decision-record"  # what such a row names by its id


class DecisionRecorder:
    """Appends decision records to the store's history."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.packer = RowPacker()
        self._writing: asyncio.Task[None] | None = None
        self.lost = 0

    async def record(self, snapshot: Snapshot, plan: Plan, *, now: float, seed: int, took_s: float) -> None:
        """Write it beside the next decision: one at a time, so that a slow store slows the decider instead of piling
        records up. `took_s`: seconds from the look at the fleet to the plan."""
        if not self._hub.config.record_decisions:
            return
        if self._writing is not None:
            await self._writing
        self._writing = asyncio.create_task(self._write(snapshot, plan, now, seed, took_s), name="decision record")

    async def close(self) -> None:
        """Write no more."""
        await cancelled(self._writing)
        self._writing = None

    async def _write(self, snapshot: Snapshot, plan: Plan, now: float, seed: int, took_s: float) -> None:
        try:
            record = await asyncio.to_thread(self.packer.pack, snapshot, plan, now, seed)
            number = await self._hub.store.history(RECORD, record)
            row = listed(snapshot, plan, now=now, took_s=took_s)
            await self._hub.store.history(KIND, {**row, "record": number})
        except Exception as error:
            self.lost += 1
            self._hub.metrics.lost_records.inc()
            bug = None if isinstance(error, StoreUnavailable) else error
            log.warning("a decision record is lost", error=str(error), lost=self.lost, exc_info=bug)


class RowPacker:
    """Makes rows of records and of snapshots, one at a time. Units and members are immutable, so the JSON of one is
    good for as long as the snapshots hold that very object."""

    def __init__(self) -> None:
        self._cache: dict[int, tuple[Unit | Member, orjson.Fragment]] = {}
        self._one_at_a_time = threading.Lock()

    def pack(self, snapshot: Snapshot, plan: Plan, now: float, seed: int) -> dict[str, Any]:
        """One row: the whole record compressed (zlib, base64)."""
        with self._one_at_a_time:
            document = orjson.dumps(encode_record(snapshot, plan, now=now, seed=seed, encoder=self._encoder()))
        return {"record": _packed(document)}

    def pack_snapshot(self, snapshot: Snapshot, now: float) -> dict[str, Any]:
        """One row: the epoch second that the snapshot is of, and the snapshot compressed as in a record."""
        with self._one_at_a_time:
            document = orjson.dumps({**encode_snapshot(snapshot, self._encoder()), "now": now})
        return {"now": now, "snapshot": _packed(document)}

    def _encoder(self) -> Callable[[Unit | Member], orjson.Fragment]:
        """Encodes each unit and member of one snapshot; unchanged ones come from the snapshot before."""
        before, self._cache = self._cache, {}

        def one(value: Unit | Member) -> orjson.Fragment:
            known = before.get(id(value))
            if known is None:
                known = (value, orjson.Fragment(orjson.dumps(encode_one(value))))
            self._cache[id(value)] = known  # the value too: its id is its own for as long as it is held
            return known[1]

        return one


def _packed(document: bytes) -> str:
    return base64.b64encode(zlib.compress(document, 1)).decode()


def unpack(row: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a row, as `fleet.core.notation.codec.replay` takes it."""
    found: dict[str, Any] = orjson.loads(zlib.decompress(base64.b64decode(row["record"])))
    return found
