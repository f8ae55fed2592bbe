"""The classes in force: the stored FlowSchemas and PriorityLevelConfigurations, followed.

A change counts for the next request, whichever process made it. Answers are remembered until then.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

import structlog

from api.fairness.defaults import GROUP
from api.fairness.keeper import Keeper
from api.fairness.metrics import RequestCounts, Tally
from api.fairness.scheduler import Flow, PriorityLevel, Scheduler
from api.fairness.schemas import Schema, read_levels, read_schemas
from api.objects.objects import Objects
from api.objects.writing import User
from api.wire.rights import Attributes
from fleet.values.ports import ExpiredRevision, FutureRevision, StoreUnavailable

SCHEMAS, LEVELS = "flowschemas", "prioritylevelconfigurations"
RETRY_S = 0.2
LOOK_S = 60.0  # between two looks at what is stored, without a change
_REMEMBERED = 20_000
_REMEMBERED_CHARS = 1024  # of one question: any user may ask long ones
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Class:
    """The class of a request: its level and flow, the headers that name it to the client, its counts."""

    level: PriorityLevel
    flow: Flow
    headers: tuple[tuple[bytes, bytes], ...]
    tally: Tally


class Config:
    """Classifies requests. `keeper` restores what must be there, and says in each schema whether its level is."""

    def __init__(self, objects: Objects, scheduler: Scheduler, counts: RequestCounts) -> None:
        self._store = objects.store
        self._keeper = Keeper(objects)
        self._scheduler, self._counts = scheduler, counts
        self._schemas: tuple[Schema, ...] = ()
        self._known: dict[tuple[object, ...], Class] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._stale = True

    async def start(self) -> None:
        await self._keeper.keep()
        self._tasks = [
            asyncio.create_task(self._follow(resource), name=f"fairness-{resource}") for resource in (SCHEMAS, LEVELS)
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    def classify(self, user: User, attributes: Attributes) -> Class:
        if self._stale:
            self._read()
        # All that a schema may ask for: not the name, of which there are many.
        key = (
            user.name,
            user.groups,
            attributes.verb,
            attributes.group,
            attributes.resource,
            attributes.subresource,
            attributes.namespace,
            attributes.path,
        )
        request_class = self._known.get(key)
        if request_class is None:
            request_class = self._find(user, attributes)
            if sum(len(str(part)) for part in key) <= _REMEMBERED_CHARS:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[key] = request_class
        return request_class

    def _find(self, user: User, attributes: Attributes) -> Class:
        last = self._schemas[-1]
        schema = next((one for one in self._schemas if one.matches(user, attributes)), last)
        level = self._scheduler.levels[schema.level]
        headers = (
            (b"x-kubernetes-pf-flowschema-uid", schema.uid.encode()),
            (b"x-kubernetes-pf-prioritylevel-uid", level.uid.encode()),
        )
        flow = level.flow(schema.flow(user, attributes))
        return Class(level, flow, headers, self._counts.tally(schema.name, level.name))

    def _read(self) -> None:
        self._stale = False
        self._known.clear()
        levels = read_levels(stored.body for stored in self._store.scan(GROUP, LEVELS))
        self._schemas = read_schemas((stored.body for stored in self._store.scan(GROUP, SCHEMAS)), levels)
        self._scheduler.configure(levels)

    async def _follow(self, resource: str) -> None:
        while True:
            try:
                await self._watch(resource)
            except (ExpiredRevision, FutureRevision, StoreUnavailable):
                pass
            except Exception:  # without a follower the old classes would stay in force: say so and begin again
                log.exception("following the flow control failed", resource=resource)
            await asyncio.sleep(RETRY_S)

    async def _watch(self, resource: str) -> None:
        watch = await self._store.watch(GROUP, resource)
        try:
            while True:
                self._stale = True  # also by what changed before the watch began
                await self._keeper.keep()
                await watch.next(LOOK_S)
        finally:
            await watch.aclose()
