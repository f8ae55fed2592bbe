"""Questions that take long: users take turns, and a tenant's loops keep nobody else from an answer."""

from __future__ import annotations

import asyncio

import pytest

from api.engine.status import StatusError
from api.fairness import questions
from api.fairness.questions import OF_ALL, OF_USER, SEATS, Questions


class Asker:
    """Questions of which each is answered when the test says so."""

    def __init__(self) -> None:
        self.turns = Questions()
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, user: str, name: str) -> asyncio.Task[None]:
        async def work() -> None:
            async with self.turns.turn(user):
                self.begun.append(name)
                await self._ends.setdefault(name, asyncio.Event()).wait()

        task = asyncio.create_task(work(), name=name)
        self.tasks.append(task)
        await settled()
        return task

    async def end(self, name: str) -> None:
        self._ends.setdefault(name, asyncio.Event()).set()
        await settled()


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_the_first_question_of_a_user_waits_for_no_loop_of_another() -> None:
    asker = Asker()
    tasks = [await asker.ask("eve", f"eve-{number}") for number in range(24)]
    refused = [task for task in tasks if task.done()]
    assert len(refused) == 24 - 1 - OF_USER
    with pytest.raises(StatusError, match="your questions are being answered") as error:
        await refused[0]
    assert (error.value.code, error.value.retry_after_s) == (429, 1)
    assert asker.begun == ["eve-0"]
    await asker.ask("bob", "bob-0")
    assert asker.begun == ["eve-0", "bob-0"]
    await asker.ask("ann", "ann-0")
    await asker.end("eve-0")
    assert asker.begun[2] == "ann-0", "eve has had her turn"
    await asker.end("bob-0")
    assert asker.begun[3] == "eve-1"
    for number in range(24):
        await asker.end(f"eve-{number}")
    await asker.end("ann-0")
    assert all(task.done() for task in asker.tasks)


async def test_all_users_together_wait_in_a_bounded_queue() -> None:
    asker = Asker()
    for number in range(SEATS + OF_ALL):
        await asker.ask(f"user-{number}", f"{number}")
    last = await asker.ask("one-more", "last")
    with pytest.raises(StatusError, match="other questions"):
        await last
    for number in range(SEATS + OF_ALL):
        await asker.end(f"{number}")
    assert sorted(asker.begun, key=int) == [str(number) for number in range(SEATS + OF_ALL)]


async def test_who_goes_away_keeps_no_turn() -> None:
    asker = Asker()
    for user in ("a", "b"):
        await asker.ask(user, user)
    gone = await asker.ask("c", "c")
    await asker.ask("d", "d")
    gone.cancel()
    await settled()
    await asker.end("a")
    assert asker.begun == ["a", "b", "d"]
    for name in "bd":
        await asker.end(name)
    await asker.ask("e", "e")
    await asker.ask("f", "f")
    assert asker.begun == ["a", "b", "d", "e", "f"]
    for name in "ef":
        await asker.end(name)


async def test_a_question_that_waits_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "WAIT_S", 0.01)
    asker = Asker()
    await asker.ask("eve", "first")
    second = await asker.ask("eve", "second")
    with pytest.raises(StatusError, match="take too long"):
        await second
    await asker.end("first")
    assert asker.begun == ["first"]


async def test_a_question_that_fails_gives_its_turn_back() -> None:
    turns = Questions()
    for _ in range(5):
        with pytest.raises(ValueError, match="bad"):
            async with turns.turn("eve"):
                raise ValueError("bad")
