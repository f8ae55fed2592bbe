"""Runs migrations on the connection that `fleet.store.migrate` hands over; there is no other way in."""

from __future__ import annotations

from alembic import context

from fleet.store.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()
