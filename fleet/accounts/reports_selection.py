"""What a question to the history is about: a period, a choice of jobs, and the part of them that its asker may see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from fleet.accounts.models import AttemptRecord, JobRecord, WaitRecord

Sight = Mapping[str, frozenset[str] | None]  # the namespaces of each kind whose jobs may be seen; None: all
Condition = sa.ColumnElement[bool]


@dataclass(frozen=True, slots=True)
class JobSelection:
    """The jobs that were asked for. None: all. `queue`: it and those below it; `sight`: None for every job."""

    user: str | None = None
    queue: str | None = None
    namespace: str | None = None
    kind: str | None = None
    member: str | None = None
    model: str | None = None
    sight: Sight | None = None


@dataclass(frozen=True, slots=True)
class Period:
    """From `start` on, up to and without `end`. `now`: up to when work that goes on is counted."""

    start: datetime
    end: datetime
    now: datetime


def of_job(table: type[JobRecord] | type[AttemptRecord], chosen: JobSelection) -> Iterable[Condition]:
    """The conditions that the columns of a job, or of an attempt, tell."""
    if chosen.user is not None:
        yield table.user == chosen.user
    if chosen.namespace is not None:
        yield table.namespace == chosen.namespace
    if chosen.kind is not None:
        yield table.kind == chosen.kind
    if chosen.queue is not None:
        yield below(table.queue, chosen.queue)
    if chosen.sight is not None:
        yield _seen(table, chosen.sight)


def of_attempt(chosen: JobSelection) -> Iterable[Condition]:
    yield from of_job(AttemptRecord, chosen)
    if chosen.member is not None:
        yield AttemptRecord.member == chosen.member
    if chosen.model is not None:
        yield AttemptRecord.model == chosen.model


def of_wait(chosen: JobSelection) -> Iterable[Condition]:
    """Of a row of `waits`, which knows no kind: its job is looked up where the kind matters."""
    if chosen.kind is None and chosen.sight is None:
        if chosen.user is not None:
            yield WaitRecord.user == chosen.user
        if chosen.namespace is not None:
            yield WaitRecord.namespace == chosen.namespace
        if chosen.queue is not None:
            yield below(WaitRecord.queue, chosen.queue)
        return
    yield sa.exists().where(
        JobRecord.uid == WaitRecord.job, JobRecord.submitted == WaitRecord.submitted, *of_job(JobRecord, chosen)
    )


def below(column: Any, queue: str) -> Condition:
    path = queue.rstrip("/")
    found: Condition = sa.or_(column == path, column.startswith(f"{path}/", autoescape=True))
    return found


def _seen(table: type[JobRecord] | type[AttemptRecord], sight: Sight) -> Condition:
    """One condition for all kinds that may be seen in the same namespaces: mostly there is one."""
    kinds: dict[frozenset[str] | None, list[str]] = {}
    for kind, namespaces in sight.items():
        kinds.setdefault(namespaces, []).append(kind)
    parts = []
    for there, names in kinds.items():
        inside = sa.true() if there is None else table.namespace.in_(sorted(there))
        parts.append(sa.and_(table.kind.in_(sorted(names)), inside))
    return sa.or_(sa.false(), *parts)
