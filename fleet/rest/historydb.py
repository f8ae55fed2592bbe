"""The hub's way to its history: loaded and connected when somebody first asks for it, since most hubs are asked about
the present only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

import structlog

from api.engine.status import StatusError, unavailable

if TYPE_CHECKING:
    from fleet.accounts.reports_reader import HistoryReader

MODULES = tuple(
    f"fleet.accounts.{name}" for name in ("reports", "reports_lives", "reports_series", "reports_changes")
)  # SQLAlchemy is the slow part of them
log = structlog.get_logger(__name__)


class HistoryDatabase:
    """The history in the database of `dsn`; "": this hub keeps none."""

    def __init__(self, dsn: str = "") -> None:
        self._dsn = dsn
        self._reader: HistoryReader | None = None

    async def reader(self) -> HistoryReader:
        """StatusError 404 on a hub without a history."""
        if not self._dsn:
            raise StatusError(404, "NotFound", "this hub keeps no history")
        for module in MODULES:
            await asyncio.to_thread(import_module, module)
        if self._reader is None:
            from fleet.accounts.reports_reader import HistoryReader

            self._reader = HistoryReader(self._dsn)
        return self._reader

    async def aclose(self) -> None:
        if self._reader is not None:
            await self._reader.close()


@contextmanager
def unavailable_as_503() -> Iterator[None]:
    """503 where the database of the history does not answer. Details are for the log, not for clients."""
    from fleet.accounts.reports_reader import HistoryUnavailable

    try:
        yield
    except HistoryUnavailable as error:
        log.warning("the history cannot be read", error=str(error)[:300])
        raise unavailable("the history cannot be read now") from error
