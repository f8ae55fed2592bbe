"""The real clock and real ids, for simulated members that run as a program. Tests may bring their own."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


class WallClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class RandomIds:
    def uid(self) -> str:
        return str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))

    def suffix(self) -> str:
        return "".join(secrets.choice(_ALPHABET) for _ in range(5))
