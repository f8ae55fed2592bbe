"""The row in the store's history with the GPU figures of the members, and with the jobs that use theirs little.

The controllers write it about once a minute (fleet/controllers/cluster/gpuuse.py), and the API reads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fleet.values.ports import Store
from fleet.values.untyped import mapping, rows, text

GPU_USE = "gpu-use"  # kind of the row
LEVELS = (1, 5, 10, 20, 50)  # percent: a job is known since when its use is below each


@dataclass(frozen=True, slots=True)
class LowUseJob:
    """`kind`: group and kind of its object; `name`: namespace/name. `use`: the mean of its GPUs, from 0 to 1. `since`:
    epoch seconds by level."""

    unit: str
    kind: str
    name: str
    leaf: str
    user: str
    member: str
    gpus: int
    use: float
    since: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class GpuUseRow:
    """`at`: epoch seconds. `members`: `gpus`, `utilization`, `used_bytes`, `memory_bytes`, `power_watts`, `idle` and
    `silent` of each that names a source. `more_jobs`: jobs beyond the most of a row."""

    id: int
    at: float
    members: Mapping[str, Mapping[str, Any]]
    jobs: tuple[LowUseJob, ...]
    more_jobs: int


class LatestGpuUse:
    """Reads the newest row, and keeps what it read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: GpuUseRow | None = None
        self._reading = asyncio.Lock()

    async def latest(self) -> GpuUseRow | None:
        """None while there is none."""
        async with self._reading:
            found = await self._store.read_history(GPU_USE, limit=1)
            if not found:
                return None
            row = found[0]
            if self._kept is None or self._kept.id != row["id"]:
                members = {name: mapping(one) for name, one in mapping(row.get("members")).items()}
                jobs = tuple(_job(one) for one in rows(row.get("jobs")))
                self._kept = GpuUseRow(int(row["id"]), float(row["now"]), members, jobs, int(row.get("left") or 0))
            return self._kept


def _job(row: Mapping[str, Any]) -> LowUseJob:
    return LowUseJob(
        text(row.get("unit")),
        text(row.get("kind")),
        text(row.get("name")),
        text(row.get("leaf")),
        text(row.get("user")),
        text(row.get("member")),
        int(row["gpus"]),
        float(row["use"]),
        {int(level): float(at) for level, at in mapping(row.get("since")).items()},
    )
