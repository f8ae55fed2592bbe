"""Sessions of browsers: a random id in a cookie stands for the bearer token that the user logged in with.

A session is an object of the store that no kind declares. So it survives a restart, every API process knows it, and no
path of the API leads to it. Its name is the digest of the id, and its token is sealed with a key made of the id: a copy
of the database gives nobody a session or a token. The token is asked about again with each request, as if the browser
had sent it. A session is never worth more than its token (docs/decisions/0044-console-sessions-are-the-hubs-own.md).
"""

from __future__ import annotations

import hashlib
import os
import re
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson
import structlog
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from api.access.auth import Authenticator, time_of
from api.access.origin import check_session
from api.engine.status import StatusError
from api.objects.writing import User
from api.wire.http import Request
from fleet.values.ports import (
    ABSENT,
    Body,
    Change,
    Clock,
    CommitResult,
    Delete,
    Key,
    Put,
    Store,
    StoredObject,
    StoreUnavailable,
)

COOKIE = "__Host-fleet"
SESSION_S = 8 * 3600.0
IDLE_S = 1800.0
USED_S = 60.0  # between two notes that a session is in use
OF_USER_MAX = 100  # sessions; the oldest end
SWEPT_MAX = 200  # objects that are over, with each login
OBJECTS_MAX = 20_000  # sessions and logins that are not over
SEEN = "fleet.session"  # in the scope of a request that a session has authenticated
ID_BYTES = 32
_ID = re.compile(r"[A-Za-z0-9_-]{43}")
_GROUP, _RESOURCE = "console.fleet.io", "sessions"
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Session:
    """Times are epoch seconds."""

    user: User
    opened: float
    expires: float
    idle_expires: float


def new_id() -> str:
    """256 random bits, as a cookie holds them."""
    return urlsafe_b64encode(os.urandom(ID_BYTES)).rstrip(b"=").decode()


def key_of(secret: str, resource: str = _RESOURCE) -> Key:
    """The stored object of an id."""
    return Key(_GROUP, resource, "", hashlib.sha256(secret.encode()).hexdigest())


def cookie_of(request: Request, name: str) -> str:
    """The id in a cookie; "" without a cookie of this form."""
    for header in request.all_headers(b"cookie"):
        for pair in header.split(";"):
            key, _, value = pair.strip().partition("=")
            if key == name and _ID.fullmatch(value):
                return value
    return ""


def set_cookie(name: str, value: str, max_age_s: float) -> tuple[bytes, bytes]:
    """The header that sets a cookie for this hub alone; an age of 0 takes it away."""
    text = f"{name}={value}; Path=/; Max-Age={max_age_s:.0f}; Secure; HttpOnly; SameSite=Lax"
    return b"set-cookie", text.encode()


def jwt_end(token: str) -> float | None:
    """The end that a token in the form of a JWT says; the authenticators have checked the token before."""
    claims = jwt_claims(token)
    try:
        return time_of(claims["exp"]) if claims is not None and "exp" in claims else None
    except ValueError:
        return None


