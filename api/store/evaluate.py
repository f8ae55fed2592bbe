"""The meaning of a commit: preconditions, revisions, and the new state of each object, apart from where it is kept.

Both stores run every commit through `evaluate`, so the memory store cannot mean something else than PostgreSQL does.
The function is pure: the caller says how to look up the current state and which revision is next, and stores the
outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from fleet.values.ports import Body, Change, Conflict, Delete, Event, EventType, Expect, Key, Put, StoredObject, Write

# The fields that field selectors of built-in kinds can name, beside the metadata. Kept of a previous state for every
# resource: a path that an object does not have costs nothing, and a custom kind that uses the same names is served as
# well.
SELECTABLE = (
    ("involvedObject",),
    ("reason",),
    ("reportingComponent",),
    ("source", "component"),
    ("type",),
    ("spec", "nodeName"),
    ("spec", "restartPolicy"),
    ("spec", "schedulerName"),
    ("spec", "serviceAccountName"),
    ("spec", "unschedulable"),
    ("status", "nominatedNodeName"),
    ("status", "phase"),
    ("status", "podIP"),
    ("status", "successful"),
)


@dataclass(frozen=True, slots=True)
class CommitEffect:
    """The commit holds. `events` are in revision order; `stored[i]` answers write i."""

    stored: tuple[StoredObject, ...]
    events: tuple[Event, ...]


def evaluate(
    writes: Sequence[Write], lookup: Callable[[Key], StoredObject | None], last: int, at: float = 0.0
) -> CommitEffect | Conflict:
    """Check all of `writes` against the current state and make the new one; the first gets revision `last` + 1. `at`:
    the time of the change.

    A later write of the same commit sees what an earlier one did. Raises what a `Change` raises.
    """
    overlay: dict[Key, StoredObject | None] = {}
    stored: list[StoredObject] = []
    events: list[Event] = []
    for index, write in enumerate(writes):
        key = write.key
        current = overlay[key] if key in overlay else lookup(key)
        if not holds(write.expect, current):
            return Conflict(index, current)
        revision = last + len(events) + 1
        if isinstance(write, Put):
            event = _put(key, write.body, current, revision, at)
        elif isinstance(write, Change):
            if current is None:
                return Conflict(index, None)
            body = write.change(orjson.loads(current.raw))
            if body is None:
                stored.append(current)
                continue
            event = _put(key, body, current, revision, at)
        else:
            if current is None:
                return Conflict(index, None)
            event = _delete(write, current, revision, at)
        overlay[key] = None if event.type is EventType.DELETED else event.stored
        stored.append(event.stored)
        events.append(event)
    return CommitEffect(tuple(stored), tuple(events))


def holds(expect: Expect, current: StoredObject | None) -> bool:
    """Whether every given condition is true of the stored object."""
    if current is None:
        return not (
            expect.exists or expect.revision is not None or expect.uid is not None or expect.generation is not None
        )
    if expect.absent:
        return False
    if expect.revision is not None and expect.revision != current.revision:
        return False
    if expect.uid is not None and expect.uid != current.uid:
        return False
    return expect.generation is None or expect.generation == current.body["metadata"].get("generation", 0)


def previous_of(body: Body) -> Body:
    """Of a state that is being replaced, the part that selectors can ask about."""
    metadata = body.get("metadata", {})
    part: Body = {"metadata": {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}}
    for path in SELECTABLE:
        first = body.get(path[0])
        if first is None:
            continue
        if len(path) == 1:
            part[path[0]] = first
        elif isinstance(first, dict) and path[1] in first:
            part.setdefault(path[0], {})[path[1]] = first[path[1]]
    return part


def encode(key: Key, body: Body, revision: int) -> StoredObject:
    """The object with its revision in `metadata.resourceVersion`. The caller's body is neither changed nor kept."""
    metadata: dict[str, Any] = {**body.get("metadata", {}), "resourceVersion": str(revision)}
    return StoredObject(key, metadata.get("uid", ""), revision, orjson.dumps({**body, "metadata": metadata}))


def _put(key: Key, body: Body, current: StoredObject | None, revision: int, at: float) -> Event:
    stored = encode(key, body, revision)
    if current is None:
        return Event(revision, EventType.ADDED, stored, at=at)
    return Event(revision, EventType.MODIFIED, stored, previous_of(current.body), at)


def _delete(write: Delete, current: StoredObject, revision: int, at: float) -> Event:
    last = encode(write.key, current.body, revision)
    return Event(revision, EventType.DELETED, last, previous_of(current.body), at)
