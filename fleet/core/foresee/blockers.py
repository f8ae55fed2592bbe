"""The jobs that a waiting job waits for: those that its reason names, and those that hold the quota or room it lacks.

Where quota refuses the job, the holders are charged below the quota node that refuses. Where room is short, the holders
are in the member that the reason names, which is the closest to having room. A job that no end of another job could
start waits for nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fleet.core.foresee.position import first_in_line
from fleet.core.model.matching import member_bars
from fleet.core.model.plan import Plan
from fleet.core.model.reason import OF_QUOTA, Code, Reason, Severity, human
from fleet.core.model.unit import Phase, Unit
from fleet.core.quota.limits import COUNTS, limit_of
from fleet.core.quota.usage import request_of
from fleet.core.snapshot import Snapshot

KindName = Callable[[str], str]  # "kubeflow.org/PyTorchJob" -> the word that people know the kind by
MOST = 100  # jobs that are looked at one by one
NAMED = 3  # in a text
LISTED = 20  # in a document
_OF_ROOM = (Code.NO_MEMBER_FITS, Code.LOST_TO_OTHERS, Code.COLLECTS, Code.ROOM_CLAIMED)


class BlockingRole(StrEnum):
    """How a job keeps another from starting."""

    AHEAD = "Ahead"  # its turn comes first, or room is kept for it
    HOLDS = "Holds"  # it has quota or room that the other lacks
    LEAVES = "Leaves"  # it is on its way out, and still has them


@dataclass(frozen=True, slots=True)
class ResourceHolders:
    """`units` have room or start, and hold some of `resources` in `where`: the quota node, or the members."""

    where: tuple[str, ...] = ()
    units: tuple[Unit, ...] = ()
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockingJob:
    """One job that is waited for. `amounts`: what it holds of the resources that are short; `member`: "" in none."""

    unit: Unit
    part: BlockingRole
    member: str = ""
    amounts: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class BlockingJobs:
    """`jobs`: those that the reason names, then the largest holders; `more` holders are not looked at."""

    jobs: tuple[BlockingJob, ...] = ()
    more: int = 0


def resource_holders(snapshot: Snapshot, plan: Plan, unit: Unit, reason: Reason, member: str = "") -> ResourceHolders:
    """The holders of the resources that the unit lacks, by its reason; `member`: only those there, where room lacks."""
    limit = limit_of(reason)
    if limit is not None:
        units = tuple(u for u, _ in _there(snapshot, plan) if limit.counts(u))
        return ResourceHolders((limit.node,), units, (limit.resource,))
    if reason.severity is not Severity.INFO or unit.held or unit.suspended:
        return ResourceHolders()
    allowed = {m.name for m in snapshot.members.values() if m.ready and not member_bars(unit, m)}
    members = sorted(allowed & {member} if member else allowed)
    lacks = str(reason.numbers.get("lacks", ""))
    units = tuple(u for u, at in _there(snapshot, plan) if at in members)
    return ResourceHolders(tuple(members), units, tuple(lacks.split(", ")) if lacks else _asked(unit))


def held_amounts(unit: Unit, resources: tuple[str, ...]) -> dict[str, int]:
    """The amounts of these resources that the unit holds; empty for a unit that holds none."""
    request = request_of(unit)
    return {name: request[name] for name in resources if request[name] > 0}


def blocking_jobs(snapshot: Snapshot, plan: Plan, unit: Unit, reason: Reason | None) -> BlockingJobs:
    """The jobs that the unit waits for by its reason of this plan."""
    if reason is None or reason.beyond_limit:
        return BlockingJobs()
    causes = {job.unit.id: job for job in _named(snapshot, plan, unit, reason)}
    if reason.code not in (*OF_QUOTA, *_OF_ROOM):
        return BlockingJobs(tuple(causes.values()))
    holders = resource_holders(snapshot, plan, unit, reason, str(reason.numbers.get("member", "")))
    places = {placement.unit: placement.member for placement in plan.placements}
    jobs = [
        BlockingJob(
            u,
            BlockingRole.LEAVES if u.phase is Phase.EVICTING else BlockingRole.HOLDS,
            u.member or places.get(u.id, ""),
            amounts,
        )
        for u in holders.units
        if u.id not in causes and (amounts := tuple(held_amounts(u, holders.resources).items()))
    ]
    if reason.code is Code.ROOM_CLAIMED:
        jobs = [job for job in jobs if job.part is BlockingRole.LEAVES]
    jobs.sort(key=lambda job: ([-amount for _, amount in job.amounts], job.unit.name, job.unit.id))
    return BlockingJobs((*causes.values(), *jobs[:MOST]), max(0, len(jobs) - MOST))


def kind_of(unit: Unit, kind_name: KindName) -> str | None:
    """The kind of its job; None where nothing says it, as in files written by hand."""
    return kind_name(unit.needs_kind) or None


def document(
    awaited: BlockingJobs, kind_name: KindName, may_see: Callable[[Unit], bool] | None = None
) -> dict[str, Any] | None:
    """As JSON, for a reader who may see only these jobs (None: all); the others are counted. None: nobody is waited
    for."""
    if not awaited.jobs:
        return None
    visible = [job for job in awaited.jobs if may_see is None or may_see(job.unit)]
    hidden, unnamed = len(awaited.jobs) - len(visible), max(0, len(visible) - NAMED) + awaited.more
    parts = [_text(job) for job in visible[:NAMED]]
    parts += [f"{unnamed} more"] if unnamed else []
    parts += [f"{hidden} job{'s' if hidden > 1 else ''} that you may not see"] if hidden else []
    return {
        "text": ", ".join(parts[:-1]) + (" and " if parts[:-1] else "") + parts[-1],
        "jobs": [
            {
                "job": job.unit.name,
                "kind": kind_of(job.unit, kind_name),
                "part": job.part.value,
                "queue": job.unit.leaf,
                "member": job.member or None,
                "amounts": _amounts(job),
            }
            for job in visible[:LISTED]
        ],
        "more": max(0, len(visible) - LISTED) + awaited.more,
        "hidden": hidden,
    }


def _named(snapshot: Snapshot, plan: Plan, unit: Unit, reason: Reason) -> Iterator[BlockingJob]:
    """The jobs that the reason names, or that come first in a queue that considers only its first jobs."""
    if reason.code is Code.NOT_ITS_TURN:
        line = (u for u in snapshot.units.values() if u.leaf == unit.leaf)
        for first in first_in_line(line, plan.reasons, NAMED).get(unit.leaf or "", ()):
            yield BlockingJob(first, BlockingRole.AHEAD)
        return
    names = {name: key for key, name in reason.named_jobs.items()}
    for other in snapshot.units.values() if names else ():
        if other.name in names and other.id != unit.id:
            yield BlockingJob(
                other, BlockingRole.LEAVES if names[other.name] == "leaving" else BlockingRole.AHEAD, other.member or ""
            )


def _there(snapshot: Snapshot, plan: Plan) -> Iterator[tuple[Unit, str]]:
    """The units that have room or start, with their members."""
    for unit in snapshot.units.values():
        if unit.phase is not Phase.WAITING:
            yield unit, unit.member or ""
    for placement in plan.placements:
        yield snapshot.units[placement.unit], placement.member


def _asked(unit: Unit) -> tuple[str, ...]:
    """The devices that the unit asks for; else all resources that it asks for."""
    names = tuple(name for name, amount in unit.total.items_ if amount)
    return tuple(name for name in names if "/" in name) or names


def _amounts(job: BlockingJob) -> dict[str, int]:
    return {name: amount for name, amount in job.amounts if name not in COUNTS}


def _text(job: BlockingJob) -> str:
    """team-a/train-7 (8 nvidia.com/gpu, root/vision, in east)"""
    told = [f"{human(amount, name)} {name}" for name, amount in _amounts(job).items()]
    told += [job.unit.leaf] if job.unit.leaf else []
    told += [f"in {job.member}"] if job.member else []
    told += {BlockingRole.AHEAD: ["ahead of it"], BlockingRole.LEAVES: ["leaving"], BlockingRole.HOLDS: []}[job.part]
    return f"{job.unit.name} ({', '.join(told)})" if told else job.unit.name
