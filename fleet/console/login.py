"""Login through an issuer: the authorization code flow of OpenID Connect, with state, nonce and PKCE.

A login is one object of the store, whose id is in a cookie of the browser that began it. It is taken once, by whichever
API process the browser comes back to. So a state that is replayed, or that another browser brings, opens nothing. The
ID token is checked by the hub's authenticators, as one that a client sends.
"""

from __future__ import annotations

import hmac
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import quote_plus, unquote, urlencode, urlsplit

import orjson
import structlog

from api.access.auth import Authenticator
from api.access.oidc.keys import DOCUMENT_BYTES_MAX, Fetch, FetchFailure
from api.access.origin import own_origin
from api.engine.status import StatusError, bad_request
from api.wire.http import Request, Response
from fleet.console.sessions import OneTimeObjects, cookie_of, jwt_claims, new_id, set_cookie
from fleet.values.ports import Clock, Store

COOKIE = "__Host-fleet-login"
CALLBACK = "/console/callback"
HOME = "/console"
LOGIN_S = 600.0
DOCUMENT_S = 600.0  # for which the issuer's document is kept
CODE_CHARS_MAX = 4096
TO_CHARS_MAX = 2048
SCOPES = ("profile", "email", "groups")  # beside openid, where the issuer has them
log = structlog.get_logger(__name__)

# Posts a form to the issuer: URL, body, headers -> the status and body of its answer. Raises FetchFailure.
Post = Callable[[str, bytes, Mapping[str, str]], Awaitable[tuple[int, bytes]]]


@dataclass(frozen=True, slots=True)
class IssuerClient:
    """The hub as a client of an issuer. `secret`: "" for a public client; `redirect_url`: "" for the address that the
    browser uses; `authority`: certificates (PEM) to trust, "" for those of the machine."""

    issuer: str
    id: str
    secret: str = ""
    redirect_url: str = ""
    authority: str = ""


