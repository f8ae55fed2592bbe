"""The requests of one API process to members, with the credentials that the hub holds for each.

Each member has its own pool of connections and its own bound on requests. A member that is slow or gone gets 503 or
504 within ten seconds and never costs another member anything.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from api.engine.status import StatusError, not_found, unavailable
from fleet.members.kubeconfig import Dial
from fleet.values.kubeconfig.document import BadKubeconfig
from fleet.values.ports import Key, Store
from fleet.wellknown import CLUSTER, SYSTEM_NAMESPACE

if TYPE_CHECKING:  # loaded by the first request: an API process that was killed is back without it
    import httpx

ANSWER_S = 9.0  # until a member begins to answer
CONNECT_S = 5.0
MAX_REQUESTS = 256  # at once to one member, watches included
WHOLE_BYTES_MAX = 8 * 1024 * 1024  # of an answer that is read whole: a page of pods
Headers = Sequence[tuple[bytes, bytes]]


@dataclass(slots=True)
class MemberClient:
    """The client for one member, for one state of its credentials."""

    credentials: tuple[str, int, bool]  # uid and revision of the secret; whether its agent reaches the member
    client: httpx.AsyncClient
    requests: int = 0


class MemberAnswer:
    """An answer that has begun. `aclose` gives its place back, and closes a connection that is not at its end."""

    def __init__(self, member: str, response: httpx.Response, pool: MemberClient) -> None:
        self.member, self.response = member, response
        self._pool: MemberClient | None = pool

    async def aclose(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.requests -= 1
            await self.response.aclose()

    async def whole(self, within_s: float = ANSWER_S) -> bytes:
        """The body. StatusError 503 for one without end, 504 for one that does not come."""
        parts, size = [], 0
        try:
            async with asyncio.timeout(within_s):
                async for part in self.response.aiter_raw():
                    parts.append(part)
                    size += len(part)
                    if size > WHOLE_BYTES_MAX:
                        raise unavailable(f"cluster {self.member}: its answer is too large")
        except TimeoutError:
            raise _late(self.member, within_s) from None
        return b"".join(parts)


class MemberClients:
    """`aclose` when the API stops. `dial` reaches members that only their agents reach."""

    def __init__(
        self, store: Store, *, dial: Dial | None = None, answer_s: float = ANSWER_S, most: int = MAX_REQUESTS
    ) -> None:
        self.answer_s = answer_s
        self.pools: dict[str, MemberClient] = {}
        self._dial = dial
        self._store = store
        self._most = most

    async def aclose(self) -> None:
        pools, self.pools = list(self.pools.values()), {}
        for pool in pools:
            await pool.client.aclose()

    async def send(self, name: str, method: str, target: str, headers: Headers, content: bytes = b"") -> MemberAnswer:
        """The beginning of the member's answer, which the caller closes. StatusError 404 for an unknown cluster, 429
        for too many requests, 503 and 504 for a member that gives no answer."""
        import httpx

        pool = await self._pool(name)
        if pool.requests >= self._most:
            raise StatusError(429, "TooManyRequests", f"too many requests to cluster {name} at once", retry_after_s=1)
        upstream = pool.client.build_request(
            method,
            target,
            headers=list(headers),
            content=content,
            timeout=httpx.Timeout(None, connect=CONNECT_S, pool=CONNECT_S),
        )
        pool.requests += 1
        try:
            async with asyncio.timeout(self.answer_s):
                response = await pool.client.send(upstream, stream=True)
        except (TimeoutError, httpx.ReadTimeout):
            pool.requests -= 1
            raise _late(name, self.answer_s) from None
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            pool.requests -= 1
            text = " ".join(str(error).split())[:200] or type(error).__name__
            raise unavailable(f"cluster {name} cannot be reached: {text}") from None
        except BaseException:
            pool.requests -= 1
            raise
        return MemberAnswer(name, response, pool)

    async def read(self, name: str, target: str, accept: str = "application/json") -> dict[str, Any] | None:
        """An object of the member's API; None for one that it does not have. StatusError as `send`, and 503 for any
        other answer than an object."""
        import httpx

        headers = [(b"accept", accept.encode()), (b"accept-encoding", b"identity")]
        answer = await self.send(name, "GET", target, headers)
        try:
            content = await answer.whole(self.answer_s)
        except httpx.HTTPError as error:
            raise unavailable(f"cluster {name} broke its answer off: {type(error).__name__}") from None
        finally:
            await answer.aclose()
        if answer.response.status_code == 404:
            return None
        try:
            body = orjson.loads(content)
        except orjson.JSONDecodeError:
            body = None
        if answer.response.status_code != 200 or not isinstance(body, dict):
            raise unavailable(f"cluster {name} answers {answer.response.status_code} to the hub", 5)
        return body

    async def _pool(self, name: str) -> MemberClient:
        """The member's pool; StatusError 404 for an unknown cluster, 503 for one without usable credentials."""
        from fleet.members.relay import client_from_kubeconfig

        cluster = await self._store.get(Key(CLUSTER, "clusters", "", name))
        if cluster is None:
            raise not_found(CLUSTER, "clusters", name)
        ref = (cluster.body.get("spec") or {}).get("secretRef") or {}
        secret = await self._store.get(
            Key("", "secrets", str(ref.get("namespace") or SYSTEM_NAMESPACE), str(ref.get("name") or ""))
        )
        if secret is None:
            raise unavailable(f"cluster {name} has no credentials: its secretRef names no secret", 5)
        pull = (cluster.body.get("spec") or {}).get("syncMode") == "Pull"
        if pull and self._dial is None:
            raise unavailable(f"cluster {name} is reached by its agent, and this process knows no way to agents", 5)
        credentials = (secret.uid, secret.revision, pull)
        pool = self.pools.get(name)
        if pool is not None and pool.credentials == credentials:
            return pool
        try:
            text = b64decode((secret.body.get("data") or {}).get("kubeconfig", ""), validate=True).decode()
            dialled = partial(self._dial, name) if pull and self._dial is not None else None
            client = await asyncio.to_thread(client_from_kubeconfig, text, dialled)
        except (BadKubeconfig, Base64Error, UnicodeDecodeError, TypeError) as error:
            raise unavailable(f"cluster {name}: its kubeconfig cannot be used: {error}", 5) from None
        known = self.pools.get(name)
        if known is not None and known.credentials == credentials:  # another request was faster
            await client.aclose()
            return known
        if known is not None and known.requests == 0:
            await known.client.aclose()
        fresh = self.pools[name] = MemberClient(credentials, client)
        return fresh


def _late(member: str, seconds: float) -> StatusError:
    return StatusError(504, "Timeout", f"cluster {member} did not answer within {seconds:g} s", retry_after_s=1)
