"""Queues that start nothing: the Queue says so, and where its `stopPolicy` is HoldAndDrain, its jobs that run leave.

The jobs leave at once, as in Kueue: nobody else waits for their room here, unlike in a member that is drained. Jobs
that a drain of a member leaves alone stay here, too. The decider keeps the others from starting (queue/turns.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from api.loops.controller import Controller, Source
from fleet.bindings import binding as b
from fleet.bindings.conditions import drop_condition, set_condition
from fleet.bindings.draining import DrainProgress, LeavingJob, why_stays
from fleet.bindings.stopping import NONE, drained_by, held_by, path_of, stops_of
from fleet.bindings.unit import binding_of, queue_of
from fleet.controllers.fields.evictor import Evictor
from fleet.controllers.observe.drain import DRAINED, EVICTING, LOOK_DRAINED_S, LOOK_S, STAYING, drain_text
from fleet.controllers.runtime.hub import Hub
from fleet.values.ports import Body, Event, EventType, Key, StoredObject
from fleet.wellknown import QUEUE, QUEUE_NAMESPACE

HELD = "Held"  # condition of a Queue of which nothing starts
HOLDS, ABOVE = "Held", "HeldAbove"  # its reasons, where no job leaves: its own policy, or that of a queue above it
EVICTED = "QueueDrained"  # why something was evicted


class StoppingLoop:
    """A Loop."""

    name = "stopping"

    def __init__(self, hub: Hub, evictor: Evictor) -> None:
        self._hub = hub
        self._evictor = evictor
        self._stops: dict[str, str] = {}  # as `stops_of` has them
        self.controller = Controller(
            self.name, hub.store, [Source(QUEUE, "queues", self._on_queue)], self.reconcile, workers=1
        )

    async def run(self) -> None:
        await self.controller.run()

    def _on_queue(self, event: Event) -> Iterable[Key]:
        """The queue, and those below it where its policy has changed."""
        stored, path = event.stored, path_of(event.stored.body)
        now = stops_of([stored.body]).get(path, NONE) if event.type is not EventType.DELETED else NONE
        before = self._stops.pop(path, NONE)
        if now != NONE:
            self._stops[path] = now
        return [stored.key] if now == before else [queue.key for queue in self._at_or_below(path)]

    def _at_or_below(self, path: str) -> list[StoredObject]:
        queues = self._hub.scan(QUEUE, "queues", QUEUE_NAMESPACE)
        return [queue for queue in queues if f"{path_of(queue.body)}/".startswith(f"{path}/")]

    async def reconcile(self, key: Key) -> float | None:
        stored = self._hub.store.peek(key)
        if stored is None or b.deleting(stored.body):
            return None
        path = path_of(stored.body)
        holder, drained = held_by(self._stops, path), drained_by(self._stops, path)
        if not holder:
            await self._hub.edit(key, lambda body: drop_condition(body, HELD), uid=stored.uid)
        elif drained == path:
            return await self._drain(stored)
        elif drained:
            await self._say(stored, ABOVE, f"the queue {drained} is drained")
        elif holder == path:
            await self._say(stored, HOLDS, "jobs that run go on")
        else:
            await self._say(stored, ABOVE, f"the queue {holder} is held; jobs that run go on")
        return None

    async def _drain(self, queue: StoredObject) -> float:
        path = path_of(queue.body)
        going, leaving, staying = list[LeavingJob](), list[Body](), list[tuple[Body, str]]()
        for binding in self._placed(path):
            body, why = binding.body, why_stays(binding.body, force=False)
            if not b.clusters_of(body):
                leaving.append(body)
            elif why:
                staying.append((body, why))
            elif await self._evictor.evict_one(binding, reason=EVICTED, message=f"the queue {path} is being drained"):
                leaving.append(body)
            else:  # the binding has changed since
                going.append(LeavingJob(body, 0, 0.0))
        busy = bool(going or leaving)
        reason = EVICTING if busy else STAYING if staying else DRAINED
        await self._say(queue, reason, drain_text(DrainProgress(going, leaving, staying)))
        return LOOK_S if busy else LOOK_DRAINED_S

    async def _say(self, queue: StoredObject, reason: str, message: str) -> None:
        say = partial(
            set_condition,
            type_=HELD,
            status=True,
            reason=reason,
            message=f"no job starts; {message}",
            now=self._hub.clock.now(),
        )
        await self._hub.edit(queue.key, say, uid=queue.uid)

    def _placed(self, path: str) -> list[StoredObject]:
        """The bindings of this queue, and of those below it, that have a member or leave one."""
        names = {queue.key.name for queue in self._at_or_below(path)}
        units = [unit for unit in self._hub.scan(QUEUE, "queueunits") if queue_of(unit.body) in names]
        found = [binding for unit in units if (binding := self._hub.store.peek(binding_of(unit))) is not None]
        return [
            one
            for one in sorted(found, key=lambda one: b.job_name(one.body))
            if (b.clusters_of(one.body) or b.tasks_of(one.body))
            and not b.finished(one.body)
            and not b.deleting(one.body)
        ]
