"""Draining a member: the taints that ask for it, and its jobs in the order in which they leave; pure.

A drain is stored, so that it goes on without the command that began it. The taint TAINT_DRAIN says it, beside the
cordon; the taint's value is the pace (`60-per-minute`), with `-force` where jobs leave that are not to be evicted.
The hub and the command read the jobs with the same function, so that a dry run lists exactly what would leave.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleet.bindings import binding as b
from fleet.bindings.conditions import condition
from fleet.bindings.matching import EXECUTE, until
from fleet.bindings.unit import priority_of
from fleet.core.model.member import TAINT_CORDON, TAINT_DRAIN
from fleet.values.ports import Body
from fleet.values.times import seconds
from fleet.values.untyped import mapping, rows, text

PER_MINUTE = 60  # jobs, where the taint does not say
PER_MINUTE_MAX = 6_000
_VALUE = re.compile(r"([1-9][0-9]{0,3})-per-minute(-force)?")


@dataclass(frozen=True, slots=True)
class Drain:
    """A drain that was asked for. `taint`: as it is stored."""

    taint: Mapping[str, Any]
    per_minute: int = PER_MINUTE
    force: bool = False


@dataclass(frozen=True, slots=True)
class LeavingJob:
    """A job in the member that leaves. `at`: epoch seconds before which its policy lets it stay."""

    binding: Body
    priority: int
    at: float


@dataclass(frozen=True, slots=True)
class DrainProgress:
    """The jobs of a member that is drained. `going` in the order in which they leave, `leaving` the longest first."""

    going: Sequence[LeavingJob]
    leaving: Sequence[Body]
    staying: Sequence[tuple[Body, str]]  # why, in words that follow the name


def drain_taint(per_minute: int, *, force: bool) -> dict[str, str]:
    return {
        "key": TAINT_DRAIN,
        "value": f"{per_minute}-per-minute{'-force' if force else ''}",
        "effect": EXECUTE,
    }


def drain_of(cluster: Body) -> Drain | None:
    """The drain that the Cluster's taints ask for. A value that does not parse means the usual pace, without force."""
    for taint in rows(b.spec_of(cluster).get("taints")):
        if text(taint.get("key")) == TAINT_DRAIN and text(taint.get("effect")) == EXECUTE:
            said = _VALUE.fullmatch(text(taint.get("value")))
            if said is None:
                return Drain(taint)
            return Drain(taint, min(PER_MINUTE_MAX, int(said[1])), said[2] is not None)
    return None


def cordoned(cluster: Body) -> bool:
    return any(text(taint.get("key")) == TAINT_CORDON for taint in rows(b.spec_of(cluster).get("taints")))


def emptying(
    member: str, drain: Drain, bindings: Iterable[Body], unit_of: Callable[[Body], Body | None], now: float
) -> DrainProgress:
    """Sort the gangs of a member. Lowest priority leaves first, of one priority the latest in queue order. Jobs that
    are over, and objects without pods, are left alone."""
    going: list[LeavingJob] = []
    leaving: list[Body] = []
    staying: list[tuple[Body, str]] = []
    for binding in bindings:
        if not b.is_gang(binding):
            continue
        if any(task["fromCluster"] == member for task in b.tasks_of(binding)):
            leaving.append(binding)
        elif member in b.clusters_of(binding) and not b.finished(binding) and not b.deleting(binding):
            at = until(mapping(b.spec_of(binding).get("placement")), drain.taint, now)
            why = why_stays(binding, force=drain.force) if at is not None else f"its policy tolerates {TAINT_DRAIN}"
            if why:
                staying.append((binding, why))
            else:
                going.append(LeavingJob(binding, _priority(unit_of(binding), binding), at or now))
    going.sort(key=lambda one: (one.priority, -b.enqueued_at(one.binding), b.job_name(one.binding)))
    leaving.sort(key=lambda one: (_since(one, member) or now, b.job_name(one)))
    return DrainProgress(going, leaving, sorted(staying, key=lambda entry: b.job_name(entry[0])))


def held_up_by(leaving: Sequence[Body]) -> str:
    """The job that has been leaving for the longest, with its obstacle where the hub knows it; "" for none."""
    if not leaving:
        return ""
    stuck = next((one for one in leaving if condition(one, b.WITHDRAWN) is not None), leaving[0])
    obstacle = text((condition(stuck, b.WITHDRAWN) or {}).get("message"))
    return b.job_name(stuck) + (f": {obstacle}" if obstacle else "")


def why_stays(binding: Body, *, force: bool) -> str:
    """Why a job is not evicted for a person, in words that follow its name; "" when it is."""
    if force:
        return ""
    if not b.preemptible(binding):
        return "it is not preemptible"
    failover = mapping(b.spec_of(binding).get("failover"))
    if any(text(mapping(failover.get(part)).get("purgeMode")) == "Never" for part in ("application", "cluster")):
        return "its policy says purgeMode Never"
    return ""


def _priority(unit: Body | None, binding: Body) -> int:
    """0 for a value that is no number: another loop tells of such an object."""
    try:
        return priority_of(unit, binding)
    except ValueError:
        return 0


def _since(binding: Body, member: str) -> float | None:
    return next(
        (seconds(text(t.get("creationTimestamp"))) for t in b.tasks_of(binding) if t["fromCluster"] == member), None
    )
