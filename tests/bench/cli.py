"""The command line: how soon `fleet --help` answers, and how soon `fleet jobs` shows its first lines of 100,000 jobs.

The hub is one process on the memory store, which runs as `python -m tests.bench.cli FOLDER COUNT`.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from api.store.memory import MemoryStore
from fleet.controllers.decide.manifestunits import unit_in
from fleet.rest.mount import PREFIX, RestFace
from fleet.simulate.wall import WallClock
from tests.api.conftest import open_hub
from tests.bench.client import patch, session
from tests.bench.report import Figure, Report
from tests.rest.rest import waiting_jobs

JOBS = 100_000
UNIT = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/queueunits/job-{:05}-pytorchjob-rb-qu"
FLEET = Path(sys.executable).parent / "fleet"


def measure(report: Report, folder: Path, rounds: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    report.add(Figure("fleet --help", "ms", tuple(_first_line_ms("--help") for _ in range(rounds)), "< 200"))
    serving = subprocess.Popen(
        [sys.executable, "-m", "tests.bench.cli", str(folder), str(JOBS)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert serving.stdout is not None
        kubeconfig = serving.stdout.readline().strip()
        words = ("jobs", "-A", "--kubeconfig", kubeconfig)
        first = tuple(_first_line_ms(*words) for _ in range(rounds))
        report.add(Figure(f"fleet jobs: first page of {JOBS:,}", "ms", first, "< 300"))
        changed = tuple(_after_a_change_ms(Path(kubeconfig), number, words) for number in range(rounds))
        report.add(Figure("fleet jobs: first page right after a change", "ms", changed, "< 300"))
        whole = tuple(_whole_s(*words) for _ in range(max(1, rounds // 5)))
        report.add(Figure(f"fleet jobs: all {JOBS:,}", "s", whole))
    finally:
        serving.terminate()
        serving.wait(60)


def _first_line_ms(*words: str) -> float:
    """Milliseconds from the start of the process to the first of its output."""
    began = time.perf_counter()
    with subprocess.Popen([FLEET, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        seen = os.read(process.stdout.fileno(), 1)
        took = time.perf_counter() - began
        process.kill()
    assert seen, f"fleet {' '.join(words)} printed nothing"
    return 1000 * took


def _after_a_change_ms(kubeconfig: Path, number: int, words: Sequence[str]) -> float:
    """The same, right after one of the waiting jobs got another priority."""

    async def change() -> None:
        async with session(kubeconfig) as client:
            await patch(client, UNIT.format(number), {"spec": {"priority": JOBS + number}})

    asyncio.run(change())
    return _first_line_ms(*words)


def _whole_s(*words: str) -> float:
    began = time.perf_counter()
    done = subprocess.run([FLEET, *words], capture_output=True, text=True, check=True)
    assert len(done.stdout.splitlines()) == JOBS + 1
    return time.perf_counter() - began


async def serve(folder: Path, count: int) -> None:
    """A hub with `count` waiting jobs, until it is killed; prints where its kubeconfig is."""
    store, clock = MemoryStore(WallClock()), WallClock()
    rest = partial(unit_in, store)
    async with open_hub(folder, store, mounts=lambda o: {PREFIX: RestFace(o, o.store, o.registry, rest)}) as hub:
        await store.commit(waiting_jobs(count, clock.now()))
        async with hub.client() as client:  # the hub works out the places in the queues once
            await client.get(f"{PREFIX}/jobs", params={"limit": 1}, timeout=None)
        print(hub.kubeconfig(), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
