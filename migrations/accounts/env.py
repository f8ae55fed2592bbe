"""Alembic's way into the migrations of the history: for a hub that starts, and for `alembic -n accounts`."""

from __future__ import annotations

from api.schemas import run
from fleet.accounts.models import SCHEMA, Base
from fleet.accounts.schema import MIGRATION_LOCK

run(Base.metadata, lock=MIGRATION_LOCK, variables=("FLEET_HISTORY_DATABASE_URL", "FLEET_DATABASE_URL"), schema=SCHEMA)
