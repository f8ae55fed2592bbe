"""The signs of life of one member, and the trouble that it has given since: whether its silence counts as lost.

An expired credential ends new requests, and not the watches that it opened before. These go on for minutes and look
alive. So a member that has refused the credentials for the same time as a lost one is lost, too.
"""

from __future__ import annotations

import asyncio

from fleet.members.connection import NOT_REACHABLE


class Contact:
    """Times are of the running event loop."""

    def __init__(self, lost_after_s: float) -> None:
        self._lost_after_s = lost_after_s
        self._last: float | None = None
        self._locked_out: float | None = None
        self._trouble, self._reason = "", NOT_REACHABLE

    def note_sign(self) -> bool:
        """Note a sign of life; True for the first ever."""
        first, self._last = self._last is None, asyncio.get_running_loop().time()
        return first

    def let_in(self, yes: bool) -> None:
        """Note whether the credentials count."""
        if yes or self._locked_out is None:
            self._locked_out = None if yes else asyncio.get_running_loop().time()

    def note(self, trouble: str, reason: str = NOT_REACHABLE) -> None:
        """Keep a trouble, with the reason that the Cluster's condition has while it lasts."""
        self._trouble, self._reason = trouble, reason

    def end(self, trouble: str, reason: str) -> None:
        """Count as lost, as a member that was never heard of, until it is heard again."""
        self._last = None
        self.note(trouble, reason)

    def silent_s(self) -> float | None:
        """Seconds since the last sign of life; None without one."""
        return None if self._last is None else asyncio.get_running_loop().time() - self._last

    def lost(self) -> bool:
        silent, out = self.silent_s(), self._locked_out
        if silent is None or silent > self._lost_after_s:
            return True
        return out is not None and asyncio.get_running_loop().time() - out > self._lost_after_s

    def why_lost(self) -> tuple[str, str]:
        """Reason and message of the Cluster's condition."""
        if self._reason != NOT_REACHABLE:
            return self._reason, self._trouble
        if self._last is None:
            return NOT_REACHABLE, self._trouble or "not contacted yet"
        return NOT_REACHABLE, f"does not answer: {self._trouble or 'no sign of life'}"
