"""Objects, their log, leaders and history."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001_pre"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "objects",
        sa.Column("group", sa.Text, primary_key=True),
        sa.Column("resource", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, primary_key=True),
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("key_id", sa.Text, nullable=True, comment="encryption key of body; null: plain JSON"),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "events",
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
    )
    op.create_index("events_of_resource", "events", ["group", "resource", "revision"])
    state = op.create_table(
        "log_state",
        sa.Column("id", sa.SmallInteger, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False, comment="of the newest commit"),
        sa.Column("compacted", sa.BigInteger, nullable=False, comment="events at or below are gone"),
        sa.CheckConstraint("id = 1", name="log_state_has_one_row"),
    )
    op.bulk_insert(state, [{"id": 1, "revision": 1, "compacted": 0}])
    op.create_table(
        "leaders",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("epoch", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "history",
        sa.Column("id", sa.BigInteger, sa.Identity(always=True), primary_key=True),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )
    op.create_index("history_of_kind", "history", ["kind", "id"])
