"""The user of a request: by the client certificate of its connection, else by its bearer token."""

from __future__ import annotations

from api.auth import Authenticator, bearer
from api.certificates import SCOPE
from api.http import Request
from api.impersonation import impersonated
from api.rbac import Authorizer
from fleet.engine.status import unauthorized
from fleet.objects.writing import User
from fleet.ports import Clock


async def user_of(request: Request, authenticator: Authenticator, authorizer: Authorizer, clock: Clock) -> User:
    """The user, or the one whom she asks to act as. StatusError 401 without good credentials, 403 where a right to act
    as others is missing."""
    certificate = request.scope.get(SCOPE)
    user = certificate.user(clock.now()) if certificate is not None else None
    if user is None:
        token = bearer(request.header(b"authorization"))
        user = await authenticator.user(token) if token else None
    if user is None:
        raise unauthorized()
    return impersonated(request, user, authorizer)
