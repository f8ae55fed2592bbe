"""How the event loop of a leader is judged by its stamps; no thread, and a clock of the test's own."""

from __future__ import annotations

import asyncio

import pytest

from api.store.life import LoopState, Patience, Stamps, state_of_loop


@pytest.mark.parametrize(
    ("since_s", "turning"),
    [
        (0, LoopState.TURNS),
        (5, LoopState.TURNS),
        (9.9, LoopState.TURNS),
        (10, LoopState.LATE),
        (29.9, LoopState.LATE),
        (30, LoopState.STANDS),
        (3600, LoopState.STANDS),
    ],
)
def test_ten_seconds_are_late_and_thirty_lose_the_leadership(since_s: float, turning: LoopState) -> None:
    assert state_of_loop(since_s, Patience()) is turning


def test_who_is_sure_cannot_have_been_deposed() -> None:
    """A sign of life that is answered counts from its sending, and a take-over from its arrival."""
    patience = Patience()
    assert patience.sure_part * patience.takeover_s < patience.takeover_s < patience.stands_s
    assert patience.alive_every_s < patience.turned_s < patience.stands_s


async def test_a_loop_is_stamped_whenever_it_turns_until_the_stamps_end() -> None:
    now = 100.0
    stamps = Stamps(Patience(alive_every_s=0.001), lambda: now)
    now = 112.0
    before = stamps.turning
    await asyncio.wait_for(_until_stamped(stamps), 10)
    assert (before, stamps.turning) == (LoopState.LATE, LoopState.TURNS)
    stamps.end()
    now = 142.0
    await asyncio.sleep(0.01)
    assert (stamps.age_s, stamps.turning) == (30.0, LoopState.STANDS)


async def _until_stamped(stamps: Stamps) -> None:
    while stamps.age_s:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
