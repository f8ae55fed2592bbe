"""A follower beside a member that answers and does not let it watch: the pauses grow, and the log says it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from fleet.members import follow
from fleet.members.connection import HttpAnswer
from fleet.members.follow import Follower
from fleet.values.ports import Body
from tests.members.conftest import eventually

POD = {"metadata": {"name": "a", "uid": "1", "resourceVersion": "7"}}


class Refusing:
    """A connection that answers lists, and each watch with the next of `answers`; the last one again and again."""

    lost = staticmethod(lambda: False)

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def request(self, *_: Any, **__: Any) -> HttpAnswer:
        self.asked.append("list")
        return HttpAnswer(200, {"items": [POD], "metadata": {"resourceVersion": "7"}})

    @asynccontextmanager
    async def lines(self, *_: Any, **__: Any) -> AsyncIterator[tuple[HttpAnswer, AsyncIterator[list[bytes]]]]:
        self.asked.append("watch")
        status = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
        details = {"details": {"causes": [cause]}} if status == 504 else {}
        yield HttpAnswer(status, {"message": "not allowed", **details}), self._events()

    async def _events(self) -> AsyncIterator[list[bytes]]:
        yield [b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "8"}}}']


class NoSink:
    def started(self) -> None: ...

    def seen(self, body: Body) -> None: ...

    def gone(self, body: Body) -> None: ...

    def listed(self) -> None: ...


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of the follower, which take no time."""
    found: list[float] = []

    def at_once(seconds: float) -> asyncio.Timeout:
        found.append(round(seconds, 3))
        return asyncio.timeout(0)

    monkeypatch.setattr(random, "uniform", lambda low, high: 1.0)
    monkeypatch.setattr(follow, "_pause", at_once)
    return found


async def ran(connection: Refusing, enough: Callable[[], bool]) -> None:
    follower = Follower(connection, "/api/v1/pods", NoSink(), contact=lambda: None)  # type: ignore[arg-type]
    running = asyncio.create_task(follower.run())
    await eventually(enough)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_watch_that_is_refused_is_asked_for_after_growing_pauses(pauses: list[float]) -> None:
    await ran(Refusing(403), lambda: len(pauses) >= 7)
    assert pauses[:7] == [0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]


@pytest.mark.parametrize("status", [pytest.param(410, id="gone"), pytest.param(504, id="of the future")])
async def test_a_revision_that_the_member_does_not_have_is_listed_after_pauses(
    pauses: list[float], status: int
) -> None:
    connection = Refusing(status)
    await ran(connection, lambda: len(pauses) >= 3)
    assert connection.asked[:4] == ["list", "watch", "list", "watch"], "the first is listed again at once"
    assert pauses[:3] == [0.4, 0.8, 1.6]


async def test_a_watch_that_goes_on_again_begins_with_the_first_pause(pauses: list[float]) -> None:
    await ran(Refusing(403, 403, 200, 403), lambda: len(pauses) >= 4)
    assert pauses[:4] == [0.2, 0.4, 0.2, 0.4]


async def test_the_log_says_once_that_a_member_lets_nobody_watch(pauses: list[float]) -> None:
    with capture_logs() as logged:
        await ran(Refusing(403), lambda: len(pauses) >= 20)
    [line] = [entry for entry in logged if entry["log_level"] == "warning"]
    assert line["event"] == "a member is not followed" and line["path"] == "/api/v1/pods"
    assert line["error"] == "cannot watch /api/v1/pods: not allowed"
