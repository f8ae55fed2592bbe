"""The view of the store in one process: the current objects, recent lists by revision, and the recent log.

A view is fed events in revision order and answers every read that need not ask the database. Objects are kept
per resource in a dict, and in the order of their names beside it, so lists come out in order without sorting. A page of
a list must show the state at the revision of the first page: the first page leaves a snapshot, which shares with the
current state what has not changed since (orderedobjects.py) and is kept, bounded, for a while.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import merge

from api.slices import Slice, unhurried
from api.store.bodies import Bodies
from api.store.labels import LabelIndex, name_of
from api.store.log import Log
from api.store.orderedobjects import Name, OrderedObjects, Part
from fleet.values.ports import Event, EventType, ExpiredRevision, HintedSelector, Key, Page, Selector, StoredObject

MAX_SNAPSHOTS = 64
MAX_SNAPSHOT_ITEMS = 2_000_000  # of all snapshots together, as if they shared none: 16 bytes each


@dataclass(slots=True)
class Snapshot:
    """The objects of one resource from revision `first` on, until `last` (0: still the current state)."""

    objects: OrderedObjects
    first: int
    last: int = 0


class Table:
    """The current objects of one (group, resource). `changed`: revision of the last change to any of them."""

    __slots__ = ("changed", "current", "items", "labels", "ordered")

    def __init__(self, changed: int) -> None:
        self.items: dict[Name, StoredObject] = {}
        self.ordered = OrderedObjects()
        self.changed = changed
        self.current: Snapshot | None = None
        self.labels = LabelIndex()

    def put(self, stored: StoredObject) -> None:
        name = (stored.key.namespace, stored.key.name)
        if self.labels:
            self.labels.replace(self.items.get(name), stored)
        self.items[name] = stored
        self.ordered.put(name, stored)
        self.changed = stored.revision

    def remove(self, stored: StoredObject) -> None:
        name = (stored.key.namespace, stored.key.name)
        past = self.items.pop(name, None)
        if past is not None:
            self.ordered.remove(name)
            if self.labels:
                self.labels.replace(past, None)
        self.changed = stored.revision


class View:
    """Current state and recent log. Every method is immediate, except for lists with a selector."""

    def __init__(self, log: Log, bodies: Bodies | None = None) -> None:
        """`bodies`: keeps the objects within bounds; without it they stay as they are."""
        self.log = log
        self.bodies = bodies
        self._begin = log.revision  # earlier changes are not known: no page can show an older state
        self._tables: dict[tuple[str, str], Table] = {}
        self._snapshots: OrderedDict[tuple[str, str, int], Snapshot] = OrderedDict()
        self._snapshot_items = 0

    @property
    def revision(self) -> int:
        return self.log.revision

    def _table(self, group: str, resource: str) -> Table:
        table = self._tables.get((group, resource))
        if table is None:
            table = self._tables[group, resource] = Table(self._begin)
        return table

    def reset(self, revision: int, objects: Iterable[StoredObject]) -> None:
        """Start, or start again, from a state that the log does not lead to: objects in any order."""
        self._begin = revision
        self._tables.clear()
        self._snapshots.clear()
        self._snapshot_items = 0
        self.log.reset(revision)
        for stored in sorted(objects, key=lambda stored: stored.key):
            table = self._table(stored.key.group, stored.key.resource)
            table.put(stored)
            table.changed = revision
            if self.bodies is not None:
                self.bodies.keep(stored)

    def apply(self, events: Sequence[Event]) -> None:
        """Take in the next events of the log, and wake watchers. Events that are already in are passed over."""
        if events and events[0].revision <= self.revision:
            events = [event for event in events if event.revision > self.revision]
        for event in events:
            stored = event.stored
            table = self._table(stored.key.group, stored.key.resource)
            if table.current is not None:
                table.current.last = event.revision
                table.current = None
            past = table.items.get((stored.key.namespace, stored.key.name))
            if event.type is EventType.DELETED:
                table.remove(stored)
            else:
                table.put(stored)
                if self.bodies is not None:
                    self.bodies.keep(stored)
            if past is None:
                continue
            if self.bodies is not None:
                self.bodies.release(past)
            else:
                past.drop_parsed()  # the log keeps it for a while
        self.log.append(events)

    def everything(self) -> list[StoredObject]:
        """All current objects."""
        return [stored for table in self._tables.values() for stored in table.items.values()]

    def get(self, key: Key) -> StoredObject | None:
        table = self._tables.get((key.group, key.resource))
        return None if table is None else table.items.get((key.namespace, key.name))

    def scan(self, group: str, resource: str, namespace: str | None) -> Sequence[StoredObject]:
        table = self._tables.get((group, resource))
        return () if table is None else table.ordered.part(namespace).first()

    async def list(
        self,
        group: str,
        resource: str,
        namespace: str | None,
        selector: Selector | None,
        limit: int | None,
        start: Name | None,
        at: int | None,
    ) -> Page:
        """As `Store.list`; `at` must not lie in the future. The page shows the state at the time of the call. Waits
        only where a selector looks at many objects. Raises ExpiredRevision."""
        table = self._table(group, resource)
        revision = self.revision if at is None else at
        newest = at is None or at >= table.changed
        snapshot = table.current if newest else self._find(group, resource, revision)
        if selector is None:
            part = (table.ordered if snapshot is None else snapshot.objects).part(namespace, start)
            chosen, whole = _first(part, limit)
        else:
            if snapshot is None:  # which does not change while the selector looks at it
                snapshot = Snapshot(table.ordered.copy(), table.changed)
            part, alone = snapshot.objects.part(namespace, start), False
            if isinstance(selector, HintedSelector) and selector.key and newest:
                found = await _labelled(table.labels, selector, snapshot.objects)
                if found is not None:
                    part, alone = await _together(found, namespace, start), selector.alone
            chosen, whole = _first(part, limit) if alone else await _selected(part, selector, limit)
        if whole:
            return Page(tuple(chosen), revision, None, 0)
        if snapshot is None:
            snapshot = Snapshot(table.ordered.copy(), table.changed)
        self._keep(group, resource, table, snapshot, revision)
        remaining = len(part) - len(chosen) if selector is None else None
        key = chosen[-1].key
        return Page(tuple(chosen), revision, (key.namespace, key.name), remaining)

    def _keep(self, group: str, resource: str, table: Table, snapshot: Snapshot, revision: int) -> None:
        """Remember the state at the revision for the pages that follow."""
        if self._tables.get((group, resource)) is not table:
            return  # the view has started again meanwhile
        known = self._snapshots.get((group, resource, snapshot.first))
        if known is not None and (not known.last or revision < known.last):
            return
        if snapshot.first == table.changed:
            table.current = snapshot
        else:
            snapshot.last = revision + 1
        self.remember(group, resource, snapshot)

    def remember(self, group: str, resource: str, snapshot: Snapshot) -> None:
        """Keep a snapshot for pages to come; the oldest go when there are too many."""
        past = self._snapshots.pop((group, resource, snapshot.first), None)
        if past is not None:
            self._snapshot_items -= len(past.objects)
        self._snapshots[group, resource, snapshot.first] = snapshot
        self._snapshot_items += len(snapshot.objects)
        while len(self._snapshots) > MAX_SNAPSHOTS or (
            self._snapshot_items > MAX_SNAPSHOT_ITEMS and len(self._snapshots) > 1
        ):
            (old_group, old_resource, _), old = self._snapshots.popitem(last=False)
            self._snapshot_items -= len(old.objects)
            if old.last == 0:
                self._table(old_group, old_resource).current = None

    def copy(self, group: str, resource: str) -> dict[Name, StoredObject]:
        """The current objects of one resource, by name, for the caller to change."""
        return dict(self._table(group, resource).items)

    def _find(self, group: str, resource: str, at: int) -> Snapshot:
        for (of_group, of_resource, first), snapshot in reversed(self._snapshots.items()):
            if (
                (of_group, of_resource) == (group, resource)
                and first <= at
                and (not snapshot.last or at < snapshot.last)
            ):
                return snapshot
        raise ExpiredRevision(f"the state of {resource} at revision {at} is no longer kept")

    def forget(self, before: int) -> None:
        """Drop the log entries at or below the revision, and the snapshots that had ended by then."""
        self.log.forget(before)
        for key, snapshot in list(self._snapshots.items()):
            if snapshot.last and snapshot.last <= before:
                del self._snapshots[key]
                self._snapshot_items -= len(snapshot.objects)


async def _labelled(
    labels: LabelIndex, selector: HintedSelector, objects: OrderedObjects
) -> list[OrderedObjects] | None:
    """The objects with the label, by the index; None where there is none. `objects`: all of the newest state."""
    found = labels.find(selector.key, selector.values)
    return await labels.make(selector.key, selector.values, objects) if found is None else found


async def _together(found: Sequence[OrderedObjects], namespace: str | None, start: Name | None) -> Part:
    """The part of all of them."""
    if len(found) == 1:
        return found[0].part(namespace, start)
    several = merge(*(one.part(namespace, start) for one in found), key=name_of)
    return Part.of([stored async for stored in unhurried(several)])


def _first(part: Part, limit: int | None) -> tuple[list[StoredObject], bool]:
    """The first of the objects, and whether these are all."""
    chosen = part.first(limit)
    return chosen, len(chosen) == len(part)


async def _selected(part: Part, selector: Selector, limit: int | None) -> tuple[list[StoredObject], bool]:
    """The same of those that the selector passes."""
    chosen: list[StoredObject] = []
    piece = Slice()
    for stored in part:
        if len(chosen) == limit:
            return chosen, False
        if piece.over:
            await piece.next()
        if stored.passes(selector):
            chosen.append(stored)
    return chosen, True
