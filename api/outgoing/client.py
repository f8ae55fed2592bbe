"""The one client for requests of the hub to servers that are named to it: webhooks, issuers, receivers of audits.

Each request goes by https to an address that is looked up once and then checked (allowlist.py). No redirect is
followed, no proxy of the environment is used, no cookie is kept, and both the time and the size of an answer are
bounded.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import aiohttp
import yarl

from api.outgoing.allowlist import AllowList
from api.outgoing.errors import OutgoingError, Reason
from api.outgoing.reach import Reach, Resolver

CONNECT_S = 5.0  # of one request, within its own time
KEPT_S = 30.0  # an idle connection
CONNECTIONS_MAX, CONNECTIONS_OF_HOST_MAX = 256, 64
URL_CHARACTERS_MAX = 2048
_TRUSTS_MAX = 128  # kept TLS settings; a connection is used again under the same ones alone


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer. `headers` have names in lower case. Nothing of an answer is shown to a user as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class OutgoingClient:
    """Make it anywhere, use it on one event loop, and close it there."""

    def __init__(self, allowed: AllowList, *, resolver: Resolver | None = None) -> None:
        """`resolver`: how names become addresses; None: as the machine does it."""
        self._reach = Reach(allowed, resolver)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> OutgoingClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()
        self._reach.stop()

    async def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        ca: str | None = None,
        server_name: str | None = None,
        timeout: float,
        limit: int,
    ) -> Answer:
        """One request and its whole answer, within `timeout` seconds and `limit` bytes; OutgoingError otherwise. `ca`:
        certificates (PEM) to trust in place of the machine's. `server_name`: the name in the server's certificate,
        where it is not that of the URL."""
        target = _target(url)
        self._reach.check_literal(str(target.raw_host), target.port or 443)
        trust = _trust(ca)
        sent = {"accept-encoding": "identity", **(headers or {})}
        try:
            async with asyncio.timeout(timeout):
                return await self._ask(method, target, body, sent, trust, server_name, limit)
        except TimeoutError:
            raise OutgoingError(Reason.TIMED_OUT, f"no answer within {timeout:g} s") from None
        except aiohttp.ClientConnectorCertificateError:
            raise OutgoingError(Reason.BAD_CERTIFICATE, "its certificate is not trusted") from None
        except ssl.SSLError:
            raise OutgoingError(Reason.BAD_CERTIFICATE, "the TLS handshake failed") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise OutgoingError(Reason.UNREACHABLE, _why(error)) from None

    async def connect(self, host: str, port: int, *, timeout: float) -> socket.socket:
        """A connection to a server that speaks no HTTP, such as a mail server, within `timeout` seconds; OutgoingError
        otherwise. The socket is the caller's to close."""
        self._reach.check_literal(host, port)
        try:
            async with asyncio.timeout(timeout):
                for found in await self._reach.resolve(host, port):
                    connected = socket.socket(found["family"], socket.SOCK_STREAM)
                    connected.setblocking(False)
                    try:
                        await asyncio.get_running_loop().sock_connect(connected, (found["host"], port))
                        return connected
                    except OSError:
                        connected.close()
                    except BaseException:
                        connected.close()
                        raise
                raise OutgoingError(Reason.UNREACHABLE, "it takes no connection")
        except TimeoutError:
            raise OutgoingError(Reason.TIMED_OUT, f"no connection within {timeout:g} s") from None
        except OSError:
            raise OutgoingError(Reason.UNREACHABLE, "its name has no address") from None

    async def _ask(
        self,
        method: str,
        target: yarl.URL,
        body: bytes | None,
        headers: Mapping[str, str],
        trust: ssl.SSLContext,
        server_name: str | None,
        limit: int,
    ) -> Answer:
        session = self._open()
        for again in (False, True):
            traced = SimpleNamespace(reused=False)
            try:
                async with session.request(
                    method,
                    target,
                    data=body,
                    headers=headers,
                    ssl=trust,
                    server_hostname=server_name,
                    allow_redirects=False,
                    trace_request_ctx=traced,
                ) as response:
                    if 300 <= response.status < 400 and response.status != 304:
                        raise OutgoingError(Reason.REDIRECTED, f"it redirects (HTTP {response.status})")
                    content = await _whole(response, limit)
                    named = {name.lower(): value for name, value in response.headers.items()}
                    return Answer(response.status, named, content)
            except (aiohttp.ServerDisconnectedError, ConnectionError):
                # A server may close an idle connection in the moment in which it is used again.
                if again or not traced.reused:
                    raise
        raise AssertionError("the second try returns or raises")

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=CONNECTIONS_MAX,
                limit_per_host=CONNECTIONS_OF_HOST_MAX,
                keepalive_timeout=KEPT_S,
                use_dns_cache=False,
                resolver=self._reach,
            )
            tracing = aiohttp.TraceConfig()
            tracing.on_connection_reuseconn.append(_reused)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                trace_configs=[tracing],
                headers={"user-agent": "fleet"},
            )
        return self._session


async def _reused(session: aiohttp.ClientSession, context: SimpleNamespace, parameters: Any) -> None:
    context.trace_request_ctx.reused = True


def _target(url: str) -> yarl.URL:
    """The parsed URL; OutgoingError where the hub sends no request to it."""
    if len(url) > URL_CHARACTERS_MAX or not url.isprintable() or " " in url or "\\" in url:
        raise OutgoingError(Reason.REFUSED, "the address is no URL")
    try:
        target = yarl.URL(url)
        host, port = target.raw_host, target.port
    except (ValueError, UnicodeError):
        raise OutgoingError(Reason.REFUSED, "the address is no URL") from None
    if target.scheme != "https":
        raise OutgoingError(Reason.REFUSED, "the address is not one of https")
    if not host or not port:
        raise OutgoingError(Reason.REFUSED, "the address names no host")
    if target.raw_user is not None or target.raw_password is not None:
        raise OutgoingError(Reason.REFUSED, "the address has a user or a password in it")
    return target.with_fragment(None)


@lru_cache(maxsize=_TRUSTS_MAX)
def _trust(ca: str | None) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=ca) if ca else ssl.create_default_context()
    except (ssl.SSLError, ValueError):
        raise OutgoingError(Reason.BAD_CERTIFICATE, "its CA certificates cannot be read") from None
    # As in Go: a server's own certificate may be named as the one to trust, and small faults of its form do not count.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


async def _whole(response: aiohttp.ClientResponse, limit: int) -> bytes:
    parts, size = [], response.content_length or 0
    if size <= limit:
        size = 0
        async for chunk in response.content.iter_any():
            size += len(chunk)
            if size > limit:
                break
            parts.append(chunk)
    if size > limit:
        response.close()  # the rest is not read
        raise OutgoingError(Reason.TOO_LARGE, f"its answer is larger than {limit} bytes")
    return b"".join(parts)


def _why(error: Exception) -> str:
    """A text of few words: that of the error may quote the server."""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its name has no address"
    if isinstance(error, aiohttp.ClientConnectorError | ConnectionRefusedError):
        return "it takes no connection"
    if isinstance(error, aiohttp.ServerDisconnectedError | ConnectionError):
        return "it closed the connection"
    return "its answer is not HTTP"
