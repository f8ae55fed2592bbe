"""The obstacles of a job that still waits after some edits: the users of the missing room or quota, and the smallest
changes that start it.

Holders are summed by queue: the number of jobs, and the amount of each resource that is short. Where quota refuses the
job, the holders are the jobs below the quota node that refuses; else the jobs in the members that policy allows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from fleet.foresee.answer import Answer
from fleet.foresee.certain import starts
from fleet.foresee.edits import Edit, Hold, MoveTo, Prioritize, Submit
from fleet.foresee.smallest import smallest
from fleet.model.matching import member_bars
from fleet.model.plan import Plan
from fleet.model.reason import OF_QUOTA, Code, Reason, Severity
from fleet.model.unit import Phase, Unit
from fleet.placement.problem import Solver
from fleet.quota.tree import MAX_JOBS
from fleet.quota.usage import request_of
from fleet.snapshot import Snapshot

MOST_JOBS = 3  # in one answer: each costs some dozens of decisions


@dataclass(frozen=True, slots=True)
class Holder:
    """`jobs` jobs of one queue ("": outside quota) hold `amounts` of the resources that are short, by resource."""

    queue: str
    jobs: int
    amounts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """`where`: the quota node, or the members, in which `holders` hold the resources that the unit lacks; the largest
    holder is first. A resource that no node has is in no unit's use. `answer`: the smallest changes that start the
    unit."""

    unit: Unit
    reason: Reason
    where: tuple[str, ...]
    holders: tuple[Holder, ...]
    answer: Answer


def named_by(edits: Iterable[Edit]) -> list[str]:
    """The ids of the units that an edit submits, or changes so that they start."""
    found: dict[str, None] = {}
    for edit in edits:
        match edit:
            case Submit():
                found[edit.unit.id] = None
            case Hold(held=False) | Prioritize() | MoveTo():
                found[edit.unit] = None
    return list(found)


def what_binds(
    snapshot: Snapshot,
    plan: Plan,
    units: Iterable[str],
    *,
    now: float,
    seed: int,
    enough: Callable[[], bool],
    solver: Solver | None = None,
) -> tuple[Bound, ...]:
    """The obstacles of the first few of `units` that wait by `plan`. `enough`, `solver`: as `smallest` takes them."""
    found: list[Bound] = []
    for key in units:
        unit = snapshot.units.get(key)
        if unit is not None and key in plan.reasons and not starts(plan, key) and len(found) < MOST_JOBS:
            where, holders = _held(snapshot, plan, unit, plan.reasons[key])
            greedy = plan if plan.certificate.shipped == "greedy" else None
            answer = smallest(snapshot, key, now=now, seed=seed, plan=greedy, enough=enough, solver=solver)
            found.append(Bound(unit, plan.reasons[key], where, holders, answer))
    return tuple(found)


def _held(snapshot: Snapshot, plan: Plan, unit: Unit, reason: Reason) -> tuple[tuple[str, ...], tuple[Holder, ...]]:
    if reason.code in OF_QUOTA:
        node, user = str(reason.numbers.get("node")), str(reason.numbers.get("user", ""))
        firm = reason.code is Code.MIN_EXHAUSTED  # only units that may not be preempted use min up
        there = [
            u for u, _ in _there(snapshot, plan)
            if _below(u.leaf, node) and user in ("", u.user) and not (firm and u.preemptible)
        ]  # fmt: skip
        return (node,), _by_queue(there, (str(reason.numbers.get("resource")),))
    if reason.severity is not Severity.INFO or unit.held or unit.suspended:
        return (), ()
    members = sorted(m.name for m in snapshot.members.values() if m.ready and not member_bars(unit, m))
    lacks = tuple(str(reason.numbers.get("lacks", "")).split(", ")) if reason.numbers.get("lacks") else _asked(unit)
    there = [u for u, member in _there(snapshot, plan) if member in members]
    return tuple(members), _by_queue(there, lacks)


def _there(snapshot: Snapshot, plan: Plan) -> Iterator[tuple[Unit, str]]:
    """The units that have room or start, with their members."""
    for unit in snapshot.units.values():
        if unit.phase is not Phase.WAITING:
            yield unit, unit.member or ""
    for placement in plan.placements:
        yield snapshot.units[placement.unit], placement.member


def _below(leaf: str | None, node: str) -> bool:
    return leaf is not None and f"{leaf}/".startswith(f"{node}/")


def _asked(unit: Unit) -> tuple[str, ...]:
    """The devices that the unit asks for; else all resources that it asks for."""
    names = tuple(name for name, amount in unit.total.items_ if amount)
    return tuple(name for name in names if "/" in name) or names


def _by_queue(units: Iterable[Unit], resources: tuple[str, ...]) -> tuple[Holder, ...]:
    found: dict[str, tuple[int, dict[str, int]]] = {}
    for unit in units:
        request = request_of(unit)
        held = {name: request[name] for name in resources if request[name] > 0}
        if held:
            jobs, amounts = found.setdefault(unit.leaf or "", (0, {}))
            found[unit.leaf or ""] = (jobs + 1, amounts)
            for name, amount in held.items():
                amounts[name] = amounts.get(name, 0) + amount
    holders = (
        Holder(queue, jobs, tuple((name, amounts[name]) for name in resources if name in amounts and name != MAX_JOBS))
        for queue, (jobs, amounts) in found.items()
    )
    return tuple(sorted(holders, key=lambda h: ([-amount for _, amount in h.amounts], -h.jobs, h.queue)))
