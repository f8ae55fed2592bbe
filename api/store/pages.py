"""A list as it was, made again from the log.

The pages of a list may be asked of different processes, and only the one that served the first page remembers what the
list looked like. The others take their current state and undo what the log says has changed since. The cost follows
from the changes; when the log does not reach back to an object's state then, the page is expired.
"""

from __future__ import annotations

import asyncpg

from api.store import sql
from api.store.orderedobjects import OrderedObjects
from api.store.secrets import SecretBox
from api.store.view import Snapshot, View
from fleet.values.ports import EventType, ExpiredRevision

FIRST_CHANGES = """
    SELECT DISTINCT ON (namespace, name) namespace, name, type FROM events
    WHERE "group" = $1 AND resource = $2 AND revision > $3 AND revision <= $4 ORDER BY namespace, name, revision
"""
LAST_STATES = """
    SELECT DISTINCT ON (namespace, name) "group", resource, namespace, name, uid, revision, key_id, body FROM events
    WHERE "group" = $1 AND resource = $2 AND revision <= $3
      AND (namespace, name) IN (SELECT * FROM unnest($4::text[], $5::text[]))
    ORDER BY namespace, name, revision DESC
"""


async def rebuild(
    connection: asyncpg.Connection, box: SecretBox, view: View, group: str, resource: str, at: int
) -> Snapshot:
    """The objects of the resource at the past revision `at`. Raises ExpiredRevision."""
    now, items = view.revision, view.copy(group, resource)
    changes = await connection.fetch(FIRST_CHANGES, group, resource, at, now)
    existed = [(row["namespace"], row["name"]) for row in changes if row["type"] != EventType.ADDED]
    states = await connection.fetch(
        LAST_STATES, group, resource, at, [namespace for namespace, _ in existed], [name for _, name in existed]
    )
    # Asked after reading: an object that was compacted before would be missing above.
    compacted = await connection.fetchval("SELECT compacted FROM log_state")
    if at < compacted or len(states) < len(existed):
        raise ExpiredRevision(f"the state of {resource} at revision {at} is no longer kept")
    for row in changes:
        items.pop((row["namespace"], row["name"]), None)
    for row in states:
        items[row["namespace"], row["name"]] = sql.stored_of(row, box)
    names = sorted(items)
    return Snapshot(OrderedObjects(names, [items[name] for name in names]), at, at + 1)
