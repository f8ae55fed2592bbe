"""The newest snapshot that the decider left in the store's history: questions about the fleet ask it."""

from __future__ import annotations

import asyncio
import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from api.engine.status import StatusError
from fleet.core.snapshot import Snapshot
from fleet.values.ports import Store

KIND = "snapshot"  # of the store's history
NODES = "nodes"  # likewise: the nodes with GPUs and the jobs on them (fleet/controllers/decide/nodesnow.py)


@dataclass(frozen=True, slots=True)
class StoredSnapshot:
    """`now`: the epoch second that the snapshot is of. It stays the newest for as long as nothing changes, so its age
    alone is no flaw."""

    id: int
    snapshot: Snapshot
    now: float


class LatestSnapshots:
    """Reads it, and keeps what it decoded: a fleet of 100,000 jobs is decoded once for each change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: StoredSnapshot | None = None
        self._reading = asyncio.Lock()  # the same row is not decoded twice at once

    async def latest(self) -> StoredSnapshot:
        """StatusError 404 while there is none."""
        async with self._reading:
            row = await self._row()
            if self._kept is None or self._kept.id != row["id"]:
                self._kept = await asyncio.to_thread(_decoded, row)
            return self._kept

    async def raw(self) -> bytes:
        """Its JSON, as `fleet decide` takes it. StatusError 404 while there is none."""
        return await asyncio.to_thread(_json, await self._row())

    async def _row(self) -> Mapping[str, Any]:
        rows = await self._store.read_history(KIND, limit=1)
        if not rows:
            message = "there is no snapshot yet: the controllers have not looked at a member or a job"
            raise StatusError(404, "NotFound", message)
        return rows[0]


def _json(row: Mapping[str, Any]) -> bytes:
    return zlib.decompress(base64.b64decode(row["snapshot"]))


def _decoded(row: Mapping[str, Any]) -> StoredSnapshot:
    # The notation loads the whole decision core, which an API process that was killed should not wait for.
    from fleet.core.notation.codec import decode_snapshot

    return StoredSnapshot(row["id"], decode_snapshot(orjson.loads(_json(row))), float(row["now"]))
