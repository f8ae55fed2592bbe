"""clusters/NAME/proxy/…: any request, relayed to a member with the credentials that the hub holds for it.

Answers stream through, so watches and logs work. A request for exec, attach or port-forward of a pod changes to another
protocol, as one to the hub's own pods; no other request does. A member that is slow or gone gets 503 or 504 within ten
seconds and never costs another member anything: each has its own pool of connections and its own bound on requests.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from urllib.parse import quote, unquote_to_bytes

from api.engine.status import bad_request
from api.objects.hooking import may_connect
from api.objects.objects import Objects
from api.transport.websocket import is_websocket
from api.wire.http import Answer, Request, Stream, warning_headers
from api.wire.routing import Route, connects_below
from fleet.members.kubeconfig import Dial
from fleet.relays.asking import SPDY, options_of, query_of, switch_of
from fleet.relays.carrying import Carrier
from fleet.relays.clients import MemberClients
from fleet.relays.places import RelayLimits, places_of
from fleet.relays.pods import member_ended
from fleet.relays.switching import relayed, switched
from fleet.wellknown import CLUSTER

STREAM_S = 6 * 3600.0
NO_UPGRADE = (
    "clusters/NAME/proxy changes to another protocol for /api/v1/namespaces/NAMESPACE/pods/NAME/exec, attach and "
    "portforward alone"
)
# Credentials and connection matters are the hub's own; a user's never reach a member.
_NOT_SENT = frozenset(
    {
        b"host",
        b"authorization",
        b"connection",
        b"content-length",
        b"transfer-encoding",
        b"upgrade",
        b"keep-alive",
        b"te",
        b"trailer",
        b"proxy-authorization",
        b"accept-encoding",
        b"cookie",
        b"forwarded",
        b"x-forwarded-for",
    }
)
# Headers that name the user of the request are the hub's to set: a member may trust the hub, as a front proxy.
_NOT_SENT_PREFIXES = (b"impersonate-", b"sec-websocket", b"x-remote-", b"x-forwarded-", b"x-stream-protocol")
_NOT_RETURNED = frozenset({"connection", "transfer-encoding", "keep-alive", "date", "server", "set-cookie"})


class ClusterProxy:
    """Answers the subresource `proxy` of clusters. `aclose` when the API stops."""

    def __init__(self, objects: Objects, *, dial: Dial | None = None) -> None:
        """`dial` reaches members that only their agents reach."""
        self._objects, self.clients = objects, MemberClients(objects.store, dial=dial)
        self._limits = RelayLimits()
        self.places = places_of(self._limits)

    def routes(self) -> dict[tuple[str, str, str], ClusterProxy]:
        """For `build_app(extra_routes=…)`."""
        return {(CLUSTER, "clusters", "proxy"): self}

    async def aclose(self) -> None:
        await self.clients.aclose()

    async def __call__(self, route: Route, request: Request) -> Answer:
        if is_websocket(request) or request.header(b"upgrade").lower() == SPDY.lower():
            return await self._connect(route, request)
        target = _target(request, route)
        warnings = await self._admitted(route, request, target)
        answer = await self.clients.send(route.name, request.method, target, _headers(request), await request.body())
        headers = tuple(
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in answer.response.headers.items()
            if name.lower() not in _NOT_RETURNED
        )
        headers = (*headers, *warning_headers(warnings))
        endless = request.flag("watch") or request.flag("follow")

        async def pump(send: Callable[[bytes], Awaitable[None]]) -> None:
            chunks = answer.response.aiter_raw()
            while True:
                async with asyncio.timeout(None if endless else self.clients.answer_s):
                    chunk = await anext(chunks, None)
                if chunk is None:
                    return
                await send(chunk)

        return Stream(pump, STREAM_S, status=answer.response.status_code, headers=headers, done=answer.aclose)

    async def _connect(self, route: Route, request: Request) -> Answer:
        """A connection to a pod, whichever it is: the right to the proxy is one to the whole member."""
        subresource = connects_below(route)
        if not subresource:
            raise bad_request(NO_UPGRADE)
        switch, path = switch_of(request, subresource), _target(request, route).partition("?")[0]
        target = f"{path}?{query_of(options_of(request, subresource), subresource)}"
        place = self.places.take(request.user.name)
        try:
            warnings = await self._admitted(route, request, path)
            answer, chosen = await switched(self.clients, route.name, target, switch)
        except BaseException:
            place.leave()
            raise
        carrier = Carrier(self._limits, answer, path, partial(member_ended, self._objects.store, route.name))
        return relayed(request, switch, chosen, carrier, place, answer, warnings)

    async def _admitted(self, route: Route, request: Request, target: str) -> tuple[str, ...]:
        """Warnings of the webhooks and policies that let the request through; StatusError where one does not."""
        kind = self._objects.registry.resource(CLUSTER, "clusters")
        if self._objects.hooks is None or kind is None:
            return ()
        path = target.partition("?")[0]
        options = {"kind": "ClusterProxyOptions", "apiVersion": kind.api_version, "path": path}
        hooks = self._objects.hooks
        return (await may_connect(hooks, kind, "", route.name, "proxy", request.user, options))[1]


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
