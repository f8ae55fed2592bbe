"""The user of a request: bearer tokens from a file, and the signed tokens of service accounts.

A request without valid credentials is nobody's and gets 401. Client certificates are read in certificates.py, tokens
of outside issuers in oidc/.
"""

from __future__ import annotations

import csv
import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Protocol

import jwt
import structlog
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from api.objects.writing import User
from fleet.values.ports import Clock, Key, Store
from fleet.values.times import in_calendar, seconds

AUTHENTICATED = "system:authenticated"
CREDENTIAL = "authentication.kubernetes.io/credential-id"  # names one credential in the extra fields of its user
MASTERS = "system:masters"
ISSUER = "https://fleet.hub"
MAX_TOKEN_CHARS = 16_384
LEEWAY_S = 60.0  # how far the clock of who signed a token may be ahead of ours, as in a kube-apiserver
UNKNOWN_S = 0.05  # between two looks at the token file for tokens that it does not have
SETTLED_S = 2.0  # the age from which a file's times tell its states apart
_CACHE = 4096
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CheckedToken:
    """A good token: whose it is, and which of the audiences asked for it is meant for."""

    user: User
    audiences: tuple[str, ...]


class Authenticator(Protocol):
    """Finds the user behind a bearer token. Called on every request, so it must not wait for anything slow."""

    async def user(self, token: str) -> User | None:
        """The user, with the group system:authenticated among its groups, or None when the token is not valid here."""
        ...

    async def checked(self, token: str, audiences: Sequence[str]) -> CheckedToken | None:
        """As `user`, for a token that is meant for one of the audiences; for this server when none is named."""
        ...


def for_this_server(user: User | None, audiences: Sequence[str]) -> CheckedToken | None:
    """A token without audiences of its own is meant for this server alone."""
    return CheckedToken(user, (ISSUER,)) if user is not None and ISSUER in (audiences or (ISSUER,)) else None


class TokenFile:
    """A file of `token,user,uid,"group1,group2",end` lines, read again within a second of its change, and at once for a
    token that was not in it before. Groups and end (a time such as 2027-01-01T00:00:00Z) may be missing. `most`: so
    many tokens count, the first ones."""

    def __init__(self, path: Path, clock: Clock, *, check_every_s: float = 1.0, most: int | None = None) -> None:
        self._path = path
        self._most = most
        self._clock = clock
        self._check_every_s = check_every_s
        self._checked = float("-inf")
        self._seen: tuple[int, ...] | None = None
        self._complained: tuple[int, ...] | None = None
        self._users: dict[bytes, tuple[User, float]] = {}

    async def user(self, token: str) -> User | None:
        # Tokens are compared by their digest, so that the time a comparison takes says nothing about them.
        digest, now = digest_of(token), self._clock.monotonic()
        due_s = self._check_every_s if digest in self._users else min(self._check_every_s, UNKNOWN_S)
        if now - self._checked >= due_s:
            self._checked = now
            self._reload()
        user, expires = self._users.get(digest, (None, inf))
        return user if expires == inf or self._clock.now() < expires else None

    async def checked(self, token: str, audiences: Sequence[str]) -> CheckedToken | None:
        return for_this_server(await self.user(token), audiences)

    def _reload(self) -> None:
        try:
            stat = self._path.stat()
            fingerprint = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino)
            if fingerprint == self._seen:
                return
            text = self._path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            # Tokens that may have been taken away must not go on working from memory.
            if self._users:
                log.error("the token file cannot be read: its tokens do not work", file=str(self._path), why=str(error))
            self._seen, self._users = None, {}
            return
        # A file's times have a grain: of one that has just changed, the next change might not show.
        settled = self._clock.now() - max(stat.st_mtime, stat.st_ctime) > SETTLED_S
        self._seen = fingerprint if settled else None
        self._users, bad = parse_tokens(text, self._most)
        if bad and fingerprint != self._complained:
            self._complained = fingerprint
            log.warning("lines of the token file are passed over", file=str(self._path), lines=bad[:20])


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a token file. `expires`: epoch seconds, infinity for a token without an end."""

    token: str = field(repr=False)
    user: str
    uid: str
    groups: tuple[str, ...]
    expires: float


@dataclass(frozen=True, slots=True)
class TokenName:
    """A token by an id that tells nothing of it. `expires`: as of a Line; `own`: the administrator's, which the data
    directory's kubeconfig has."""

    id: str
    user: str
    uid: str
    groups: tuple[str, ...]
    expires: float
    own: bool = False


class AdministratorsToken(Exception):
    """The administrator's own token is ended by hand only."""


def read_line(text: str) -> Line | None:
    """The token of a line; None for one that is empty, a comment or broken: fewer than three columns, no user, a
    broken quote, an end that is no time."""
    text = text.strip()
    if not text or text.startswith("#"):
        return None
    try:
        (row,) = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        return None
    columns = [column.strip() for column in row]
    if len(columns) < 3 or not columns[0] or not columns[1]:
        return None
    groups = tuple(group.strip() for group in columns[3].split(",") if group.strip()) if len(columns) > 3 else ()
    end = columns[4] if len(columns) > 4 else ""
    expires = seconds(end) if end else inf
    return None if expires is None else Line(columns[0], columns[1], columns[2], groups, expires)


