"""Delivers notifications: enters long waits, sends what is due, and says in each receiver's status how it goes.

Happenings are entered by `enter`, which the recorder of the history calls in its own transaction. A receiver that fails
is tried again after a growing pause, and holds up no other: at most AT_ONCE deliveries run together, and at most
OF_ONE of them are to one receiver.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

import asyncpg
import sqlalchemy as sa
import structlog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from api.outgoing import AllowList, OutgoingClient
from api.outgoing.reach import Resolver
from fleet.accounts import rows
from fleet.accounts.models import JobRecord
from fleet.accounts.recorder import JobChange
from fleet.accounts.schema import engine_of, prepare
from fleet.bindings.conditions import set_condition
from fleet.controllers.notify.receivers import RESOURCE, Receivers, long_waits
from fleet.controllers.runtime.hub import Hub
from fleet.kinds import kind_word
from fleet.notify import outbox
from fleet.notify.happening import Happening, happenings, waits_long
from fleet.notify.sender import DeliveryFailure, Sender
from fleet.values.ports import Body, Key, SchemaTooNew, StoreUnavailable
from fleet.values.times import rfc3339, seconds
from fleet.values.untyped import mapping, text
from fleet.wellknown import CONFIG

log = structlog.get_logger(__name__)

POLL_S = 1.0
RETRY_FIRST_S, RETRY_MAX_S = 1.0, 60.0
WAITS_S = 15.0  # between two looks for long waits
FORGET_S = 3600.0
SAID_S = 60.0  # between two times of a receiver's last delivery
DELIVERING = "Delivering"  # its condition
DUE_MAX, AT_ONCE, OF_ONE = 200, 16, 4
WAITING_MAX = 1000  # jobs of one look for long waits
AWAY = (
    OSError,
    TimeoutError,
    StoreUnavailable,
    SchemaTooNew,
    SQLAlchemyError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
)


class NotifyLoop:
    """A Loop. `resolver`: how names become addresses; None: as the machine does it."""

    name = "notifications"

    def __init__(self, hub: Hub, dsn: str, *, resolver: Resolver | None = None) -> None:
        self._hub, self._dsn = hub, dsn
        self._receivers = Receivers(hub)
        self._outgoing = OutgoingClient(AllowList.parse(hub.config.outgoing_allow), resolver=resolver)
        self._sender = Sender(self._outgoing, self._receivers.secret)
        self._unrecorded: dict[str, outbox.DueNotification] = {}  # by id: delivered, and not recorded so far
        self._waited_at = self._forgot_at = float("-inf")

    async def enter(self, connection: AsyncConnection, changes: Sequence[JobChange]) -> None:
        """Enter what the changes mean to receivers, in the transaction that records them."""
        among = self._receivers.all()
        if not among:
            return
        entries: list[tuple[str, str, Happening]] = []
        for change in changes:
            for happening in happenings(change.before, change.after, change.at):
                job = self._receivers.job(change.body, happening.uid)
                if job is not None:
                    asking = self._receivers.asking(happening, job, among)
                    entries += [(receiver.namespace, receiver.name, happening) for receiver in asking]
        await outbox.enter(connection, entries, self._hub.clock.now())

    async def run(self) -> None:
        async with self._outgoing:
            await self._run()

    async def _run(self) -> None:
        pause = RETRY_FIRST_S
        while True:
            engine = engine_of(self._dsn)
            began = self._hub.clock.monotonic()
            try:
                await prepare(self._dsn)
                while True:
                    await self.step(engine)
                    await self._hub.clock.sleep(POLL_S)
            except AWAY as error:
                pause = RETRY_FIRST_S if self._hub.clock.monotonic() - began > RETRY_MAX_S else pause
                log.warning("notifications cannot be read", error=str(error)[:300], again_in_s=pause)
            finally:
                await engine.dispose()
            await self._hub.clock.sleep(pause)
            pause = min(RETRY_MAX_S, 2 * pause)

    async def step(self, engine: AsyncEngine) -> None:
        """Deliver what is due now, some of each receiver."""
        now = self._hub.clock.now()
        for due in list(self._unrecorded.values()):  # before another delivery, so that nobody is told twice
            await self._record(engine, due, now)
        if now - self._waited_at >= WAITS_S:
            await self._enter_waits(engine, now)
            self._waited_at = now
        if now - self._forgot_at >= FORGET_S:
            async with engine.begin() as connection:
                await outbox.forget(connection, now)
            self._forgot_at = now
        async with engine.connect() as connection:
            found = await outbox.due(connection, now, DUE_MAX)
        turns: list[outbox.DueNotification] = []
        of_one = Counter[tuple[str, str]]()
        for due in found:
            of_one[due.namespace, due.receiver] += 1
            if of_one[due.namespace, due.receiver] <= OF_ONE and len(turns) < AT_ONCE:
                turns.append(due)
        ends = await asyncio.gather(*(self._deliver(engine, due) for due in turns), return_exceptions=True)
        for end in ends:
            if isinstance(end, BaseException):
                raise end

    async def _enter_waits(self, engine: AsyncEngine, now: float) -> None:
        among = [receiver for receiver in self._receivers.all() if receiver.long_s is not None]
        shortest = long_waits(among)
        if shortest is None:
            return
        async with engine.begin() as connection:
            waiting = (
                sa.select(JobRecord.uid)
                .where(
                    JobRecord.started.is_(None),
                    JobRecord.ended.is_(None),
                    JobRecord.submitted < outbox.when(now - shortest),
                )
                .order_by(JobRecord.submitted.desc())
                .limit(WAITING_MAX)
            )
            lives = await rows.load(connection, set((await connection.scalars(waiting)).all()))
            entries: list[tuple[str, str, Happening]] = []
            for life in lives.values():
                happening = waits_long(life, now)
                job = self._job_named(life.kind, life.namespace, life.name, life.uid)
                if job is None:
                    continue
                for receiver in self._receivers.asking(happening, job, among):
                    assert receiver.long_s is not None
                    if now - life.submitted >= receiver.long_s:
                        entries.append((receiver.namespace, receiver.name, happening))
            await outbox.enter(connection, entries, now)

    def _job_named(self, kind: str, namespace: str, name: str, uid: str) -> Body | None:
        """The job, by its kind as people name it."""
        for found in self._hub.registry:
            if kind_word(found.group, found.kind) != kind:
                continue
            body = self._hub.peek(found.group, found.resource, namespace, name)
            if body is not None and mapping(body.get("metadata")).get("uid") == uid:
                return body
        return None

    async def _deliver(self, engine: AsyncEngine, due: outbox.DueNotification) -> None:
        receiver = self._receivers.find(due.namespace, due.receiver)
        problem = ""
        if receiver is not None:
            try:
                await self._sender.send(receiver, due.id, due.happening, self._hub.clock.now())
            except DeliveryFailure as error:
                problem = str(error)
            else:
                self._unrecorded[due.id] = due
        now = self._hub.clock.now()
        if due.id in self._unrecorded:
            await self._record(engine, due, now)
            return
        async with engine.begin() as connection:
            if receiver is None:
                await outbox.close(connection, due.id, outbox.NO_RECEIVER, now)
                return
            again = await outbox.failed(connection, due, problem, now)
        log.warning(
            "a notification is not delivered",
            receiver=f"{due.namespace}/{due.receiver}",
            why=problem,
            tries=due.tries + 1,
            given_up=not again,
        )
        self._hub.metrics.notifications.labels("failed").inc()
        await self._say(due.namespace, due.receiver, problem, now)

    async def _record(self, engine: AsyncEngine, due: outbox.DueNotification, now: float) -> None:
        """Record a delivery. Where the database takes no writes, the next step begins with it."""
        async with engine.begin() as connection:
            await outbox.close(connection, due.id, outbox.DELIVERED, now)
        self._unrecorded.pop(due.id, None)
        self._hub.metrics.notifications.labels("delivered").inc()
        await self._say(due.namespace, due.receiver, "", now)

    async def _say(self, namespace: str, name: str, problem: str, now: float) -> None:
        """The status of the receiver. The time of its last delivery alone is written once a minute."""

        def change(body: Body) -> bool:
            status = body.setdefault("status", {})
            last = seconds(text(status.get("lastDelivered"))) or 0.0
            why = ("DeliveryFails", problem) if problem else ("Delivered", "The last notification was delivered.")
            changed = set_condition(body, DELIVERING, not problem, *why, now)
            if problem or not (changed or now - last >= SAID_S):
                return changed
            status["lastDelivered"] = rfc3339(now)
            return True

        await self._hub.edit(Key(CONFIG, RESOURCE, namespace, name), change)
