"""The tables of the history: one row a job, a row an attempt, a row a reason of waiting, and usage by the minute.

All tables lie in the PostgreSQL schema `accounts`, apart from the store's. Tables that grow are partitioned by month.
No manifest, environment, annotation or log is kept. Times are `timestamptz`, amounts of GPU time GPU-seconds.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, UUID
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

SCHEMA = "accounts"


class Base(DeclarativeBase):
    metadata = sa.MetaData(schema=SCHEMA)


class JobRecord(Base):
    """One job, from its submission on. Partitioned by `submitted`."""

    __tablename__ = "jobs"
    __table_args__ = (
        sa.Index("jobs_of_name", "namespace", "name"),
        sa.Index("jobs_that_live", "uid", postgresql_where=sa.text("ended IS NULL")),
        sa.Index("jobs_of_time", "submitted"),
        sa.Index("jobs_of_user", "user"),
        {"postgresql_partition_by": "RANGE (submitted)"},
    )
    uid: Mapped[str] = mapped_column(UUID(as_uuid=False), primary_key=True)
    submitted: Mapped[datetime] = mapped_column(sa.TIMESTAMP(timezone=True), primary_key=True)
    namespace: Mapped[str]
    name: Mapped[str]
    kind: Mapped[str]
    user: Mapped[str | None]  # its creator; null: unknown or erased
    queue: Mapped[str | None]  # the path of its leaf: root/vision
    priority: Mapped[int]
    gpus: Mapped[int]  # that all pods of its full size ask for
    pods: Mapped[int]
    state: Mapped[str]  # as /fleet/v1/jobs has it: Queued, Running, …; at the end Succeeded, Failed, Deleted
    why: Mapped[str | None]  # why it ended: a code of docs/reference/reasons.md
    message: Mapped[str | None]
    started: Mapped[datetime | None] = mapped_column(sa.TIMESTAMP(timezone=True))  # of its first attempt whose pods ran
    first_member: Mapped[str | None]  # of that attempt, like its GPU models: reports by these read one table
    first_models: Mapped[list[str] | None] = mapped_column(ARRAY(sa.String))
    ended: Mapped[datetime | None] = mapped_column(sa.TIMESTAMP(timezone=True))
    attempts: Mapped[int]
    evictions: Mapped[int]
    lost_gpu_s: Mapped[float]  # of attempts that were evicted or failed, and whose work is done again


class AttemptRecord(Base):
    """One placement of a job in a member; of several GPU models, a row for each. Partitioned by `placed`."""

    __tablename__ = "attempts"
    __table_args__ = (
        sa.Index("attempts_of_end", "ended"),
        sa.Index("attempts_of_user", "user"),
        {"postgresql_partition_by": "RANGE (placed)"},
    )
    job: Mapped[str] = mapped_column(UUID(as_uuid=False), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(primary_key=True)  # the GPU model; "": unknown, or a job without GPUs
    placed: Mapped[datetime] = mapped_column(sa.TIMESTAMP(timezone=True), primary_key=True)
    namespace: Mapped[str]  # the four are the job's, repeated so that a report reads one table
    user: Mapped[str | None]
    queue: Mapped[str | None]
    kind: Mapped[str]
    member: Mapped[str]
    gpus: Mapped[int]  # now, or at the end: an elastic job changes it
    started: Mapped[datetime | None] = mapped_column(sa.TIMESTAMP(timezone=True))  # its pods run
    ended: Mapped[datetime | None] = mapped_column(sa.TIMESTAMP(timezone=True))  # its pods are gone or finished
    gpu_s: Mapped[float]  # used until `counted`, from `started` on
    counted: Mapped[datetime | None] = mapped_column(sa.TIMESTAMP(timezone=True))
    outcome: Mapped[str | None]  # Succeeded, Failed, Evicted, Withdrawn, Deleted; null while it goes on
    why: Mapped[str | None]


class WaitRecord(Base):
    """How long a job has waited by one reason. Partitioned by `submitted`."""

    __tablename__ = "waits"
    __table_args__ = (
        sa.Index("waits_of_user", "user"),
        {"postgresql_partition_by": "RANGE (submitted)"},
    )
    job: Mapped[str] = mapped_column(UUID(as_uuid=False), primary_key=True)
    submitted: Mapped[datetime] = mapped_column(sa.TIMESTAMP(timezone=True), primary_key=True)
    reason: Mapped[str] = mapped_column(primary_key=True)
    namespace: Mapped[str]
    user: Mapped[str | None]
    queue: Mapped[str | None]
    seconds: Mapped[float]  # of spells that are over
    since: Mapped[datetime | None] = mapped_column(sa.TIMESTAMP(timezone=True))  # of the spell that goes on


class UsageRecord(Base):
    """One minute of one queue or member, by GPU model. Partitioned by `at`."""

    __tablename__ = "usage"
    __table_args__ = ({"postgresql_partition_by": "RANGE (at)"},)
    at: Mapped[datetime] = mapped_column(sa.TIMESTAMP(timezone=True), primary_key=True)  # the minute's start
    scope: Mapped[str] = mapped_column(primary_key=True)  # queue, member
    name: Mapped[str] = mapped_column(primary_key=True)  # path of the queue, name of the member
    model: Mapped[str] = mapped_column(primary_key=True)  # "": all models (queues, whose limits name none)
    used: Mapped[float]  # GPUs that jobs hold
    waiting: Mapped[float]  # GPUs that waiting jobs ask for
    capacity: Mapped[float | None]  # allocatable GPUs of the member's ready nodes; max of the queue
    guaranteed: Mapped[float | None]  # min of the queue


class NotificationRecord(Base):
    """One happening that a receiver is told of; `over` when it was delivered, or when no try is left (`outcome`)."""

    __tablename__ = "notifications"
    __table_args__ = (
        sa.Index("notifications_due", "next_at", postgresql_where=sa.text("over IS NULL")),
        sa.Index("notifications_of_receiver", "receiver_namespace", "receiver", "entered"),
    )
    id: Mapped[str] = mapped_column(UUID(as_uuid=False), primary_key=True)
    receiver_namespace: Mapped[str]
    receiver: Mapped[str]
    namespace: Mapped[str]  # of the job
    entered: Mapped[datetime] = mapped_column(sa.TIMESTAMP(timezone=True))
    next_at: Mapped[datetime] = mapped_column(sa.TIMESTAMP(timezone=True))
    tries: Mapped[int]
    over: Mapped[datetime | None] = mapped_column(sa.TIMESTAMP(timezone=True))
    outcome: Mapped[str | None]  # Delivered, GaveUp, NoReceiver
    error: Mapped[str | None]  # of the last try that failed
    body: Mapped[dict[str, Any]] = mapped_column(JSONB)  # fleet/notify/happening.py


class Cursor(Base):
    """The revision of the store's log up to which the history is written; one row."""

    __tablename__ = "cursor"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    revision: Mapped[int] = mapped_column(sa.BigInteger)
    state: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