def jwt_claims(token: str) -> dict[str, Any] | None:
    """The claims of a JWT, unchecked; None for another token."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = orjson.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    return claims if isinstance(claims, dict) else None


class Sessions:
    """The sessions of one hub, as one API process sees them."""

    def __init__(self, store: Store, clock: Clock, authenticator: Authenticator) -> None:
        self._store, self._clock, self._authenticator = store, clock, authenticator
        self._noting: set[Key] = set()

    async def open(
        self, token: str, former: str = "", *, admit: Callable[[User], None] = lambda user: None
    ) -> tuple[str, Session] | None:
        """A new session with a new id, in place of the one that the browser had; None for a token that is not good.
        `admit` raises what refuses its user."""
        user = await self._authenticator.user(token) if token else None
        if user is None:
            return None
        admit(user)
        secret, now = new_id(), self._clock.now()
        end = jwt_end(token)
        expires = min(now + SESSION_S, end) if end is not None else now + SESSION_S
        await self._make_room(user.name, now)
        nonce = os.urandom(12)
        sealed = nonce + _cipher(secret).encrypt(nonce, token.encode(), None)
        key = key_of(secret)
        body = {
            "metadata": {"name": key.name, "uid": key.name},
            "user": user.name,
            "opened": now,
            "expires": expires,
            "used": now,
            "token": b64encode(sealed).decode(),
        }
        await self._store.commit([Put(key, body, ABSENT)])
        if former:
            await self.end(former)
        return secret, Session(user, now, expires, now + IDLE_S)

    async def find(self, request: Request) -> Session | None:
        """The session of the request's cookie, if it still holds."""
        secret = cookie_of(request, COOKIE)
        if not secret:
            return None
        key, now = key_of(secret), self._clock.now()
        stored = self._store.peek(key) or await self._store.get(key)
        if stored is None or _over(stored.body, now):
            return None
        try:
            sealed = b64decode(stored.body["token"])
            token = _cipher(secret).decrypt(sealed[:12], sealed[12:], None).decode()
        except (InvalidTag, ValueError):
            return None
        user = await self._authenticator.user(token)
        if user is None:
            await self._drop([key])
            return None
        used = float(stored.body["used"])
        if SEEN not in request.scope:  # a look at an open stream's right is no use of the session
            request.scope[SEEN] = True
            if now - used > USED_S:
                used = now
                await self._note(key, now)
        opened, expires = (float(stored.body[name]) for name in ("opened", "expires"))
        return Session(user, opened, expires, used + IDLE_S)

    async def user(self, request: Request) -> User | None:
        """The user of a request to the hub's API. StatusError 403 where another site may have sent it, and for what a
        browser must not get with a session."""
        if not cookie_of(request, COOKIE):
            return None
        check_session(request)
        session = await self.find(request)
        return session.user if session is not None else None

    async def end(self, secret: str) -> None:
        await self._drop([key_of(secret)])

    async def _note(self, key: Key, now: float) -> None:
        """Keep the time of use. A store that cannot be reached costs the note alone."""
        if key in self._noting:
            return

        def use(body: Body) -> Body:
            return {**body, "used": now}

        self._noting.add(key)
        try:
            await self._store.commit([Change(key, use)])
        except StoreUnavailable as error:
            log.warning("the use of a session cannot be noted", why=str(error)[:200])
        finally:
            self._noting.discard(key)

    async def _make_room(self, user: str, now: float) -> None:
        """Take away sessions that are over, and the oldest of a user who has too many. StatusError 429."""
        objects = self._store.scan(_GROUP, _RESOURCE)
        keys = [stored.key for stored in objects if _over(stored.body, now)][:SWEPT_MAX]
        own = [one for one in objects if one.body.get("user") == user and not _over(one.body, now)]
        if len(own) >= OF_USER_MAX:
            own.sort(key=lambda stored: float(stored.body["expires"]))
            keys += [stored.key for stored in own[: len(own) + 1 - OF_USER_MAX]]
        await self._drop(keys)
        if len(objects) - len(keys) >= OBJECTS_MAX:
            raise StatusError(429, "TooManyRequests", "the hub has too many sessions", retry_after_s=60)

    async def _drop(self, keys: list[Key]) -> None:
        for key in keys:  # one by one: another process may have been first
            await self._store.commit([Delete(key)])


@dataclass(frozen=True, slots=True)
class OneTimeObjects:
    """Objects of a short life that are taken once: the logins that wait for their issuer's answer."""

    store: Store
    clock: Clock
    resource: str

    async def put(self, secret: str, content: Body, life_s: float) -> None:
        """StatusError 429 where there are too many."""
        now = self.clock.now()
        objects = self.store.scan(_GROUP, self.resource)
        gone = [stored.key for stored in objects if float(stored.body["expires"]) <= now][:SWEPT_MAX]
        for key in gone:
            await self.store.commit([Delete(key)])
        if len(objects) - len(gone) >= OBJECTS_MAX:
            raise StatusError(429, "TooManyRequests", "too many logins are under way", retry_after_s=60)
        key = key_of(secret, self.resource)
        body = {**content, "metadata": {"name": key.name, "uid": key.name}, "expires": now + life_s}
        await self.store.commit([Put(key, body, ABSENT)])

    async def take(self, secret: str) -> Body | None:
        """The content, for the first who asks and in time."""
        key = key_of(secret, self.resource)
        done = await self.store.commit([Delete(key)])
        if not isinstance(done, CommitResult):
            return None
        stored: StoredObject = done.stored[0]
        return stored.body if float(stored.body["expires"]) > self.clock.now() else None


def _cipher(secret: str) -> AESGCM:
    return AESGCM(hashlib.sha256(b"fleet console token\0" + secret.encode()).digest())


def _over(body: Body, now: float) -> bool:
    return now >= float(body["expires"]) or now >= float(body["used"]) + IDLE_S
