"""The frames of a tunnel: many streams of bytes over one connection. Pure.

A frame is one message: a byte for its kind, four for its stream, and its payload. `OPEN` asks for a stream, `OPENED`
grants it, `RESET` refuses or breaks it and says why. `DATA` carries bytes and `WINDOW` allows more of them. `END` says
that no more bytes come. `PING` and `PONG` belong to no stream.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

DATA_MAX = 32 * 1024  # of one frame: a long answer must let the frames of others pass between its own
REASON_MAX = 500  # bytes of the text of a RESET
PING_BYTES = 8
STREAM_MAX = 0xFFFFFFFF
_HEAD = struct.Struct("!BI")
_WINDOW = struct.Struct("!I")


class FrameKind(IntEnum):
    OPEN = 1
    OPENED = 2
    DATA = 3
    WINDOW = 4
    END = 5
    RESET = 6
    PING = 7
    PONG = 8


class BadFrame(Exception):
    """The peer does not speak the protocol."""


@dataclass(frozen=True, slots=True)
class Frame:
    kind: FrameKind
    stream: int = 0
    payload: bytes = b""


def encode(frame: Frame) -> bytes:
    return _HEAD.pack(frame.kind, frame.stream) + frame.payload


def decode(message: bytes) -> Frame:
    """The frame of a message. Raises BadFrame."""
    if len(message) < _HEAD.size:
        raise BadFrame("a frame is cut off")
    number, stream = _HEAD.unpack_from(message)
    payload = message[_HEAD.size :]
    try:
        kind = FrameKind(number)
    except ValueError:
        raise BadFrame(f"unknown kind of frame {number}") from None
    if (stream == 0) != (kind in (FrameKind.PING, FrameKind.PONG)):
        raise BadFrame(f"{kind.name} names stream {stream}")
    low, high = _SIZES[kind]
    if not low <= len(payload) <= high:
        raise BadFrame(f"{kind.name} of {len(payload)} bytes")
    return Frame(kind, stream, payload)


_SIZES = {
    FrameKind.OPEN: (0, 0),
    FrameKind.OPENED: (0, 0),
    FrameKind.DATA: (1, DATA_MAX),
    FrameKind.WINDOW: (_WINDOW.size, _WINDOW.size),
    FrameKind.END: (0, 0),
    FrameKind.RESET: (0, REASON_MAX),
    FrameKind.PING: (PING_BYTES, PING_BYTES),
    FrameKind.PONG: (PING_BYTES, PING_BYTES),
}


def window(stream: int, more: int) -> Frame:
    return Frame(FrameKind.WINDOW, stream, _WINDOW.pack(more))


def window_of(frame: Frame) -> int:
    """How many bytes more a WINDOW allows."""
    more: int = _WINDOW.unpack(frame.payload)[0]
    return more


def reset(stream: int, reason: str) -> Frame:
    return Frame(FrameKind.RESET, stream, reason.encode()[:REASON_MAX])


def reason_of(frame: Frame) -> str:
    """The text of a RESET, fit for a message to people."""
    said = frame.payload.decode("utf-8", "replace")
    return "".join(letter if letter.isprintable() else " " for letter in said)
