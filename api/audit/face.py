"""The first and the last step of each request: its id, which the answer says too, and its record."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence

from api.audit.policy import AuditPolicy
from api.audit.record import Record, Sink
from api.audit.requests import RequestLog
from api.wire.http import Message, Receive, Request, Scope, Send
from fleet.values.ports import Clock

HEADER = b"audit-id"
ID_CHARACTERS_MAX = 256  # of an id that a client gives

Handler = Callable[[Request, Scope, Receive, Send], Awaitable[None]]


def _new_id() -> str:
    """A random UUID: of a request alone, so no part of what a hub stores or decides."""
    text = os.urandom(16).hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


class Audit:
    """Goes around the whole API. Without a policy each answer has its id, and nothing else happens."""

    def __init__(
        self, policy: AuditPolicy | None = None, sinks: Sequence[Sink] = (), clock: Clock | None = None
    ) -> None:
        self._policy = policy if sinks else None
        self._sinks, self._clock = tuple(sinks), clock
        self.requests: RequestLog | None = None  # where requests are logged and traced

    async def serve(self, handler: Handler, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the request answered."""
        request = Request(scope, receive)
        audit_id = request.header(HEADER)
        if not audit_id or len(audit_id) > ID_CHARACTERS_MAX or not audit_id.isprintable():
            audit_id = _new_id()
        header = (HEADER, audit_id.encode("latin-1"))
        if self._policy is not None and self._clock is not None:
            request.record = Record(self._policy, self._put, self._clock.now, request, audit_id)
        began = self.requests.begin(request, audit_id) if self.requests is not None else 0.0
        code = 0

        async def named(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
                message["headers"] = [*message["headers"], header]
                request.record.started(code)
            await send(message)

        try:
            await handler(request, scope, receive, named)
        finally:
            request.record.over()
            if self.requests is not None:
                self.requests.over(request, audit_id, code, began)

    def _put(self, line: bytes) -> None:
        for sink in self._sinks:
            sink.put(line)
