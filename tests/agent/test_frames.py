"""The codecs of a tunnel: whatever is written is read again, however it is cut, and rubbish is refused and bounded."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.wire import frames as ws
from api.wire.frames import BadMessage, Decoder, Message, Op
from fleet.agent import frames
from fleet.agent.frames import BadFrame, Frame, FrameKind

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
STREAMS = st.integers(1, frames.STREAM_MAX)
FRAMES = st.one_of(
    st.builds(Frame, st.sampled_from([FrameKind.OPEN, FrameKind.OPENED, FrameKind.END]), STREAMS),
    st.builds(Frame, st.just(FrameKind.DATA), STREAMS, st.binary(min_size=1, max_size=2000)),
    st.builds(frames.window, STREAMS, st.integers(0, 2**32 - 1)),
    st.builds(frames.reset, STREAMS, st.text(max_size=800)),
    st.builds(Frame, st.sampled_from([FrameKind.PING, FrameKind.PONG]), st.just(0), st.binary(min_size=8, max_size=8)),
)


@UNHURRIED
@given(FRAMES)
def test_a_frame_is_read_as_it_was_written(frame: Frame) -> None:
    assert frames.decode(frames.encode(frame)) == frame


@UNHURRIED
@given(st.binary(max_size=64))
def test_rubbish_is_a_frame_or_refused(message: bytes) -> None:
    try:
        frame = frames.decode(message)
    except BadFrame:
        return
    assert frames.encode(frame) == message


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01\0\0\0",
        struct.pack("!BI", 99, 1),
        struct.pack("!BI", FrameKind.DATA, 0) + b"x",
        struct.pack("!BI", FrameKind.PING, 7) + bytes(8),
        struct.pack("!BI", FrameKind.DATA, 1) + bytes(frames.DATA_MAX + 1),
        struct.pack("!BI", FrameKind.DATA, 1),
        struct.pack("!BI", FrameKind.WINDOW, 1) + b"\0",
    ],
)
def test_frames_that_are_refused(message: bytes) -> None:
    with pytest.raises(BadFrame):
        frames.decode(message)


def test_the_text_of_a_reset_is_one_short_line() -> None:
    assert frames.reason_of(frames.reset(1, "a\nb\x1b[31m")) == "a b [31m"
    assert len(frames.reset(1, "x" * 10_000).payload) == frames.REASON_MAX


# -- WebSocket


def client_frame(op: int, data: bytes, mask: bytes, *, final: bool = True) -> bytes:
    """As a client writes it."""
    size = len(data)
    head = bytes([(0x80 if final else 0) | op])
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + struct.pack("!H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack("!Q", size)
    return head + mask + bytes(byte ^ mask[at % 4] for at, byte in enumerate(data))


MASKS = st.binary(min_size=4, max_size=4)


@UNHURRIED
@given(
    st.lists(st.tuples(st.binary(max_size=400), MASKS, st.lists(st.integers(0, 400), max_size=3)), max_size=5),
    st.lists(st.integers(1, 50), min_size=1, max_size=20),
)
def test_messages_come_out_whole_however_they_are_cut(
    messages: list[tuple[bytes, bytes, list[int]]], cuts: list[int]
) -> None:
    sent = b""
    for data, mask, borders in messages:
        at = [0, *sorted(min(border, len(data)) for border in borders), len(data)]
        parts = [data[low:high] for low, high in itertools.pairwise(at)]
        for number, part in enumerate(parts):
            op = Op.BINARY if number == 0 else Op.CONTINUATION
            sent += client_frame(op, part, mask, final=number == len(parts) - 1)
            sent += client_frame(Op.PING, b"between", mask)
    decoder, found, at_byte, turn = Decoder(), [], 0, 0
    while at_byte < len(sent):
        size = cuts[turn % len(cuts)]
        found += list(decoder.feed(sent[at_byte : at_byte + size]))
        at_byte, turn = at_byte + size, turn + 1
    assert [message.data for message in found if message.op is Op.BINARY] == [data for data, _, _ in messages]
    assert all(message.data == b"between" for message in found if message.op is Op.PING)


@UNHURRIED
@given(st.binary(max_size=300))
def test_rubbish_is_refused_or_kept_within_bounds(data: bytes) -> None:
    decoder = Decoder()
    try:
        for message in decoder.feed(data):
            assert isinstance(message, Message)
    except BadMessage:
        pass
    assert len(decoder._unread) <= len(data)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x82\x01x",  # not masked
        b"\xc2\x80\0\0\0\0",  # an extension
        b"\x83\x80\0\0\0\0",  # no such kind
        b"\x82\xff" + struct.pack("!Q", 1 << 40),  # promises more than it may
        client_frame(Op.CONTINUATION, b"x", b"abcd"),
        client_frame(Op.BINARY, b"x", b"abcd", final=False) + client_frame(Op.BINARY, b"y", b"abcd"),
        client_frame(Op.PING, b"x", b"abcd", final=False),
        client_frame(Op.BINARY, bytes(40_000), b"abcd", final=False)
        + client_frame(Op.CONTINUATION, bytes(40_000), b"abcd"),
    ],
)
def test_messages_that_are_refused(sent: bytes) -> None:
    with pytest.raises(BadMessage):
        list(Decoder().feed(sent))


def test_the_handshake_is_that_of_the_standard() -> None:
    assert ws.accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="  # RFC 6455, 1.3
    assert ws.accept_key("short") is None and ws.accept_key("") is None


@UNHURRIED
@given(st.binary(max_size=70_000))
def test_a_frame_of_the_server_says_its_length(data: bytes) -> None:
    frame = ws.encode(Op.BINARY, data)
    assert frame.endswith(data) and len(frame) - len(data) == (2 if len(data) < 126 else 4 if len(data) < 65536 else 10)
