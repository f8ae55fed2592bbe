"""Jobs, attempts, waits, usage by the minute, and the cursor."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB, UUID

revision = "0001_pre"
down_revision = None
branch_labels = None
depends_on = None

SCHEMA = "accounts"
TIME = sa.TIMESTAMP(timezone=True)
ID = UUID(as_uuid=False)


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("uid", ID, primary_key=True),
        sa.Column("submitted", TIME, primary_key=True),
        sa.Column("namespace", sa.String, nullable=False),
        sa.Column("name", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("user", sa.String),
        sa.Column("queue", sa.String),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("pods", sa.Integer, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("why", sa.String),
        sa.Column("message", sa.String),
        sa.Column("started", TIME),
        sa.Column("ended", TIME),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("evictions", sa.Integer, nullable=False),
        sa.Column("lost_gpu_s", sa.Float, nullable=False),
        schema=SCHEMA,
        postgresql_partition_by="RANGE (submitted)",
    )
    op.create_index("jobs_of_name", "jobs", ["namespace", "name"], schema=SCHEMA)
    op.create_index("jobs_that_live", "jobs", ["uid"], schema=SCHEMA, postgresql_where=sa.text("ended IS NULL"))
    op.create_index("jobs_of_time", "jobs", ["submitted"], schema=SCHEMA)
    op.create_index("jobs_of_user", "jobs", ["user"], schema=SCHEMA)
    op.create_table(
        "attempts",
        sa.Column("job", ID, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True),
        sa.Column("model", sa.String, primary_key=True),
        sa.Column("placed", TIME, primary_key=True),
        sa.Column("namespace", sa.String, nullable=False),
        sa.Column("user", sa.String),
        sa.Column("queue", sa.String),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("member", sa.String, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("started", TIME),
        sa.Column("ended", TIME),
        sa.Column("gpu_s", sa.Float, nullable=False),
        sa.Column("counted", TIME),
        sa.Column("outcome", sa.String),
        sa.Column("why", sa.String),
        schema=SCHEMA,
        postgresql_partition_by="RANGE (placed)",
    )
    op.create_index("attempts_of_end", "attempts", ["ended"], schema=SCHEMA)
    op.create_index("attempts_of_user", "attempts", ["user"], schema=SCHEMA)
    op.create_table(
        "waits",
        sa.Column("job", ID, primary_key=True),
        sa.Column("submitted", TIME, primary_key=True),
        sa.Column("reason", sa.String, primary_key=True),
        sa.Column("namespace", sa.String, nullable=False),
        sa.Column("user", sa.String),
        sa.Column("queue", sa.String),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("since", TIME),
        schema=SCHEMA,
        postgresql_partition_by="RANGE (submitted)",
    )
    op.create_index("waits_of_user", "waits", ["user"], schema=SCHEMA)
    op.create_table(
        "usage",
        sa.Column("at", TIME, primary_key=True),
        sa.Column("scope", sa.String, primary_key=True),
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("model", sa.String, primary_key=True),
        sa.Column("used", sa.Float, nullable=False),
        sa.Column("waiting", sa.Float, nullable=False),
        sa.Column("capacity", sa.Float),
        sa.Column("guaranteed", sa.Float),
        schema=SCHEMA,
        postgresql_partition_by="RANGE (at)",
    )
    op.create_table(
        "cursor",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("state", JSONB),
        schema=SCHEMA,
    )
