"""The parts of the hub beside its objects, for `fleet doctor`: database, history, disk, certificates, clock, versions.

Each API process tells of itself and of its own machine.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fleet import __version__
from fleet.cli.datadir import DataDir
from fleet.hub.certificates import Certificates
from fleet.values.ports import Clock, StoreUnavailable
from fleet.values.times import rfc3339

if TYPE_CHECKING:
    from fleet.rest.historydb import HistoryDatabase

HISTORY_S = 8.0  # to read the history: a pooled connection whose server hangs takes more than half a minute


@dataclass(frozen=True, slots=True)
class Parts:
    data: DataDir
    dsn: str
    clock: Clock
    certificates: Certificates
    history: HistoryDatabase
    webhooks: Callable[[], list[dict[str, Any]]] = list

    async def __call__(self) -> dict[str, Any]:
        now = self.clock.now()
        # Side by side: a person waits for the answer, most of all while neither database answers.
        database, history, files = await asyncio.gather(
            self._database(now), self._past(now), asyncio.to_thread(self._files)
        )
        return {"at": rfc3339(now), "version": __version__, **database, **history, **files}

    async def write_trouble(self) -> str:
        """Why the database takes no write now; "" where it does."""
        from api.store.writable import trial

        return (await trial(self.dsn)).trouble or await asyncio.to_thread(self._full)

    def failing_webhooks(self) -> list[dict[str, Any]]:
        """Those whose last calls by this process failed."""
        return self.webhooks()

    async def _database(self, now: float) -> dict[str, Any]:
        from api.store.facts import facts

        try:
            return {"database": await facts(self.dsn, now), "databaseTrouble": ""}
        except StoreUnavailable as error:
            return {"database": None, "databaseTrouble": str(error)}

    async def _past(self, now: float) -> dict[str, Any]:
        """How far the history is written, beside the log that it is made of."""
        try:
            async with asyncio.timeout(HISTORY_S):
                return await self._written(now)
        except TimeoutError:
            return {"history": None, "historyTrouble": "its database does not answer in time"}

    async def _written(self, now: float) -> dict[str, Any]:
        from api.store.facts import log_after
        from fleet.accounts.reports_reader import HistoryUnavailable

        try:
            revision, state = await (await self.history.reader()).cursor() or (0, {})
            behind, lost, oldest = await log_after(self.dsn, revision)
        except (HistoryUnavailable, StoreUnavailable) as error:
            return {"history": None, "historyTrouble": str(error)}
        history = {
            "recordedSince": state.get("since"),
            "gaps": list(state.get("gaps", ())),
            "behind": behind,
            "behindS": round(max(0.0, now - oldest), 1) if oldest is not None else 0.0,
            "lost": lost if state else 0,
        }
        return {"history": history, "historyTrouble": ""}

    def _full(self) -> str:
        """That the disk of the hub's own database is full. A trial takes no new page, and succeeds all the same."""
        from fleet.cli.doctor_hub import FULL_BYTES
        from fleet.core.model.reason import human

        if not self.data.postgres.exists() or (free := _free(self.data.postgres)) >= FULL_BYTES:
            return ""
        return f"{human(free, 'memory')} are free on the disk of {self.data.postgres}"

    def _files(self) -> dict[str, Any]:
        # The database may stand on a volume of its own.
        path = min((volume for volume in (self.data.root, self.data.postgres) if volume.exists()), key=_free)
        usage = shutil.disk_usage(path)
        return {
            "disk": {"path": str(path), "free": usage.free, "total": usage.total},
            "certificates": [
                {"name": certificate.name, "file": str(certificate.file), "until": rfc3339(certificate.until)}
                for certificate in self.certificates.read()
            ],
        }


def _free(path: Path) -> int:
    return shutil.disk_usage(path).free
