"""What a process keeps of states that are past."""

from __future__ import annotations

import orjson

from fleet.ports import Event, EventType, Key, Stored
from fleet.store.log import Log
from fleet.store.view import View

KEY = Key("", "configmaps", "default", "one")


def at(revision: int) -> Event:
    stored = Stored(KEY, "uid", revision, orjson.dumps({"metadata": {"name": "one"}, "data": {"at": str(revision)}}))
    return Event(revision, EventType.ADDED if revision == 1 else EventType.MODIFIED, stored)


def test_of_a_state_that_is_past_the_text_alone_is_kept_and_it_can_still_be_read() -> None:
    view = View(Log(0, 0, max_events=10, max_bytes=1 << 20))
    first, second = at(1), at(2)
    view.apply([first])
    body = first.stored.body
    assert first.stored.body is body
    view.apply([second])
    assert first.stored.body is not body and first.stored.body == body
    now = second.stored.body
    assert second.stored.body is now
