"""Children of the decider's process that decide otherwise: `python -m tests.controllers.decide.standins NAME`."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from fleet.controllers.decide.process import serve
from fleet.core.decide import decide
from fleet.core.model.plan import Plan
from fleet.core.snapshot import Snapshot


class Unportable(Exception):
    """Needs more than a text to be made."""

    def __init__(self, node: str, pod: str) -> None:
        super().__init__(f"{pod} is not on {node}")


def command(name: str, *more: str) -> tuple[str, ...]:
    """The command of a child."""
    return (sys.executable, "-m", "tests.controllers.decide.standins", name, *more)


def by_units(snapshot: Snapshot, **how: Any) -> Plan:
    """What happens is the id of a unit."""
    for unit in snapshot.units.values():
        match unit.id:
            case "hangs":
                time.sleep(600)
            case "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            case "breaks":
                raise KeyError("a bug")
            case "breaks oddly":
                raise Unportable("n", "p")
    return decide(snapshot, **how)


def once(snapshot: Snapshot, **how: Any) -> Plan:
    """Does not end the first time: the file that the second argument names tells the times apart."""
    path = Path(sys.argv[2])
    if not path.exists():
        path.touch()
        time.sleep(600)
    return decide(snapshot, **how)


if __name__ == "__main__":
    serve({"by_units": by_units, "once": once}[sys.argv[1]])
