"""What bounds one solve: seconds, and the size of numbers."""

from __future__ import annotations

from collections.abc import Callable

SAFE = 1 << 50  # the largest sum of a row that the solver gets: far below its 2^63


class Limit:
    """What is left of a limit in seconds: by the clock, if there is one, so that building a model counts; else less
    what the solver says it took."""

    def __init__(self, limit_s: float, clock: Callable[[], float] | None) -> None:
        self._left_s = limit_s
        self._clock = clock
        self._ends = limit_s + clock() if clock is not None else 0.0

    @property
    def left_s(self) -> float:
        return self._left_s if self._clock is None else self._ends - self._clock()

    def spend(self, seconds: float) -> None:
        self._left_s -= seconds