def parse_tokens(text: str, most: int | None = None) -> tuple[dict[bytes, tuple[User, float]], list[int]]:
    """Digest of token -> user and end, of `most` tokens at most, and the numbers of lines that are broken, or whose
    token stands above with another user. Each line is read by itself, so that a broken one takes no other user's
    token."""
    users: dict[bytes, tuple[User, float]] = {}
    bad: list[int] = []
    for number, raw in enumerate(text.split("\n"), 1):
        if len(users) == most:
            break
        line = read_line(raw)
        if line is None:
            if raw.strip() and not raw.strip().startswith("#"):
                bad.append(number)
            continue
        user = User(line.user, tuple(dict.fromkeys((*line.groups, AUTHENTICATED))), line.uid)
        if users.setdefault(digest_of(line.token), (user, line.expires)) != (user, line.expires):
            bad.append(number)
    return users, bad


class StaticTokens:
    """Tokens given at start: for simulated members and tests."""

    def __init__(self, users: dict[str, User]) -> None:
        self._users = {
            digest_of(token): User(user.name, (*user.groups, AUTHENTICATED), user.uid) for token, user in users.items()
        }

    async def user(self, token: str) -> User | None:
        return self._users.get(digest_of(token))

    async def checked(self, token: str, audiences: Sequence[str]) -> CheckedToken | None:
        return for_this_server(await self.user(token), audiences)


def digest_of(token: str) -> bytes:
    """The form in which a token is kept and compared."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class IssuedToken:
    token: str
    credential: str  # names the token in the extra fields of its user
    expires: float  # epoch seconds


@dataclass(frozen=True, slots=True)
class _Token:
    """The content of a signed token. Times are epoch seconds."""

    account: Key
    begins: float
    expires: float
    audiences: frozenset[str]
    user: User


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
        self._good: OrderedDict[bytes, _Token] = OrderedDict()

    def issue(self, namespace: str, name: str, uid: str, *, seconds: int, audiences: Sequence[str] = ()) -> IssuedToken:
        now = int(self._clock.now())
        jti = str(uuid.uuid4())  # noqa: TID251  # stored nowhere but in the token
        claims = {
            "jti": jti,
            "iss": self._issuer,
            "sub": f"system:serviceaccount:{namespace}:{name}",
            "aud": list(audiences) or [self._issuer],
            "iat": now,
            "nbf": now,
            "exp": now + seconds,
            "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        }
        return IssuedToken(
            jwt.encode(claims, self._key, algorithm=self._algorithm), credential_of(jti), float(now + seconds)
        )

    async def user(self, token: str) -> User | None:
        known = await self._valid(token)
        return known.user if known is not None and self._issuer in known.audiences else None

    async def checked(self, token: str, audiences: Sequence[str]) -> CheckedToken | None:
        known = await self._valid(token)
        if known is None:
            return None
        meant = tuple(audience for audience in audiences or (self._issuer,) if audience in known.audiences)
        return CheckedToken(known.user, meant) if meant else None

    async def _valid(self, token: str) -> _Token | None:
        """The content of a token, when it is ours, its time has come and is not over, and its account exists."""
        if token.count(".") != 2 or len(token) > MAX_TOKEN_CHARS:
            return None
        digest = digest_of(token)
        content = self._good.get(digest)
        if content is None:
            content = self._verify(token)
            if content is None:
                return None
            self._good[digest] = content
            if len(self._good) > _CACHE:
                self._good.popitem(last=False)
        if not content.begins - LEEWAY_S <= self._clock.now() < content.expires:
            return None
        account = self._store.peek(content.account) or await self._store.get(content.account)
        if account is None or account.uid != content.user.uid:
            return None
        return None if account.body["metadata"].get("deletionTimestamp") else content

    def _verify(self, token: str) -> _Token | None:
        try:
            claims = jwt.decode(
                token,
                self._public,
                algorithms=[self._algorithm],
                issuer=self._issuer,
                options={
                    "require": ["exp", "sub", "aud"],
                    "verify_aud": False,
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
            bound = claims["kubernetes.io"]
            namespace, account = bound["namespace"], bound["serviceaccount"]
            name, uid = account["name"], account["uid"]
            audiences = [claims["aud"]] if isinstance(claims["aud"], str) else list(claims["aud"])
            begins = max(time_of(claims.get("nbf", 0)), time_of(claims.get("iat", 0)))
            expires = time_of(claims["exp"])
        except (jwt.PyJWTError, KeyError, TypeError, ValueError):
            return None
        if not all(isinstance(text, str) for text in (namespace, name, uid, *audiences)):
            return None
        if claims["sub"] != f"system:serviceaccount:{namespace}:{name}":
            return None
        user = account_user(namespace, name, uid)
        jti = claims.get("jti")
        if isinstance(jti, str) and jti:
            user = replace(user, extra=((CREDENTIAL, (credential_of(jti),)),))
        return _Token(Key("", "serviceaccounts", namespace, name), begins, expires, frozenset(audiences), user)


def credential_of(jti: str) -> str:
    """The name of a signed token, in the words of a kube-apiserver."""
    return f"JTI={jti}"


def time_of(value: object) -> float:
    """A NumericDate. ValueError for anything but a number of the calendar."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not in_calendar(value):
        raise ValueError("a time is a number of seconds")
    return float(value)


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

    async def checked(self, token: str, audiences: Sequence[str]) -> CheckedToken | None:
        for authenticator in self._authenticators:
            checked = await authenticator.checked(token, audiences)
            if checked is not None:
                return checked
        return None


def bearer(header: str) -> str:
    """The token of an Authorization header, "" when it carries none."""
    scheme, _, token = header.partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and len(token) <= MAX_TOKEN_CHARS else ""
