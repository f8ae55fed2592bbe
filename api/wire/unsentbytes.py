"""Large answers that wait for their clients to read: bounded by user and for the process, in bytes.

Most of a list is made as its client reads. What must be made whole, as a list in protobuf, stays in memory until the
client has taken it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Gauge

from api.engine.status import StatusError
from api.wire.http import Response, error_response

SMALL_BYTES = 128 * 1024  # of an answer that is not counted: the seats of a level bound the number of those
OF_USER_BYTES = 256 << 20
ALL_BYTES = 1 << 30
_WHY = "too many bytes of large answers wait to be read; read them, or ask for pages (limit)"


class UnsentBytes:
    """The bytes of one process. The only large answer of a user is sent whatever its size, while the process has
    room."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._by_user: Counter[str] = Counter()
        self._all = 0
        gauge = Gauge(
            "fleet_api_unsent_bytes", "Bytes of large answers that their clients have not read.", registry=registry
        )
        gauge.set_function(lambda: self._all)

    @contextmanager
    def count(self, user: str, answer: Response) -> Iterator[Response]:
        """Count an answer while it is sent. Gives the answer to send: 429 where too much waits already."""
        size = answer.length
        if size <= SMALL_BYTES:
            yield answer
            return
        of_user = self._by_user[user]
        if (of_user and of_user + size > OF_USER_BYTES) or (self._all and self._all + size > ALL_BYTES):
            yield error_response(StatusError(429, "TooManyRequests", _WHY, retry_after_s=1))
            return
        self._by_user[user] += size
        self._all += size
        try:
            yield answer
        finally:
            self._all -= size
            self._by_user[user] -= size
            if not self._by_user[user]:
                del self._by_user[user]
