"""Which events of an object say more than another status."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from fleet.controllers.runtime.news import News
from fleet.values.ports import Event, EventType, Key, StoredObject

KEY = Key("kubeflow.org", "pytorchjobs", "default", "one")


def event(kind: EventType = EventType.MODIFIED, status: str = "", uid: str = "a", **meta: Any) -> Event:
    body = {"metadata": {"name": "one", "uid": uid, "generation": 1, **meta}, "status": {"text": status}}
    return Event(1, kind, StoredObject(KEY, uid, 1, orjson.dumps(body), body))


def test_another_status_is_no_news() -> None:
    news = News()
    told = [news.is_new(event(EventType.ADDED)), news.is_new(event(status="Created")), news.is_new(event(status="Run"))]
    assert told == [True, False, False]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(event(generation=2), id="its spec"),
        pytest.param(event(labels={"a": "b"}), id="a label"),
        pytest.param(event(annotations={"a": "b"}), id="an annotation"),
        pytest.param(event(finalizers=["a"]), id="a finalizer"),
        pytest.param(event(deletionTimestamp="2026-01-01T00:00:00Z"), id="its deletion"),
        pytest.param(event(uid="b"), id="another object of the name"),
        pytest.param(event(EventType.ADDED), id="a full pass"),
        pytest.param(event(EventType.DELETED), id="its end"),
    ],
)
def test_every_other_change_is_news(changed: Event) -> None:
    news = News()
    news.is_new(event(EventType.ADDED))
    assert news.is_new(changed)


def test_every_event_of_an_object_without_generations_is_news() -> None:
    news, bare = News(), event()
    bare.stored.body["metadata"].pop("generation")
    assert (news.is_new(bare), news.is_new(bare)) == (True, True)
