"""Bounds on logins: failed ones by the address of the client, good ones by the user. Nobody's logins count against
another user, and memory is bounded."""

from __future__ import annotations

from collections import OrderedDict

from api.engine.status import StatusError
from api.objects.writing import User
from api.transport.edge import neighbourhood
from api.wire.http import Request
from fleet.values.ports import Clock

FAILED_MAX = 30  # of one address in WINDOW_S
GOOD_MAX = 60  # of one user in WINDOW_S: each is a write
WINDOW_S = 60.0
KEPT_MAX = 4096  # addresses, and users


class Attempts:
    """Counts of fixed windows: at most twice the bound falls into any span of that length."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, int] = OrderedDict()
        self._good: OrderedDict[str, int] = OrderedDict()
        self._began = float("-inf")

    def begin(self, request: Request) -> None:
        """StatusError 429, with the time to wait, for an address that has failed too often."""
        now = self._clock.monotonic()
        if now - self._began >= WINDOW_S:
            self._began = now
            self._failed.clear()
            self._good.clear()
        if self._failed.get(_address(request), 0) >= FAILED_MAX:
            raise self._too_many()

    def failed(self, request: Request) -> None:
        _count(self._failed, _address(request))

    def forgive(self, request: Request) -> None:
        """Take back a failure that has become a login."""
        address = _address(request)
        if self._failed.get(address, 0) > 0:
            self._failed[address] -= 1

    def good(self, user: User) -> None:
        """Count a login. StatusError 429 for a user who logs in too often."""
        if self._good.get(user.name, 0) >= GOOD_MAX:
            raise self._too_many()
        _count(self._good, user.name)

    def _too_many(self) -> StatusError:
        left = max(1, int(self._began + WINDOW_S - self._clock.monotonic()) + 1)
        return StatusError(
            429, "TooManyRequests", f"too many attempts to log in; try again in {left} s", retry_after_s=left
        )


def _count(counts: OrderedDict[str, int], key: str) -> None:
    counts[key] = counts.get(key, 0) + 1
    if len(counts) > KEPT_MAX:
        counts.popitem(last=False)


def _address(request: Request) -> str:
    """The peer of the connection, an IPv6 one by its /64: a header that names another address is the client's own
    word."""
    return neighbourhood(str((request.scope.get("client") or ("",))[0]))
