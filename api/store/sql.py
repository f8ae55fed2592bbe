"""The statements of the hot path, and the functions that turn rows into objects and events.

A batch is written by one statement over arrays: one round trip for any size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sys import intern
from typing import Any

import orjson
import structlog

from api.store.secrets import MissingKey, SecretBox, SecretUnreadable, unreadable
from fleet.values.ports import Event, EventType, Key, StoredObject

log = structlog.get_logger(__name__)

# Settings of a connection that finds objects by their keys alone. PostgreSQL plans a statement once: while the table of
# objects is small, it plans to read the whole table, and goes on doing so when the table has grown.
BY_KEY = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off"}

COMMIT_LOCK = 0x666C6565_0002  # held from before the first read of a batch to its end
CHANNEL = "fleet_log"  # NOTIFY; the payload is the newest revision

BEGIN = f"BEGIN; SELECT pg_advisory_xact_lock({COMMIT_LOCK})"
STATE = "SELECT revision, compacted, ARRAY(SELECT epoch FROM leaders) AS epochs FROM log_state"
HEAD = "SELECT revision, compacted FROM log_state"
# One statement is one snapshot: objects and revision agree, also inside a READ COMMITTED transaction.
EVERYTHING = """
    SELECT s.revision AS newest, o."group", o.resource, o.namespace, o.name, o.uid, o.revision, o.key_id, o.body
    FROM log_state s LEFT JOIN objects o ON true
"""
ONE = """
    SELECT "group", resource, namespace, name, uid, revision, key_id, body FROM objects
    WHERE "group" = $1 AND resource = $2 AND namespace = $3 AND name = $4
"""
EVENTS = """
    SELECT revision, type, "group", resource, namespace, name, uid, at, key_id, body, previous FROM events
    WHERE revision > $1 ORDER BY revision LIMIT $2
"""
EVENT_SIZES = """
    SELECT revision, octet_length(body) AS size FROM events
    WHERE "group" = $1 AND resource = $2 AND revision > $3 AND revision <= $4 ORDER BY revision LIMIT $5
"""
EVENTS_OF_RESOURCE = """
    SELECT revision, type, "group", resource, namespace, name, uid, at, key_id, body, previous FROM events
    WHERE "group" = $1 AND resource = $2 AND revision > $3 AND revision <= $4 ORDER BY revision
"""
WRITE = f"""
    WITH logged AS (
        INSERT INTO events (revision, type, "group", resource, namespace, name, uid, at, key_id, body, previous)
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                             $8::float8[], $9::text[], $10::bytea[], $11::bytea[])
    ), written AS (
        INSERT INTO objects ("group", resource, namespace, name, uid, revision, key_id, body)
        SELECT * FROM unnest($12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bigint[],
                             $18::text[], $19::bytea[])
        ON CONFLICT ("group", resource, namespace, name) DO UPDATE
        SET uid = excluded.uid, revision = excluded.revision, key_id = excluded.key_id, body = excluded.body
    ), removed AS (
        DELETE FROM objects USING unnest($20::text[], $21::text[], $22::text[], $23::text[]) AS k(g, r, ns, n)
        WHERE "group" = k.g AND resource = k.r AND namespace = k.ns AND name = k.n
    ), advanced AS (
        UPDATE log_state SET revision = $24::bigint
    )
    SELECT pg_notify('{CHANNEL}', ($24::bigint)::text)
"""
# The same in a transaction of one statement, for a process whose view is at revision $25; no row when the log is not. A
# writer that comes first changes the row of the log's state, which is then read again: it decides, not the snapshot.
WRITE_AT_ONCE = f"""
    WITH locked AS MATERIALIZED (
        SELECT pg_advisory_xact_lock({COMMIT_LOCK})
    ), advanced AS (
        UPDATE log_state SET revision = $24::bigint FROM locked WHERE log_state.revision = $25::bigint
        RETURNING log_state.revision
    ), logged AS (
        INSERT INTO events (revision, type, "group", resource, namespace, name, uid, at, key_id, body, previous)
        SELECT u.* FROM advanced,
            unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                   $8::float8[], $9::text[], $10::bytea[], $11::bytea[]) AS u
    ), written AS (
        INSERT INTO objects ("group", resource, namespace, name, uid, revision, key_id, body)
        SELECT u.* FROM advanced,
            unnest($12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $17::bigint[],
                   $18::text[], $19::bytea[]) AS u
        ON CONFLICT ("group", resource, namespace, name) DO UPDATE
        SET uid = excluded.uid, revision = excluded.revision, key_id = excluded.key_id, body = excluded.body
    ), removed AS (
        DELETE FROM objects USING advanced, unnest($20::text[], $21::text[], $22::text[], $23::text[]) AS k(g, r, ns, n)
        WHERE "group" = k.g AND resource = k.r AND namespace = k.ns AND name = k.n
    )
    SELECT revision, pg_notify('{CHANNEL}', revision::text) FROM advanced
