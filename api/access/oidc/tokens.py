"""ID tokens of outside issuers as credentials.

A token is matched to an issuer by the name that it gives itself, which nothing vouches for yet. The signature is
checked with that issuer's keys alone. A token that was good is remembered until it ends, its key is withdrawn or its
issuer's configuration changes, so that it is verified once.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jwt
import orjson
import structlog

from api.access.auth import LEEWAY_S, MAX_TOKEN_CHARS, CheckedToken, digest_of, for_this_server, time_of
from api.access.oidc.claims import Claims, TokenRefusal, user_of
from api.access.oidc.config import Issuer
from api.access.oidc.keys import ALGORITHMS, Fetch, KeySet, PublicKey
from api.access.oidc.metrics import OidcMetrics
from api.objects.writing import User
from fleet.values.ports import Clock

REMEMBERED = 4096  # tokens that were good
SAY_EVERY_S = 60.0  # the same reason for tokens of one issuer is logged once in this time
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _KnownToken:
    """A good token. Times are epoch seconds."""

    issuer: Issuer
    key: PublicKey
    begins: float
    expires: float
    user: User


class OidcTokens:
    """The authenticator over the issuers of one configuration, which may be exchanged while it works."""

    def __init__(self, fetch: Fetch, clock: Clock, metrics: OidcMetrics) -> None:
        self._fetch, self._clock, self._metrics = fetch, clock, metrics
        self._issuers: dict[str, tuple[Issuer, KeySet]] = {}
        self._good: OrderedDict[bytes, _KnownToken] = OrderedDict()
        self._said: dict[tuple[str, str], float] = {}

    def configure(self, issuers: Sequence[Issuer]) -> None:
        """Use these issuers from now on. Keys that are known stay known; the others are fetched now."""
        key_sets = {keys.source: keys for _, keys in self._issuers.values()}
        before = {issuer.source.url: issuer for issuer, _ in self._issuers.values()}
        after: dict[str, tuple[Issuer, KeySet]] = {}
        for issuer in issuers:
            old = before.get(issuer.source.url)
            kept = old if old is not None and old.raw == issuer.raw else issuer
            keys = key_sets.get(issuer.source) or KeySet(issuer.source, self._fetch, self._clock, self._metrics)
            after[issuer.source.url] = (kept, keys)
            if issuer.source not in key_sets:
                keys.fetch_soon()
        gone = set(key_sets.values()) - {keys for _, keys in after.values()}
        self._issuers, self._said = after, {}
        for keys in gone:
            keys.cancel()

    async def stop(self) -> None:
        await asyncio.gather(*(keys.stop() for _, keys in self._issuers.values()))

    async def user(self, token: str) -> User | None:
        if not self._issuers or len(token) > MAX_TOKEN_CHARS or token.count(".") != 2:
            return None
        digest = digest_of(token)
        entry = self._good.get(digest)
        if entry is None or not self._still(entry):
            self._good.pop(digest, None)
            entry = await self._verified(token)
            if entry is None:
                return None
            self._good[digest] = entry
            if len(self._good) > REMEMBERED:
                self._good.popitem(last=False)
        return entry.user if entry.begins - LEEWAY_S <= self._clock.now() < entry.expires else None

    async def checked(self, token: str, audiences: Sequence[str]) -> CheckedToken | None:
        return for_this_server(await self.user(token), audiences)

    def _still(self, entry: _KnownToken) -> bool:
        """Whether a token's issuer is configured as it was, and still has the key."""
        issuer, keys = self._issuers.get(entry.issuer.source.url, (None, None))
        if issuer is not entry.issuer or keys is None:
            return False
        keys.refresh_if_old()
        return entry.key in keys

    async def _verified(self, token: str) -> _KnownToken | None:
        head, claims = _part(token, 0), _part(token, 1)
        name = claims.get("iss") if claims is not None else None
        if head is None or claims is None or not isinstance(name, str):
            return None
        issuer, keys = self._issuers.get(name, (None, None))
        if issuer is None or keys is None:
            return None
        try:
            key = await _signer(token, head, keys, issuer.algorithms)
            begins, expires = self._times(claims)
            _check_audience(issuer, claims)
            return _KnownToken(issuer, key, begins, expires, user_of(issuer, claims))
        except TokenRefusal as refused:
            self._say(name, refused)
            return None

    def _times(self, claims: Claims) -> tuple[float, float]:
        try:
            begins, expires = time_of(claims.get("nbf", 0)), time_of(claims.get("exp"))
        except ValueError:
            raise TokenRefusal("time", "a time of the token is no number, or its end is missing") from None
        now = self._clock.now()
        if now >= expires:
            raise TokenRefusal("time", "the token has expired")
        if now < begins - LEEWAY_S:
            raise TokenRefusal("time", "the token is not valid yet")
        return begins, expires

    def _say(self, issuer: str, refused: TokenRefusal) -> None:
        self._metrics.refused.labels(issuer, refused.why).inc()
        now = self._clock.monotonic()
        if now - self._said.get((issuer, refused.why), float("-inf")) >= SAY_EVERY_S:
            self._said[(issuer, refused.why)] = now
            log.warning("a token of an issuer is refused", issuer=issuer, why=str(refused)[:300])


def _part(token: str, number: int) -> dict[str, Any] | None:
    """The header or the claims, as the token gives them; None for what is no token."""
    raw = token.split(".")[number]
    try:
        found = orjson.loads(base64.b64decode(raw + "=" * (-len(raw) % 4), altchars=b"-_", validate=True))
    except (binascii.Error, orjson.JSONDecodeError, ValueError):
        return None
    return found if isinstance(found, dict) else None


async def _signer(token: str, head: dict[str, Any], keys: KeySet, algorithms: frozenset[str] | None) -> PublicKey:
    """The key that signed the token. Raises TokenRefusal."""
    algorithm, kid = head.get("alg"), head.get("kid", "")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS or "crit" in head or "b64" in head:
        raise TokenRefusal("algorithm", f"the algorithm {str(algorithm)[:20]!r} is not taken")
    if algorithms is not None and algorithm not in algorithms:
        raise TokenRefusal("algorithm", f"the algorithm {algorithm} is not one of this issuer's")
    if not isinstance(kid, str):
        raise TokenRefusal("key", "the name of the key is no text")
    found = await keys.find(kid, algorithm)
    if not found:
        raise TokenRefusal("key", "no key of the issuer that is known here is the token's")
    for key in found:
        try:
            jwt.api_jws.PyJWS().decode_complete(token, key.key, algorithms=[algorithm])
        except (jwt.PyJWTError, RecursionError):
            continue
        return key
    raise TokenRefusal("signature", "the signature is not the issuer's")


def _check_audience(issuer: Issuer, claims: Claims) -> None:
    audience = claims.get("aud")
    named = set(map(str, audience if isinstance(audience, list) else [audience]))
    if not named & issuer.audiences:
        raise TokenRefusal("audience", f"the token is for {sorted(named)[:5]}, not for {sorted(issuer.audiences)[:5]}")
