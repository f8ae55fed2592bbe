"""The API as one ASGI application: the user, her rights, the request, and the way of its answer.

Plain ASGI, since this is the path of every read and write of the hub and of every simulated member; other applications
(FastAPI's /fleet/v1) are mounted beside it behind the same authentication. Every refusal is a Status, also those of
unknown paths and of bugs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

import structlog

from api.access.auth import Authenticator, ServiceAccountTokens
from api.access.credentials import Sessions, user_of
from api.access.origin import guard, guarded
from api.access.rbac import Rbac
from api.access.recheck import EVERY_S, Rechecks
from api.access.roles import GROUP as RBAC_GROUP
from api.access.rules import install
from api.audit.face import Audit, Handler
from api.engine.registry import Registry
from api.engine.status import StatusError
from api.fairness.gate import Fairness
from api.objects.objects import Objects
from api.objects.writing import User
from api.server.computedkinds import computed_kinds, write_refusal
from api.server.discovery import Discovery
from api.server.documents import Documents
from api.server.health import OPEN_PATHS, Check, Health, Metrics, version_document
from api.server.lists import get_object, list_objects, or_elsewhere
from api.server.reviews import VIRTUAL, Reviews
from api.server.storage import REFUSALS, refusal_of
from api.server.subresources import SUBRESOURCES, Subresources
from api.server.watch import Watches, parse_watch
from api.server.writes import Writes
from api.transport.websocket import send_upgrade
from api.wire.http import (
    Answer,
    ASGIApp,
    Face,
    OpenApiSource,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    Stream,
    Upgrade,
    error_response,
    refuse_timeout,
    zipped,
)
from api.wire.negotiation import accepted_form, in_protobuf
from api.wire.rights import Attributes, Authorizer
from api.wire.routing import Route, method_not_allowed, parse, question_of, reaches, unknown_path, verb
from api.wire.selection import parse_selection
from api.wire.servedkind import ServedKind, find
from api.wire.stream import lifespan, send_stream, until_gone
from api.wire.unsentbytes import UnsentBytes
from fleet.values import release
from fleet.values.ports import Clock, Store

VERSION = f"v1.36.3-fleet.{release.running().version}"
log = structlog.get_logger(__name__)

# Answers a subresource in place of the built-in answer: (route, request, user) -> answer.
SubresourceHandler = Callable[[Route, Request], Awaitable[Answer]]
# Whether a user that is a part of the server may do the one thing that it is for.
OwnRight = Callable[[User, Attributes], bool]


class Pages(Protocol):
    """Pages for browsers, in place of the API below some path."""

    @property
    def sessions(self) -> Sessions: ...

    def serves(self, path: str) -> bool: ...

    async def answer(self, request: Request) -> Response:
        """The answer to a request of theirs, refusals included."""
        ...


class Api:
    """The application. Call `start` before and `stop` after serving (the ASGI lifespan does the same)."""

    def __init__(
        self,
        objects: Objects,
        store: Store,
        registry: Registry,
        *,
        clock: Clock,
        authenticator: Authenticator,
        authorizer: Authorizer,
        openapi: OpenApiSource | None,
        version: str,
        tokens: ServiceAccountTokens | None,
        mounts: Mapping[str, ASGIApp | Face],
        extra_routes: Mapping[tuple[str, str, str], SubresourceHandler],
        bookmark_every_s: float,
        recheck_every_s: float,
        checks: Mapping[str, Check],
        parts: Mapping[str, Check],
        own_right: OwnRight,
        audit: Audit,
        fairness: Fairness | None,
        pages: Pages | None,
        closes: Sequence[Callable[[], Awaitable[None]]],
    ) -> None:
        self.metrics = Metrics()
        self._fairness = fairness
        self._handle: Handler = self._http if fairness is None else fairness.around(self._http)
        if fairness is not None:
            fairness.counts.show(self.metrics.registry)
        self._audit, self._pages, self._own_right = audit, pages, own_right
        self.authorizer = authorizer
        self._versions = objects.versions
        self._registry = registry
        self._clock = clock
        self._authenticator = authenticator
        self._health = Health(store, version_document(version, release.running().commit), checks)
        self._mounts = tuple(sorted(mounts.items(), key=lambda item: -len(item[0])))
        self._extra = dict(extra_routes)
        discovery = Discovery(registry, (*VIRTUAL, *SUBRESOURCES))
        self._documents = Documents(discovery, openapi, self.metrics, self._health)
        self._computed = computed_kinds(store, clock, discovery, parts)
        self._reviews = Reviews(authenticator, authorizer)
        self._watches = Watches(clock, bookmark_every_s=bookmark_every_s, lag=self.metrics.watch_lag)
        self._writes = Writes(objects, store, clock)
        self._subresources = Subresources(objects, self._writes, tokens, clock.now)
        self._rechecks = Rechecks(recheck_every_s)
        self._closes = closes
        self._unsent = UnsentBytes(self.metrics.registry)
        self._stopping = asyncio.Event()
        self.joined: Callable[[ServedKind], ServedKind] = lambda served: served  # puts more columns on it

    async def start(self) -> None:
        self._stopping.clear()
        await self.authorizer.start()
        if self._fairness is not None:
            await self._fairness.start()

    def drain(self) -> None:
        """Say that this process is not ready any more; all else is answered as ever."""
        self._health.draining = True

    def close_streams(self) -> None:
        """End every open watch, so that nothing holds the server when it stops."""
        self._stopping.set()

    async def stop(self) -> None:
        self.close_streams()
        await self._rechecks.stop()
        if self._fairness is not None:
            await self._fairness.stop()
        for close in self._closes:
            await close()
        await self.authorizer.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._audit.serve(self._handle, scope, receive, send)
        elif scope["type"] == "lifespan":
            await lifespan(receive, send, self.start, self.stop)
        else:  # a WebSocket: refused before it is accepted
            await receive()
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, request: Request, scope: Scope, receive: Receive, send: Send) -> None:
        began = self._clock.monotonic()
        label = ["", ""]
        try:
            answer = await self._answer(request, scope, receive, send, label)
        except StatusError as error:
            answer = error_response(error)
        except REFUSALS as error:
            answer = error_response(refusal_of(error))
        except Exception:
            log.exception("request failed", method=request.method, path=request.path[:200])
            request.record.broke()
            answer = error_response(
                StatusError(500, "InternalError", "Internal error occurred: the request could not be answered")
            )
        if answer is None:
            return
        guard(request, answer)
        if request.place is not None:
            request.place.answered(answer)
        if isinstance(answer, Upgrade):
            self.metrics.count(label[0], label[1], 101, None)
            request.record.started(101)
            with self._rechecks.watched(lambda: self._again(request)) as over:
                await send_upgrade(answer, request, self._stopping, over)
            return
        if isinstance(answer, Stream):
            self.metrics.count(label[0], label[1], 200, None)
            with self.metrics.watches.track_inprogress(), self._rechecks.watched(lambda: self._again(request)) as over:
                await send_stream(answer, receive, send, self._stopping, over)
            return
        with self._unsent.count(request.user.name, answer) as answer:
            request.record.answered(answer)
            answer = await in_protobuf(answer, request)
            self.metrics.count(label[0], label[1], answer.status, self._clock.monotonic() - began)
            if request.method == "HEAD":
                answer.body, answer.rest, answer.later = b"", (), None
            if answer.later is not None:
                answer.later = until_gone(answer.later, receive)
            await (await zipped(answer, request)).send(send)

    async def _answer(
        self, request: Request, scope: Scope, receive: Receive, send: Send, label: list[str]
    ) -> Answer | None:
        """The answer, or None when a mounted application has given it."""
        path = request.path
        refuse_timeout(request)
        if path in OPEN_PATHS or path.startswith(("/livez/", "/readyz/", "/healthz/")):
            if self._fairness is not None and path.startswith("/version"):  # of the user, where credentials name one
                with contextlib.suppress(StatusError):
                    request.user = await self._user(request)
                await self._enter(request, Attributes(request.method.lower(), path=path))
            return await self._health.answer(request)
        if self._pages is not None and self._pages.serves(path):
            return await self._pages.answer(request)
        prefix, mounted = next(
            (item for item in self._mounts if path == item[0] or path.startswith(item[0] + "/")), ("", None)
        )
        if callable(mounted) and request.method in ("GET", "HEAD") and path in getattr(mounted, "open_paths", ()):
            await mounted(scope, receive, send)  # says nothing of this hub
            return None
        user = await self._user(request)
        request.user = user
        if mounted is not None:
            await self._enter(request, Attributes(request.method.lower(), path=path))
            if not callable(mounted):
                return await mounted.answer(request)
            # The mounted application finds the user, and the means to authorise, in its scope.
            began, clock = self._clock.monotonic(), self._clock.monotonic
            verb, resource = request.method.lower(), prefix.strip("/")
            counting = self.metrics.counting(guarded(request, send), verb, resource, lambda: clock() - began)
            inner = {**scope, "fleet.user": user, "fleet.authorizer": self.authorizer, "fleet.alone": request.alone}
            await mounted(inner, receive, counting)
            return None
        route = parse(path)
        if route is None:
            label[0] = request.method.lower()
            return await self._document(request, user)
        return await self._resource(request, route, user, label)

    async def _user(self, request: Request) -> User:
        sessions = self._pages.sessions if self._pages is not None else None
        return await user_of(request, self._authenticator, self.authorizer, self._clock, sessions)

    async def _again(self, request: Request) -> None:
        """Authenticate and authorise once more, as when the request came; StatusError 401 or 403."""
        user = await self._user(request)
        if request.attributes is not None:
            self._need(request, user, request.attributes)

    async def _enter(self, request: Request, attributes: Attributes) -> None:
        """Wait for the request's turn; StatusError 429."""
        if self._fairness is not None and (turn := self._fairness.enter(request, attributes)) is not None:
            await turn

    def _need(self, request: Request, user: User, attributes: Attributes) -> None:
        """Raises StatusError 403 for a user who may not, and has the answer recorded."""
        allowed = self.authorizer.allowed(user, attributes) or self._own_right(user, attributes)
        request.record.decided(self.authorizer, user, attributes, allowed)
        if not allowed:
            raise attributes.refusal(user)

    async def _document(self, request: Request, user: User) -> Response:
        attributes = Attributes(request.method.lower(), path=request.path)
        await self._enter(request, attributes)
        self._need(request, user, attributes)
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        return await self._documents.answer(request)

    async def _resource(self, request: Request, route: Route, user: User, label: list[str]) -> Answer:
        query = request.query
        watching = request.method == "GET" and "watch" in query and request.flag("watch")
        operation = verb(request.method, route, watching)
        attributes = request.attributes = question_of(route, operation, query.get("fieldSelector", ""))
        await self._enter(request, attributes)
        self._need(request, user, attributes)
        if not operation:
            raise method_not_allowed()
        served = find(self._registry, route.group, route.version, route.resource)
        if served is None:
            if self._reviews.handles(route):
                label[:] = [operation, route.resource]
                if operation != "create":
                    raise method_not_allowed()
                return await self._reviews.create(route, request)
            raise unknown_path()
        kind = served.kind
        label[:] = [operation, kind.group_resource]
        if not reaches(route, kind.group, kind.resource, kind.namespaced):
            raise unknown_path()
        if route.subresource:
            return await self._subresource(served, route, operation, request)
        if operation not in kind.verbs or (
            kind.namespaced and not route.namespace and operation not in ("list", "watch")
        ):
            raise write_refusal(kind) or method_not_allowed()
        return await self._object(served, route, operation, request)

    def _need_create(self, request: Request) -> None:
        """An apply that creates takes the right to create beside that to patch; StatusError 403."""
        assert request.attributes is not None
        attributes = replace(request.attributes, verb="create")
        if not self.authorizer.allowed(request.user, attributes):
            raise attributes.refusal(request.user)

    async def _object(self, served: ServedKind, route: Route, asked: str, request: Request) -> Answer:
        form, kind, served = accepted_form(request, served), served.kind, self.joined(served)
        source = self._computed.get((kind.group, kind.resource)) or self._versions.of(kind)
        namespace = (route.namespace or None) if kind.namespaced else None
        match asked:
            case "get":
                stored = get_object(source, served, route.namespace, route.name, request, form, self._clock.now())
                return await or_elsewhere(stored, self._extra.get((kind.group, kind.resource, "")), route, request)
            case "list":
                selection = parse_selection(request, served)
                return await list_objects(source, served, namespace, request, selection, form, self._clock.now())
            case "watch":
                selection = parse_selection(request, served)
                watch = parse_watch(request, served, namespace, selection, form)
                return await self._watches.answer(request, watch, source)
            case "create":
                if route.name:
                    raise method_not_allowed()
                answer = await self._writes.create(served, route, request, form)
            case "update":
                if not route.name:
                    raise method_not_allowed()
                answer = await self._writes.update(served, route, request, form)
            case "patch":
                if not route.name:
                    raise method_not_allowed()
                answer = await self._writes.patch(served, route, request, form, partial(self._need_create, request))
            case "delete":
                answer = await self._writes.delete(served, route, request, form)
            case _:
                selection = parse_selection(request, served)
                answer = await self._writes.delete_collection(served, route, request, selection)
        if kind.group == RBAC_GROUP:
            self.authorizer.invalidate()
        return answer

    async def _subresource(self, served: ServedKind, route: Route, asked: str, request: Request) -> Answer:
        extra = self._extra.get((served.kind.group, served.kind.resource, route.subresource))
        extra = extra or self._extra.get(("*", "*", route.subresource))
        if extra is not None:
            return await extra(route, request)
        return await self._subresources.answer(served, route, asked, request)


