"""The sizes of elastic jobs that run, as the plan says: committed, and told to their owners.

A job that becomes smaller gives up its newest replicas, through its own API; a larger one gets what the plan gives it
of all that it asks for. A commit loses to a change of the binding, and a growth to one of the tree, too. The room of
pods that the member does not show yet is kept from then on, as for a gang that starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import structlog

from api.engine.status import conflict
from fleet.bindings import binding as b
from fleet.bindings.components import WANTED, components_of
from fleet.bindings.conditions import PODS_PENDING, set_condition
from fleet.bindings.elastic import SHRUNK_AT, give, take
from fleet.controllers.decide.growing import NOT_WHOLE, change_text, tell_lack
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
from fleet.wellknown import RESIZED, WORK

log = structlog.get_logger(__name__)

MADE_ROOM = "MadeRoom"  # reason of RESIZED
OTHERS_WAIT = Lack("OthersWait", "is elastic, and leaves what is free to the jobs that wait")
TOLD_MOST = 50  # jobs that are told in one cycle


class JobResizer:
    """Commits the sizes of a plan."""

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events

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
        """Tell the jobs that ask for more than they have what lacks, of those that got nothing by this plan."""
        changed = {change.unit for change in plan.resizes}
        units = (picture.snapshot.units.get(key) for key in picture.elastic if key not in changed)
        for unit in [unit for unit in units if unit is not None and unit.phase is Phase.PLACED][:TOLD_MOST]:
            sources, sizes = picture.sources[unit.id], unit.sizes
            if sizes is None or not b.clusters_of(sources.binding.body) or self._rests(picture, sizes, now):
                continue
            lack: Lack | None = NOT_WHOLE
            if sizes.settled:
                lack = await asyncio.to_thread(lacks, picture.snapshot, unit.id, sizes.whole, now)
            await tell_lack(self._hub, self._events, sources, lack or OTHERS_WAIT, now)

    def _rests(self, picture: Picture, sizes: ElasticSizes, now: float) -> bool:
        """Whether it gave up replicas a short while ago, which it was told."""
        return sizes.shrunk_at is not None and now - sizes.shrunk_at < picture.snapshot.config.protection_s

    async def _committed(self, picture: Picture, change: SizeChange, now: float) -> bool:
        sources, unit = picture.sources[change.unit], picture.snapshot.units[change.unit]
        sizes = {name.lower(): replicas for name, replicas in change.sizes}
        had = components_of(sources.binding.body)
        if all(sizes.get(part.name.lower(), part.replicas) >= part.replicas for part in had):
            has = resized(had, {part.name: sizes.get(part.name.lower(), part.replicas) for part in had})
            message = f"is made larger in member {unit.member}: {change_text(had, has)}"
            writes = self._larger(picture, sources, sizes, message, unit.member or "", now)
        else:
            preemptor = picture.snapshot.units[change.serves]
            reader = named_to(sources.binding.key.namespace, preemptor.name)
            has = resized(
                had, {part.name: min(part.replicas, sizes.get(part.name.lower(), part.replicas)) for part in had}
            )
            message = f"is made smaller, to make room for {reader}: {change_text(had, has)}"
            writes = self._smaller(sources, sizes, message, now)
        return isinstance(await self._hub.commit(writes), CommitResult)

    def _larger(
        self, picture: Picture, sources: Sources, sizes: Mapping[str, int], message: str, member: str, now: float
    ) -> list[Write]:
        binding = sources.binding
        rest = {part.name.lower(): part.replicas for part in components_of(binding.body)}

        def change(body: Body) -> Body:
            if not b.clusters_of(body) or not b.spec_of(body).get(WANTED):
                raise conflict(WORK, "resourcebindings", binding.key.name)
            give(body, {**rest, **sizes})
            set_condition(body, RESIZED, False, PODS_PENDING, f"member {member} makes its new pods", now)
            return body

        generation = binding.body["metadata"].get("generation")
        writes: list[Write] = [self._hub.change(binding.key, change, uid=binding.uid, generation=generation)]
        tree = picture.tree
        if tree is not None:
            expected = tree.body["metadata"].get("generation")
            writes.append(self._hub.change(tree.key, lambda body: None, uid=tree.uid, generation=expected))
        return [*writes, self._events.write(dict(b.resource_of(binding.body)), RESIZED, message)]

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
