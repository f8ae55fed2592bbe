"""The answer of one request as uvicorn writes it, with fewer writes.

A write costs a record of TLS and a system call, here and at the client. So the head of an answer waits for the first
bytes of the body, where the length of the body is known: the bytes of such an answer are there already.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.http.httptools_impl import HEADER_RE, HEADER_VALUE_RE, STATUS_LINE, RequestResponseCycle

JOINED_BYTES = 16 * 1024  # of a body that is copied behind the head: what one record of TLS has room for


class Cycle(RequestResponseCycle):
    """One request and its answer."""

    head = b""  # of the answer, as long as it waits

    async def send(self, message: Any) -> None:
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if message["type"] == "http.response.start":
            self._begin(message)
        else:
            self._go_on(message.get("body", b""), message.get("more_body", False))

    def _begin(self, message: Any) -> None:
        if self.response_started:
            raise RuntimeError("the answer has begun already")
        status, headers = message["status"], [*self.default_headers, *message.get("headers", ())]
        names, values = [name for name, _ in headers], [value for _, value in headers]
        if HEADER_RE.search(b"".join(names)) or HEADER_VALUE_RE.search(b"".join(values)):
            raise RuntimeError("a header of the answer is none")
        lines, closes, length = [STATUS_LINE[status]], False, None
        for name, value in headers:
            name = name.lower()
            if name == b"content-length":
                length = int(value)
            elif name == b"connection":
                closes = b"close" in [token.lower().strip() for token in value.split(b",")]
            lines += (name, b": ", value, b"\r\n")
        if closes:
            self.keep_alive = False
        elif not self.keep_alive:
            lines.append(b"connection: close\r\n")
        self.chunked_encoding = length is None and self.scope["method"] != "HEAD" and status not in (204, 304)
        if self.chunked_encoding:
            lines.append(b"transfer-encoding: chunked\r\n")
        lines.append(b"\r\n")
        self.expected_content_length = length or 0
        self.waiting_for_100_continue = False
        self.head = b"".join(lines)
        if length is None:
            self._write(b"")

    def _write(self, body: bytes) -> None:
        """Write these bytes, behind the head if it waits."""
        head, self.head = self.head, b""
        self.response_started = True
        if not head:
            self.transport.write(body)
        elif len(body) <= JOINED_BYTES:
            self.transport.write(b"".join((head, body)))
        else:
            self.transport.writelines((head, body))

    def _go_on(self, body: bytes, more: bool) -> None:
        if self.response_complete or not (self.head or self.response_started):
            raise RuntimeError("a part of an answer that has not begun, or is complete")
        if self.scope["method"] == "HEAD":
            self.expected_content_length, body = 0, b""
        elif self.chunked_encoding:
            end = b"" if more else b"0\r\n\r\n"
            body = b"%x\r\n%b\r\n%b" % (len(body), body, end) if body else end
        else:
            self.expected_content_length -= len(body)
        if self.expected_content_length < 0 or (self.expected_content_length and not more):
            raise RuntimeError("the answer has another length than it says")
        self._write(body)
        if not more:
            self.response_complete = True
            self.message_event.set()
            if not self.keep_alive:
                self.transport.close()
            self.on_response()
