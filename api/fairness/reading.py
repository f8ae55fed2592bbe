"""The reading of requests: it takes turns as well, before anything is parsed or a user is known.

The flow of a request is known when it has been read. So the reading takes its turn under the flow that the last request
of the connection had, which is nearly always the same. The first request of a connection is read at once. A connection
has one request that waits to be read, so the bounds on connections bound these too.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from api.fairness.config import Class

if TYPE_CHECKING:
    from api.fairness.gate import Fairness, RequestPlace

SCOPE = "fleet.reader"  # where a request has the reader of its connection


class Reader:
    """One connection. `turned`: its reading had a turn, which counts for the request as well; `late`: the turn did not
    come in time."""

    __slots__ = ("_fairness", "_place", "late", "turned")

    def __init__(self, fairness: Fairness) -> None:
        self._fairness = fairness
        self._place: RequestPlace | None = None  # takes no seats: it stands for the flow
        self.turned = self.late = False

    def turn(self) -> asyncio.Future[bool] | None:
        """What is to be waited for before the next request is read; None where it need not wait."""
        place = self._place
        if place is None:
            return None
        turn = self._fairness.turn_of(place)
        self.turned, self.late = turn is None, False
        return turn

    def came(self, turn: asyncio.Future[bool]) -> None:
        self.turned, self.late = True, not turn.result()

    def spend(self, seconds: float) -> None:
        """Reading has taken so long on the loop."""
        place = self._place
        if place is not None:
            place.seated = True
        self._fairness.spend(place, seconds)
        if place is not None:
            place.seated = False

    def classified(self, found: Class) -> bool:
        """What was read is of this class. Returns whether it has had its turn."""
        place, turned, self.turned = self._place, self.turned, False
        if place is None or place.cls is not found:
            turned = turned and place is not None and place.flow is found.flow
            self._place = None if found.level.limits.exempt else self._fairness.place(found, 0)
        return turned
