"""The server's half of WebSocket (RFC 6455) as far as a tunnel needs it: the handshake, and messages from and to bytes.

Pure. A client's frames are masked, the server's are not. Messages are binary. A proxy on the way may cut a message into
fragments, so fragments are put together again, up to `MESSAGE_MAX` bytes. Extensions are never agreed on.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

MESSAGE_MAX = 64 * 1024  # of one message, its fragments together
CONTROL_MAX = 125  # RFC 6455, 5.5
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Op(IntEnum):
    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


class BadMessage(Exception):
    """The peer does not speak the protocol: its connection ends."""


@dataclass(frozen=True, slots=True)
class Message:
    """A whole message, or a control frame. `data` of a CLOSE begins with its code, when it has one."""

    op: Op
    data: bytes


def accept_key(key: str) -> str | None:
    """The answer to a client's Sec-WebSocket-Key; None for what is no key."""
    try:
        if len(base64.b64decode(key, validate=True)) != 16:
            return None
    except (binascii.Error, ValueError):
        return None
    return base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()


def encode(op: Op, data: bytes) -> bytes:
    """One frame of the server's, whole and not masked."""
    size = len(data)
    if size < 126:
        return bytes((0x80 | op, size)) + data
    if size < 1 << 16:
        return struct.pack("!BBH", 0x80 | op, 126, size) + data
    return struct.pack("!BBQ", 0x80 | op, 127, size) + data


def encode_close(code: int, reason: str) -> bytes:
    return encode(Op.CLOSE, struct.pack("!H", code) + reason.encode()[: CONTROL_MAX - 2])


def masked(data: bytes, mask: bytes) -> bytes:
    """`data` under a mask, or out of it: the operation is its own reverse."""
    if not data:
        return b""
    whole = mask * (len(data) // 4 + 1)
    mixed = int.from_bytes(data, "little") ^ int.from_bytes(whole[: len(data)], "little")
    return mixed.to_bytes(len(data), "little")


class Decoder:
    """Messages out of the bytes of a client, however the bytes are cut. Keeps at most a message and a frame."""

    def __init__(self) -> None:
        self._unread = bytearray()
        self._parts: list[bytes] = []
        self._size = 0
        self._op: Op | None = None  # of the message whose fragments are being put together

    def feed(self, data: bytes) -> Iterator[Message]:
        """The messages that are whole now. Raises BadMessage."""
        self._unread += data
        while (frame := self._frame()) is not None:
            final, op, payload = frame
            if op >= Op.CLOSE:
                if not final or len(payload) > CONTROL_MAX:
                    raise BadMessage("a control frame is short and whole")
                yield Message(op, payload)
                continue
            if (op is Op.CONTINUATION) != (self._op is not None):
                raise BadMessage("fragments of two messages are mixed")
            self._op = self._op if op is Op.CONTINUATION else op
            self._parts.append(payload)
            if final:
                assert self._op is not None
                whole = Message(self._op, b"".join(self._parts))
                self._parts, self._size, self._op = [], 0, None
                yield whole

    def _frame(self) -> tuple[bool, Op, bytes] | None:
        """The next frame, or None while it is not whole."""
        unread = self._unread
        if len(unread) < 2:
            return None
        first, second = unread[0], unread[1]
        try:
            op = Op(first & 0x0F)
        except ValueError:
            raise BadMessage("unknown kind of frame") from None
        if first & 0x70 or not second & 0x80:
            raise BadMessage("a client's frames are masked and have no extensions")
        size, at = second & 0x7F, 2
        if size >= 126:
            width = 2 if size == 126 else 8
            if len(unread) < at + width:
                return None
            size = int.from_bytes(unread[at : at + width], "big")
            at += width
        # The size is judged before the bytes are awaited: a promise of many must not be kept in memory.
        if size + (self._size if op < Op.CLOSE else 0) > MESSAGE_MAX:
            raise BadMessage(f"a message is larger than {MESSAGE_MAX} bytes")
        if len(unread) < at + 4 + size:
            return None
        payload = masked(bytes(unread[at + 4 : at + 4 + size]), bytes(unread[at : at + 4]))
        del unread[: at + 4 + size]
        if op < Op.CLOSE:
            self._size += size
        return bool(first & 0x80), op, payload
