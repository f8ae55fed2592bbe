"""`clusters/NAME/proxy/…`: requests passed on to a member with the credentials that it was joined with.

Who may use it is decided before it is called (RBAC on the subresource `clusters/proxy`). A request reaches the member
as it came, less the caller's own credentials; the member's answer, refusals included, goes back as it is. Only "no
answer" becomes a Status of the hub, without an invitation to retry: kubectl would wait for a member that is gone.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from api.http import Answer, Request, Response, Stream
from api.routing import Route
from fleet.engine.status import StatusError, not_found
from fleet.ports import Key, Store
from fleet.wellknown import CLUSTER, SYSTEM_NAMESPACE

if TYPE_CHECKING:
    import httpx

CONNECT_S = 5.0
READ_S = 30.0
WATCH_MAX_S = 3600.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024
PASSED_ON = (b"accept", b"content-type", b"user-agent")
PASSED_BACK = ("warning", "audit-id")


@dataclass
class _Known:
    """A client for one member, good while its Secret has this revision."""

    revision: int
    client: httpx.AsyncClient


class MemberProxy:
    """Answers the proxy subresource of Cluster objects. `store` is read only."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, _Known] = {}
        self._making = asyncio.Lock()

    async def handle(self, route: Route, request: Request) -> Answer:
        """The member's answer. StatusError 404 for no such member, 503 for one that does not answer."""
        import httpx

        name = route.name
        client = await self._client(name)
        watching = request.flag("watch") or request.flag("follow")
        headers = {key.decode(): value for key in PASSED_ON if (value := request.header(key))}
        outgoing = client.build_request(
            request.method, _target(request, name), headers=headers, content=await request.body() or None,
            timeout=httpx.Timeout(READ_S, connect=CONNECT_S, read=None if watching else READ_S),
        )  # fmt: skip
        try:
            incoming = await client.send(outgoing, stream=True)
            if watching and incoming.status_code == 200:
                return Stream(_pump(incoming), WATCH_MAX_S, incoming.headers.get("content-type", "application/json"))
            try:
                body = await _whole(incoming)
            finally:
                await incoming.aclose()
        except httpx.HTTPError as error:
            raise _silent(name, error) from error
        back = tuple(
            (key.lower().encode(), value.encode("latin-1", "replace"))
            for key, value in incoming.headers.multi_items()
            if key.lower() in PASSED_BACK
        )
        return Response(body, incoming.status_code, incoming.headers.get("content-type", "application/json"), back)

    async def close(self) -> None:
        for known in self._known.values():
            await known.client.aclose()
        self._known.clear()

    async def _client(self, name: str) -> httpx.AsyncClient:
        cluster = self._store.peek(Key(CLUSTER, "clusters", "", name)) or await self._store.get(
            Key(CLUSTER, "clusters", "", name)
        )
        if cluster is None:
            raise not_found(CLUSTER, "clusters", name)
        reference = (cluster.body.get("spec") or {}).get("secretRef") or {}
        key = Key(
            "", "secrets", reference.get("namespace") or SYSTEM_NAMESPACE, reference.get("name") or f"member-{name}"
        )
        secret = await self._store.get(key)
        if secret is None:
            raise StatusError(503, "ServiceUnavailable", f'cluster "{name}" has no credentials: {key} not found')
        known = self._known.get(name)
        if known is None or known.revision != secret.revision:
            async with self._making:
                known = self._known.get(name)
                if known is None or known.revision != secret.revision:
                    made = _Known(secret.revision, await _make(name, (secret.body.get("data") or {}).get("kubeconfig")))
                    # A client in use by another request is left to the garbage collector, not closed under its feet.
                    known = self._known[name] = made
        return known.client


async def _make(name: str, encoded: object) -> httpx.AsyncClient:
    from fleet.members.kubeconfig import BadKubeconfig, client_from_kubeconfig

    try:
        text = base64.b64decode(str(encoded or ""), validate=True).decode()
        return await asyncio.to_thread(client_from_kubeconfig, text)
    except (binascii.Error, UnicodeDecodeError, BadKubeconfig) as error:
        raise StatusError(503, "ServiceUnavailable", f'cluster "{name}" has no usable credentials: {error}') from error


def _target(request: Request, name: str) -> str:
    """The path and query for the member, escaped as they came."""
    raw: bytes = request.scope.get("raw_path") or request.path.encode()
    path = raw.split(b"?", 1)[0].decode("latin-1").split(f"/clusters/{name}/proxy", 1)[-1] or "/"
    query = request.scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else path


async def _whole(incoming: httpx.Response) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in incoming.aiter_bytes():
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise StatusError(502, "InternalError", f"the member's answer is larger than {ANSWER_BYTES_MAX} bytes")
        parts.append(part)
    return b"".join(parts)


def _pump(incoming: httpx.Response) -> Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]:
    async def pump(send: Callable[[bytes], Awaitable[None]]) -> None:
        import httpx

        try:
            async for part in incoming.aiter_bytes():
                await send(part)
        except httpx.HTTPError:
            return  # the member has gone: the stream ends, and whoever watches asks again
        finally:
            await incoming.aclose()

    return pump


def _silent(name: str, error: Exception) -> StatusError:
    why = str(error) or type(error).__name__
    return StatusError(503, "ServiceUnavailable", f'cluster "{name}" cannot be reached: {why}')
