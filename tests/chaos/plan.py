"""The faults of a run, drawn from its seed: which, at what, for how long. When they strike depends on the machine."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from tests.chaos.proxy import FAULTS, Mode

T = TypeVar("T")


class Kind(StrEnum):
    """The faults of a process. Only kills count as kills."""

    KILL = "kill"
    STOP = "stop"  # SIGSTOP, and SIGCONT after `seconds`
    HOLD = "hold"  # its event loop does not turn for `seconds`, while its other threads go on
    CLOCK = "clock"  # its clock jumps by `jump_s`, and back after `seconds`
    DISK = "disk"  # the database's disk is full for `seconds`


KILLED = {"api": 3, "leader": 3, "standby": 1, "decider": 2, "solver": 2, "postgres": 2, "backend": 1}
STOPPED = {"api": 3, "leader": 3, "decider": 1, "solver": 1, "postgres": 2, "sim": 1}
KINDS = {Kind.STOP: 6, Kind.HOLD: 2, Kind.CLOCK: 3, Kind.DISK: 1}
LONG_S = {Kind.STOP: 14.0, Kind.HOLD: 24.0}  # a leader that is stopped is deposed after 10, one that is held after 20
KILLS_FOR_OTHERS = 6  # kills for each fault of another kind


@dataclass(frozen=True, slots=True)
class Step:
    """One fault of a process. `pause_s`: before it."""

    kind: Kind
    target: str
    pause_s: float
    seconds: float = 0.0
    jump_s: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.kind} {self.target}"


@dataclass(frozen=True, slots=True)
class NetworkFault:
    """One fault of a proxy. `gap_s`: before it. `pick`: of the members that are free for a fault, in [0, 1)."""

    mode: Mode
    pick: float
    gap_s: float
    seconds: float


def steps(seed: int, kills: int, only: Collection[str] = ()) -> list[Step]:
    """`kills` kills, with other faults in between; with `only`, kills of these targets alone."""
    dice, found = random.Random(f"steps {seed}"), []
    killed = {target: weight for target, weight in KILLED.items() if not only or target in only}
    for number in range(1, kills + 1):
        found.append(Step(Kind.KILL, _draw(dice, killed), dice.uniform(0.0, 1.0)))
        if number % KILLS_FOR_OTHERS == 0 and not only:
            found.append(_other(dice))
    return found


def _other(dice: random.Random) -> Step:
    kind, pause = _draw(dice, KINDS), dice.uniform(0.0, 1.0)
    if kind is Kind.CLOCK:
        jump = dice.choice((-1, 1)) * dice.choice((2.0, 30.0, 600.0))
        return Step(kind, dice.choice(("api", "leader", "standby")), pause, dice.uniform(1.0, 4.0), jump)
    if kind is Kind.DISK:
        return Step(kind, "postgres", pause, dice.uniform(2.0, 5.0))
    target = "leader" if kind is Kind.HOLD else _draw(dice, STOPPED)
    long = target == "leader" and dice.random() < 0.5
    return Step(kind, target, pause, LONG_S[kind] if long else dice.uniform(0.5, 5.0))


def network(seed: int) -> Iterator[NetworkFault]:
    """Without an end; each at most six seconds long, so that no member counts as lost for good."""
    dice = random.Random(f"network {seed}")
    while True:
        mode = dice.choice(FAULTS)
        seconds = 0.0 if mode is Mode.CUT else dice.uniform(0.5, 6.0)
        yield NetworkFault(mode, dice.random(), dice.uniform(0.5, 4.0), seconds)


def _draw(dice: random.Random, weights: Mapping[T, int]) -> T:
    return dice.choices(list(weights), list(weights.values()))[0]
