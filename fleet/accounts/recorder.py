"""Follows the store's log and writes the history: one batch of events, and the cursor, in one transaction.

Nothing is kept between two batches but the names of the units of jobs that live, so a recorder that was killed at any
line goes on from the cursor. Two recorders at once (an old leader and a new one) do no harm either: the row of the
cursor is locked, and a batch that does not begin at the cursor is dropped.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from api.engine.registry import Registry
from fleet.accounts import rows
from fleet.accounts.fold import JobLife, JobObservation, binding_seen, job_seen, unit_seen, vanished
from fleet.accounts.models import AttemptRecord, Cursor, JobRecord
from fleet.bindings import binding as b
from fleet.kinds import INTERPRETERS
from fleet.values.ports import Body, Clock, Event, EventType, ExpiredRevision, Store
from fleet.values.times import rfc3339
from fleet.values.untyped import text
from fleet.wellknown import (
    ANNOTATION_QUOTA_FULLNAME,
    LABEL_JOB_UID,
    QUEUE,
    QUEUE_NAMESPACE,
    WORK,
    binding_name,
    unit_name,
)

# Classes of SQLSTATE that find fault with a value: wrong data, a broken constraint, a limit of the database's formats.
VALUES = ("22", "23", "54")
log = structlog.get_logger(__name__)

BATCH = 500  # events, or objects of a list, in one transaction
GAPS_KEPT = 20
CURSOR_S = 60.0  # between two writes of the cursor while there is nothing to record
BINDINGS, UNITS, QUEUES = (WORK, "resourcebindings"), (QUEUE, "queueunits"), (QUEUE, "queues")

Models = Callable[[Body], Mapping[str, int]]  # of a binding that is placed: GPUs by model, where its pods are


@dataclass(frozen=True, slots=True)
class JobChange:
    """What one event has changed in the life of a job; `body`: the object that the event is about."""

    before: JobLife | None
    after: JobLife
    body: Body
    at: float


Tell = Callable[[AsyncConnection, Sequence[JobChange]], Awaitable[None]]  # in the transaction that records the changes


async def nobody(connection: AsyncConnection, changes: Sequence[JobChange]) -> None:
    """Nobody is told."""


def nothing_known(binding: Body) -> Mapping[str, int]:
    return {}


class Recorder:
    """`begin` once, then `step` again and again."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        engine: AsyncEngine,
        clock: Clock,
        models: Models = nothing_known,
        tell: Tell = nobody,
    ) -> None:
        self.revision = -1  # up to which the history is written, or has nothing to write
        self.at = 0.0  # the time of the last event that is written
        self.unwritten: set[str] = set()  # jobs whose rows the database refused
        self._store, self._registry, self._engine, self._clock = store, registry, engine, clock
        self._models, self._tell = models, tell
        self._units: dict[tuple[str, str], str] = {}  # (namespace, name of the unit) -> uid of the job
        self._living: set[str] = set()  # uids of the jobs that are not over
        self._paths: dict[str, str] = {}  # of the quota tree, by name of the Queue
        self._state: dict[str, Any] = {}
        self._cursor = -1  # as it was read or written last
        self._written_at = 0.0  # monotonic

    async def begin(self) -> None:
        """Read the cursor; begin with the objects of now where there is none."""
        self._units, self._living, self.revision = {}, set(), -1
        async with self._engine.connect() as connection:
            cursor = (await connection.execute(sa.select(Cursor.revision, Cursor.state))).first()
            self._cursor = cursor.revision if cursor is not None else -1
            living = sa.select(JobRecord.uid, JobRecord.namespace, JobRecord.kind, JobRecord.name).where(
                sa.or_(
                    JobRecord.ended.is_(None),
                    JobRecord.uid.in_(sa.select(AttemptRecord.job).where(AttemptRecord.ended.is_(None))),
                )
            )
            for row in await connection.execute(living):
                self._living.add(row.uid)
                name = binding_name(row.kind.partition(".")[0], row.name)  # but where two kinds have jobs of the name
                self._units[row.namespace, unit_name(name)] = row.uid
        for stored in self._store.scan(*BINDINGS):
            if (uid := self._uid(BINDINGS, stored.body)) in self._living:
                self._units[stored.key.namespace, unit_name(stored.key.name)] = uid
        self._state = dict(cursor.state or {}) if cursor is not None else {}
        self.at = float(self._state.get("at", 0.0))
        for stored in self._store.scan(*QUEUES, namespace=QUEUE_NAMESPACE):
            self._paths[stored.key.name] = b.annotation(stored.body, ANNOTATION_QUOTA_FULLNAME)
        newest = await self._store.revision()
        if cursor is None:
            self._state = {"since": rfc3339(self._clock.now()), "gaps": []}
            await self._from_objects()
        elif cursor.revision > newest:
            await self._gap("the store's database was put back to an earlier state")
        else:
            self.revision = cursor.revision

    async def step(self) -> int:
        """Write the next events; returns how many there were, 0 at the end of the log."""
        await self._store.revision()  # from here on this process has seen all that was acknowledged before
        try:
            events, upto = await self._store.events(self._followed(), since=self.revision, limit=BATCH)
        except ExpiredRevision:
            await self._gap("the store's log does not reach back to the last event that is recorded")
            return 1
        if upto <= self.revision:
            return 0
        self.at = events[-1].at if events else self.at
        if events or self._clock.monotonic() - self._written_at >= CURSOR_S:
            await self._record([_seen(event) for event in events], upto)
        else:
            self.revision = upto
        return len(events)

    def recorded(self) -> tuple[str, list[str]]:
        """Since when the history is recorded, and its gaps, for people."""
        return str(self._state.get("since", "")), list(self._state.get("gaps", ()))

    def _followed(self) -> list[tuple[str, str]]:
        kinds = [kind for group, name in INTERPRETERS if (kind := self._registry.kind(group, name)) is not None]
        return [*((kind.group, kind.resource) for kind in kinds), BINDINGS, UNITS, QUEUES]

    # -- a batch

    async def _record(self, events: list[tuple[tuple[str, str], JobObservation]], upto: int | None) -> None:
        """Fold the events into the tables; `upto`: the cursor after them, None to leave it."""
        async with self._engine.begin() as connection:
            if not await self._mine(connection):
                return
            lives = await rows.load(connection, self._uids(events))
            before = dict(lives)
            changes: list[JobChange] = []
            for resource, event in events:
                try:
                    change = self._fold(lives, resource, event)
                    if change is not None and not event.listed:
                        changes.append(change)
                except Exception as error:  # an object that nobody can read costs itself alone
                    log.warning("an object is not recorded", name=event.body["metadata"].get("name"), error=repr(error))
            await self._write(connection, [life for uid, life in lives.items() if before.get(uid) is not life])
            if changes:
                await self._tell(connection, changes)
            if upto is not None:
                await self._advance(connection, upto)
        if upto is not None:
            self._moved(upto)

    async def _mine(self, connection: AsyncConnection) -> bool:
        """Whether the cursor is where this recorder left it; where not, another one goes on, and this one follows."""
        found = await connection.scalar(sa.select(Cursor.revision).with_for_update())
        if found is None or found == self._cursor:
            return True
        log.warning("another process records the history", cursor=found, mine=self._cursor)
        self.revision = self._cursor = found
        return False

    async def _advance(self, connection: AsyncConnection, revision: int) -> None:
        state = {**self._state, "at": self.at}
        statement = insert(Cursor).values(id=1, revision=revision, state=state)
        await connection.execute(
            statement.on_conflict_do_update(index_elements=["id"], set_={"revision": revision, "state": state})
        )

    def _moved(self, revision: int) -> None:
        self.revision = self._cursor = revision
        self._written_at = self._clock.monotonic()

    async def _write(self, connection: AsyncConnection, lives: list[JobLife]) -> None:
        """All at once; where the database refuses a value, each life alone."""
        try:
            async with connection.begin_nested():
                await rows.write(connection, lives)
            return
        except DBAPIError as error:
            if not _refuses_a_value(error) or len(lives) == 0:
                raise
        for life in lives:
            try:
                async with connection.begin_nested():
                    await rows.write(connection, [life])
            except DBAPIError as error:
                if not _refuses_a_value(error):
                    raise
                self.unwritten.add(life.uid)
                log.error("a job is not recorded", job=f"{life.namespace}/{life.name}", error=str(error.orig)[:300])

    def _uids(self, seen: list[tuple[tuple[str, str], JobObservation]]) -> set[str]:
        uids = {uid for resource, one in seen if (uid := self._uid(resource, one.body))}
        return {uid for uid in uids if _is_uuid(uid)}

    def _uid(self, resource: tuple[str, str], body: Body) -> str:
        """The job that the object is of; "" for none that is known."""
        metadata = body["metadata"]
        if resource == UNITS:
            return self._units.get((text(metadata.get("namespace")), metadata["name"]), "")
        if resource == BINDINGS:
            return b.labels_of(body).get(LABEL_JOB_UID, "") if _of_job(body) else ""
        return "" if resource == QUEUES else text(metadata.get("uid"))

    def _fold(self, lives: dict[str, JobLife], resource: tuple[str, str], event: JobObservation) -> JobChange | None:
        if resource == QUEUES:
            self._paths[event.body["metadata"]["name"]] = b.annotation(event.body, ANNOTATION_QUOTA_FULLNAME)
            return None
        uid = self._uid(resource, event.body)
        if not uid or not _is_uuid(uid):
            return None
        life = lives.get(uid)
        if resource == UNITS:
            if life is None:
                return None
            now = unit_seen(life, event, self._paths)
        elif resource == BINDINGS:
            placed = bool(b.clusters_of(event.body)) and not b.finished(event.body)
            now = binding_seen(life, replace(event, models=self._models(event.body)) if placed else event)
        else:
            now = job_seen(life, event)
        if now != life:
            lives[uid] = now
        (self._living.discard if now.over else self._living.add)(uid)
        if resource == BINDINGS:
            unit = now.namespace, unit_name(event.body["metadata"]["name"])
            if not now.over and not event.is_deleted:
                self._units[unit] = uid
            elif self._units.get(unit) == uid:
                del self._units[unit]
        return JobChange(life, now, event.body, event.at) if now != life else None

    # -- where the log does not reach

    async def _gap(self, why: str) -> None:
        """Go on with the objects of now. Jobs that came and went meanwhile are not in the history."""
        since = rfc3339(self.at) if self.at else "an unknown time"
        told = f"{since} to {rfc3339(self._clock.now())}: {why}"
        log.error("a part of the history is missing", gap=told)
        self._state["gaps"] = [*self._state.get("gaps", ()), told][-GAPS_KEPT:]
        await self._from_objects()

    async def _from_objects(self) -> None:
        revision, seen = await self._objects()
        there = self._uids(seen)
        for start in range(0, len(seen), BATCH):
            await self._record(seen[start : start + BATCH], None)
        lost = [uid for uid in self._living - there if _is_uuid(uid)]
        for start in range(0, len(lost), BATCH):
            async with self._engine.begin() as connection:
                lives = await rows.load(connection, lost[start : start + BATCH])
                await self._write(connection, [vanished(life, self.at or life.submitted) for life in lives.values()])
        gone = set(lost)
        self._living -= gone
        self._units = {unit: uid for unit, uid in self._units.items() if uid not in gone}
        self.at = self._clock.now()
        async with self._engine.begin() as connection:
            await self._advance(connection, revision)
        self._moved(revision)

    async def _objects(self) -> tuple[int, list[tuple[tuple[str, str], JobObservation]]]:
        """Jobs, then bindings, then units, all of one revision."""
        while True:
            before = (await self._store.list(*BINDINGS, limit=1, fresh=False)).revision
            found = [(named, stored) for named in self._followed() for stored in self._store.scan(*named)]
            if (await self._store.list(*BINDINGS, limit=1, fresh=False)).revision == before:
                now = self._clock.now()
                return before, [(named, JobObservation(stored.body, now, listed=True)) for named, stored in found]


def _seen(event: Event) -> tuple[tuple[str, str], JobObservation]:
    """At a time that the tables keep as it is: in microseconds."""
    key = event.stored.key
    return (key.group, key.resource), JobObservation(
        event.stored.body, round(event.at, 6), is_deleted=event.type is EventType.DELETED
    )


def _of_job(binding: Body) -> bool:
    resource = b.resource_of(binding)
    return (text(resource.get("apiVersion")).rpartition("/")[0], text(resource.get("kind"))) in INTERPRETERS


def _is_uuid(uid: str) -> bool:
    try:
        return str(uuid.UUID(uid)) == uid
    except ValueError:
        return False


def _refuses_a_value(error: DBAPIError) -> bool:
    """Whether a row is at fault, and another try would be in vain. A full disk and a lost connection are no row's."""
    state = getattr(error.orig, "sqlstate", None)
    return not error.connection_invalidated and (state is None or state.startswith(VALUES))
