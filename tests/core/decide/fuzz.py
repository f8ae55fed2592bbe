"""Random worlds for the decision core: no exception, no plan that the checker refuses or that an exact model of rules
(tests/core/exact.py) calls illegal, no eviction in circles.

`python -m tests.core.decide.fuzz --worlds 20000` (also `make fuzz-core`). Of every four worlds two have all features
(tests/worlds.py), two are crowded and contested (tests/core/check/reclaims.py); a part of both is decided with CP-SAT,
too. A contested world then runs forward for ten cycles in which nothing arrives. Exit status 1 where a rule is broken;
the seeds are printed.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, seed, settings

from fleet.core.check import check
from fleet.core.decide import decide
from fleet.core.foresee.forward import Forward, UnitEventKind
from fleet.core.model.plan import Plan
from fleet.core.placement.problem import Solver
from fleet.core.snapshot import Snapshot
from fleet.core.solver.cpsat import CpSat
from tests.builders import NOW
from tests.core.check.reclaims import contested
from tests.core.exact import illegal
from tests.worlds import worlds

CYCLES = 10
CYCLE_S = 60.0
WITH_SOLVER = 8  # one world of so many is decided with CP-SAT, too


@dataclass
class Found:
    """`broken`: what went wrong, with the world's name. `counts`: worlds, plans, starts, evictions, cycles."""

    broken: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def judge(self, name: str, snapshot: Snapshot, solver: Solver | None, now: float = NOW) -> Plan | None:
        """Decide once; the plan, or None after an exception."""
        try:
            plan = decide(snapshot, now=now, seed=1, solver=solver)
        except Exception as error:  # the subject of the search
            self.broken.append(f"{name}: {type(error).__name__}: {error}")
            return None
        if "the checker" in plan.certificate.why or check(snapshot, plan, now=now):
            self.broken.append(f"{name}: the checker refused a plan: {plan.certificate.why}")
        if any(unit.rules for unit in snapshot.units.values()):
            self.counts["ruled"] += 1
            for member in illegal(snapshot, plan):
                self.broken.append(f"{name}: the exact model finds no packing in {member}")
        self.counts["plans"] += 1
        self.counts["starts"] += len(plan.placements)
        self.counts["evictions"] += len(plan.evictions)
        return plan

    def run_on(self, name: str, snapshot: Snapshot, solver: Solver | None) -> None:
        """Ten cycles without arrivals: no unit leaves twice for the same unit, nor more than twice. Two units may evict
        each other once each, as `reversals` count: ranks change when a unit leaves, or when its turn is over."""
        left: Counter[str] = Counter()
        pairs: Counter[tuple[str, str]] = Counter()

        def decider(run: Forward) -> Plan:
            plan = self.judge(f"{name} at {run.now - NOW:.0f} s", run.snapshot(), solver, run.now)
            for eviction in plan.evictions if plan is not None else ():
                left[eviction.unit] += 1
                pairs[eviction.unit, eviction.preemptor] += 1
            self.counts["cycles"] += 1
            return plan if plan is not None else Plan()

        run = Forward(
            snapshot, now=NOW, decider=decider, runs_s=lambda unit, now: None, cycle_s=CYCLE_S, tick_s=CYCLE_S
        )
        run.run(most_events=400, until=NOW + CYCLES * CYCLE_S)
        circles = sorted(pair for pair, times in pairs.items() if times > 1)
        often = sorted(unit for unit, times in left.items() if times > 2)
        if circles or often:
            self.broken.append(f"{name}: evictions go round: {circles or often}")
        self.counts["reversals"] += sum((other, one) in pairs for one, other in pairs) // 2
        self.counts["gone"] += sum(event.what is UnitEventKind.LEFT for event in run.log)


def with_all_features(found: Found, number: int, first: int) -> None:
    """Decide so many worlds of tests/worlds.py; `first` seeds their choice."""
    solver, turn = CpSat(), iter(range(number))

    @seed(first)
    @settings(
        max_examples=number,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(worlds())
    def one(world: Snapshot) -> None:
        index = next(turn, 0)
        found.judge(f"world {first}/{index}", world, None)
        if index % WITH_SOLVER == 0:
            found.judge(f"world {first}/{index} with CP-SAT", world, solver)
        found.counts["worlds"] += 1
        _progress(found)

    one()


def with_contention(found: Found, seeds: Sequence[int]) -> None:
    """Decide contested worlds by their seeds, and run them on."""
    solver = CpSat()
    for number in seeds:
        world = contested(random.Random(number))
        found.run_on(f"contested {number}", world, None)
        if number % WITH_SOLVER == 0:
            found.run_on(f"contested {number} with CP-SAT", world, solver)
        found.counts["worlds"] += 1
        _progress(found)


def _progress(found: Found) -> None:
    if sys.stderr.isatty():
        print(f"\r{found.counts['worlds']} worlds, {len(found.broken)} broken ", end="", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=20_000)
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    found, half = Found(), arguments.worlds // 2
    with_contention(found, range(arguments.first, arguments.first + half))
    with_all_features(found, arguments.worlds - half, arguments.first)
    print(", ".join(f"{count} {what}" for what, count in found.counts.items()))
    for line in found.broken:
        print(line)
    sys.exit(1 if found.broken else 0)


if __name__ == "__main__":
    main()
