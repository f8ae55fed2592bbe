"""clusters/NAME/proxy/…: any request, relayed to a member with the credentials that the hub holds for it.

Answers stream through, so watches and logs work; a member that is slow or gone gets 503 or 504 within ten seconds and
never costs another member anything: each has its own pool of connections and its own bound on requests.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes

from api.http import Answer, Request, Stream, warning_headers
from api.routing import Route
from fleet.engine.kubeconfig import BadKubeconfig
from fleet.engine.status import StatusError, bad_request, not_found, unavailable
from fleet.members.kubeconfig import Dial
from fleet.objects.hooking import may_connect
from fleet.objects.objects import Objects
from fleet.ports import Key
from fleet.wellknown import CLUSTER, SYSTEM_NAMESPACE

if TYPE_CHECKING:  # loaded by the first request: an API process that was killed is back without it
    import httpx

ANSWER_S = 9.0  # until a member begins to answer
CONNECT_S = 5.0
MAX_REQUESTS = 256  # at once to one member, watches included
STREAM_S = 6 * 3600.0
# Credentials and connection matters are the hub's own; a user's never reach a member.
_NOT_SENT = frozenset(
    {
        b"host", b"authorization", b"connection", b"content-length", b"transfer-encoding", b"upgrade", b"keep-alive",
        b"te", b"trailer", b"proxy-authorization", b"accept-encoding", b"cookie", b"forwarded", b"x-forwarded-for",
    }
)  # fmt: skip
# Headers that name the user of the request are the hub's to set: a member may trust the hub, as a front proxy.
_NOT_SENT_PREFIXES = (b"impersonate-", b"sec-websocket", b"x-remote-", b"x-forwarded-", b"x-stream-protocol")
_NOT_RETURNED = frozenset({"connection", "transfer-encoding", "keep-alive", "date", "server", "set-cookie"})


@dataclass(slots=True)
class _Pool:
    """The client for one member, for one state of its credentials."""

    credentials: tuple[str, int, bool]  # uid and revision of the secret; whether its agent reaches the member
    client: httpx.AsyncClient
    requests: int = 0


class ClusterProxy:
    """Answers the subresource `proxy` of clusters. `aclose` when the API stops."""

    def __init__(
        self, objects: Objects, *, dial: Dial | None = None, answer_s: float = ANSWER_S
    ) -> None:  # fmt: skip
        """`dial` reaches members that only their agents reach."""
        self._dial = dial
        self._objects, self._store = objects, objects.store
        self._answer_s = answer_s
        self._pools: dict[str, _Pool] = {}

    async def aclose(self) -> None:
        pools, self._pools = list(self._pools.values()), {}
        for pool in pools:
            await pool.client.aclose()

    async def __call__(self, route: Route, request: Request) -> Answer:
        import httpx

        target = _target(request, route)
        warnings = await self._admitted(route, request, target)
        pool = await self._pool(route.name)
        if pool.requests >= MAX_REQUESTS:
            raise StatusError(
                429, "TooManyRequests", f"too many requests to cluster {route.name} at once", retry_after_s=1
            )
        upstream = pool.client.build_request(
            request.method, target, headers=_headers(request), content=await request.body(),
            timeout=httpx.Timeout(None, connect=CONNECT_S, pool=CONNECT_S),
        )  # fmt: skip
        pool.requests += 1
        try:
            async with asyncio.timeout(self._answer_s):
                response = await pool.client.send(upstream, stream=True)
        except (TimeoutError, httpx.ReadTimeout):
            pool.requests -= 1
            raise StatusError(
                504, "Timeout", f"cluster {route.name} did not answer within {self._answer_s:g} s", retry_after_s=1
            ) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            pool.requests -= 1
            text = " ".join(str(error).split())[:200] or type(error).__name__
            raise unavailable(f"cluster {route.name} cannot be reached: {text}") from None
        except BaseException:
            pool.requests -= 1
            raise
        headers = tuple(
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in response.headers.items()
            if name.lower() not in _NOT_RETURNED
        )
        headers = (*headers, *warning_headers(warnings))
        endless = request.flag("watch") or request.flag("follow")

        async def pump(send: Callable[[bytes], Awaitable[None]]) -> None:
            chunks = response.aiter_raw()
            while True:
                async with asyncio.timeout(None if endless else self._answer_s):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                await send(chunk)

        async def done() -> None:
            pool.requests -= 1
            await response.aclose()

        return Stream(pump, STREAM_S, status=response.status_code, headers=headers, done=done)

    async def _admitted(self, route: Route, request: Request, target: str) -> tuple[str, ...]:
        """Warnings of the webhooks and policies that let the request through; StatusError where one does not."""
        kind = self._objects.registry.resource(CLUSTER, "clusters")
        if self._objects.hooks is None or kind is None:
            return ()
        path = target.partition("?")[0]
        options = {"kind": "ClusterProxyOptions", "apiVersion": kind.api_version, "path": path}
        hooks = self._objects.hooks
        return (await may_connect(hooks, kind, "", route.name, "proxy", request.user, options))[1]

    async def _pool(self, name: str) -> _Pool:
        """The member's pool; StatusError 404 for an unknown cluster, 503 for one without usable credentials."""
        from fleet.members.relay import client_from_kubeconfig

        cluster = await self._store.get(Key(CLUSTER, "clusters", "", name))
        if cluster is None:
            raise not_found(CLUSTER, "clusters", name)
        ref = (cluster.body.get("spec") or {}).get("secretRef") or {}
        secret = await self._store.get(
            Key("", "secrets", str(ref.get("namespace") or SYSTEM_NAMESPACE), str(ref.get("name") or ""))
        )
        if secret is None:
            raise unavailable(f"cluster {name} has no credentials: its secretRef names no secret", 5)
        pull = (cluster.body.get("spec") or {}).get("syncMode") == "Pull"
        if pull and self._dial is None:
            raise unavailable(f"cluster {name} is reached by its agent, and this process knows no way to agents", 5)
        credentials = (secret.uid, secret.revision, pull)
        pool = self._pools.get(name)
        if pool is not None and pool.credentials == credentials:
            return pool
        try:
            text = b64decode((secret.body.get("data") or {}).get("kubeconfig", ""), validate=True).decode()
            dialled = partial(self._dial, name) if pull and self._dial is not None else None
            client = await asyncio.to_thread(client_from_kubeconfig, text, dialled)
        except (BadKubeconfig, Base64Error, UnicodeDecodeError, TypeError) as error:
            raise unavailable(f"cluster {name}: its kubeconfig cannot be used: {error}", 5) from None
        known = self._pools.get(name)
        if known is not None and known.credentials == credentials:  # another request was faster
            await client.aclose()
            return known
        if known is not None and known.requests == 0:
            await known.client.aclose()
        fresh = self._pools[name] = _Pool(credentials, client)
        return fresh


