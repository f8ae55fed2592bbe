"""The lines before the queues: the waiting jobs, in the order in which the decider considers them.

That is the order of fleet/foresee/position.py, with what a unit may count on as its stored reason says, so that a place
in a list is the place that an explanation names. A job that backs off, or has no queue, waits but has no place.

Positions are stored nowhere, since one job that starts would change thousands. They are worked out on request, and cost
little. The sort key of a unit stays while neither it nor its binding changes, and a whole line while nothing at all
has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from api.v1.context import spared, unhurried
from api.v1.standing import in_line, tier, waits
from fleet.bindings import binding as b
from fleet.bindings.unit import priority_of, queue_of
from fleet.foresee.position import rank_of
from fleet.ports import Key, Store, Stored
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME, QUEUE, QUEUE_NAMESPACE, UNIT_SUFFIX, WORK

# whether it has no place, its tier, -priority, time of enqueueing, namespace/name of the job, uid of its binding
Rank = tuple[bool, int, int, float, str, str]


@dataclass(frozen=True, slots=True)
class Waiting:
    """A unit in line, and the binding that it is of."""

    rank: Rank
    unit: Stored
    binding: Stored

    @property
    def in_line(self) -> bool:
        return not self.rank[0]


@dataclass(frozen=True, slots=True)
class Line:
    """The waiting units of each Queue, by its name, first to go first, and units without a place last; and the place of
    each, from 1, by the unit's uid."""

    waiting: Mapping[str, Sequence[Waiting]] = field(default_factory=dict)
    position: Mapping[str, int] = field(default_factory=dict)


class Lines:
    """Makes lines of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, tuple[int, int, Waiting]] = {}
        self._line: tuple[int, Line] = (-1, Line())
        self._making = asyncio.Lock()

    async def at(self, revision: int) -> Line:
        """As this process sees it; `revision` is the store's, and the answer may be newer than it."""
        async with self._making:
            if self._line[0] != revision:
                self._line = (revision, await self._make())
            return self._line[1]

    async def _make(self) -> Line:
        kept: dict[str, tuple[int, int, Waiting]] = {}
        queues: dict[str, list[Waiting]] = {}
        async for unit in unhurried(self._store.scan(QUEUE, "queueunits")):
            known = spared(self._waiting, unit, otherwise=None)
            if known is not None:
                kept[unit.uid] = known
                queues.setdefault(queue_of(unit.body), []).append(known[2])
        self._kept = kept
        position: dict[str, int] = {}
        for name, waiting in queues.items():
            waiting.sort(key=lambda entry: entry.rank)
            if name:
                position.update((entry.unit.uid, place) for place, entry in enumerate(waiting, 1) if entry.in_line)
        return Line(queues, position)

    def _waiting(self, unit: Stored) -> tuple[int, int, Waiting] | None:
        """None for a unit that does not wait."""
        if not waits(unit.body):
            return None
        binding = self._store.peek(binding_key(unit.key))
        if binding is None:
            return None
        known = self._kept.get(unit.uid)
        if known is None or known[:2] != (unit.revision, binding.revision):
            known = (unit.revision, binding.revision, Waiting(_rank(unit, binding), unit, binding))
        return known


def binding_key(unit: Key) -> Key:
    """Of the binding that a unit is made from."""
    return Key(WORK, "resourcebindings", unit.namespace, unit.name.removesuffix(UNIT_SUFFIX))


def _rank(unit: Stored, binding: Stored) -> Rank:
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
