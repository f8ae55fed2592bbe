"""Bounds on logins: failed ones by the address of the client, all of them for the process. Memory is bounded too."""

from __future__ import annotations

from collections import OrderedDict

from api.http import Request
from fleet.engine.status import StatusError
from fleet.ports import Clock

FAILED_MAX = 30  # of one address in WINDOW_S
ALL_MAX = 600
WINDOW_S = 60.0
ADDRESSES_MAX = 4096


class Attempts:
    """Counts of fixed windows: one address has at most twice its bound within any window."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, int] = OrderedDict()
        self._all = 0
        self._began = float("-inf")

    def begin(self, request: Request) -> None:
        """Count an attempt. StatusError 429 with the time to wait."""
        now = self._clock.monotonic()
        if now - self._began >= WINDOW_S:
            self._began, self._all = now, 0
            self._failed.clear()
        if self._all >= ALL_MAX or self._failed.get(_address(request), 0) >= FAILED_MAX:
            left = max(1, int(self._began + WINDOW_S - now) + 1)
            raise StatusError(
                429, "TooManyRequests", f"too many attempts to log in; try again in {left} s", retry_after_s=left
            )
        self._all += 1

    def failed(self, request: Request) -> None:
        address = _address(request)
        self._failed[address] = self._failed.get(address, 0) + 1
        if len(self._failed) > ADDRESSES_MAX:
            self._failed.popitem(last=False)


def _address(request: Request) -> str:
    """The peer of the connection: a header that names another address is the client's own word."""
    return str((request.scope.get("client") or ("",))[0])