def _target(request: Request, route: Route) -> str:
    """Path and query at the member, encoded as the client encoded them. StatusError 400 for a path with steps that
    would lead out of what the kubeconfig names: a server behind a gateway is a path of the gateway."""
    raw: bytes = request.scope.get("raw_path") or quote(request.path).encode()
    # /apis/GROUP/VERSION/clusters/NAME/proxy/…: the steps before are counted, since their letters may be encoded too.
    segments = raw.split(b"?", 1)[0].split(b"/")
    rest = segments[7:]
    if unquote_to_bytes(b"/".join(segments[6:7])) != b"proxy" or any(
        _leads_out(unquote_to_bytes(segment)) for segment in rest
    ):
        raise bad_request("a path below proxy has no steps '.' and '..', and no encoded slashes in them")
    path = "/" + b"/".join(rest).lstrip(b"/").decode("latin-1")
    query = request.scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{query}" if query else path


def _leads_out(segment: bytes) -> bool:
    steps = segment.replace(b"\\", b"/").split(b"/")
    return b"." in steps or b".." in steps


def _headers(request: Request) -> list[tuple[bytes, bytes]]:
    """The client's headers without its credentials and without those of this one connection."""
    headers = request.scope["headers"]
    hops = {hop.strip().lower() for name, value in headers if name == b"connection" for hop in value.split(b",")}
    return [
        (name, value)
        for name, value in headers
        if name not in _NOT_SENT and name not in hops and not name.startswith(_NOT_SENT_PREFIXES)
    ] + [(b"accept-encoding", b"identity")]
