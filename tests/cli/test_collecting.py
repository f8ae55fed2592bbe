"""What the garbage collector of a hub process looks at, and what it finds in the end."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
import weakref
from fleet.hub.collecting import LEAST, collect_seldom

class Cycle:
    def __init__(self):
        self.me = self

collect_seldom()
gc.collect()
kept = [[] for _ in range(LEAST)]
cycle = Cycle()
alive = weakref.ref(cycle)
gc.collect()
print("set aside after a full look:", gc.get_freeze_count() >= LEAST, gc.get_count()[2])
del cycle
gc.collect()
print("garbage set aside is not looked at:", alive() is not None)
kept += [[] for _ in range(2 * LEAST)]
gc.collect()
gc.collect()
print("found once the number has doubled:", alive() is None)
print("set aside again:", gc.get_freeze_count() >= 3 * LEAST)
"""


def test_what_lives_long_is_set_aside_and_looked_at_again_once_its_number_has_doubled() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "set aside after a full look: True 0",
        "garbage set aside is not looked at: True",
        "found once the number has doubled: True",
        "set aside again: True",
    ]


COUNTED = """
import gc
from fleet.hub import collecting

class Counting:
    counts = 0
    freeze, unfreeze, set_threshold, callbacks = gc.freeze, gc.unfreeze, gc.set_threshold, gc.callbacks
    def get_freeze_count(self):
        self.counts += 1
        return gc.get_freeze_count()

collecting.gc = Counting()
collecting.collect_seldom()
kept = [[] for _ in range(2 * collecting.LEAST)]
print(gc.get_stats()[2]["collections"] > 10, collecting.gc.counts)
"""


def test_what_is_set_aside_is_seldom_counted_since_that_walks_over_all_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True, timeout=60)
    many, counts = done.stdout.split()
    assert many == "True" and int(counts) <= 5
