"""A world of elastic units, and plans for it that each break one rule about sizes."""

from __future__ import annotations

from fleet.core.check.violation import Rule
from fleet.core.model.plan import Placement, Plan, SizeChange
from fleet.core.model.reason import Code, Reason
from tests.builders import NOW, tree
from tests.core.placement.elasticfleet import Fleet, Job

GPU = "nvidia.com/gpu"


def _fleet() -> Fleet:
    """`full` has 6 of 8 pods and `capped` 4, in a queue that has no quota for more; `new` waits for 2 of at most 9."""
    jobs = (
        Job("full", 8, 2, step=2),
        Job("capped", 8, 2, step=2, leaf="root/a"),
        Job("new", 9, 2),
        Job("plain", 1),
    )
    fleet = Fleet({"x": {"n": 20}}, *jobs, tree=tree(a={"max": {GPU: 4}}))
    for job, pods in zip(jobs, (6, 4), strict=False):
        job.member, job.has, job.pods, job.placed_at = "x", pods, ["n"] * pods, NOW - 900
    return fleet


WORLD = _fleet().snapshot()


def plan(*resizes: SizeChange, starts: tuple[Placement, ...] = ()) -> Plan:
    placed = {placement.unit for placement in starts}
    return Plan(starts, {name: Reason(Code.HELD) for name in {"new", "plain"} - placed}, resizes=resizes)


def resize(unit: str, size: int, member: str = "x") -> SizeChange:
    return SizeChange(unit, member, (("worker", size),))


SOUND = {
    "it grows by a step": plan(resize("full", 8)),
    "it goes to its least": plan(resize("full", 2)),
    "it starts larger": plan(starts=(Placement("new", "x", sizes=(("worker", 6),)),)),
    "it grows beside a start": plan(resize("full", 8), starts=(Placement("new", "x", sizes=(("worker", 8),)),)),
}
UNSOUND = {
    "below its least": plan(resize("full", 0)),
    "above what it asks for": plan(resize("full", 10)),
    "no whole step up": plan(resize("full", 7)),
    "no whole step down": plan(resize("full", 5)),
    "nothing changes": plan(SizeChange("full", "x", ())),
    "twice": plan(resize("full", 8), resize("full", 4)),
    "in another member": plan(resize("full", 8, "y")),
    "of a unit that waits": plan(resize("new", 3)),
    "of a unit with one size": plan(starts=(Placement("plain", "x", sizes=(("worker", 2),)),)),
    "a start above what it asks for": plan(starts=(Placement("new", "x", sizes=(("worker", 10),)),)),
}
TOO_LARGE = {
    "without quota": plan(resize("capped", 6)),
    "without room": plan(resize("full", 8), starts=(Placement("new", "x", sizes=(("worker", 9),)),)),
}
CORRUPTIONS = {Rule.SIZE_UNSOUND: UNSOUND["below its least"], Rule.SIZE_TOO_LARGE: TOO_LARGE["without quota"]}
