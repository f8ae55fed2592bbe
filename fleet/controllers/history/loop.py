"""Records the history: the log of the store, a sample of usage each minute, and the end of months that are old.

A database that is away stops nothing else. The loop tries again after a growing, bounded pause, and says so in the log
and in the metrics. The cursor stays where it was, and the log of the store reaches back for minutes at least.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from fleet.accounts.recorder import BATCH, JobChange, Recorder, Tell, nobody
from fleet.accounts.retention import retain
from fleet.accounts.schema import engine_of, prepare
from fleet.accounts.usage import MINUTE_S, sample
from fleet.controllers.history import gpus, lives
from fleet.controllers.history.counts import count as count_changes
from fleet.controllers.runtime.hub import Hub
from fleet.values.ports import SchemaTooNew, StoreUnavailable
from fleet.wellknown import QUEUE, QUEUE_NAMESPACE

log = structlog.get_logger(__name__)

POLL_S = 0.5  # at the end of the log
RETRY_FIRST_S, RETRY_MAX_S = 1.0, 60.0
RETAIN_S = 3600.0
AWAY = (
    OSError,
    TimeoutError,
    StoreUnavailable,
    SchemaTooNew,
    SQLAlchemyError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
)


class HistoryLoop:
    name = "history"

    def __init__(self, hub: Hub, dsn: str, tell: Tell = nobody) -> None:
        """`tell` is called in the transaction of each batch that is recorded."""
        self._hub, self._dsn, self._tell = hub, dsn, tell
        self.recorder: Recorder | None = None  # while the history can be written
        self._changes: list[JobChange] = []  # that the step under way records
        self._minute, self._retained = -1.0, float("-inf")
        self._upto = 0.0  # epoch seconds; all changes until then are in the history

    async def run(self) -> None:
        pause = RETRY_FIRST_S
        self._upto = self._hub.clock.now()
        # As of the moment of a scrape: a database that does not answer leaves nobody who could set it.
        self._hub.metrics.history_lag.set_function(lambda: max(0.0, self._hub.clock.now() - self._upto))
        while True:
            engine = engine_of(self._dsn)
            began = self._hub.clock.monotonic()
            try:
                await self._follow(engine)
            except AWAY as error:
                self.recorder = None
                self._hub.metrics.history_failing.set(1)
                pause = RETRY_FIRST_S if self._hub.clock.monotonic() - began > RETRY_MAX_S else pause
                log.warning("the history cannot be written", error=str(error)[:300], again_in_s=pause)
            finally:
                self.recorder = None
                await engine.dispose()
            await self._hub.clock.sleep(pause)
            pause = min(RETRY_MAX_S, 2 * pause)

    def has(self, revision: int) -> bool:
        """Whether all changes up to this revision are in the history."""
        return self.recorder is not None and self.recorder.revision >= revision

    async def _follow(self, engine: AsyncEngine) -> None:
        hub = self._hub
        await prepare(self._dsn)
        recorder = Recorder(
            hub.store,
            hub.registry,
            engine,
            hub.clock,
            lambda binding: gpus.of_binding(hub.members, binding),
            self._recording,
        )
        await recorder.begin()
        self.recorder = recorder
        while True:
            self._changes.clear()
            began = hub.clock.now()
            count = await recorder.step()
            count_changes(hub.metrics, self._changes)
            lives.tell(hub, self._changes)
            hub.metrics.history_failing.set(0)
            hub.metrics.history_revision.set(recorder.revision)
            self._upto = recorder.at if count == BATCH else began
            await self._on_the_minute(engine)
            if count < BATCH:
                await hub.clock.sleep(POLL_S)

    async def _recording(self, connection: AsyncConnection, changes: Sequence[JobChange]) -> None:
        """The transaction may yet fail, so the changes count after the step."""
        await self._tell(connection, changes)
        self._changes.extend(changes)

    async def _on_the_minute(self, engine: AsyncEngine) -> None:
        now, config = self._hub.clock.now(), self._hub.config
        minute = now - now % MINUTE_S
        if minute == self._minute:
            return
        models = [m for name in self._hub.members.names() if (m := self._hub.members.model(name)) is not None]
        members = {(m.name, model): count for m in models if m.ready for model, count in gpus.of_member(m).items()}
        queues = gpus.of_queues(self._hub.store, self._hub.bodies(QUEUE, "queues", QUEUE_NAMESPACE))
        async with engine.begin() as connection:
            await sample(connection, now, members, queues)
            if now - self._retained >= RETAIN_S:
                await retain(connection, now, job_days=config.history_days, usage_days=config.usage_days)
                self._retained = now
        self._minute = minute
