"""The way of a small snapshot through `decide`: the calls that each step makes, and the files that a reader opens.

`python -m tests.core.decide.walk` (also `make lint-walk`, at the end of `make lint`). The snapshot is a scenario in
which a unit waits, another one is evicted for it, and a claim keeps the room. The greedy answer is the plan: CP-SAT is
not asked. A generator counts as one call, and a comprehension or a lambda belongs to the function that it stands in.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import wrap
from types import CodeType, FrameType

from fleet.core.decide import decide
from fleet.core.model.plan import Plan
from tests.checkout import ROOT
from tests.scenarios.drive import Moment, scenarios

CORE = ROOT / "fleet" / "core"
SCENARIO = "a guaranteed job takes back what was borrowed and claims the room"


@dataclass
class Step:
    """A call that `decide` makes itself, and all below it. `files`: as they are entered, each once."""

    name: str
    calls: int = 0
    files: dict[str, None] = field(default_factory=dict)


@dataclass
class Walk:
    """The steps in order. `crossings`: calls from one file into another; `returns`: those of them into a file that was
    entered before."""

    steps: list[Step] = field(default_factory=list)
    crossings: int = 0
    returns: int = 0

    @property
    def files(self) -> list[str]:
        """All files, as they are entered."""
        return list(dict.fromkeys(file for step in self.steps for file in step.files))

    def enter(self, code: CodeType, caller: FrameType | None) -> None:
        """Note one call of a function of the core."""
        file = _file(code)
        if caller is not None and caller.f_code is decide.__code__:
            self.steps.append(Step(code.co_qualname))
        step = self.steps[-1]
        if caller is not None and caller.f_code.co_filename != code.co_filename:
            self.crossings += 1
            self.returns += file in self.files
        step.calls += 1
        step.files[file] = None


def _file(code: CodeType) -> str:
    """The path of a function's file below fleet/core; "" for code that lies elsewhere."""
    path = Path(code.co_filename)
    return path.relative_to(CORE).as_posix() if path.is_relative_to(CORE) else ""


def walk() -> tuple[Walk, Plan]:
    """Decide the snapshot; returns the walk and its plan."""
    moment = next(Moment.of(one["snapshot"]) for one in scenarios() if one["name"] == SCENARIO)
    taken = Walk([Step("decide")])
    begun: list[FrameType] = []  # generators: their frames are entered again for each value

    def profile(frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name.startswith("<") or not _file(code):
            return
        if code.co_flags & inspect.CO_GENERATOR:
            if any(frame is known for known in begun):
                return
            begun.append(frame)
        taken.enter(code, frame.f_back)

    sys.setprofile(profile)
    try:
        plan = decide(moment.snapshot, now=moment.now, seed=1, solver=None, mark=lambda part: None)
    finally:
        sys.setprofile(None)
    return taken, plan


def table(taken: Walk) -> str:
    """A line for each step: its calls, the files that it enters, and those of them that no step before has entered."""
    lines = [f"{'step':<17}{'calls':>6}{'files':>6}  entered first here"]
    known: set[str] = set()
    for step in taken.steps:
        new = [file for file in step.files if file not in known]
        known.update(new)
        first, *more = wrap(" ".join(new), 88, break_on_hyphens=False) or [""]
        lines.append(f"{step.name:<17}{step.calls:>6}{len(step.files):>6}  {first}".rstrip())
        lines += [f"{'':<31}{part}" for part in more]
    calls = sum(step.calls for step in taken.steps)
    crossings = f"{taken.crossings} from file to file, {taken.returns} of them into a file entered before"
    return "\n".join([*lines, f"{len(taken.files)} files, {calls} calls: {crossings}"])


if __name__ == "__main__":
    print(table(walk()[0]))
