"""The controllers' queue on the event loop that production runs on, with pauses that only bad luck produces."""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from fleet.controllers.runtime import WorkQueue
from fleet.ports import Key

pytestmark = pytest.mark.xdist_group("chaos")

KEY = Key("", "configmaps", "default", "a")


def test_pauses_shorter_than_the_loop_can_count_are_taken_as_they_come() -> None:
    """uvloop rounds less than half a millisecond to "at once", and its handle then has no time to compare with."""

    async def scenario() -> Key:
        queue = WorkQueue()
        queue.add_after(KEY, 0.0001)
        queue.add_after(KEY, 0.0002)
        queue.add_after(KEY, 30.0)
        async with asyncio.timeout(5):
            return await queue.take()

    assert uvloop.run(scenario()) == KEY


def test_the_nearer_of_two_pauses_counts() -> None:
    async def scenario() -> Key:
        queue = WorkQueue()
        queue.add_after(KEY, 60.0)
        queue.add_after(KEY, 0.01)
        async with asyncio.timeout(5):
            return await queue.take()

    assert uvloop.run(scenario()) == KEY
