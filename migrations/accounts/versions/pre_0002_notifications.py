"""Notifications that are to be delivered, and those that were."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0002_pre"
down_revision = "0001_pre"
branch_labels = None
depends_on = None

SCHEMA = "accounts"
TIME = sa.TIMESTAMP(timezone=True)


def upgrade() -> None:
    op.create_table(
        "notifications",
        sa.Column("id", UUID(as_uuid=False), primary_key=True),
        sa.Column("receiver_namespace", sa.String, nullable=False),
        sa.Column("receiver", sa.String, nullable=False),
        sa.Column("namespace", sa.String, nullable=False),
        sa.Column("entered", TIME, nullable=False),
        sa.Column("next_at", TIME, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("over", TIME),
        sa.Column("outcome", sa.String),
        sa.Column("error", sa.String),
        sa.Column("body", JSONB, nullable=False),
        schema=SCHEMA,
    )
    open_ = sa.text("over IS NULL")
    op.create_index("notifications_due", "notifications", ["next_at"], schema=SCHEMA, postgresql_where=open_)
    of_receiver = ["receiver_namespace", "receiver", "entered"]
    op.create_index("notifications_of_receiver", "notifications", of_receiver, schema=SCHEMA)
