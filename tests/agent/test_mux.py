"""Many streams over one connection: none waits for another, all is bounded, and a silent connection is noticed."""

from __future__ import annotations

import asyncio
import os

import pytest

from fleet.agent.frames import Frame, FrameKind, encode
from fleet.agent.mux import BrokenStream, MuxLimits, Stream
from tests.agent.pipes import QUICK, echo, two


async def read_all(stream: Stream) -> bytes:
    parts = []
    while data := await stream.read():
        parts.append(data)
    return b"".join(parts)


async def test_bytes_arrive_as_they_were_sent_over_several_streams_at_once() -> None:
    async with two(echo) as (opener, accepter, _, _):

        async def one() -> None:
            sent = os.urandom(300_000)
            stream = await opener.open()
            answer = asyncio.create_task(read_all(stream))
            await stream.write(sent)
            await stream.write_eof()
            assert await answer == sent

        async with asyncio.timeout(30):
            await asyncio.gather(*(one() for _ in range(4)))
        assert len(opener) == len(accepter) == 0


async def test_a_stream_that_is_not_read_stalls_no_other_and_holds_a_window_of_bytes_at_most() -> None:
    held: list[Stream] = []

    async def first_stalls(stream: Stream) -> None:
        if not held:
            held.append(stream)
            await stream.accept()
            await asyncio.sleep(3600)
        await echo(stream)

    async with two(first_stalls) as (opener, _, near, _), asyncio.timeout(20):
        slow = await opener.open()
        writing = asyncio.create_task(slow.write(bytes(1_000_000)))
        await asyncio.sleep(0.2)
        assert not writing.done() and near.sent < QUICK.window + 10_000
        quick = await opener.open()
        answer = asyncio.create_task(read_all(quick))
        await quick.write(b"x" * 200_000)
        await quick.write_eof()
        assert len(await answer) == 200_000
        assert held[0]._unread_bytes == QUICK.window
        opener.close("done")
        with pytest.raises(BrokenStream, match="done"):
            await writing


async def test_a_peer_that_sends_past_the_window_is_cut_off() -> None:
    async def stall(stream: Stream) -> None:
        await stream.accept()
        await asyncio.sleep(3600)

    async with two(stall) as (opener, accepter, near, _), asyncio.timeout(20):
        stream = await opener.open()
        for _ in range(QUICK.window // 32768 + 1):
            await near.send(encode(Frame(FrameKind.DATA, stream.number, bytes(32768))))
        await accepter.over.wait()
        assert accepter.why == "the peer breaks the protocol: more data than was allowed"


@pytest.mark.parametrize(
    "message",
    [b"rubbish", encode(Frame(FrameKind.DATA, 99, b"x")), encode(Frame(FrameKind.OPEN, 7))],
    ids=["", "stream", "open"],
)
async def test_a_peer_that_breaks_the_protocol_is_cut_off(message: bytes) -> None:
    async with two(None) as (_, accepter, near, _), asyncio.timeout(20):
        await near.send(message)
        await accepter.over.wait()
        assert accepter.why.startswith("the peer breaks the protocol")


async def test_streams_are_bounded_and_a_place_comes_back() -> None:
    async with two(echo) as (opener, accepter, _, _), asyncio.timeout(20):
        streams = [await opener.open() for _ in range(QUICK.streams)]
        with pytest.raises(BrokenStream, match="too many streams"):
            await opener.open()
        streams[0].abort("enough")
        again = await opener.open()
        await again.write(b"works")
        assert await again.read() == b"works" and len(accepter) == QUICK.streams


async def test_the_accepter_bounds_streams_whatever_the_opener_thinks() -> None:
    async with two(echo) as (opener, _, _, _), asyncio.timeout(20):
        opener.limits = MuxLimits(streams=1000)
        for _ in range(QUICK.streams):
            await opener.open()
        with pytest.raises(BrokenStream, match="too many streams"):
            await opener.open()


async def test_a_refusal_comes_with_its_reason() -> None:
    async def refuse(stream: Stream) -> None:
        raise ConnectionError("the API server is not there")

    async with two(refuse) as (opener, _, _, _), asyncio.timeout(20):
        with pytest.raises(BrokenStream, match="the API server is not there"):
            await opener.open()


async def test_a_reset_reaches_the_reader_and_the_writer() -> None:
    async def break_it(stream: Stream) -> None:
        await stream.accept()
        await stream.read()
        stream.abort("no more")

    async with two(break_it) as (opener, _, _, _), asyncio.timeout(20):
        stream = await opener.open()
        await stream.write(b"x")
        with pytest.raises(BrokenStream, match="no more"):
            await stream.read()
        with pytest.raises(BrokenStream, match="no more"):
            await stream.write(b"y")


async def test_a_connection_that_is_silent_is_noticed_and_breaks_its_streams() -> None:
    async with two(echo) as (opener, accepter, _, far), asyncio.timeout(20):
        stream = await opener.open()
        far.deaf = True  # what the far side sends does not arrive, and no end of it either
        began = asyncio.get_running_loop().time()
        with pytest.raises(BrokenStream, match=r"silent for 0\.5 s"):
            await stream.read()
        assert asyncio.get_running_loop().time() - began < QUICK.silent_s + 10 * QUICK.ping_s
        await accepter.over.wait()


def test_the_limits_of_a_hub_notice_a_silent_connection_within_ten_seconds_or_so() -> None:
    limits = MuxLimits()
    assert limits.silent_s + limits.ping_s <= 11


async def test_an_idle_connection_stays() -> None:
    async with two(echo) as (opener, accepter, _, _):
        await asyncio.sleep(3 * QUICK.silent_s)
        assert not opener.over.is_set() and not accepter.over.is_set()
        stream = await opener.open()
        await stream.write(b"there")
        assert await stream.read() == b"there"


async def test_the_end_of_the_one_side_ends_the_other_with_its_words() -> None:
    async with two(echo) as (opener, accepter, _, _), asyncio.timeout(20):
        stream = await opener.open()
        accepter.close("going away")
        with pytest.raises(BrokenStream, match="going away"):
            await stream.read()
