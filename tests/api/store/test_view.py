"""What a process keeps of states that are past."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import orjson
import pytest

from api import slices
from api.store.log import Log
from api.store.view import View
from fleet.values.ports import Body, Event, EventType, HintedSelector, Key, Page, StoredObject

KEY = Key("", "configmaps", "default", "one")


def at(revision: int) -> Event:
    stored = StoredObject(
        KEY, "uid", revision, orjson.dumps({"metadata": {"name": "one"}, "data": {"at": str(revision)}})
    )
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


def thing(name: str, revision: int, **labels: str) -> Event:
    body = {"metadata": {"name": name, "namespace": "default", "labels": labels}}
    stored = StoredObject(Key("", "things", "default", name), name, revision, orjson.dumps(body))
    return Event(revision, EventType.ADDED, stored)


def gone(event: Event, revision: int) -> Event:
    last = event.stored
    return Event(revision, EventType.DELETED, StoredObject(last.key, last.uid, revision, last.raw), last.body)


async def names(page: Awaitable[Page]) -> tuple[list[str], int]:
    found = await page
    return [stored.key.name for stored in found.items], found.revision


@pytest.mark.asyncio
@pytest.mark.parametrize("selects", ["by a test", "by a label and a test", "by a label alone"])
async def test_a_list_in_slices_shows_the_state_at_its_beginning_and_so_do_its_pages(
    selects: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "SLICE_S", 0.0)  # each object is a slice of its own
    view = View(Log(0, 0, max_events=100, max_bytes=1 << 20))
    there = [thing(f"n{number}", number + 1, group="a" if number % 2 else "b") for number in range(8)]
    view.apply(there)

    def wanted(body: Body) -> bool:
        return bool(body["metadata"]["labels"].get("group") == "a")

    labelled = HintedSelector(wanted, "group", frozenset("a"), alone=selects.endswith("alone"))
    selector = wanted if selects == "by a test" else labelled

    def listed(limit: int | None, start: tuple[str, str] | None = None, at: int | None = None) -> Awaitable[Page]:
        return view.list("", "things", "default", selector, limit, start, at)

    whole, some = asyncio.create_task(names(listed(None))), asyncio.create_task(names(listed(2)))
    await asyncio.sleep(0)
    view.apply([gone(there[3], 9), thing("n2", 10, group="a"), thing("n9", 11, group="a")])
    assert await whole == (["n1", "n3", "n5", "n7"], 8)
    assert await some == (["n1", "n3"], 8)
    assert await names(listed(2, ("default", "n3"), 8)) == (["n5", "n7"], 8)
    assert await names(listed(None)) == (["n1", "n2", "n5", "n7", "n9"], 11)
    view.apply([thing("n0", 12, group="a"), gone(there[7], 13)])
    assert await names(listed(None)) == (["n0", "n1", "n2", "n5", "n9"], 13)
