"""What the garbage collector of a hub process looks at, and what it finds in the end."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc
import weakref
from fleet.cli.collecting import LEAST, collect_seldom

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
