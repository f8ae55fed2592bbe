"""The controllers' queue on the event loop that production runs on, with pauses that only bad luck produces."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from api.loops.controller import STORE_BACKOFF_MAX_S
from api.loops.workqueue import WorkQueue
from fleet.values.ports import Key

pytestmark = pytest.mark.xdist_group("chaos")

KEY = Key("", "configmaps", "default", "a")


def test_pauses_shorter_than_the_loop_can_count_are_taken_as_they_come() -> None:
    """uvloop rounds less than half a millisecond to "at once", and its handle then has no time to compare with."""

    async def scenario() -> Key:
        queue = WorkQueue()
        queue.add_after(KEY, 0.0001)
        queue.add_after(KEY, 0.0002)
        queue.add_after(KEY, 30.0)
        async with asyncio.timeout(20):
            return await queue.take()

    assert uvloop.run(scenario()) == KEY


def test_the_nearer_of_two_pauses_counts() -> None:
    async def scenario() -> Key:
        queue = WorkQueue()
        queue.add_after(KEY, 60.0)
        queue.add_after(KEY, 0.01)
        async with asyncio.timeout(20):
            return await queue.take()

    assert uvloop.run(scenario()) == KEY


def test_keys_that_failed_since_the_store_was_away_come_back_soon_after_it_does() -> None:
    async def scenario() -> float:
        queue = WorkQueue()
        try:
            return max(queue.failed(KEY, STORE_BACKOFF_MAX_S) for _ in range(30))
        finally:
            queue.close()

    assert uvloop.run(scenario()) <= 1.2 * STORE_BACKOFF_MAX_S
