"""`kubectl amc get -w`: the listing, and then each change in each member as one more line.

One connection a member. A watch that ends goes on where it ended; a member that falls silent is a line on stderr, and
is tried again until it answers.
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlencode

from fleet.amc import table
from fleet.amc.client import Client, NoAnswer, StreamRefusal
from fleet.amc.discovery import Resource
from fleet.amc.get import (
    TABLE,
    CommandRefusal,
    MemberListing,
    Query,
    ask,
    at_once,
    form_of,
    of_members,
    proxy,
    resolve_all,
    silence,
)

AGAIN_S = 5.0  # after a member that gave no answer
WATCH_S = 3600  # of one request
LINE_BYTES_MAX = 64 << 20
Change = tuple[str, list[dict[str, Any]], list[dict[str, Any]], str]  # member, columns, rows; or a line of complaint


def watch(client: Client, query: Query) -> None:
    """Print until it is interrupted. Raises NoAnswer and CommandRefusal."""
    members = of_members(client, query.members)
    resources = resolve_all(client, query.words, members)
    if len(resources) > 1 or query.output not in ("", "wide") or len(query.names) > 1:
        raise CommandRefusal("error: -w shows one kind, or one name, as a table")
    resource = resources[0]
    answers = at_once(lambda member: ask(client, resource, member, query), members)
    form = form_of(resource, answers, query, prefixed=False)
    rows = [form.row(result.member, result.columns, row) for result in answers for row in result.rows]
    head = [] if query.no_headers else [form.head]
    widths = table.widths([form.head, *rows])
    if rows:
        _say(table.line(row, widths) for row in [*head, *rows])
    for result in answers:
        _complain(result.complaints)
    changes: queue.Queue[Change] = queue.Queue()
    for result in answers:
        if result.unserved:
            continue
        asked = (client, resource, query, result, changes)
        threading.Thread(target=_follow, args=asked, daemon=True, name=result.member).start()
    while True:
        member, columns, changed, complaint = changes.get()
        if complaint:
            _complain([complaint])
            continue
        if not form.column_names:  # nothing was there to take columns from
            form = form_of(resource, [MemberListing(member, columns, changed)], query, prefixed=False)
        more = [form.row(member, columns, row) for row in changed]
        if not rows:
            widths = table.widths([form.head, *more])
            _say(table.line(row, widths) for row in head and [form.head])
            rows = more
        _say(table.line(row, widths) for row in more)


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, flush=True)


def _complain(lines: Iterable[str]) -> None:
    for line in lines:
        print(line, file=sys.stderr, flush=True)


def _follow(
    client: Client, resource: Resource, query: Query, result: MemberListing, changes: queue.Queue[Change]
) -> None:
    """One member's changes, for ever."""
    revision, columns, silent = result.revision, result.columns, False
    selector = f"metadata.name={query.names[0]}" if query.names else query.field_selector
    while True:
        parameters = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(WATCH_S),
            "resourceVersion": revision,
            "labelSelector": query.selector,
            "fieldSelector": selector,
        }
        given = urlencode({name: value for name, value in parameters.items() if value})
        path = f"{proxy(result.member)}{resource.path(query.namespace)}?{given}"
        try:
            for event in _events(client.stream(path, TABLE)):
                silent = False
                body = event.get("object") or {}
                if event.get("type") == "ERROR":  # its log does not reach back so far: begin anew
                    revision = ""
                    break
                revision = _revision(body) or revision
                columns = body.get("columnDefinitions") or columns
                if event.get("type") != "BOOKMARK" and body.get("rows"):
                    changes.put((result.member, columns, body["rows"], ""))
            time.sleep(0.1)
        except (NoAnswer, StreamRefusal) as error:
            if not silent:
                said = (
                    silence(result.member, error)
                    if isinstance(error, NoAnswer)
                    else f"cluster({result.member}): {error}"
                )
                changes.put((result.member, [], [], said))
            silent = True
            if isinstance(error, StreamRefusal) and error.answer.status == 410:
                revision = ""
            time.sleep(AGAIN_S)


def _revision(body: dict[str, Any]) -> str:
    """Of a Table, or of the object in its last row."""
    own = (body.get("metadata") or {}).get("resourceVersion")
    last = (body.get("rows") or [{}])[-1].get("object") or {}
    return str(own or (last.get("metadata") or {}).get("resourceVersion") or "")


def _events(pieces: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON documents of a watch, one a line."""
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield json.loads(line)
        if len(rest) > LINE_BYTES_MAX:
            return
