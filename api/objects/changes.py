"""What has changed since a reader looked last: for readers that keep a sum over many objects."""

from __future__ import annotations

from collections.abc import Collection

from fleet.values.ports import ExpiredRevision, Key, Store

CHANGES = 5_000  # more of them since the last request, and all is made anew, which then costs less
Resource = tuple[str, str]


async def changed_keys(
    store: Store, resources: Collection[Resource], since: int, revision: int
) -> tuple[set[Key] | None, int]:
    """The objects that have changed after `since`, and the revision up to which the log was read. No objects where the
    log does not tell, or tells of too many. `since` -1: nothing was ever read. `revision`: the store's."""
    if since < 0:
        return None, revision
    try:
        events, upto = await store.events(resources, since=since, limit=CHANGES)
    except ExpiredRevision:
        return None, revision
    if len(events) == CHANGES or upto < since:
        return None, revision
    return {event.stored.key for event in events}, upto
