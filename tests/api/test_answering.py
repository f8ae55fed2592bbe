"""An answer goes out in as few writes as its form allows, and never with another length than it says."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl

from api.transport.answering import JOINED_BYTES, Cycle

DATE = (b"date", b"now")


class Wire:
    """A transport that remembers each write."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))

    def writelines(self, parts: list[bytes]) -> None:
        self.writes.append(b"".join(parts))

    def close(self) -> None:
        self.closed = True


def cycle(wire: Any, method: str = "GET", keep_alive: bool = True) -> Cycle:
    log = logging.getLogger(__name__)
    return Cycle(
        scope={"method": method, "type": "http"},  # type: ignore[typeddict-item]
        transport=wire,
        flow=FlowControl(wire),
        logger=log,
        access_logger=log,
        access_log=False,
        default_headers=[DATE],
        message_event=asyncio.Event(),
        expect_100_continue=False,
        keep_alive=keep_alive,
        on_response=lambda: None,
    )


def start(*headers: tuple[bytes, bytes], status: int = 200) -> dict[str, Any]:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def part(body: bytes, more: bool = False) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def length(size: int) -> tuple[bytes, bytes]:
    return b"content-length", b"%d" % size


@pytest.mark.parametrize("size", [0, 5, 2 * JOINED_BYTES])
async def test_the_head_goes_out_with_the_first_bytes_of_a_body_of_known_length(size: int) -> None:
    wire, body = Wire(), b"x" * size
    one = cycle(wire)
    await one.send(start(length(size)))
    assert wire.writes == []
    await one.send(part(body))
    assert wire.writes == [b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: %d\r\n\r\n%b" % (size, body)]
    assert one.response_complete and not wire.closed


async def test_the_head_of_a_stream_goes_out_at_once() -> None:
    wire = Wire()
    one = cycle(wire)
    await one.send(start())
    await one.send(part(b"one", more=True))
    await one.send(part(b"", more=False))
    head = b"HTTP/1.1 200 OK\r\ndate: now\r\ntransfer-encoding: chunked\r\n\r\n"
    assert wire.writes == [head, b"3\r\none\r\n", b"0\r\n\r\n"]


async def test_a_head_alone_answers_HEAD() -> None:
    wire = Wire()
    one = cycle(wire, "HEAD")
    await one.send(start(length(9)))
    await one.send(part(b""))
    assert wire.writes == [b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 9\r\n\r\n"]
    assert one.response_complete


async def test_a_connection_that_ends_says_so() -> None:
    wire = Wire()
    one = cycle(wire, keep_alive=False)
    await one.send(start(length(0)))
    await one.send(part(b""))
    assert wire.writes == [b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"]
    assert wire.closed


@pytest.mark.parametrize(("said", "sent"), [(3, b"four"), (5, b"four")])
async def test_no_part_of_a_body_of_another_length_goes_out(said: int, sent: bytes) -> None:
    wire = Wire()
    one = cycle(wire)
    await one.send(start(length(said)))
    with pytest.raises(RuntimeError, match="another length"):
        await one.send(part(sent))
    assert wire.writes == []


@pytest.mark.parametrize("header", [(b"a", b"b\r\nc: d"), (b"a\r\nb", b"c"), (b"a:", b"b")])
async def test_a_header_cannot_bring_another_one(header: tuple[bytes, bytes]) -> None:
    wire = Wire()
    with pytest.raises(RuntimeError, match="header"):
        await cycle(wire).send(start(header, length(0)))
    assert wire.writes == []
