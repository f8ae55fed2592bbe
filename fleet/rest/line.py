"""The lines before the queues: the waiting jobs, in the order in which the decider considers them.

That is the order of fleet/core/foresee/position.py, with what a unit may count on as its stored reason says, so that a
place in a list is the place that an explanation names. A job that backs off, or has no queue, waits but has no place.

Positions are stored nowhere, since one job that starts would change thousands. Each process keeps the lines as lists in
order. A request first takes in the changes that the log has since the last request, and then finds a place by
bisection. So its cost follows from these changes, not from the number of waiting jobs.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from api.objects.changes import changed_keys
from api.slices import unhurried
from fleet.bindings import binding as b
from fleet.bindings.unit import owned_by, priority_of, queue_of
from fleet.bindings.unit import unit_key as key_of_unit
from fleet.core.foresee.position import rank_of
from fleet.rest.context import spared
from fleet.rest.standing import in_line, tier, waits
from fleet.values.ports import Body, Key, Store, StoredObject
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME, QUEUE, QUEUE_NAMESPACE, UNIT_SUFFIX, WORK

BINDINGS, UNITS = (WORK, "resourcebindings"), (QUEUE, "queueunits")
# whether it has no place, its tier, -priority, time of enqueueing, namespace/name of the job, uid of its binding
Rank = tuple[bool, int, int, float, str, str]


@dataclass(frozen=True, slots=True)
class WaitingUnit:
    """A unit in line, and the binding that it is of. `queue`: the name of its Queue."""

    rank: Rank
    queue: str
    unit: StoredObject
    binding: StoredObject

    @property
    def in_line(self) -> bool:
        return bool(self.queue) and not self.rank[0]


_BY_RANK = attrgetter("rank")


class Line:
    """The waiting units of each Queue, by its name, first to go first, and units without a place last."""

    def __init__(self, entries: Iterable[WaitingUnit] = ()) -> None:
        self._entries = {entry.unit.key: entry for entry in entries}
        self._queues: dict[str, list[WaitingUnit]] = {}
        for entry in self._entries.values():
            self._queues.setdefault(entry.queue, []).append(entry)
        for queue in self._queues.values():
            queue.sort(key=_BY_RANK)

    @property
    def waiting(self) -> Mapping[str, Sequence[WaitingUnit]]:
        return self._queues

    def entry(self, unit: Key) -> WaitingUnit | None:
        return self._entries.get(unit)

    def position(self, unit: Body | None) -> int | None:
        """The place of the unit in its queue, from 1; None for a unit without one."""
        if unit is None:
            return None
        metadata = unit["metadata"]
        return self.place(Key(*UNITS, metadata.get("namespace", ""), metadata["name"]), metadata.get("uid"))

    def place(self, unit: Key, uid: str) -> int | None:
        """The same for the key of a unit."""
        found = self._entries.get(unit)
        if found is None or not found.in_line or found.unit.uid != uid:
            return None
        return self._index(found) + 1

    def replace(self, unit: Key, now: WaitingUnit | None) -> None:
        """Take in that a unit has changed; `now` None: it waits no more."""
        past = self._entries.pop(unit, None)
        if past is not None:
            del self._queues[past.queue][self._index(past)]
        if now is not None:
            self._entries[unit] = now
            insort(self._queues.setdefault(now.queue, []), now, key=_BY_RANK)

    def _index(self, entry: WaitingUnit) -> int:
        return bisect_left(self._queues[entry.queue], entry.rank, key=_BY_RANK)


class Lines:
    """The line of one store, which follows its log."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._line = Line()
        self._upto = -1  # the revision up to which the line has taken in the log; -1: it was never made
        self._following = asyncio.Lock()

    async def at(self, revision: int) -> Line:
        """As this process sees it; `revision` is the store's, and the answer may be newer than it. The next call
        changes the same line."""
        async with self._following:
            if self._upto != revision:
                changed, upto = await changed_keys(self._store, (BINDINGS, UNITS), self._upto, revision)
                if changed is None:
                    await self._make()
                async for key in unhurried({unit_key(key) for key in changed or ()}):
                    self._line.replace(key, spared(self._waiting, self._store.peek(key), otherwise=None))
                self._upto = upto  # not before: a request that is broken off leaves the rest to the next one
            return self._line

    async def _make(self) -> None:
        entries = []
        async for unit in unhurried(self._store.scan(*UNITS)):
            entry = spared(self._waiting, unit, otherwise=None)
            if entry is not None:
                entries.append(entry)
        self._line = Line(entries)

    def _waiting(self, unit: StoredObject | None) -> WaitingUnit | None:
        """None for a unit that does not wait, and for one that an earlier binding of the name has left."""
        binding = self._store.peek(binding_key(unit.key)) if unit is not None else None
        if unit is None or binding is None:
            return None
        known = self._line.entry(unit.key)
        if known is not None and known.unit is unit and known.binding is binding:
            return known  # bodies may be compressed: to read those of all units takes seconds
        if not waits(unit.body) or not owned_by(unit.body, binding.uid):
            return None
        return WaitingUnit(_rank(unit, binding), queue_of(unit.body), unit, binding)


def binding_key(unit: Key) -> Key:
    """Of the binding that a unit is made from."""
    return Key(WORK, "resourcebindings", unit.namespace, unit.name.removesuffix(UNIT_SUFFIX))


def unit_key(key: Key) -> Key:
    """Of the unit that is made from a binding; the key of a unit itself."""
    return key if key.resource == UNITS[1] else key_of_unit(key)


def _rank(unit: StoredObject, binding: StoredObject) -> Rank:
    body = binding.body
    no_place, priority = not in_line(unit.body), priority_of(unit.body, body)
    return no_place, rank_of(tier(unit.body), True), -priority, b.enqueued_at(body), b.job_name(body), binding.uid


def queue_paths(store: Store) -> dict[str, str]:
    """Full path of the quota node by name of its Queue."""
    found: dict[str, str] = {}
    for stored in store.scan(QUEUE, "queues", namespace=QUEUE_NAMESPACE):
        path = b.annotation(stored.body, ANNOTATION_QUOTA_FULLNAME)
        if path:
            found[stored.key.name] = path
    return found
