"""Where /fleet/v1 hangs in the hub's API: FastAPI is loaded when somebody first asks for it, and not before.

Importing FastAPI and building its models takes longer than the whole hub may take to start, and most hubs are asked by
Kubernetes clients only. The first request pays for it, in a thread, so that no watch waits.
"""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING

import structlog

from api.engine.registry import Registry
from api.objects.objects import Objects
from api.wire.http import ASGIApp, Message, Receive, Scope, Send, send_body
from fleet.values.ports import Store

if TYPE_CHECKING:
    from fleet.rest.historydb import HistoryDatabase
    from fleet.rest.hubstatus import StatusParts
    from fleet.rest.line import Lines
    from fleet.rest.questions import UnitOf
    from fleet.rest.tokens import Tokens

PREFIX = "/fleet/v1"
log = structlog.get_logger(__name__)


class RestFace:
    """The ASGI application to mount at PREFIX; wants `fleet.user` and `fleet.authorizer` in the scope. `unit_of`: the
    unit that a manifest would become; `history`: None where none is kept;
    `tokens`: those of the hub, None where it keeps none; `lines`: shared with the watch of jobs."""

    open_paths = frozenset({PREFIX, f"{PREFIX}/docs", f"{PREFIX}/openapi.json"})  # for browsers: the same on every hub

    def __init__(
        self,
        objects: Objects,
        store: Store,
        registry: Registry,
        unit_of: UnitOf,
        history: HistoryDatabase | None = None,
        parts: StatusParts | None = None,
        tokens: Tokens | None = None,
        lines: Lines | None = None,
    ) -> None:
        self._parts = (objects, store, registry, unit_of, history, parts, tokens, lines)
        self._app: ASGIApp | None = None
        self._building = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app or await self._build()
        try:
            await app(scope, receive, _in_pieces(send))
        except Exception:
            # The application has answered 500 by then; raising on would only make the server answer twice.
            log.exception("request failed", method=scope["method"], path=scope["path"][:200])

    async def _build(self) -> ASGIApp:
        async with self._building:
            if self._app is None:
                self._app = await asyncio.to_thread(self._make)
            return self._app

    def _make(self) -> ASGIApp:
        app: ASGIApp = import_module("fleet.rest.application").build(*self._parts)
        return app


def _in_pieces(send: Send) -> Send:
    """Large answers as the rest of the API sends them."""

    async def forward(message: Message) -> None:
        if message["type"] == "http.response.body":
            await send_body(send, message.get("body", b""), more=message.get("more_body", False))
        else:
            await send(message)

    return forward
