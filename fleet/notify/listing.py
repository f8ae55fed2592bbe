"""The table of notifications for those who look at it: a page of it, and those that are to be tried once more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from fleet.accounts.models import NotificationRecord
from fleet.notify.outbox import DELIVERED, GAVE_UP, NO_RECEIVER, when
from fleet.values.times import rfc3339

PENDING, RETRYING = "Pending", "Retrying"  # the states of those that are not over
STATES = (PENDING, RETRYING, DELIVERED, GAVE_UP, NO_RECEIVER)
FAILED = (RETRYING, GAVE_UP, NO_RECEIVER)
_STATE = sa.func.coalesce(NotificationRecord.outcome, sa.case((NotificationRecord.tries > 0, RETRYING), else_=PENDING))

Mark = tuple[datetime, str]  # entered and id of the last one of a page


@dataclass(frozen=True, slots=True)
class NotificationSelection:
    """`namespaces`: those of receivers; None: all. `ids`: empty: all."""

    namespaces: Collection[str] | None = None
    receiver: str | None = None
    states: Collection[str] = ()
    ids: Collection[str] = ()

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        result: list[sa.ColumnElement[bool]] = []
        if self.namespaces is not None:
            result.append(NotificationRecord.receiver_namespace.in_(self.namespaces))
        if self.receiver is not None:
            result.append(NotificationRecord.receiver == self.receiver)
        if self.states:
            result.append(_STATE.in_(self.states))
        if self.ids:
            result.append(NotificationRecord.id.in_(self.ids))
        return result


def page(which: NotificationSelection, limit: int, after: Mark | None) -> sa.Select[Any]:
    """One more than `limit` of them, the newest first; `after`: those that follow it."""
    order = sa.tuple_(NotificationRecord.entered, NotificationRecord.id)
    chosen = sa.select(*NotificationRecord.__table__.c, _STATE.label("state")).where(*which.conditions())
    if after is not None:
        entered, id_ = after
        chosen = chosen.where(order < sa.tuple_(sa.literal(entered), sa.literal(id_, NotificationRecord.id.type)))
    return chosen.order_by(NotificationRecord.entered.desc(), NotificationRecord.id.desc()).limit(limit + 1)


def row_document(row: Any) -> dict[str, Any]:
    """One row of a page, for clients."""
    body: Mapping[str, Any] = row.body
    return {
        "id": row.id,
        "namespace": row.receiver_namespace,
        "receiver": row.receiver,
        "state": row.state,
        "job": {key: body[key] for key in ("namespace", "kind", "name", "uid")},
        "event": body["told"],
        "at": rfc3339(body["at"]),
        "entered": rfc3339(row.entered.timestamp()),
        "tries": row.tries,
        "error": row.error,
        "nextTry": rfc3339(row.next_at.timestamp()) if row.over is None else None,
        "over": rfc3339(row.over.timestamp()) if row.over is not None else None,
    }


def mark_of(one: Any) -> Mark:
    return one.entered, one.id


def once_more(which: NotificationSelection, now: float) -> sa.Update:
    """Those that have failed are due now; those that were given up have all their tries again."""
    over = NotificationRecord.over.is_not(None)
    return (
        sa.update(NotificationRecord)
        .where(_STATE.in_(FAILED), *which.conditions())
        .values(
            next_at=when(now),
            over=None,
            outcome=None,
            tries=sa.case((over, 0), else_=NotificationRecord.tries),
        )
    )
