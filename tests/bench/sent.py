"""The way of gangs from a committed decision to their objects in the members, as a watch on the hub's bindings sees it.

Both ends are events of one watch, so what the watch itself takes is not in the difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from fleet.bindings.conditions import is_true
from fleet.wellknown import FULLY_APPLIED
from tests.bench.client import items, watched

BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
UNITS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/queueunits"
POLL_S = 0.1


@dataclass
class Sent:
    """Per job its member and the moments (of time.monotonic) at which its decision and its applied object were seen."""

    member: dict[str, str] = field(default_factory=dict)
    placed: dict[str, float] = field(default_factory=dict)
    applied: dict[str, float] = field(default_factory=dict)

    def take(self, body: dict[str, Any], at: float) -> None:
        job = body["spec"]["resource"]["name"]
        clusters = body["spec"].get("clusters")
        if clusters and job not in self.placed:
            self.placed[job], self.member[job] = at, clusters[0]["name"]
        if clusters and is_true(body, FULLY_APPLIED):
            self.applied.setdefault(job, at)

    def seconds(self, prefix: str, without: str = "") -> list[float]:
        """From decision to object, of the jobs whose names begin so; `without` those in this member."""
        jobs = [job for job in self.applied if job.startswith(prefix) and self.member[job] != without]
        return [self.applied[job] - self.placed[job] for job in jobs]

    def rate(self, prefix: str) -> float:
        """Jobs a second between the first decision and the last object."""
        jobs = [job for job in self.applied if job.startswith(prefix)]
        return len(jobs) / (max(self.applied[job] for job in jobs) - min(self.placed[job] for job in jobs))

    async def until(self, prefix: str, count: int, within_s: float, without: str = "") -> None:
        end = time.monotonic() + within_s
        while (done := len(self.seconds(prefix, without))) < count:
            assert time.monotonic() < end, f"only {done} of {count} gangs {prefix}* were applied in {within_s:g} s"
            await asyncio.sleep(POLL_S)


@contextlib.asynccontextmanager
async def seen(client: aiohttp.ClientSession) -> AsyncIterator[Sent]:
    """Follows the bindings meanwhile."""
    sent = Sent()

    async def follow() -> None:
        while True:  # a watch ends after some minutes
            async for bodies in watched(client, BINDINGS):
                at = time.monotonic()
                for body in bodies:
                    sent.take(body, at)

    following = asyncio.create_task(follow())
    try:
        yield sent
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following


async def until_queued(client: aiohttp.ClientSession, prefix: str, count: int, within_s: float) -> None:
    """Return when so many jobs whose names begin so wait, and a decision has said why."""
    end = time.monotonic() + within_s
    while True:
        units = [u for u in await items(client, UNITS) if u["metadata"]["name"].startswith(prefix)]
        told = [unit for unit in units if (unit.get("status") or {}).get("message")]
        if len(told) >= count:
            return
        assert time.monotonic() < end, f"only {len(told)} of {count} jobs {prefix}* wait after {within_s:g} s"
        await asyncio.sleep(1.0)