class Login:
    """The flow of one client."""

    def __init__(
        self, client: IssuerClient, store: Store, clock: Clock, authenticator: Authenticator, fetch: Fetch, post: Post
    ) -> None:
        self.issuer = client.issuer
        self._client, self._clock, self._authenticator = client, clock, authenticator
        self._fetch, self._post = fetch, post
        self._begun = OneTimeObjects(store, clock, "logins")
        self._document: dict[str, Any] = {}
        self._read = float("-inf")

    async def begin(self, request: Request) -> Response:
        """Send the browser to the issuer. `to`: the page of the console to come back to. StatusError 503 where the
        issuer does not answer."""
        document = await self._issuer()
        to = _page(request.query.get("to", HOME))
        secret, state, nonce, verifier = new_id(), new_id(), new_id(), new_id()
        redirect = self._client.redirect_url or own_origin(request) + CALLBACK
        content = {"state": state, "nonce": nonce, "verifier": verifier, "to": to, "redirect": redirect}
        await self._begun.put(secret, content, LOGIN_S)
        known = document.get("scopes_supported")
        scopes = ["openid", *(one for one in SCOPES if isinstance(known, list) and one in known)]
        challenge = urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = urlencode(
            {
                "response_type": "code",
                "client_id": self._client.id,
                "redirect_uri": redirect,
                "scope": " ".join(scopes),
                "state": state,
                "nonce": nonce,
                "code_challenge": challenge,
                "code_challenge_method": "S256",
            }
        )
        endpoint = document["authorization_endpoint"]
        where = f"{endpoint}{'&' if urlsplit(endpoint).query else '?'}{query}"
        return Response(b"", 303, headers=((b"location", where.encode()), set_cookie(COOKIE, secret, LOGIN_S)))

    async def finish(self, request: Request) -> tuple[str, str]:
        """The ID token that the issuer gives for the code, and the page to go on to. StatusError 400 for a login that
        this browser did not begin, or that is over; 401 where the issuer gives no good token."""
        secret, state = cookie_of(request, COOKIE), request.query.get("state", "")
        begun = await self._begun.take(secret) if secret else None
        if begun is None or not hmac.compare_digest(begun["state"].encode(), state.encode()):
            raise bad_request("this login is over, was used already or began in another browser: open /console again")
        if "error" in request.query:
            raise StatusError(401, "Unauthorized", f"the issuer refuses the login: {request.query['error'][:100]}")
        code = request.query.get("code", "")
        if not code or len(code) > CODE_CHARS_MAX:
            raise bad_request("the issuer has sent no code")
        token = await self._exchange(code, begun)
        claims = jwt_claims(token)
        if claims is None or claims.get("iss") != self._client.issuer or await self._authenticator.user(token) is None:
            raise StatusError(401, "Unauthorized", "the issuer's token is not one of a user of this hub")
        audience = claims.get("aud")
        named = audience if isinstance(audience, list) else [audience]
        if claims.get("nonce") != begun["nonce"] or self._client.id not in named:
            raise StatusError(401, "Unauthorized", "the issuer's token is not the answer to this login")
        return token, begun["to"]

    def forgotten(self) -> tuple[bytes, bytes]:
        """The header that takes the login's cookie away."""
        return set_cookie(COOKIE, "", 0)

    async def _exchange(self, code: str, begun: Mapping[str, Any]) -> str:
        document, client = await self._issuer(), self._client
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": begun["redirect"],
            "code_verifier": begun["verifier"],
            "client_id": client.id,
        }
        headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
        methods = document.get("token_endpoint_auth_methods_supported")
        if client.secret and isinstance(methods, list) and "client_secret_basic" not in methods:
            form["client_secret"] = client.secret
        elif client.secret:
            pair = f"{quote_plus(client.id)}:{quote_plus(client.secret)}"
            headers["authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        try:
            status, body = await self._post(document["token_endpoint"], urlencode(form).encode(), headers)
        except FetchFailure as error:
            raise _unreachable(error) from None
        answer = _object(body)
        token = answer.get("id_token")
        if status != 200 or not isinstance(token, str):
            log.warning("an issuer gives no token for a code", issuer=client.issuer, status=status)
            raise StatusError(401, "Unauthorized", "the issuer gives no ID token for this login")
        return token

    async def _issuer(self) -> dict[str, Any]:
        """The issuer's document, at most DOCUMENT_S old."""
        if self._clock.monotonic() - self._read < DOCUMENT_S:
            return self._document
        client = self._client
        try:
            where = f"{client.issuer.rstrip('/')}/.well-known/openid-configuration"
            document = _object(await self._fetch(where, client.authority))
        except FetchFailure as error:
            raise _unreachable(error) from None
        ends = (document.get("authorization_endpoint"), document.get("token_endpoint"))
        if document.get("issuer") != client.issuer or not all(_is_https(end) for end in ends):
            raise _unreachable("its document names no endpoints of HTTPS")
        self._document, self._read = document, self._clock.monotonic()
        return document


def _is_https(url: object) -> bool:
    return isinstance(url, str) and url.startswith("https://") and url.isascii() and url.isprintable()


def _object(raw: bytes) -> dict[str, Any]:
    """{} for what is no JSON object."""
    try:
        found = orjson.loads(raw) if len(raw) <= DOCUMENT_BYTES_MAX else None
    except orjson.JSONDecodeError:
        found = None
    return found if isinstance(found, dict) else {}


def _page(to: str) -> str:
    """A path of the console; its first page for any other. The path goes into a header and must lead nowhere else."""
    path = unquote(to.partition("?")[0].partition("#")[0])  # a browser takes %2e%2e for two dots
    fits = to.isascii() and to.isprintable() and " " not in to and "\\" not in to and len(to) <= TO_CHARS_MAX
    inside = path == HOME or path.startswith(f"{HOME}/")
    return to if fits and inside and ".." not in path and "//" not in path else HOME


def _unreachable(why: object) -> StatusError:
    log.warning("the issuer of the console's logins cannot be asked", why=str(why)[:300])
    return StatusError(503, "ServiceUnavailable", "the issuer cannot be asked now; log in by token", retry_after_s=10)
