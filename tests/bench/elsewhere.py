"""What decisions cost the controllers' process, made here and made elsewhere: `python -m tests.bench.elsewhere [N]`.

The world of `tests.bench.decide`, without solver: a first decision, then decisions of which each has a hundred changed
units. For each:

  decision_s  until there is the plan
  here_s      processor time of the thread that calls: for so long it may have the interpreter
  gap_ms      the longest that another thread, which wakes each millisecond, waited for the interpreter
  child_mib   memory of the child
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import psutil

from fleet.controllers.decide.process import ProcessDecider
from fleet.core.decide import decide
from fleet.core.model.plan import Plan
from fleet.core.snapshot import Snapshot, SnapshotChanges
from fleet.hub.collecting import collect_seldom
from fleet.hub.compose import SWITCH_S
from tests.bench.decide import world
from tests.builders import NOW

CHANGED = 100
ROUNDS = 5


def main() -> None:
    pending = int(sys.argv[1]) if sys.argv[1:] else 100_000
    collect_seldom()
    sys.setswitchinterval(SWITCH_S)
    elsewhere = ProcessDecider()
    elsewhere.decide(Snapshot(), now=NOW, seed=0, solver=None)
    snapshots = [world(pending, 32, 9_704, 0)]
    for number in range(ROUNDS):
        snapshots.append(snapshots[-1].apply(_changes(snapshots[-1], number)))
    there = [_measured("elsewhere", elsewhere.decide, one, elsewhere.pid) for one in snapshots]
    here = [_measured("here", decide, one, None) for one in _following(snapshots)]
    assert here == there
    elsewhere.close()


def _following(snapshots: list[Snapshot]) -> Iterator[Snapshot]:
    """The same, each of which knows what the one before knew."""
    before = Snapshot()
    for snapshot in snapshots:
        before = replace(snapshot).following(before)
        yield before


def _changes(snapshot: Snapshot, seed: int) -> SnapshotChanges:
    some = random.Random(seed).sample(sorted(snapshot.units), CHANGED)
    return SnapshotChanges(put_units=tuple(replace(snapshot.units[key], priority=seed % 3) for key in some))


def _measured(name: str, decide: Callable[..., Plan], snapshot: Snapshot, child: int | None) -> Plan:
    with _longest_gap() as gap:
        began, thread = time.perf_counter(), time.thread_time()
        plan = decide(snapshot, now=NOW, seed=0, solver=None)
        took_s, here_s = time.perf_counter() - began, time.thread_time() - thread
    memory = psutil.Process(child).memory_info().rss >> 20 if child is not None else 0
    waiting = len(plan.reasons)
    print(f"{name} {waiting=} decision_s={took_s:.2f} {here_s=:.3f} gap_ms={1000 * gap[0]:.0f} child_mib={memory}")
    return plan


@contextmanager
def _longest_gap() -> Iterator[list[float]]:
    gap, ends = [0.0], threading.Event()

    def tick() -> None:
        last = time.perf_counter()
        while not ends.wait(0.001):
            now = time.perf_counter()
            gap[0], last = max(gap[0], now - last), now

    ticking = threading.Thread(target=tick)
    ticking.start()
    try:
        yield gap
    finally:
        ends.set()
        ticking.join()


if __name__ == "__main__":
    main()
