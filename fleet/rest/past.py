"""The outcomes of earlier jobs, read off the store: the history that estimates are drawn from.

Bindings say when a job was enqueued, placed and over. Jobs that still wait or run are the snapshot's units. Of finished
jobs only the fields that the draw needs are read: their owners, their requests, their durations and limits. That they
asked for certain nodes is left out: likeness is by leaf, user and devices.
"""

from __future__ import annotations

from dataclasses import replace

from api.slices import unhurried
from fleet.bindings import binding as b
from fleet.bindings.components import components_of
from fleet.bindings.conditions import condition, is_true
from fleet.bindings.unit import limit_of, priority_of, queue_of, unit_of
from fleet.core.foresee.history import PastUnit
from fleet.core.model.unit import NodeClaim, Unit
from fleet.core.snapshot import Snapshot
from fleet.rest.context import spared
from fleet.values.ports import Store, StoredObject
from fleet.values.times import seconds
from fleet.values.untyped import text
from fleet.wellknown import ANNOTATION_CREATOR, WORK

OVER_MOST = 5_000  # the newest that are over


async def pasts(store: Store, snapshot: Snapshot, paths: dict[str, str], now: float) -> list[PastUnit]:
    """Of all present and all finished jobs. `paths`: full path of a leaf by the name of its Queue."""
    jobs = [PastUnit(unit, unit.enqueued_at, unit.placed_at) for unit in snapshot.units.values()]
    over: list[PastUnit] = []
    async for stored in unhurried(store.scan(WORK, "resourcebindings")):
        if stored.uid not in snapshot.units:
            past = spared(_over, store, stored, paths, otherwise=None)
            if past is not None and past.submitted <= now:
                over.append(past)
    over.sort(key=lambda past: past.ended or 0.0)
    return jobs + over[-OVER_MOST:]


def _over(store: Store, stored: StoredObject, paths: dict[str, str]) -> PastUnit | None:
    """A job that has run and is over; None for anything else."""
    body = stored.body
    told = condition(body, b.FINISHED) if is_true(body, b.FINISHED) else None
    submitted, at = seconds(b.enqueued(body)), seconds(text((told or {}).get("lastTransitionTime")))
    started = seconds(b.placed_at(body))
    components = tuple(replace(component, claim=NodeClaim()) for component in components_of(body))
    if submitted is None or at is None or started is None or at < started or not components:
        return None
    unit = unit_of(store.peek, stored.key, stored.uid)
    queued = unit.body if unit is not None else None
    limit, name = limit_of(queued, body), text(b.resource_of(body).get("name"))
    like = Unit(
        id=stored.uid,
        name=f"{stored.key.namespace}/{name}",
        components=components,
        leaf=paths.get(queue_of(queued)),
        priority=priority_of(queued, body),
        created_at=submitted,
        enqueued_at=submitted,
        user=b.annotation(body, ANNOTATION_CREATOR),
        walltime_s=float(limit) if limit else None,
    )
    return PastUnit(like, submitted, started, at)
