"""/console: the built pages, and the session of the browser that shows them."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

import orjson
import structlog

from api.access.auth import MAX_TOKEN_CHARS
from api.access.origin import check_write
from api.engine.status import StatusError, bad_request, unauthorized
from api.wire.http import Request, Response, error_response, json_response
from api.wire.routing import method_not_allowed
from fleet.console.attempts import Attempts
from fleet.console.files import Files, policy
from fleet.console.login import Login
from fleet.console.sessions import COOKIE, Session, Sessions, cookie_of, set_cookie
from fleet.values.ports import Clock
from fleet.values.times import rfc3339

PREFIX = "/console"
BODY_BYTES_MAX = MAX_TOKEN_CHARS + 1024
# HSTS is not set: a hub may have a certificate that its users' browsers do not trust, and other services on its host.
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_NO_STORE = (b"cache-control", b"no-store")
log = structlog.get_logger(__name__)


class Console:
    """What build_app takes for the console. `login`: by an issuer; None where no client of one is configured."""

    def __init__(
        self, sessions: Sessions, clock: Clock, login: Login | None = None, files: Files | None = None
    ) -> None:
        self.sessions = sessions
        self._attempts = Attempts(clock)
        self._login, self._files = login, files or Files()

    def serves(self, path: str) -> bool:
        return path == PREFIX or path.startswith(f"{PREFIX}/")

    async def answer(self, request: Request) -> Response:
        """Each answer below /console, refusals included, with the headers that all of them have."""
        try:
            answer = await self._answer(request)
        except StatusError as error:
            answer = error_response(error)
        named = {name for name, _ in answer.headers}
        if b"cache-control" not in named:
            answer.headers = (*answer.headers, _NO_STORE)
        if b"content-security-policy" not in named:
            answer.headers = (*answer.headers, policy())
        answer.headers = (*answer.headers, *_HEADERS)
        return answer

    async def _answer(self, request: Request) -> Response:
        path = request.path.removeprefix(PREFIX).removeprefix("/")
        if path == "session":
            return await self._session(request)
        if request.method not in ("GET", "HEAD"):
            raise StatusError(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
            )
        match path:
            case "methods":
                issuer = {"issuer": self._login.issuer} if self._login is not None else {}
                return json_response({"methods": self._methods(), **issuer})
            case "login/oidc" if self._login is not None:
                return await self._begun(request, self._login)
            case "callback" if self._login is not None:
                return await self._called_back(request, self._login)
            case "login/oidc" | "callback":
                raise StatusError(404, "NotFound", "this hub has no client of an issuer (--oidc-client-id)")
        return await asyncio.to_thread(self._files.answer, path or "index.html", request)

    def _methods(self) -> list[str]:
        return ["token", *(["oidc"] if self._login is not None else [])]

    async def _session(self, request: Request) -> Response:
        match request.method:
            case "GET" | "HEAD":
                session = await self.sessions.find(request)
                if session is None:
                    raise unauthorized()
                request.record.known(request, session.user)
                return json_response(self._shown(session))
            case "POST":
                return await self._open(request)
            case "DELETE":
                check_write(request)
                session = await self.sessions.find(request)
                if session is not None:
                    request.record.known(request, session.user)
                    await self.sessions.end(cookie_of(request, COOKIE))
                return Response(b"", 204, headers=(set_cookie(COOKIE, "", 0),))
        raise method_not_allowed()

    async def _open(self, request: Request) -> Response:
        check_write(request)
        if request.header(b"content-type").partition(";")[0].strip().lower() != "application/json":
            raise StatusError(415, "UnsupportedMediaType", "the body must be application/json")
        self._attempts.begin(request)
        token = _token(await request.body(BODY_BYTES_MAX))
        opened = await self.sessions.open(token, cookie_of(request, COOKIE), admit=self._attempts.good)
        if opened is None:
            self._attempts.failed(request)
            raise unauthorized()
        secret, session = opened
        request.record.known(request, session.user)
        answer = json_response(self._shown(session))
        answer.headers = (*answer.headers, set_cookie(COOKIE, secret, session.expires - session.opened))
        return answer

    async def _begun(self, request: Request, login: Login) -> Response:
        try:
            self._attempts.begin(request)
            self._attempts.failed(request)  # until a session is opened: each is a write that anybody can cause
            return await login.begin(request)
        except StatusError as error:
            return _no_login(request, error)

    async def _called_back(self, request: Request, login: Login) -> Response:
        try:
            self._attempts.begin(request)
            token, to = await login.finish(request)
            opened = await self.sessions.open(token, cookie_of(request, COOKIE), admit=self._attempts.good)
            if opened is None:
                raise StatusError(401, "Unauthorized", "the issuer's token is not one of a user of this hub")
        except StatusError as error:
            self._attempts.failed(request)
            answer = _no_login(request, error)
            answer.headers = (*answer.headers, login.forgotten())
            return answer
        self._attempts.forgive(request)
        secret, session = opened
        request.record.known(request, session.user)
        headers = (
            (b"location", to.encode()),
            set_cookie(COOKIE, secret, session.expires - session.opened),
            login.forgotten(),
        )
        return Response(b"", 303, headers=headers)

    def _shown(self, session: Session) -> dict[str, Any]:
        return {
            "user": {"name": session.user.name, "groups": list(session.user.groups)},
            "expires": rfc3339(session.expires),
            "idleExpires": rfc3339(min(session.idle_expires, session.expires)),
            "methods": self._methods(),
        }


def _no_login(request: Request, error: StatusError) -> Response:
    """The refusal; for a person whose browser navigates, the page of the login, which has words for each reason and
    says when to try again."""
    if "text/html" not in request.header(b"accept"):
        return error_response(error)
    log.info("a login to the console through the issuer failed", why=error.message)
    query = {"login": error.reason} | ({"after": error.retry_after_s} if error.retry_after_s is not None else {})
    return Response(b"", 303, headers=((b"location", f"{PREFIX}?{urlencode(query)}".encode()),))


def _token(raw: bytes) -> str:
    """The token of the body of a login. StatusError 400; the text quotes nothing of the body."""
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raise bad_request("the body is no JSON") from None
    token = body.get("token") if isinstance(body, dict) else None
    if not isinstance(token, str):
        raise bad_request('the body must be {"token": "…"}')
    token = token.strip()
    return token if len(token) <= MAX_TOKEN_CHARS else ""
