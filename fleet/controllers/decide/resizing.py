"""The sizes of elastic jobs that run, as the plan says: committed, and told to their owners.

A job that becomes smaller gives up its newest replicas, through its own API; a larger one gets what the plan gives it
of all that it asks for. A commit loses to a change of the binding, and a growth to one of the tree, too. The room of
pods that the member does not show yet is kept from then on, as for a gang that starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from fleet.bindings import binding as b
from fleet.bindings.components import components_of
from fleet.bindings.conditions import set_condition
from fleet.bindings.elastic import SHRUNK_AT, take
from fleet.controllers.decide.growing import NOT_WHOLE, change_text, larger_writes, tell_lack
from fleet.controllers.decide.snapshot import Picture, Sources
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.core.model.plan import Plan, SizeChange
from fleet.core.model.reason import named_to
from fleet.core.model.unit import ElasticSizes, Phase
from fleet.core.placement.growing import Lack, lacks
from fleet.core.snapshot.surplus import resized
from fleet.values.ports import Body, CommitResult, StaleEpoch, StoreUnavailable, Write
from fleet.values.times import rfc3339
from fleet.wellknown import RESIZED

log = structlog.get_logger(__name__)

MADE_ROOM = "MadeRoom"  # reason of RESIZED
OTHERS_WAIT = Lack("OthersWait", "is elastic, and leaves what is free to the jobs that wait")
TELL_S = 0.1  # of one cycle, for telling


class JobResizer:
    """Commits the sizes of a plan."""

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events
        self._told: dict[str, float] = {}  # units that ask for more: when they were told last, monotonic

    async def resize(self, picture: Picture, plan: Plan, now: float) -> int:
        """How many were committed; fewer than the plan has where something had changed."""
        done = 0
        for change in plan.resizes:
            try:
                done += await self._committed(picture, change, now)
            except (StaleEpoch, StoreUnavailable):
                raise
            except Exception as error:  # of this job alone
                log.warning("a job cannot be resized", unit=change.unit, error=repr(error)[:300])
        return done

    async def tell(self, picture: Picture, plan: Plan, now: float) -> None:
        """Tell the jobs that ask for more than they have what lacks, of those that got nothing by this plan: as many as
        a short time allows, those first that were told longest ago. What lacks is costly to find."""
        changed, began = {change.unit for change in plan.resizes}, self._hub.clock.monotonic()
        self._told = {key: self._told.get(key, float("-inf")) for key in picture.elastic}
        for key in sorted(set(self._told) - changed, key=lambda key: (self._told[key], key)):
            sources, unit = picture.sources[key], picture.snapshot.units.get(key)
            sizes = unit.sizes if unit is not None and unit.phase is Phase.PLACED else None
            if sizes is None or not b.clusters_of(sources.binding.body) or self._rests(picture, sizes, now):
                continue
            lack: Lack | None = NOT_WHOLE
            if sizes.settled:
                lack = await asyncio.to_thread(lacks, picture.snapshot, key, sizes.whole, now)
            await tell_lack(self._hub, self._events, sources, lack or OTHERS_WAIT, now)
            self._told[key] = self._hub.clock.monotonic()
            if self._told[key] - began >= TELL_S:
                break

    def _rests(self, picture: Picture, sizes: ElasticSizes, now: float) -> bool:
        """Whether it gave up replicas a short while ago, which it was told."""
        return sizes.shrunk_at is not None and now - sizes.shrunk_at < picture.snapshot.config.protection_s

    async def _committed(self, picture: Picture, change: SizeChange, now: float) -> bool:
        sources = picture.sources[change.unit]
        sizes = {name.lower(): replicas for name, replicas in change.sizes}
        had = components_of(sources.binding.body)
        has = resized(had, {part.name: sizes.get(part.name.lower(), part.replicas) for part in had})
        if change.serves:
            fewer = {part.name: min(part.replicas, old.replicas) for part, old in zip(has, had, strict=True)}
            preemptor = picture.snapshot.units[change.serves]
            reader = named_to(sources.binding.key.namespace, preemptor.name)
            message = f"is made smaller, to make room for {reader}: {change_text(had, resized(had, fewer))}"
            writes = self._smaller(sources, sizes, message, now)
        else:
            writes = larger_writes(self._hub, self._events, picture, sources, has, now)
        return isinstance(await self._hub.commit(writes), CommitResult)

    def _smaller(self, sources: Sources, sizes: Mapping[str, int], message: str, now: float) -> list[Write]:
        binding = sources.binding

        def shrink(body: Body) -> Body:
            take(body, sizes)
            body.setdefault("status", {})[SHRUNK_AT] = rfc3339(now)
            set_condition(body, RESIZED, False, MADE_ROOM, message, now)
            return body

        generation = binding.body["metadata"].get("generation")
        return [
            self._hub.change(binding.key, shrink, uid=binding.uid, generation=generation),
            self._events.write(dict(b.resource_of(binding.body)), RESIZED, message, warning=True),
        ]
