"""The obstacles of a job that still waits after some edits: the users of the missing room or quota, and the smallest
changes that start it.

Holders are summed by queue: the number of jobs, and the amount of each resource that is short. Where quota refuses the
job, the holders are the jobs below the quota node that refuses; else the jobs in the members that policy allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from fleet.core.foresee.answer import StartAnswer
from fleet.core.foresee.blockers import held_amounts, resource_holders
from fleet.core.foresee.certain import starts
from fleet.core.foresee.edits import Edit, Hold, MoveTo, Prioritize, Resize, Submit
from fleet.core.foresee.smallest import smallest
from fleet.core.model.plan import Plan
from fleet.core.model.reason import Reason
from fleet.core.model.unit import Unit
from fleet.core.placement.problem import Solver
from fleet.core.quota.limits import COUNTS
from fleet.core.snapshot import Snapshot

MOST_JOBS = 3  # in one answer: each costs some dozens of decisions


@dataclass(frozen=True, slots=True)
class Holder:
    """`jobs` jobs of one queue ("": outside quota) hold `amounts` of the resources that are short, by resource."""

    queue: str
    jobs: int
    amounts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """`where`: the quota node, or the members, in which `holders` hold the resources that the unit lacks; the largest
    holder is first. A resource that no node has is in no unit's use. `answer`: the smallest changes that start the
    unit."""

    unit: Unit
    reason: Reason
    where: tuple[str, ...]
    holders: tuple[Holder, ...]
    answer: StartAnswer


def named_by(edits: Iterable[Edit]) -> list[str]:
    """The ids of the units that an edit submits, or changes so that they start."""
    ids: dict[str, None] = {}
    for edit in edits:
        match edit:
            case Submit():
                ids[edit.unit.id] = None
            case Hold(held=False) | Prioritize() | MoveTo() | Resize():
                ids[edit.unit] = None
    return list(ids)


def waiting(snapshot: Snapshot, plan: Plan, units: Iterable[str]) -> list[str]:
    """Those of `units` that wait by `plan`."""
    return [key for key in units if key in snapshot.units and key in plan.reasons and not starts(plan, key)]


def what_binds(
    snapshot: Snapshot,
    plan: Plan,
    units: Iterable[str],
    *,
    now: float,
    seed: int,
    enough: Callable[[], bool],
    solver: Solver | None = None,
) -> tuple[Bottleneck, ...]:
    """The obstacles of the first few of `units`, which wait by `plan`. `enough`, `solver`: as `smallest` takes them."""
    bounds: list[Bottleneck] = []
    for key in islice(units, MOST_JOBS):
        unit = snapshot.units[key]
        held_by = resource_holders(snapshot, plan, unit, plan.reasons[key])
        holders = _by_queue(held_by.units, held_by.resources)
        greedy = plan if plan.certificate.shipped == "greedy" else None
        answer = smallest(snapshot, key, now=now, seed=seed, plan=greedy, enough=enough, solver=solver)
        bounds.append(Bottleneck(unit, plan.reasons[key], held_by.where, holders, answer))
    return tuple(bounds)


def _by_queue(units: Iterable[Unit], resources: tuple[str, ...]) -> tuple[Holder, ...]:
    totals: dict[str, tuple[int, dict[str, int]]] = {}
    for unit in units:
        mine = held_amounts(unit, resources)
        if mine:
            jobs, amounts = totals.setdefault(unit.leaf or "", (0, {}))
            totals[unit.leaf or ""] = (jobs + 1, amounts)
            for name, amount in mine.items():
                amounts[name] = amounts.get(name, 0) + amount
    holders = (
        Holder(
            queue, jobs, tuple((name, amounts[name]) for name in resources if name in amounts and name not in COUNTS)
        )
        for queue, (jobs, amounts) in totals.items()
    )
    return tuple(sorted(holders, key=lambda h: ([-amount for _, amount in h.amounts], -h.jobs, h.queue)))
