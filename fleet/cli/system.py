"""Time and chance, as the real world has them: the implementations of the ports Clock and Ids."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class SystemClock:
    """Implements `fleet.ports.Clock`."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RandomIds:
    """Implements `fleet.ports.Ids`."""

    def uid(self) -> str:
        return str(uuid.uuid4())  # noqa: TID251  # the edge where ids enter

    def suffix(self) -> str:
        return "".join(secrets.choice(SUFFIX_ALPHABET) for _ in range(5))
