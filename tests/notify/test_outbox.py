"""The table of notifications: entered once, tried until it is delivered or the tries are over, kept for a while."""

from __future__ import annotations

from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from fleet.accounts.models import NotificationRecord
from fleet.accounts.retention import erase
from fleet.core.model.notificationevent import NotificationEvent
from fleet.notify import outbox
from fleet.notify.happening import Happening

FAILED = Happening(NotificationEvent.FAILED, 1000.0, "5e1", "vision", "train", "PyTorchJob", number=2, submitted=100.0)
NOW = 2000.0


async def test_a_happening_is_entered_once_for_each_receiver(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        both = [("vision", "chat", FAILED), ("vision", "mail", FAILED)]
        assert await outbox.enter(connection, both, NOW) == 2
        again = [*both, ("vision", "chat", replace(FAILED, number=3))]
        assert await outbox.enter(connection, again, NOW) == 1
        assert await outbox.enter(connection, [], NOW) == 0
        found = await outbox.due(connection, NOW, 10)
    assert len({one.id for one in found}) == 3
    assert {(one.receiver, one.happening.number, one.tries) for one in found} == {
        ("chat", 2, 0),
        ("mail", 2, 0),
        ("chat", 3, 0),
    }


async def test_a_failed_try_comes_back_later_each_time_until_the_tries_are_over(engine: AsyncEngine) -> None:
    now, pauses = NOW, []
    async with engine.begin() as connection:
        await outbox.enter(connection, [("vision", "chat", FAILED)], now)
        for number in range(1, outbox.TRIES_MAX + 1):
            (one,) = await outbox.due(connection, now, 10)
            again = await outbox.failed(connection, one, "it answers HTTP 503", now)
            assert again is (number < outbox.TRIES_MAX)
            pause = outbox.pause_after(number)
            assert await outbox.due(connection, now + pause - 1, 10) == []
            pauses.append(pause)
            now += pause
        assert await outbox.due(connection, now + 1e6, 10) == []
        row = (await connection.execute(sa.select(NotificationRecord.outcome, NotificationRecord.error))).one()
    assert tuple(row) == ("GaveUp", "it answers HTTP 503")
    assert (pauses[:3], pauses[-1]) == ([5.0, 10.0, 20.0], 3600.0)


async def test_what_is_delivered_leaves_and_is_forgotten_after_a_week(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        await outbox.enter(connection, [("vision", "chat", FAILED)], NOW)
        (one,) = await outbox.due(connection, NOW, 10)
        await outbox.close(connection, one.id, outbox.DELIVERED, NOW)
        assert await outbox.due(connection, NOW + 1e6, 10) == []
        assert await outbox.enter(connection, [("vision", "chat", FAILED)], NOW) == 0
        assert await outbox.forget(connection, NOW + outbox.KEPT_S - 1) == 0
        assert await outbox.forget(connection, NOW + outbox.KEPT_S + 1) == 1


async def test_an_erased_user_is_named_by_no_notification(engine: AsyncEngine) -> None:
    async with engine.begin() as connection:
        mine = [("vision", "chat", replace(FAILED, user="ada")), ("vision", "mail", replace(FAILED, user="bob"))]
        await outbox.enter(connection, mine, NOW)
        await erase(connection, "ada")
        found = await outbox.due(connection, NOW, 10)
    assert sorted((one.receiver, one.happening.user) for one in found) == [("chat", None), ("mail", "bob")]
