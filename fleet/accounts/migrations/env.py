"""Runs the history's migrations on the connection that `fleet.accounts.schema` hands over."""

from __future__ import annotations

from alembic import context

from fleet.accounts.models import SCHEMA, Base

context.configure(
    connection=context.config.attributes["connection"], target_metadata=Base.metadata, version_table_schema=SCHEMA
)
with context.begin_transaction():
    context.run_migrations()
