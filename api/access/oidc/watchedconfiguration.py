"""The authentication configuration, read again when its file changes.

A state of the file that cannot be used changes nothing: the hub goes on with the last good one, and says so.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from api.access.auth import ISSUER
from api.access.oidc.config import parse
from api.access.oidc.metrics import OidcMetrics
from api.access.oidc.tokens import OidcTokens
from fleet.values.sections import FILE_BYTES_MAX, BadConfiguration

CHECK_EVERY_S = 1.0
log = structlog.get_logger(__name__)


class WatchedConfiguration:
    """Keeps an authenticator configured as a file says. `start` raises BadConfiguration for a file that is bad."""

    def __init__(
        self, path: Path, tokens: OidcTokens, metrics: OidcMetrics, *, check_every_s: float = CHECK_EVERY_S
    ) -> None:
        self._path, self._tokens, self._metrics, self._check_every_s = path, tokens, metrics, check_every_s
        self._seen: bytes | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        try:
            self._seen = await asyncio.to_thread(self._read)
        except OSError as error:
            raise BadConfiguration([f"(file): {error.strerror or error}"]) from error
        self._tokens.configure(parse(self._seen, own_issuers=(ISSUER,)))
        self._metrics.good.set(1)
        self._task = asyncio.create_task(self._follow(), name="authentication-config")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._tokens.stop()

    def _read(self) -> bytes:
        with self._path.open("rb") as file:
            return file.read(FILE_BYTES_MAX + 1)

    async def _follow(self) -> None:
        while True:
            await asyncio.sleep(self._check_every_s)
            try:
                await self.look()
            except Exception:
                log.exception("the authentication configuration could not be looked at")

    async def look(self) -> None:
        """Read the file, and use it when it has changed and is good."""
        try:
            text: bytes | None = await asyncio.to_thread(self._read)
            why = ""
        except OSError as error:
            text, why = None, f"(file): {error.strerror or error}"
        if text == self._seen:
            return
        self._seen = text
        try:
            if text is None:
                raise BadConfiguration([why])
            issuers = parse(text, own_issuers=(ISSUER,))
        except BadConfiguration as error:
            self._metrics.good.set(0)
            self._metrics.reloads.labels("failed").inc()
            log.error(
                "the changed authentication configuration is not used", file=str(self._path), why=str(error)[:1000]
            )
            return
        self._tokens.configure(issuers)
        self._metrics.good.set(1)
        self._metrics.reloads.labels("used").inc()
        log.info("the authentication configuration has changed", file=str(self._path), issuers=len(issuers))
