"""The keys of one issuer, as its discovery document leads to them.

A request waits for a fetch only where it has no other way: its issuer's keys are not known yet, or the token names a
key that is not among them. At most one fetch runs for an issuer. Between two fetches lies a pause, which grows while
fetches fail. So tokens that name invented keys cost the issuer nothing. Keys in use are fetched again from time to
time, so that a key that the issuer has withdrawn ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import orjson
import structlog
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt import PyJWTError
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from api.access.oidc.config import KeySource
from api.access.oidc.metrics import OidcMetrics
from fleet.values.ports import Clock

FETCH_S = 10.0  # both documents together
PAUSE_S = 10.0  # between two fetches; an issuer that changes its keys is noticed within this
FAILED_PAUSE_S = 1.0  # after a fetch that failed, doubled with each further one
FAILED_PAUSE_MAX_S = 60.0
REFRESH_S = 600.0  # the age of keys from which they are fetched again
DOCUMENT_BYTES_MAX = 256 * 1024
KEYS_MAX = 64
RSA_BITS = (2048, 8192)
EXPONENT_MAX = 2**31 - 1
CURVES = {"ES256": "secp256r1", "ES384": "secp384r1", "ES512": "secp521r1"}
ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", *CURVES})
log = structlog.get_logger(__name__)

# The document at a URL, asked for over HTTPS; the PEM of the authorities to trust, "" for those of the machine.
# Raises FetchFailure.
Fetch = Callable[[str, str], Awaitable[bytes]]


class FetchFailure(Exception):
    """A document could not be had."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A key that signatures are checked with, and the algorithms that it may be used for."""

    kid: str
    key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey
    algorithms: frozenset[str]


class KeySet:
    """The keys of one source, as they were fetched last."""

    def __init__(self, source: KeySource, fetch: Fetch, clock: Clock, metrics: OidcMetrics) -> None:
        self.source, self._fetch, self._clock, self._metrics = source, fetch, clock, metrics
        self._keys: tuple[PublicKey, ...] = ()
        self._fetched = float("-inf")
        self._next = float("-inf")  # no fetch before
        self._pause = FAILED_PAUSE_S
        self._task: asyncio.Task[None] | None = None

    def __contains__(self, key: PublicKey) -> bool:
        return key in self._keys

    async def find(self, kid: str, algorithm: str) -> tuple[PublicKey, ...]:
        """The keys that may have signed a token: those of this name, or all for a token that names none."""
        found = self._matching(kid, algorithm)
        if not found and (self._task is not None or self.may_fetch()):
            await asyncio.wait({self.fetch_soon()}, timeout=FETCH_S)
            found = self._matching(kid, algorithm)
        return found

    def refresh_if_old(self) -> None:
        """Fetch the keys again in the background, when they are old."""
        if self._clock.monotonic() - self._fetched > REFRESH_S and self.may_fetch():
            self.fetch_soon()

    def may_fetch(self) -> bool:
        return self._clock.monotonic() >= self._next

    def fetch_soon(self) -> asyncio.Task[None]:
        """The fetch that runs, or a new one. It raises nothing."""
        if self._task is None:
            self._task = asyncio.create_task(self._again(), name="oidc-keys")
        return self._task

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        task = self._task
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _matching(self, kid: str, algorithm: str) -> tuple[PublicKey, ...]:
        return tuple(key for key in self._keys if kid in ("", key.kid) and algorithm in key.algorithms)

    async def _again(self) -> None:
        try:
            async with asyncio.timeout(FETCH_S):
                self._keys = await self._fetched_keys()
        except Exception as error:  # whatever an issuer sends, the keys that are known stay
            why = "no answer in time" if isinstance(error, TimeoutError) else str(error)[:300]
            log.warning("the keys of an issuer cannot be fetched", issuer=self.source.url, why=why)
            self._metrics.fetched.labels(self.source.url, "failed").inc()
            self._next = self._clock.monotonic() + self._pause
            self._pause = min(2 * self._pause, FAILED_PAUSE_MAX_S)
        else:
            self._metrics.fetched.labels(self.source.url, "fetched").inc()
            self._fetched = self._clock.monotonic()
            self._next, self._pause = self._fetched + PAUSE_S, FAILED_PAUSE_S
        finally:
            self._task = None

    async def _fetched_keys(self) -> tuple[PublicKey, ...]:
        source = self.source
        document = _object(await self._fetch(source.document_url, source.certificate_authority))
        if document.get("issuer") != source.url:
            raise FetchFailure("the discovery document is of another issuer")
        where = document.get("jwks_uri")
        if not isinstance(where, str) or not where.startswith("https://"):
            raise FetchFailure("the discovery document names no jwks_uri of HTTPS")
        keys = _object(await self._fetch(where, source.certificate_authority)).get("keys")
        if not isinstance(keys, list):
            raise FetchFailure("the key document has no keys")
        found = [key for key in map(public_key, keys[:KEYS_MAX]) if key is not None]
        if not found:
            raise FetchFailure("the key document has no key that can be used")
        return self._keys if self._keys == tuple(found) else tuple(found)


def _object(raw: bytes) -> dict[str, Any]:
    if len(raw) > DOCUMENT_BYTES_MAX:
        raise FetchFailure(f"a document of more than {DOCUMENT_BYTES_MAX} bytes")
    try:
        found = orjson.loads(raw)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise FetchFailure("a document is no JSON object")
    return found


def public_key(jwk: Any) -> PublicKey | None:
    """A key of a JWKS; None for one that signs nothing here: for encryption, of another sort, too weak, too large, or
    broken."""
    if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig" or "d" in jwk:
        return None
    kid, algorithm = jwk.get("kid", ""), jwk.get("alg")
    if not isinstance(kid, str):
        return None
    key: Any
    try:
        if jwk.get("kty") == "RSA":
            key = RSAAlgorithm.from_jwk(jwk)
            fits = _fits_rsa(key)
        elif jwk.get("kty") == "EC":
            key = ECAlgorithm.from_jwk(jwk)
            fits = {name for name, curve in CURVES.items() if key.curve.name == curve}
        else:
            return None
    except (PyJWTError, ValueError, TypeError, AttributeError):
        return None
    algorithms = frozenset(fits if algorithm is None else fits & {algorithm} if isinstance(algorithm, str) else ())
    return PublicKey(kid, key, algorithms) if algorithms else None


def _fits_rsa(key: rsa.RSAPublicKey) -> set[str]:
    least, most = RSA_BITS
    if not least <= key.key_size <= most or key.public_numbers().e > EXPONENT_MAX:
        return set()
    return set(ALGORITHMS - set(CURVES))
