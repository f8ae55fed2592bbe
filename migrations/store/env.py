"""Alembic's way into the migrations of the store: for a hub that starts, and for `alembic -n store`."""

from __future__ import annotations

from api.schemas import run
from api.store.migrate import MIGRATION_LOCK
from api.store.tables import metadata

run(metadata, lock=MIGRATION_LOCK, variables=("FLEET_DATABASE_URL",))
