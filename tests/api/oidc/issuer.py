"""An issuer of ID tokens: its keys, its two documents, and tokens that it signs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.api_jws import PyJWS

from api.access.oidc.keys import FetchFailure
from fleet.simulate.wall import WallClock

URL = "https://issuer.example"
AUDIENCE = "fleet"
NOW = 1_800_000_000.0
_CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}


class Hand(WallClock):
    """A clock that is set by hand."""

    def __init__(self, now: float = NOW) -> None:
        super().__init__()
        self.at = now

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return self.at


@cache
def signing_key(algorithm: str = "RS256", number: int = 0, bits: int = 2048) -> Any:
    """One private key for each number, made once in a run of the tests."""
    if algorithm in _CURVES:
        return ec.generate_private_key(_CURVES[algorithm])
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def jwk(private: Any, kid: str, **more: Any) -> dict[str, Any]:
    algorithm = RSAAlgorithm if isinstance(private, rsa.RSAPrivateKey) else ECAlgorithm
    found: dict[str, Any] = json.loads(algorithm.to_jwk(private.public_key()))
    found.pop("key_ops", None)
    return {**found, "kid": kid, "use": "sig", **more}


@dataclass
class Issuer:
    """`keys`: what it publishes. `down`: it answers nothing. `asked`: the URLs that were fetched."""

    url: str = URL
    keys: list[dict[str, Any]] = field(default_factory=list)
    down: bool = False
    hangs: bool = False
    named: str = ""
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys = self.keys or [jwk(signing_key(), "first")]

    async def fetch(self, url: str, authority: str) -> bytes:
        self.asked.append(url)
        if self.hangs:
            await asyncio.Event().wait()
        if self.down:
            raise FetchFailure("no connection")
        if url == f"{self.url}/.well-known/openid-configuration":
            return json.dumps({"issuer": self.named or self.url, "jwks_uri": f"{self.url}/keys"}).encode()
        assert url == f"{self.url}/keys"
        return json.dumps({"keys": self.keys}).encode()

    def token(
        self,
        *,
        key: Any = None,
        kid: str | None = "first",
        algorithm: str = "RS256",
        head: dict[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """A token that is good for ten minutes; a claim of None is left out."""
        whole = {
            "iss": self.url,
            "aud": AUDIENCE,
            "sub": "ann",
            "iat": NOW,
            "exp": NOW + 600,
            "groups": ["dev", "ops"],
            **claims,
        }
        kept = {name: value for name, value in whole.items() if value is not None}
        headers = {**({"kid": kid} if kid is not None else {}), **(head or {})}
        return PyJWS().encode(json.dumps(kept).encode(), key or signing_key(), algorithm=algorithm, headers=headers)


def entry(url: str = URL, **more: Any) -> dict[str, Any]:
    """One issuer of an AuthenticationConfiguration."""
    return {
        "issuer": {"url": url, "audiences": [AUDIENCE]},
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "oidc:"},
            "groups": {"claim": "groups", "prefix": "oidc:"},
        },
        **more,
    }


def configuration(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": list(entries)}