"""
EVENTS_OF_SOME = """
    SELECT revision, type, "group", resource, namespace, name, uid, at, key_id, body, previous FROM events
    WHERE revision > $1 AND revision <= $2
      AND ("group", resource) IN (SELECT * FROM unnest($3::text[], $4::text[])) ORDER BY revision LIMIT $5
"""
# No row where it has ended already; a process id may be another's by now, which the name of its connection tells.
END_BACKEND = """
    SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
    WHERE pid = $1 AND pid != pg_backend_pid() AND application_name = $2 AND usename = current_user
"""
SAME_EVENTS = "SELECT revision, type, body FROM events WHERE revision = ANY($1::bigint[])"


def stored_of(row: Mapping[str, Any], box: SecretBox, *, at_start: bool = False) -> StoredObject:
    """The object of a row. An object that does not open is shown without its content, so that the others stay readable.
    `at_start`: raises MissingKey for a key that the key file does not have, since then it is the wrong file."""
    # Each row brings its own copies of the names that it shares with thousands.
    key = Key(intern(row["group"]), intern(row["resource"]), intern(row["namespace"]), row["name"])
    try:
        raw = box.open(key, row["key_id"], row["body"])
    except SecretUnreadable as error:
        if at_start and isinstance(error, MissingKey):
            raise
        log.error("a secret cannot be read, and is shown empty", key=str(key), error=str(error))
        raw = unreadable(key, row["uid"], row["revision"])
    return StoredObject(key, row["uid"], row["revision"], raw)


def event_of(row: Mapping[str, Any], box: SecretBox) -> Event:
    previous = row["previous"]
    return Event(
        row["revision"],
        EventType(row["type"]),
        stored_of(row, box),
        None if previous is None else orjson.loads(previous),
        row["at"],
    )


def sealed(events: Sequence[Event], box: SecretBox) -> list[tuple[str | None, bytes]]:
    """(key id, body to store) of each event's object; the object and its event share one ciphertext."""
    return [box.seal(event.stored.key, event.stored.raw) for event in events]


def write_arguments(events: Sequence[Event], bodies: Sequence[tuple[str | None, bytes]]) -> list[Any]:
    """The arguments of WRITE for events in revision order: the log has all of them, the objects the last of each."""
    log: list[list[Any]] = [[] for _ in range(11)]
    final: dict[Key, int] = {}
    for index, event in enumerate(events):
        key = event.stored.key
        final[key] = index
        key_id, body = bodies[index]
        row = (
            event.revision,
            str(event.type),
            key.group,
            key.resource,
            key.namespace,
            key.name,
            event.stored.uid,
            event.at,
            key_id,
            body,
            None if event.previous is None else orjson.dumps(event.previous),
        )
        for column, value in zip(log, row, strict=True):
            column.append(value)
    written: list[list[Any]] = [[] for _ in range(8)]
    removed: list[list[str]] = [[] for _ in range(4)]
    for key, index in final.items():
        event = events[index]
        names = (key.group, key.resource, key.namespace, key.name)
        if event.type is EventType.DELETED:
            for name_column, name in zip(removed, names, strict=True):
                name_column.append(name)
        else:
            key_id, body = bodies[index]
            for column, value in zip(
                written, (*names, event.stored.uid, event.stored.revision, key_id, body), strict=True
            ):
                column.append(value)
    return [*log, *written, *removed, events[-1].revision]
