"""The policies of a replay: the core, or one of three practices without it.

- `fleet`: the core, with the quota tree, taking back (reclaim) and heads as configured.
- `fifo`: one queue for the fleet in strict order of arrival. The first job goes to the first member (by name) that
  takes it whole; while it fits nowhere, all others wait.
- `fifo-backfill`: EASY. As `fifo`, but while the first job waits, later ones may start where they do not delay it: the
  member where walltimes say that it can start first is kept for it from that time on. Others start there only when
  their walltime ends before, or when it still fits beside them; in other members as they like.
- `race`: a copy of every job waits in every member. Each member admits jobs for itself, in order of arrival, when one
  fits, without reservations. The first to admit a job has it, and the other copies vanish. Which member looks first is
  drawn anew for every decision.

The last three know no quota: every job may have any part of the fleet.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from enum import StrEnum

from fleet.core.foresee.forward import Decider, Forward, core
from fleet.core.foresee.nodes import ForwardNodes
from fleet.core.model.plan import Certificate, Placement, Plan
from fleet.core.model.unit import Component, Phase, Unit
from fleet.core.placement.problem import Solver


class Policy(StrEnum):
    fleet = "fleet"
    fifo = "fifo"
    backfill = "fifo-backfill"
    race = "race"


def decider(policy: Policy, seed: int, solver: Solver | None) -> Decider:
    """The decider of one replay, which keeps state, so each replay has its own."""
    if policy is Policy.fleet:
        return core(seed, solver)
    if policy is Policy.fifo:
        return _fifo
    if policy is Policy.backfill:
        return _Backfill()
    return _Race(random.Random(seed))


def _plan(run: Forward, placed: Iterable[tuple[Unit, str]]) -> Plan:
    """The placements, which were tried on the nodes of the run: the run itself will place them."""
    pairs = list(placed)
    for unit, member in pairs:
        run.nodes[member].release(unit)
    return Plan(tuple(Placement(unit.id, member) for unit, member in pairs), certificate=Certificate("policy"))


def _fifo(run: Forward) -> Plan:
    placed: list[tuple[Unit, str]] = []
    for key in run.waiting:
        unit = run.units[key]
        member = next((name for name in sorted(run.nodes) if run.nodes[name].seat(unit)), None)
        if member is None:
            break
        placed.append((unit, member))
    return _plan(run, placed)


class _Race:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def __call__(self, run: Forward) -> Plan:
        placed: list[tuple[Unit, str]] = []
        names = sorted(run.nodes)
        self._rng.shuffle(names)
        full: set[tuple[Component, ...]] = set()  # sizes of which no further job fits anywhere
        for key in run.waiting:
            unit = run.units[key]
            if unit.components in full:
                continue
            member = next((name for name in names if run.nodes[name].seat(unit)), None)
            if member is None:
                full.add(unit.components)
            else:
                placed.append((unit, member))
        return _plan(run, placed)


class _Backfill:
    """EASY with one reservation. Where a walltime is not known, the job is taken to run for ever."""

    def __call__(self, run: Forward) -> Plan:
        placed: list[tuple[Unit, str]] = []
        names = sorted(run.nodes)
        queue = iter(run.waiting)
        head: Unit | None = None
        for key in queue:
            unit = run.units[key]
            member = next((name for name in names if run.nodes[name].seat(unit)), None)
            if member is None:
                head = unit
                break
            placed.append((unit, member))
        if head is not None:
            placed += self._behind(run, names, head, placed, queue)
        return _plan(run, placed)

    def _behind(
        self, run: Forward, names: list[str], head: Unit, placed: list[tuple[Unit, str]], queue: Iterable[str]
    ) -> list[tuple[Unit, str]]:
        """The jobs that start behind the first job that waits."""
        started: list[tuple[Unit, str]] = []
        reserved_member, at, later = _reserved(run, head, placed)
        full: set[tuple[Component, ...]] = set()  # jobs that fit nowhere now
        barred: set[tuple[Component, ...]] = set()  # jobs that fit only where the head needs the room, if they run long
        for key in queue:
            unit = run.units[key]
            if unit.components in full:
                continue
            short = unit.walltime_s is not None and run.now + unit.walltime_s <= at
            if unit.components in barred and not short:
                continue
            free = [name for name in names if name != reserved_member]
            member = next((name for name in free if run.nodes[name].seat(unit)), None)
            if member is None and reserved_member is not None:
                if not run.nodes[reserved_member].fits(unit):
                    full.add(unit.components)
                    continue
                if not short and (later is None or not later.seat(unit)):
                    barred.add(unit.components)
                    continue
                member = reserved_member if run.nodes[reserved_member].seat(unit) else None
            if member is None:
                full.add(unit.components)
            else:
                started.append((unit, member))
        return started


def _reserved(
    run: Forward, head: Unit, placed: Iterable[tuple[Unit, str]]
) -> tuple[str | None, float, ForwardNodes | None]:
    """Where and when walltimes say that the first job can start, and that member's nodes then, with the job on them.
    (None, for ever, None) when it will never fit."""
    ends: dict[str, list[tuple[float, Unit]]] = {name: [] for name in run.nodes}
    running = [
        (unit, unit.member or "", unit.placed_at or run.now)
        for unit in run.units.values()
        if unit.phase is not Phase.WAITING
    ]
    for unit, member, since in [*running, *((unit, member, run.now) for unit, member in placed)]:
        if unit.walltime_s is not None:
            ends[member].append((max(run.now, since + unit.walltime_s), unit))
    best: tuple[float, str, ForwardNodes] | None = None
    for name in sorted(run.nodes):
        nodes: ForwardNodes | None = None
        for end, unit in sorted(ends[name], key=lambda item: (item[0], item[1].id)):
            if best is not None and end >= best[0]:
                break
            nodes = nodes or run.nodes[name].copy()
            nodes.release(unit)
            if nodes.seat(head):
                best = (end, name, nodes)
                break
    return (best[1], best[0], best[2]) if best is not None else (None, float("inf"), None)
