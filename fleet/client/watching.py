"""Objects of one kind and their changes, by the hub's watch: it survives connections that end, and restarts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fleet.client.errors import Refused, TooManyRequests, Unavailable, Unreachable, refusal
from fleet.client.jobvalues import ObjectChange
from fleet.client.steps import Flow, Give, NextLine, Pause, Request, Session, Steps, asked, with_query
from fleet.client.submitting import resource_of

Body = dict[str, Any]
Seen = dict[tuple[str, str], Body]
AGAIN_S = 1.0  # between two tries on a hub that does not answer
RENEW_S = 300  # the hub ends a watch after that, and the next one goes on from there
QUIET_S = 120.0  # the hub sends a bookmark each minute: a longer silence is a dead connection
GONE = 410


def watch_objects(
    session: Session,
    api_version: str,
    kind: str,
    *,
    namespace: str | None = None,
    all_namespaces: bool = False,
    labels: str | None = None,
    fields: str | None = None,
) -> Flow[ObjectChange]:
    """The objects of a kind that are there, each as ADDED, and then each change of them, without an end.

    `labels` and `fields` are selectors of Kubernetes. After its first list the watch goes on through lost connections
    and restarts of the hub. Where the hub's log does not reach back any more, the objects are listed again, and the
    differences are given as changes. A change of several steps in between is one change then."""
    resource = yield from resource_of(session, api_version, kind)
    path = resource.path(None if all_namespaces else namespace or session.namespace)
    query = {"labelSelector": labels, "fieldSelector": fields}
    bodies: Seen = {}
    revision, begun = "", False
    while True:
        try:
            if not revision:
                found = (yield from asked(session, Request("GET", with_query(path, query)))).body
                for change in _differences(bodies, _items(found, api_version, kind)):
                    yield Give(change)
                revision, begun = found["metadata"]["resourceVersion"], True
            yield from asked(session, _watch(path, query, revision))
            while (event := (yield from next_event())) is not None:
                revision = event["object"]["metadata"]["resourceVersion"]
                told = _change(bodies, event)
                if told is not None:
                    yield Give(told)
        except (Unreachable, TooManyRequests, Unavailable) as error:
            if not begun or (isinstance(error, Unreachable) and error.lasting):
                raise
            yield Pause(AGAIN_S)
        except Refused as refused:
            if refused.status != GONE:
                raise
            revision = ""


def _watch(path: str, query: dict[str, str | None], revision: str) -> Request:
    asks = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(RENEW_S), "resourceVersion": revision}
    return Request("GET", with_query(path, {**query, **asks}), stream=True, endless=True, quiet_s=QUIET_S)


def next_event() -> Steps[Body | None]:
    """The next event; None at the end of the stream. Raises Refused for an event of type ERROR."""
    line: str | None = yield NextLine()
    if line is None:
        return None
    try:
        event: Body = json.loads(line)
    except ValueError:  # the stream was cut within the line
        return None
    if event["type"] == "ERROR":
        raise refusal(int(event["object"].get("code") or 500), event["object"], "", None)
    return event


def _change(bodies: Seen, event: Body) -> ObjectChange | None:
    """What an event means to somebody who has seen these; None for a bookmark."""
    body: Body = event["object"]
    if event["type"] == "BOOKMARK":
        return None
    if event["type"] == "DELETED":
        bodies.pop(_key(body), None)
        return ObjectChange("DELETED", body)
    known = _key(body) in bodies
    bodies[_key(body)] = body
    return ObjectChange("MODIFIED" if known else "ADDED", body)


def _differences(bodies: Seen, items: list[Body]) -> Iterator[ObjectChange]:
    """How a new list differs from what was seen. An object that was made anew is DELETED, then ADDED."""
    new_bodies = {_key(body): body for body in items}
    for key, before in list(bodies.items()):
        if key not in new_bodies or new_bodies[key]["metadata"]["uid"] != before["metadata"]["uid"]:
            yield ObjectChange("DELETED", bodies.pop(key))
    for key, body in new_bodies.items():
        before_version = bodies[key]["metadata"]["resourceVersion"] if key in bodies else None
        if before_version != body["metadata"]["resourceVersion"]:
            yield ObjectChange("ADDED" if before_version is None else "MODIFIED", body)
    bodies.update(new_bodies)


def _items(found: Body, api_version: str, kind: str) -> list[Body]:
    """The items of a list name no kind."""
    return [{"apiVersion": api_version, "kind": kind, **item} for item in found["items"]]


def _key(body: Body) -> tuple[str, str]:
    return body["metadata"].get("namespace", ""), body["metadata"]["name"]
