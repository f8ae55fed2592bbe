"""The user of a request: by the client certificate of its connection, else by its bearer token, else by its session.

In a request that a page of another site makes, nothing counts but a bearer token: a browser adds the other two by
itself, and no page can add an Authorization header to a request to a hub that answers no preflight.

A browser cannot give a WebSocket headers. There the token is one of the subprotocols that the client offers, as a
kube-apiserver takes it: base64url, without padding, beside another subprotocol.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from typing import Protocol

from api.access.auth import MAX_TOKEN_CHARS, Authenticator, bearer
from api.access.certificates import SCOPE
from api.access.impersonation import impersonated
from api.access.origin import BY_ITSELF, another_site, from_another_site
from api.engine.status import unauthorized
from api.objects.writing import User
from api.wire.http import Request
from api.wire.rights import Authorizer
from fleet.values.ports import Clock


class Sessions(Protocol):
    """Sessions of browsers, by their cookies."""

    async def user(self, request: Request) -> User | None:
        """The user whose session the request has, None without one. StatusError 403 for a request that another site may
        have made."""
        ...


TOKEN_PROTOCOL = "base64url.bearer.authorization.k8s.io."


async def user_of(
    request: Request, authenticator: Authenticator, authorizer: Authorizer, clock: Clock, sessions: Sessions | None
) -> User:
    """The user, or the one whom she asks to act as. StatusError 401 without good credentials, 403 where a right to act
    as others is missing, and for a certificate or a session that another site may be using."""
    foreign, token = another_site(request), None
    certificate = None if foreign else request.scope.get(SCOPE)
    user = certificate.user(clock.now()) if certificate is not None else None
    if user is None:
        token = bearer(request.header(b"authorization")) or _offered(request)
        if token:
            user = await authenticator.user(token)
        elif foreign:
            raise from_another_site(foreign)
        elif sessions is not None and not request.header(b"authorization"):
            user = await sessions.user(request)
    if user is None:
        raise unauthorized()
    if not token:
        request.scope[BY_ITSELF] = True
    request.record.known(request, user)
    acting = impersonated(request, user, authorizer)
    if acting is not user:
        request.record.acts_as(acting)
    return acting


def _offered(request: Request) -> str | None:
    """The token among the subprotocols of a WebSocket. StatusError 401 for what is none."""
    header = request.header(b"sec-websocket-protocol")
    if TOKEN_PROTOCOL not in header or request.header(b"upgrade").lower() != "websocket":
        return None
    protocols = [text.strip() for text in header.split(",")]
    found = [text.removeprefix(TOKEN_PROTOCOL) for text in protocols if text.startswith(TOKEN_PROTOCOL)]
    if len(found) != 1 or len(protocols) == 1 or len(found[0]) > 2 * MAX_TOKEN_CHARS:
        raise unauthorized()
    try:
        return urlsafe_b64decode(found[0] + "=" * (-len(found[0]) % 4)).decode()
    except (Base64Error, UnicodeDecodeError, ValueError):
        raise unauthorized() from None
