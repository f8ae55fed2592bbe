"""The users that are parts of Fleet: the agents of members, and the processes of one hub towards each other.

An agent's token is `fleet-agent.MEMBER.RANDOM`. The hub keeps its digest alone, in the Secret
fleet-system/agent-MEMBER, so a token ends with its Secret. A process of the hub signs a token of a minute for itself,
with a key made from the one that all processes share. Both users have one right each (`own_right`), whatever roles say.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence

import jwt

from api.access.auth import AUTHENTICATED, ISSUER, CheckedToken
from api.objects.writing import User
from api.wire.rights import Attributes
from fleet.values.names import label_problems
from fleet.values.ports import Clock, Key, Store
from fleet.values.untyped import mapping, text
from fleet.wellknown import AGENT, AGENT_USER, CLUSTER, PEER_USER, SYSTEM_NAMESPACE

AGENT_PREFIX, PEER_PREFIX = "fleet-agent.", "fleet-peer."
AGENT_GROUP = "system:fleet:agents"
PEER_S = 60
AUDIENCE = "fleet-peers"
DIGEST = "token-sha256"  # key of the Secret's data
_AGENT_CHARS = 256


class AgentTokens:
    """The tokens of agents. An Authenticator."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def user(self, token: str) -> User | None:
        if not token.startswith(AGENT_PREFIX) or len(token) > _AGENT_CHARS:
            return None
        name, separator, random = token.removeprefix(AGENT_PREFIX).partition(".")
        if not separator or not random or label_problems(name):
            return None
        secret = await self._store.get(Key("", "secrets", SYSTEM_NAMESPACE, f"{AGENT}-{name}"))
        known = text(mapping(secret.body.get("data")).get(DIGEST)) if secret is not None else ""
        if not known or not hmac.compare_digest(known, digest(token)):
            return None
        return User(AGENT_USER + name, (AGENT_GROUP, AUTHENTICATED))

    async def checked(self, token: str, audiences: Sequence[str]) -> CheckedToken | None:
        user = await self.user(token)
        return CheckedToken(user, (ISSUER,)) if user is not None and ISSUER in (audiences or (ISSUER,)) else None


def digest(token: str) -> str:
    """The form in which a Secret's data holds a token: base64 of the digest in hexadecimal."""
    from base64 import b64encode

    return b64encode(hashlib.sha256(token.encode()).hexdigest().encode()).decode()


class PeerTokens:
    """The tokens of the hub's own processes. An Authenticator. `key`: the PEM that all of them share."""

    def __init__(self, key: bytes, clock: Clock) -> None:
        self._key = hmac.digest(key, b"fleet peers", "sha256")
        self._clock = clock

    def issue(self) -> str:
        now = int(self._clock.now())
        claims = {"aud": AUDIENCE, "iat": now, "exp": now + PEER_S}
        return PEER_PREFIX + jwt.encode(claims, self._key, algorithm="HS256")

    async def user(self, token: str) -> User | None:
        if not token.startswith(PEER_PREFIX):
            return None
        try:
            claims = jwt.decode(
                token.removeprefix(PEER_PREFIX),
                self._key,
                algorithms=["HS256"],
                audience=AUDIENCE,
                options={"require": ["exp", "iat", "aud"], "verify_exp": False, "verify_iat": False},
            )
            begins, expires = float(claims["iat"]), float(claims["exp"])
        except (jwt.PyJWTError, TypeError, ValueError):
            return None
        if not begins - PEER_S <= self._clock.now() < expires + PEER_S:  # machines' clocks differ
            return None
        return User(PEER_USER, (AUTHENTICATED,))

    async def checked(self, token: str, audiences: Sequence[str]) -> CheckedToken | None:
        """For nobody else: a peer's token is no identity to show around."""
        return None


def own_right(user: User, attributes: Attributes) -> bool:
    """Whether it is the one thing that this part of Fleet is for: an agent serves its own member, a process of the hub
    reaches any."""
    if (attributes.verb, attributes.group, attributes.resource) != (
        "create",
        CLUSTER,
        "clusters",
    ) or not attributes.name:
        return False
    if attributes.subresource == "tunnel":
        return user.name == AGENT_USER + attributes.name and AGENT_GROUP in user.groups
    return attributes.subresource == "dial" and user.name == PEER_USER
