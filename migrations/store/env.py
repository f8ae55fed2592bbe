"""Alembic's way into the migrations of the store: for a hub that starts, and for `alembic -n store`."""

from __future__ import annotations

from fleet.schemas import run
from fleet.store.migrate import MIGRATION_LOCK
from fleet.store.tables import metadata

run(metadata, lock=MIGRATION_LOCK, variables=("FLEET_DATABASE_URL",))
