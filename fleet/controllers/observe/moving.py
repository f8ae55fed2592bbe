"""Moving one job: a person names a member on it, and the next placement is there.

The mark ANNOTATION_MOVE says it. A job that is placed elsewhere is evicted, once; while it waits, its unit may go to
that member alone (decide/units.py). The mark goes once the job is placed there, is over, or may not go there at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings.matching import allows, candidate, repels
from fleet.controllers.fields.evictor import Evictor
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub, object_key
from fleet.values.ports import Body, Event, Key, StoredObject
from fleet.values.untyped import mapping
from fleet.wellknown import ANNOTATION_MOVE, CLUSTER, EVICT_FAILED, WORK

MOVED = "Moved"  # why something was evicted
LOOK_S = 5.0  # between two looks while the member that it is to leave does not answer


def _marked(event: Event) -> Iterable[Key]:
    return (event.stored.key,) if b.annotation(event.stored.body, ANNOTATION_MOVE) else ()


class MoveLoop:
    """A Loop."""

    name = "move"

    def __init__(self, hub: Hub, events: EventRecorder, evictor: Evictor) -> None:
        self._hub = hub
        self._events = events
        self._evictor = evictor
        sources = [Source(WORK, "resourcebindings", _marked)]
        self.controller = Controller(self.name, hub.store, sources, self.reconcile, workers=4)

    async def run(self) -> None:
        await self.controller.run()

    async def reconcile(self, key: Key) -> float | None:
        stored = self._hub.store.peek(key)
        member = b.annotation(stored.body, ANNOTATION_MOVE) if stored is not None else ""
        if stored is None or not member or b.deleting(stored.body):
            return None
        placed = b.clusters_of(stored.body)
        if not b.is_gang(stored.body) or b.finished(stored.body) or placed == (member,):
            await self._forget(stored)
            return None
        if not placed or b.tasks_of(stored.body):
            return None  # waits, or leaves already
        why = self._why_not(stored.body, member)
        if why:
            await self._events.record(stored.body["spec"]["resource"], EVICT_FAILED, why, warning=True)
            await self._forget(stored)
            return None
        if not all(self._hub.members.ready(name) for name in placed):
            return LOOK_S
        message = f"a person moves it to member {member}"
        return None if await self._evictor.evict(stored, reason=MOVED, message=message) else LOOK_S

    def _why_not(self, binding: Body, member: str) -> str:
        """Why a running job is not stopped for this; "" when it is."""
        cluster = self._hub.peek(CLUSTER, "clusters", "", member)
        if cluster is None or b.deleting(cluster):
            return f"is not moved: there is no member {member}"
        placement = mapping(b.spec_of(binding).get("placement"))
        if not allows(placement, candidate(cluster)):
            return f"is not moved: its policy excludes member {member}"
        if repels(placement, candidate(cluster)):
            return f"is not moved: member {member} has a taint that its policy does not tolerate"
        return ""

    async def _forget(self, stored: StoredObject) -> None:
        """Take the mark off the job; that of the binding follows."""
        key = object_key(self._hub.registry, stored.body["spec"]["resource"])
        uid = b.resource_of(stored.body).get("uid")
        if key is not None:
            await self._hub.edit(key, _unmark, uid=str(uid))
        await self._hub.edit(stored.key, _unmark, uid=stored.uid)


def _unmark(body: Body) -> bool:
    return (body["metadata"].get("annotations") or {}).pop(ANNOTATION_MOVE, None) is not None
