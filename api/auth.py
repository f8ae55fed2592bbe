"""Who asks: bearer tokens from a file, and the signed tokens of service accounts.

A request without valid credentials is nobody's and gets 401. Client certificates are not read: the server does not
hand them to the application.
"""

from __future__ import annotations

import csv
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from fleet.ports import Clock, Key, Store
from fleet.store.writing import User

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
ISSUER = "https://fleet.hub"
MAX_TOKEN_CHARS = 16_384
_CACHE = 4096


class Authenticator(Protocol):
    """Finds the user behind a bearer token. Called on every request, so it must not wait for anything slow."""

    async def user(self, token: str) -> User | None:
        """The user, with the group system:authenticated among its groups, or None when the token is not valid."""
        ...


class TokenFile:
    """A file of `token,user,uid,"group1,group2"` lines, read again when it changes."""

    def __init__(self, path: Path, clock: Clock, *, check_every_s: float = 1.0) -> None:
        self._path = path
        self._clock = clock
        self._check_every_s = check_every_s
        self._checked = float("-inf")
        self._seen: tuple[int, int, int] | None = None
        self._users: dict[bytes, User] = {}

    async def user(self, token: str) -> User | None:
        now = self._clock.monotonic()
        if now - self._checked >= self._check_every_s:
            self._checked = now
            self._reload()
        # Tokens are compared by their digest, so that the time a comparison takes says nothing about them.
        return self._users.get(_digest(token))

    def _reload(self) -> None:
        try:
            stat = self._path.stat()
        except OSError:
            self._seen, self._users = None, {}
            return
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen != self._seen:
            self._seen = seen
            with self._path.open(encoding="utf-8", newline="") as file:
                self._users = parse_tokens(list(csv.reader(file, skipinitialspace=True)))


def parse_tokens(rows: Sequence[Sequence[str]]) -> dict[bytes, User]:
    """Digest of token -> user. Rows with fewer than three columns and comments are passed over."""
    users: dict[bytes, User] = {}
    for row in rows:
        if len(row) < 3 or not row[0].strip() or row[0].startswith("#"):
            continue
        groups = [group.strip() for group in row[3].split(",") if group.strip()] if len(row) > 3 else []
        users[_digest(row[0].strip())] = User(row[1].strip(), (*groups, AUTHENTICATED), row[2].strip())
    return users


class StaticTokens:
    """Tokens given at start: for simulated members and tests."""

    def __init__(self, users: dict[str, User]) -> None:
        self._users = {
            _digest(token): User(user.name, (*user.groups, AUTHENTICATED), user.uid) for token, user in users.items()
        }

    async def user(self, token: str) -> User | None:
        return self._users.get(_digest(token))


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class Issued:
    token: str
    expires: float  # epoch seconds


class ServiceAccountTokens:
    """Signs and checks the tokens of service accounts with one private key (PEM; RSA or P-256).

    A token is good while its account exists with the same uid: deleting an account ends its tokens.
    """

    def __init__(self, key_pem: bytes, store: Store, clock: Clock, *, issuer: str = ISSUER) -> None:
        key = serialization.load_pem_private_key(key_pem, password=None)
        if not isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
            raise ValueError("the signing key must be an RSA or a P-256 key")
        self._key = key
        self._public = key.public_key()
        self._algorithm = "RS256" if isinstance(key, rsa.RSAPrivateKey) else "ES256"
        self._store = store
        self._clock = clock
        self._issuer = issuer
        self._good: OrderedDict[bytes, tuple[Key, str, float, User]] = OrderedDict()

    def issue(self, namespace: str, name: str, uid: str, *, seconds: int, audiences: Sequence[str] = ()) -> Issued:
        now = int(self._clock.now())
        claims = {
            "iss": self._issuer, "sub": f"system:serviceaccount:{namespace}:{name}",
            "aud": list(audiences) or [self._issuer], "iat": now, "nbf": now, "exp": now + seconds,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        }  # fmt: skip
        return Issued(jwt.encode(claims, self._key, algorithm=self._algorithm), float(now + seconds))

    async def user(self, token: str) -> User | None:
        if token.count(".") != 2 or len(token) > MAX_TOKEN_CHARS:
            return None
        digest = _digest(token)
        known = self._good.get(digest)
        if known is None:
            known = self._verify(token)
            if known is None:
                return None
            self._good[digest] = known
            if len(self._good) > _CACHE:
                self._good.popitem(last=False)
        key, uid, expires, user = known
        if self._clock.now() >= expires:
            return None
        account = self._store.peek(key) or await self._store.get(key)
        return user if account is not None and account.uid == uid else None

    def _verify(self, token: str) -> tuple[Key, str, float, User] | None:
        try:
            claims = jwt.decode(
                token, self._public, algorithms=[self._algorithm], issuer=self._issuer, audience=self._issuer,
                options={"require": ["exp", "sub"], "verify_exp": False, "verify_nbf": False, "verify_iat": False},
            )  # fmt: skip
            bound = claims["kubernetes.io"]
            namespace, account = bound["namespace"], bound["serviceaccount"]
            name, uid = account["name"], account["uid"]
        except (jwt.PyJWTError, KeyError, TypeError):
            return None
        return (
            Key("", "serviceaccounts", namespace, name),
            uid,
            float(claims["exp"]),
            account_user(namespace, name, uid),
        )


def account_user(namespace: str, name: str, uid: str = "") -> User:
    """The user that a service account is."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", groups, uid)


class AnyOf:
    """The first of several authenticators that knows the token."""

    def __init__(self, *authenticators: Authenticator) -> None:
        self._authenticators = authenticators

    async def user(self, token: str) -> User | None:
        for authenticator in self._authenticators:
            user = await authenticator.user(token)
            if user is not None:
                return user
        return None


def bearer(header: str) -> str:
    """The token of an Authorization header, "" when it carries none."""
    scheme, _, token = header.partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and len(token) <= MAX_TOKEN_CHARS else ""
