"""The tables, as SQLAlchemy sees them: migrations build them, and a test compares the built schema with them.

The statements of the hot path are in `sql.py`, written by hand: a batch is one statement over arrays.
"""

from __future__ import annotations

import sqlalchemy as sa

metadata = sa.MetaData()

objects = sa.Table(
    "objects",
    metadata,
    sa.Column("group", sa.Text, primary_key=True),
    sa.Column("resource", sa.Text, primary_key=True),
    sa.Column("namespace", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("key_id", sa.Text, nullable=True, comment="encryption key of body; null: plain JSON"),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("revision", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("type", sa.Text, nullable=False, comment="ADDED, MODIFIED or DELETED"),
    sa.Column("group", sa.Text, nullable=False),
    sa.Column("resource", sa.Text, nullable=False),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("uid", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False, comment="seconds since the epoch, by the writer's clock"),
    sa.Column("key_id", sa.Text, nullable=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("previous", sa.LargeBinary, nullable=True, comment="JSON: what selectors need of the state before"),
    sa.Index("events_of_resource", "group", "resource", "revision"),
)

log_state = sa.Table(
    "log_state",
    metadata,
    sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
    sa.Column("revision", sa.BigInteger, nullable=False, comment="of the newest commit"),
    sa.Column("compacted", sa.BigInteger, nullable=False, comment="events at or below are gone"),
    sa.CheckConstraint("id = 1", name="log_state_has_one_row"),
)

leaders = sa.Table(
    "leaders",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("holder", sa.Text, nullable=False),
    sa.Column("epoch", sa.BigInteger, nullable=False),
)

history = sa.Table(
    "history",
    metadata,
    sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("at", sa.Double, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Index("history_of_kind", "kind", "id"),
)
