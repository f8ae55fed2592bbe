"""Elastic jobs become smaller before others are evicted: fewer replicas are a smaller victim than the whole job.

Where a plan evicts elastic jobs that have more than their least, the same fleet is decided with these jobs at their
least, and without evictions. If the job that takes back starts there, nobody leaves. Further such decisions look for
the largest sizes that are small enough. The elastic jobs give up their newest replicas, through the job's own API, and
the room goes to the jobs that wait as any room does. While pods are on their way out, nothing more is taken back in
that member, for a bounded time.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import structlog

from fleet.bindings import binding as b
from fleet.bindings.components import components_of
from fleet.bindings.conditions import is_true, set_condition
from fleet.bindings.elastic import ranges_of, resized, take
from fleet.controllers.decide.decider import SEED
from fleet.controllers.decide.snapshot import Picture, Sources
from fleet.controllers.runtime.events import EventRecorder
from fleet.controllers.runtime.hub import Hub
from fleet.core.decide import decide
from fleet.core.model.amounts import NOTHING, Amounts
from fleet.core.model.charge import beyond
from fleet.core.model.plan import Plan, RoomClaim
from fleet.core.model.pod import PodView
from fleet.core.model.reason import named_to
from fleet.core.model.unit import Component, Unit
from fleet.core.snapshot import Snapshot, SnapshotChanges
from fleet.kinds.interpreter import Range
from fleet.values.ports import Body, CommitResult, StaleEpoch, StoreUnavailable, Write
from fleet.wellknown import GANG_WHOLE, RESIZED

log = structlog.get_logger(__name__)

MADE_ROOM = "MadeRoom"  # reason of RESIZED
SEARCH_S = 1.0  # for the largest sizes that are small enough; then jobs give up more than they must
_NUMBER = re.compile(r"-(\d{1,4})$")  # of a replica; longer ones are names by chance


class JobShrinker:
    """Makes elastic jobs smaller in place of evictions."""

    def __init__(self, hub: Hub, events: EventRecorder) -> None:
        self._hub = hub
        self._events = events
        self._since: dict[str, float] = {}  # units with pods that they have given up: when that was seen first

    async def instead(self, picture: Picture, plan: Plan, now: float) -> Plan:
        """The plan without the claims that elastic jobs spare, and without the claims behind these, which may count on
        them: the next decision makes them anew."""
        giving = self._giving(picture, now)
        claims: list[RoomClaim] = []
        for claim in plan.claims:
            victims = [eviction.unit for eviction in plan.evictions if eviction.preemptor == claim.unit]
            if claim.member in giving or await self._tried(picture, claim, victims, now):
                break
            claims.append(claim)
        if len(claims) == len(plan.claims):
            return plan
        units = {claim.unit for claim in claims}
        return replace(plan, claims=tuple(claims), evictions=tuple(e for e in plan.evictions if e.preemptor in units))

    def _giving(self, picture: Picture, now: float) -> frozenset[str]:
        """The members in which pods of an elastic job are on their way out."""
        members: dict[str, str] = {}
        for key in picture.growing:
            unit, binding = picture.snapshot.units[key], picture.sources[key].binding.body
            if unit.member and ranges_of(binding) and beyond(unit.components, components_of(binding)):
                members[key] = unit.member
        self._since = {key: self._since.get(key, now) for key in members}
        patience = self._hub.config.claim_s
        return frozenset(member for key, member in members.items() if now < self._since[key] + patience)

    async def _tried(self, picture: Picture, claim: RoomClaim, victims: Iterable[str], now: float) -> bool:
        """As `_spared`. Where that fails, the plan stands as it was made."""
        try:
            return await self._spared(picture, claim, victims, now)
        except (StaleEpoch, StoreUnavailable):
            raise
        except Exception as error:
            log.warning("elastic jobs cannot be made smaller", unit=claim.unit, error=repr(error)[:300])
            return False

    async def _spared(self, picture: Picture, claim: RoomClaim, victims: Iterable[str], now: float) -> bool:
        """Whether elastic jobs among the victims became smaller, so that nobody needs to leave for this claim."""
        all_sizes = [sizes for key in victims if (sizes := self._sizes(picture, key)) is not None]
        all_sizes.sort(key=lambda sizes: (picture.snapshot.units[sizes.unit].placed_at or 0.0, sizes.unit))
        if not all_sizes:
            return False
        began = self._hub.clock.monotonic()

        async def starts(levels: Mapping[str, int]) -> bool:
            units = [self._smaller(picture, sizes.unit, sizes.at[levels[sizes.unit]]) for sizes in all_sizes]
            world = _without_surplus(picture.snapshot, units)
            tried = await asyncio.to_thread(decide, world, now=now, seed=SEED, solver=None)
            return any(placement.unit == claim.unit for placement in tried.placements)

        levels = {sizes.unit: len(sizes.at) - 1 for sizes in all_sizes}
        if not await starts(levels):
            return False
        for sizes in all_sizes:  # the oldest keeps the most
            low = 0
            while low < levels[sizes.unit] and self._hub.clock.monotonic() < began + SEARCH_S:
                middle = (low + levels[sizes.unit]) // 2
                if await starts({**levels, sizes.unit: middle}):
                    levels[sizes.unit] = middle
                else:
                    low = middle + 1
        writes: list[Write] = []
        for sizes in all_sizes:
            if levels[sizes.unit]:
                size = sizes.at[levels[sizes.unit]]
                writes += self._writes(picture.sources[sizes.unit], size, picture.snapshot.units[claim.unit], now)
        return bool(writes) and isinstance(await self._hub.commit(writes), CommitResult)

    def _sizes(self, picture: Picture, key: str) -> _Sizes | None:
        """None for a unit that has no more to give up."""
        unit, binding = picture.snapshot.units[key], picture.sources[key].binding.body
        if not unit.seats or not is_true(binding, GANG_WHOLE):
            return None
        found = sizes_of(components_of(binding), ranges_of(binding))
        return _Sizes(key, found) if len(found) > 1 else None

    def _smaller(self, picture: Picture, key: str, size: Mapping[str, int]) -> Unit:
        """The unit at this size, with the seats that it keeps."""
        unit = picture.snapshot.units[key]
        pods = [pod for pod in self._hub.members.pods_of(key) if pod.member == unit.member and pod.holds_room]
        gone = _held_by(_surplus(pods, size))
        seats = tuple(
            replace(seat, free=seat.free.plus(less), holds=seat.holds.minus(less))
            for seat in unit.seats
            for less in (gone.get(seat.node, NOTHING),)
        )
        visible = tuple((name, min(count, size.get(name.lower(), count))) for name, count in unit.visible)
        return replace(unit, components=resized(unit.components, size), visible=visible, seats=seats)

    def _writes(self, sources: Sources, size: Mapping[str, int], preemptor: Unit, now: float) -> list[Write]:
        binding = sources.binding
        reader = named_to(binding.key.namespace, preemptor.name)
        had = components_of(binding.body)
        shown = [f"{c.name} {c.replicas} -> {size[c.name]}" for c in had if size.get(c.name, c.replicas) < c.replicas]
        message = f"is made smaller, to make room for {reader}: {', '.join(shown)}"

        def shrink(body: Body) -> Body:
            take(body, size)
            set_condition(body, RESIZED, False, MADE_ROOM, message, now)
            return body

        generation = binding.body["metadata"].get("generation")
        return [
            self._hub.change(binding.key, shrink, uid=binding.uid, generation=generation),
            self._events.write(dict(b.resource_of(binding.body)), RESIZED, message, warning=True),
        ]


class _Sizes(NamedTuple):
    """The sizes of one unit from its present one down to its least: replicas by component."""

    unit: str
    at: Sequence[Mapping[str, int]]


def sizes_of(has: Sequence[Component], ranges: Mapping[str, Range]) -> list[dict[str, int]]:
    """The sizes of a job from its present one, which names no component, down to its least. Its last component gives up
    replicas first."""
    size: dict[str, int] = {}
    sizes = [size]
    for part in reversed(has):
        name, count = part.name.lower(), part.replicas
        least, step = ranges.get(name, Range(count))
        while count - step >= least:
            count -= step
            size = {**size, name: count}
            sizes.append(size)
    return sizes


def _surplus(pods: Sequence[PodView], size: Mapping[str, int]) -> list[PodView]:
    """The pods that an operator probably takes away when the replicas become so few: those with the highest numbers,
    and where names have no numbers, the newest."""
    found: list[PodView] = []
    for name, count in size.items():
        mine = sorted((pod for pod in pods if pod.component.lower() == name), key=_number)
        found += mine[count:]
    return found


def _number(pod: PodView) -> tuple[int, float, str]:
    found = _NUMBER.search(pod.name)
    return int(found[1]) if found is not None else -1, pod.since, pod.name


def _held_by(pods: Iterable[PodView]) -> dict[str, Amounts]:
    held: dict[str, Amounts] = {}
    for pod in pods:
        held[pod.node] = held.get(pod.node, NOTHING).plus(pod.requests)
    return held


def _without_surplus(snapshot: Snapshot, smaller: Sequence[Unit]) -> Snapshot:
    """The snapshot in which these units are as small as this, and nobody is evicted."""
    free: dict[tuple[str, str], Amounts] = {}  # of nodes, by member, that have more free than the snapshot shows
    members = dict(snapshot.members)
    for unit in smaller:
        member = members[unit.member or ""]
        pools = [Counter(pool.counts) for pool in member.pools]
        for before, after in zip(snapshot.units[unit.id].seats, unit.seats, strict=True):
            node = (member.name, before.node)
            had = free.get(node, before.free)
            if 0 <= before.pool < len(pools) and pools[before.pool][had] > 0:
                free[node] = had.plus(before.holds.minus(after.holds))
                pools[before.pool][had] -= 1
                pools[before.pool][free[node]] += 1
        counted = [tuple((vector, nodes) for vector, nodes in counts.items() if nodes) for counts in pools]
        made = tuple(replace(pool, free=found) for pool, found in zip(member.pools, counted, strict=True))
        members[member.name] = replace(member, pools=made)
    config = replace(snapshot.config, reclaim=False)
    return snapshot.apply(
        SnapshotChanges(put_units=tuple(smaller), put_members=tuple(members.values()), config=config, new_config=True)
    )
