"""Jobs that run and ask for more: each gets the rest where its quota and its member have it, or waits and says why.

The decider alone adds to what is charged. So jobs that grow are served here, before the others are decided: one
after the other, each beside what the one before took. A commit loses to a change of the binding or of the tree. The
room of pods that the member does not show yet is kept from then on, as for a gang that starts. The pods that a job has
already run on while it waits, and while its new pods wait for nodes.

Such a job gets all of it or nothing. More replicas of an elastic job that may be preempted come by the plan
(resizing.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import structlog

from api.engine.status import conflict
from fleet.bindings import binding as b
from fleet.bindings.components import WANTED, components_of, wanted_of
from fleet.bindings.conditions import PODS_PENDING, condition, is_true, set_condition
from fleet.bindings.elastic import give
from fleet.controllers.decide.sizes import grows_by_plan
from fleet.controllers.decide.snapshot import Picture, Sources
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.order import queue_order
from fleet.core.model.unit import Component
from fleet.core.placement.growing import Lack, lacks, larger
from fleet.core.snapshot import Snapshot, SnapshotChanges
from fleet.values.ports import Body, CommitResult, StaleEpoch, StoreUnavailable, Write
from fleet.wellknown import GANG_WHOLE, RESIZED, WORK

log = structlog.get_logger(__name__)

NOT_WHOLE = Lack("PodsNotReady", "asks for more, and waits until all pods that it was admitted with have a node")


class JobGrower:
    """Gives jobs with their room what they ask for in addition."""

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events
        self._judged: tuple[Snapshot, object] | None = None  # a state in which nothing more can be given
        self._lost = False  # whether a commit lost to another writer, in this look

    async def grow(self, picture: Picture, now: float) -> bool:
        """Whether anything was committed: then the picture is out of date."""
        able = [key for key in picture.growing if _may(picture.sources[key].binding.body)]
        state = {key: _state(picture, key) for key in able}
        if self._judged == (picture.snapshot, state):
            return False
        snapshot, success, self._lost = picture.snapshot, False, False
        for key in sorted(able, key=lambda key: queue_order(picture.snapshot.units[key])):
            try:
                grown = await self._serve(picture, snapshot, key, now)
            except (StaleEpoch, StoreUnavailable):
                raise
            except Exception as error:  # of this job alone
                log.warning("a job cannot be made larger", unit=key, error=repr(error)[:300])
                continue
            if grown:
                unit = replace(snapshot.units[key], components=larger(snapshot.units[key].components, grown))
                snapshot, success = snapshot.apply(SnapshotChanges(put_units=(unit,))), True
        self._judged = None if success or self._lost else (picture.snapshot, state)
        return success

    async def _serve(self, picture: Picture, snapshot: Snapshot, key: str, now: float) -> Sequence[Component]:
        """The components that the job has now; () where it gets no more than before."""
        sources = picture.sources[key]
        binding = sources.binding.body
        target: Sequence[Component] = wanted_of(binding)
        if not is_true(binding, GANG_WHOLE):
            lack: Lack | None = NOT_WHOLE
        else:
            lack = await asyncio.to_thread(lacks, snapshot, key, target, now)
        if lack is not None:
            await tell_lack(self._hub, self._events, sources, lack, now)
            return ()
        return target if await self._give(picture, sources, target, now) else ()

    async def _give(self, picture: Picture, sources: Sources, parts: Sequence[Component], now: float) -> bool:
        writes = larger_writes(self._hub, self._events, picture, sources, parts, now)
        done = isinstance(await self._hub.commit(writes), CommitResult)
        self._lost = self._lost or not done
        return done


def larger_writes(
    hub: Hub, events: EventRecorder, picture: Picture, sources: Sources, parts: Sequence[Component], now: float
) -> list[Write]:
    """The writes that give a job these components of all that it asks for, which lose when it, or the tree, changed."""
    binding, member = sources.binding, b.clusters_of(sources.binding.body)[0]
    replicas = {part.name.lower(): part.replicas for part in parts}

    def change(body: Body) -> Body:
        if not b.clusters_of(body) or not b.spec_of(body).get(WANTED):
            raise conflict(WORK, "resourcebindings", binding.key.name)
        give(body, replicas)
        set_condition(body, RESIZED, False, PODS_PENDING, f"member {member} makes its new pods", now)
        return body

    generation = binding.body["metadata"].get("generation")
    writes: list[Write] = [hub.change(binding.key, change, uid=binding.uid, generation=generation)]
    tree = picture.tree
    if tree is not None:
        expected = tree.body["metadata"].get("generation")
        writes.append(hub.change(tree.key, lambda body: None, uid=tree.uid, generation=expected))
    message = f"is made larger in member {member}: {change_text(components_of(binding.body), parts)}"
    return [*writes, events.write(dict(b.resource_of(binding.body)), RESIZED, message)]


async def tell_lack(hub: Hub, events: EventRecorder, sources: Sources, lack: Lack, now: float) -> None:
    """Once, with an event, for each reason; the condition follows the numbers."""
    binding = sources.binding
    known, message = condition(binding.body, RESIZED), f"runs on with what it has: {lack.text}"
    await hub.edit(
        binding.key, lambda body: set_condition(body, RESIZED, False, lack.reason, message, now), uid=binding.uid
    )
    if lack is not NOT_WHOLE and (known is None or known.get("reason") != lack.reason):
        await events.record(dict(b.resource_of(binding.body)), RESIZED, message, warning=True)


def _may(binding: Body) -> bool:
    over = b.deleting(binding) or b.tasks_of(binding) or b.finished(binding) or b.suspended(binding)
    return not over and not grows_by_plan(binding)


def _state(picture: Picture, key: str) -> object:
    """All that counts for a job here, beside the snapshot."""
    binding = picture.sources[key].binding.body
    return binding["metadata"].get("generation"), is_true(binding, GANG_WHOLE)


def change_text(had: Sequence[Component], asked: Sequence[Component]) -> str:
    """As the event says it: worker 2 -> 4."""
    before = {component.name: component for component in had}
    parts = []
    for component in asked:
        old = before.get(component.name)
        replicas = old.replicas if old is not None else 0
        if replicas != component.replicas:
            parts.append(f"{component.name} {replicas} -> {component.replicas}")
        elif old is not None and old.requests != component.requests:
            parts.append(f"{component.name} with other requests")
    return ", ".join(parts)
