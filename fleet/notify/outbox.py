"""The notifications that are still to be delivered, and those that were: a table beside the history.

A notification enters in the transaction that records its happening, under an id that follows from job, happening and
receiver. So a process that dies loses none, and records none twice. It leaves when it is delivered, or when the tries
are over; a process that dies between the delivery and its record delivers once more, under the same id.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from fleet.accounts.models import NotificationRecord
from fleet.notify.happening import Happening

FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 3600.0
TRIES_MAX = 20  # about fourteen hours after the first
KEPT_S = 7 * 86400.0  # what is over is kept so long, for whoever looks
_SPACE = uuid.UUID("5a1f6f0e-3f0b-4d0a-9a55-6f1f7c1f4a10")  # of the ids

DELIVERED, GAVE_UP, NO_RECEIVER = "Delivered", "GaveUp", "NoReceiver"


@dataclass(frozen=True, slots=True)
class DueNotification:
    """One notification whose turn has come. `tries`: those that have failed."""

    id: str
    namespace: str
    receiver: str
    happening: Happening
    tries: int


def pause_after(tries: int) -> float:
    """Seconds until the next try, after so many that failed."""
    return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (tries - 1)))


def when(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def identity(namespace: str, receiver: str, happening: Happening) -> str:
    return str(uuid.uuid5(_SPACE, f"{happening.uid}/{happening.key}/{namespace}/{receiver}"))


async def enter(connection: AsyncConnection, entries: Iterable[tuple[str, str, Happening]], now: float) -> int:
    """Enter (namespace of the receiver, its name, happening), each once; how many were new."""
    rows = [
        {
            "id": identity(namespace, receiver, happening),
            "receiver_namespace": namespace,
            "receiver": receiver,
            "namespace": happening.namespace,
            "entered": when(now),
            "next_at": when(now),
            "tries": 0,
            "body": happening.as_json(),
        }
        for namespace, receiver, happening in entries
    ]
    if not rows:
        return 0
    written = await connection.execute(insert(NotificationRecord).values(rows).on_conflict_do_nothing())
    return written.rowcount


async def due(connection: AsyncConnection, now: float, limit: int) -> Sequence[DueNotification]:
    """Those whose turn has come, the longest due first."""
    rows = await connection.execute(
        sa.select(
            NotificationRecord.id,
            NotificationRecord.receiver_namespace,
            NotificationRecord.receiver,
            NotificationRecord.body,
            NotificationRecord.tries,
        )
        .where(NotificationRecord.over.is_(None), NotificationRecord.next_at <= when(now))
        .order_by(NotificationRecord.next_at)
        .limit(limit)
    )
    return [
        DueNotification(id_, namespace, name, Happening.of_json(body), tries)
        for id_, namespace, name, body, tries in rows
    ]


async def close(connection: AsyncConnection, id_: str, outcome: str, now: float, error: str | None = None) -> None:
    await connection.execute(
        sa.update(NotificationRecord)
        .where(NotificationRecord.id == id_)
        .values(over=when(now), outcome=outcome, error=error, tries=NotificationRecord.tries + 1)
    )


async def failed(connection: AsyncConnection, row: DueNotification, error: str, now: float) -> bool:
    """Record a try that failed; False when it was the last one."""
    tries = row.tries + 1
    if tries >= TRIES_MAX:
        await close(connection, row.id, GAVE_UP, now, error)
        return False
    await connection.execute(
        sa.update(NotificationRecord)
        .where(NotificationRecord.id == row.id)
        .values(tries=tries, next_at=when(now + pause_after(tries)), error=error)
    )
    return True


async def forget(connection: AsyncConnection, now: float) -> int:
    """Remove what has been over for long; how many."""
    gone = await connection.execute(sa.delete(NotificationRecord).where(NotificationRecord.over < when(now - KEPT_S)))
    return gone.rowcount
