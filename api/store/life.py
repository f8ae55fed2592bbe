"""Whether the event loop of a leader turns, as another thread sees it, and what follows for the leadership.

The loop stamps the time whenever it turns. Signs of life are given by a thread of their own. So a loop that is slow
loses nothing, and a loop that hangs keeps nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


@dataclass(frozen=True, slots=True)
class Patience:
    """The times of a leadership, in seconds."""

    alive_every_s: float = 1.0  # between two signs of life, and between two stamps of a loop that turns freely
    turned_s: float = 10.0  # signs of life are given while the loop has turned within this time
    stands_s: float = 30.0  # a loop that has not turned for so long leads no more, whether or not another stands by
    takeover_s: float = 10.0  # a candidate ends a leader that has given no sign of life for so long
    sure_part: float = 0.7  # of the take-over time: so long after a sign of life no other can lead; the rest is for
    # what was begun just before


class LoopState(StrEnum):
    """The state of the loop."""

    TURNS = "turns"
    LATE = "late"  # no sign of life is given for it
    STANDS = "stands"  # it leads no more


def state_of_loop(since_s: float, patience: Patience) -> LoopState:
    """The state of a loop that turned `since_s` ago."""
    if since_s >= patience.stands_s:
        return LoopState.STANDS
    return LoopState.LATE if since_s >= patience.turned_s else LoopState.TURNS


class Stamps:
    """The stamps of the event loop that makes this, until `end`. Any thread may ask for their age."""

    def __init__(self, patience: Patience, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._patience, self._monotonic = patience, monotonic
        self._loop = asyncio.get_running_loop()
        self._stamp()

    def _stamp(self) -> None:
        self._at = self._monotonic()
        # A timer and no task: a task that sleeps needs two turns of the loop for each stamp.
        self._timer = self._loop.call_later(self._patience.alive_every_s, self._stamp)

    @property
    def age_s(self) -> float:
        return self._monotonic() - self._at

    @property
    def turning(self) -> LoopState:
        return state_of_loop(self.age_s, self._patience)

    def end(self) -> None:
        self._timer.cancel()
