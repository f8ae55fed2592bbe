"""The garbage collector of hub processes: it stops the event loop for as short as it can.

Nearly all objects here are parsed JSON, which lives long and has no cycles: looking at it finds nothing. So the
collector looks at the young objects in small portions, and at those that have survived a full look no more: they are
set aside, since a full look at the objects of a large hub takes a second. Garbage in cycles among them waits until
their number has doubled; the next full look is at all of them then.
"""

from __future__ import annotations

import gc

# Net new objects before a look at the young ones, how many more such looks before one at the next generation, and of
# those before a full one. A full look is only at what has come since the last one, so it is as short as it is frequent:
# 10 to 40 ms, and up to 100 with (10_000, 2, 5). With the default of 700 objects, collecting was measured to take a
# fifth of the processor time.
AFTER = (10_000, 1, 1)
PER_LOOK = 70_000  # net new objects from one full look to the next, by these numbers
LEAST = 500_000  # objects set aside before their number counts


class SettingAside:
    """A callback of the collector."""

    def __init__(self) -> None:
        self._count = LEAST  # objects after the last look at all of them
        self._all = False  # the next full look is at all of them
        self._uncounted = 0  # full looks until the objects are counted

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase != "stop" or info["generation"] != 2:
            return
        gc.freeze()
        if self._uncounted and not self._all:
            self._uncounted -= 1
            return
        count = gc.get_freeze_count()  # this walks over all of them, as slow as a full look
        if self._all:
            self._all, self._count = False, max(count, LEAST)
        elif count > 2 * self._count:
            self._all = True
            gc.unfreeze()
        self._uncounted = max(2 * self._count - count, self._count // 4) // PER_LOOK


def collect_seldom() -> None:
    """Let the collector of this process work like that, from now on."""
    gc.set_threshold(*AFTER)
    gc.callbacks.append(SettingAside())