def build_app(
    objects: Objects,
    store: Store,
    registry: Registry,
    *,
    clock: Clock,
    authenticator: Authenticator,
    authorizer: Authorizer,
    openapi: OpenApiSource | None = None,
    version: str = VERSION,
    tokens: ServiceAccountTokens | None = None,
    mounts: Mapping[str, ASGIApp | Face] | None = None,
    extra_routes: Mapping[tuple[str, str, str], SubresourceHandler] | None = None,
    bookmark_every_s: float = 55.0,
    recheck_every_s: float = EVERY_S,
    checks: Mapping[str, Check] | None = None,
    parts: Mapping[str, Check] | None = None,
    rights: Sequence[Callable[[Objects, Rbac], None]] = (),
    own_right: OwnRight = lambda user, wanted: False,
    audit: Audit | None = None,
    fairness: Fairness | None = None,
    pages: Pages | None = None,
    closes: Sequence[Callable[[], Awaitable[None]]] = (),
) -> Api:
    """The API over `objects` and the `store` beneath it.

    `tokens` signs what serviceaccounts/NAME/token gives out. `mounts`: path prefix -> ASGI application served behind
    the same authentication, with `fleet.user`, `fleet.authorizer` and `fleet.alone` in its scope; its `open_paths` take
    none. A Face there answers by itself.
    `extra_routes`: (group, resource, subresource) -> handler, in place of the built-in answer, authorised before it is
    called; "*" for every group and resource, subresource "" for a get of what is not stored. `recheck_every_s`: how
    often an open stream's right is looked at. `checks`: of /readyz, by name, beside that of the store. `parts`: of the
    ComponentStatuses, likewise. `rights`: each puts further rules that ask for rights around those of the objects.
    `own_right`: what a user that is a part of the server may do, whatever roles say. `audit`: the record of requests.
    `fairness` gives each request its turn; without it all go at once. `pages`: for browsers, with their sessions.
    `closes` are called when the API stops, after the last answer.
    """
    if isinstance(authorizer, Rbac):
        for put_around in (install, *rights):
            put_around(objects, authorizer)
    return Api(
        objects,
        store,
        registry,
        clock=clock,
        authenticator=authenticator,
        authorizer=authorizer,
        openapi=openapi,
        version=version,
        tokens=tokens,
        mounts=mounts or {},
        extra_routes=extra_routes or {},
        bookmark_every_s=bookmark_every_s,
        recheck_every_s=recheck_every_s,
        checks=checks or {},
        parts=parts or {},
        own_right=own_right,
        audit=audit or Audit(),
        fairness=fairness,
        pages=pages,
        closes=closes,
    )
