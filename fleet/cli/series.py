"""The options that make many jobs of one, or let it start after others, spelled once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from fleet.cli.failure import Failure

if TYPE_CHECKING:
    from fleet.submission import Series

SweepOption = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep", metavar="NAME=VALUES", help="A job for each value: lr=0.1,0.01 or seed=1..5; repeated: the product."
    ),
]
ArrayOption = Annotated[
    str, typer.Option("--array", metavar="NUMBERS", help="A job for each number: 0-9, 1,4,7, or 0-99%4: 4 at once.")
]
AtMostOption = Annotated[
    int | None, typer.Option("--at-most", min=1, help="So many jobs of the sweep or array run at once.")
]
AfterOption = Annotated[
    list[str] | None,
    typer.Option(
        "--after", metavar="JOB[:ok|:any]", help="Start when this job has succeeded, or (any) is over; may be repeated."
    ),
]
UntilOption = Annotated[
    str,
    typer.Option(
        "--until", metavar="GOAL", help="Wait, and cancel the rest of the sweep when a job prints, say, loss<0.1."
    ),
]
_GOAL = re.compile(r"([A-Za-z_][-./\w]*)\s*(<=|>=|<|>)\s*(-?[\d.]+(?:[eE][-+]?\d+)?)")
_NUMBER = r"\s*[=:]\s*(-?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)"


@dataclass(frozen=True)
class Goal:
    """A number that a job prints, as `loss=0.07` or `loss: 0.07`, and the bound that it is to reach."""

    metric: str
    sign: str
    bound: float

    def __str__(self) -> str:
        return f"{self.metric}{self.sign}{self.bound:g}"

    @property
    def downwards(self) -> bool:
        return self.sign.startswith("<")

    def reached(self, value: float) -> bool:
        if value == self.bound:
            return self.sign.endswith("=")
        return (value < self.bound) is self.downwards

    def best(self, log: str) -> float | None:
        """The best number that a log has."""
        found = [float(text) for text in re.findall(rf"(?<![-./\w]){re.escape(self.metric)}{_NUMBER}", log)]
        return (min if self.downwards else max)(found, default=None)


def series_of(sweep: Sequence[str] | None, array: str, at_most: int | None, after: Sequence[str] | None) -> Series:
    """The options as a value."""
    from fleet.submission import Series

    return Series(sweep=sweep or (), array=array, at_most=at_most, after=after or ())


def goal_of(until: str, series: Series | None = None) -> Goal | None:
    """The goal of --until; None without one. Raises Failure. `series`: of the jobs that it is about."""
    if not until:
        return None
    found = _GOAL.fullmatch(until.strip())
    if found is None:
        raise Failure(f"--until {until}: is not of the form loss<0.1 or accuracy>=0.9")
    if series is not None and not series.many:
        raise Failure("--until is about a sweep or an array: give --sweep or --array")
    return Goal(found[1], found[2], float(found[3]))
