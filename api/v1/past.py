"""What became of earlier jobs, read off the store: the history that estimates are drawn from.

Bindings say when a job was enqueued, placed and over; those that still wait or run are the snapshot's units. Of jobs
that are over only what the draw needs is read: who they were of, what they asked for, how long they took and might have
taken. That they asked for certain nodes is left out: likeness is by leaf, user and devices.
"""

from __future__ import annotations

from collections.abc import Iterable

from api.v1.context import spared, unhurried
from api.v1.quantities import amounts_of
from api.v1.standing import FINISHED, enqueued_at, priority_of, spec_of
from fleet.foresee.history import Past
from fleet.model.amounts import Amounts
from fleet.model.times import seconds
from fleet.model.unit import Component, Unit
from fleet.ports import Body, Key, Store, Stored
from fleet.snapshot import Snapshot
from fleet.wellknown import ANNOTATION_CREATOR, QUEUE, WORK, unit_name

OVER_MOST = 5_000  # the newest that are over


async def pasts(store: Store, snapshot: Snapshot, paths: dict[str, str], now: float) -> list[Past]:
    """Of all that is there and all that is over. `paths`: full path of a leaf by the name of its Queue."""
    found = [Past(unit, unit.enqueued_at, unit.placed_at) for unit in snapshot.units.values()]
    over: list[Past] = []
    async for stored in unhurried(store.scan(WORK, "resourcebindings")):
        if stored.uid not in snapshot.units:
            past = spared(_over, store, stored, paths, otherwise=None)
            if past is not None and past.submitted <= now:
                over.append(past)
    over.sort(key=lambda past: past.ended or 0.0)
    return found + over[-OVER_MOST:]


def _over(store: Store, stored: Stored, paths: dict[str, str]) -> Past | None:
    """A job that has run and is over; None for anything else."""
    body = stored.body
    conditions: Iterable[Body] = (body.get("status") or {}).get("conditions") or ()
    ended = next((c for c in conditions if c.get("type") == FINISHED and c.get("status") == "True"), None)
    submitted, at = seconds(enqueued_at(body) or ""), seconds(str((ended or {}).get("lastTransitionTime") or ""))
    started = seconds(str((body.get("status") or {}).get("lastScheduledTime") or ""))
    components = tuple(_components(body))
    if submitted is None or at is None or started is None or at < started or not components:
        return None
    unit = store.peek(Key(QUEUE, "queueunits", stored.key.namespace, unit_name(stored.key.name)))
    unit_body = unit.body if unit is not None else {}
    queued = unit_body.get("spec") or {}
    limit = queued.get("maximumExecutionTimeSeconds")
    creator = (body["metadata"].get("annotations") or {}).get(ANNOTATION_CREATOR)
    resource = spec_of(body).get("resource") or {}
    like = Unit(
        id=stored.uid, name=f"{stored.key.namespace}/{resource.get('name', '')}", components=components,
        leaf=paths.get(str(queued.get("queue") or "")), priority=priority_of(body, unit_body), created_at=submitted,
        enqueued_at=submitted, user=str(creator or ""), walltime_s=float(limit) if limit else None,
    )  # fmt: skip
    return Past(like, submitted, started, at)


def _components(binding: Body) -> Iterable[Component]:
    for entry in spec_of(binding).get("components") or ():
        asked = amounts_of((entry.get("replicaRequirements") or {}).get("resourceRequest"))
        yield Component(str(entry.get("name", "")), int(entry.get("replicas") or 0), Amounts.of({**asked, "pods": 1}))
