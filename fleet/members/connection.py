"""Requests to one member, each with a time limit, and no more of them at once than the member should get.

A member that answers slowly fills its own places here and no other member's. Every HTTP status comes back as an
`HttpAnswer`. Only the lack of an answer is an exception, `Unreachable`, because there is nothing to look at then.

aiohttp and not httpx: a request costs it a tenth of a millisecond instead of one and a half, and every job is a few
requests (docs/decisions/0008).
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from fleet.members.connector import DialledConnector
from fleet.members.kubeconfig import MemberAccess
from fleet.members.texts import LINE_MAX, one_line
from fleet.traces.span import TRACEPARENT
from fleet.values.ports import Body

CONCURRENCY = 16  # requests at once, watches not counted
REQUEST_S = 15.0  # for one request, once it has a place
PLACE_S = 60.0  # to wait for a place
CONNECT_S = 5.0
KEPT_S = 60.0  # an idle connection
ANSWER_BYTES_MAX = 16 << 20  # of one whole answer, and of one line of a stream: no API server stores an object so large
REFUSAL_BYTES_MAX = 256 << 10  # that are read of an answer that is none
_NO_ANSWER = (aiohttp.ClientError, OSError)
NOT_REACHABLE, BAD_ANSWERS = "ClusterNotReachable", "BadAnswers"
NOT_TRUSTED, NOT_LET_IN = "CertificateNotTrusted", "CredentialsRefused"
_CONNECT_ONLY = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)  # the rest is bounded around the request


class Unreachable(Exception):
    """No answer: refused, reset, timed out, or something that is not the API. `reason`: of the Cluster's condition,
    while this is the cause of its silence."""

    def __init__(self, message: str, reason: str = NOT_REACHABLE) -> None:
        super().__init__(one_line(message))
        self.reason = reason


class TooLarge(Unreachable):
    """An answer without an end in sight: a member must not fill the hub's memory."""

    def __init__(self, most: int) -> None:
        super().__init__(f"its answer is larger than {most >> 20} MiB", BAD_ANSWERS)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: int
    body: Body
    etag: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def message(self) -> str:
        """The API's text about a refusal."""
        return one_line(self.body.get("message")) or f"HTTP {self.status}"


def _decode(content: bytes, status: int) -> Body:
    if not content:
        return {}
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        # Proxies and dying servers answer in prose; 2xx prose is not a Kubernetes API.
        if 200 <= status < 300:
            raise Unreachable("the server's answer is not JSON", BAD_ANSWERS) from None
        return {"message": content[: 4 * LINE_MAX].decode("utf-8", "replace")}
    return body if isinstance(body, dict) else {}


def _unreachable(error: Exception, where: str = "") -> Unreachable:
    text = f"{where}{error or type(error).__name__}"
    of_tls = isinstance(error, aiohttp.ClientConnectorCertificateError | ssl.SSLCertVerificationError)
    if of_tls:
        return Unreachable(f"its certificate is not of the CA in its kubeconfig: {text}", NOT_TRUSTED)
    return Unreachable(text)


def not_let_in(where: str, answer: HttpAnswer) -> Unreachable:
    """For an answer 401: the credentials have expired, or were taken back."""
    return Unreachable(f"{where}: it refuses the credentials in its kubeconfig: {answer.message}", NOT_LET_IN)


def _connector(access: MemberAccess) -> aiohttp.BaseConnector:
    if access.dial is not None:
        return DialledConnector(access.dial, access.tls, access.tls_name, keepalive_timeout=KEPT_S)
    return aiohttp.TCPConnector(limit=0, keepalive_timeout=KEPT_S, ssl=access.tls)


class Connection:
    """An HTTP session with one member; make it on the event loop that uses it, and close it."""

    def __init__(self, access: MemberAccess, *, concurrency: int = CONCURRENCY, request_s: float = REQUEST_S) -> None:
        self._server = access.server
        self._session = aiohttp.ClientSession(
            connector=_connector(access),
            headers=dict(access.headers),
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=access.proxy,
        )
        self._tls_name = access.tls_name
        self._places = asyncio.Semaphore(concurrency)
        self._request_s = request_s
        self.lost: Callable[[], bool] = lambda: False  # set by the member: whether it is known not to answer
        self.may_write: Callable[[], bool] = lambda: True  # whether this process is sure that it still leads

    async def aclose(self) -> None:
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        limit_s: float | None = None,
        even_lost: bool = True,
    ) -> HttpAnswer:
        """One request and its whole answer, within `limit_s` seconds of getting a place. Raises Unreachable; without
        `even_lost` at once when the member is known not to answer, so that nothing queues up for it. A process that may
        have been replaced sends no request that changes the member (I11): the hub fences writes, a member cannot.
        """
        limit_s = self._request_s if limit_s is None else limit_s
        fields = dict(headers or ())
        if parent := TRACEPARENT.get():
            fields["traceparent"] = parent
        content = None
        if body is not None:
            content = orjson.dumps(body)
            fields["content-type"] = content_type
        await self._place()
        try:
            if not even_lost and self.lost():
                raise Unreachable("the member does not answer")
            if method != "GET" and not self.may_write():
                raise Unreachable("not sent: another process may lead by now")
            async with asyncio.timeout(limit_s), self._send(method, path, params, content, fields) as response:
                answered = await _answered(response)
        except TimeoutError as error:
            raise Unreachable(f"no answer within {limit_s:g} s") from error
        except _NO_ANSWER as error:
            raise _unreachable(error) from error
        finally:
            self._places.release()
        return HttpAnswer(response.status, _decode(answered, response.status), response.headers.get("etag", ""))

    def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: aiohttp.ClientTimeout = _CONNECT_ONLY,
    ) -> Any:
        return self._session.request(
            method,
            self._server + path,
            params=params,
            data=content,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            server_hostname=self._tls_name,
        )

    async def _place(self) -> None:
        try:
            async with asyncio.timeout(PLACE_S):
                await self._places.acquire()
        except TimeoutError as error:
            raise Unreachable(f"the member was busy for {PLACE_S:g} s") from error

    async def probe(self, limit_s: float) -> HttpAnswer:
        """/readyz, beside the places for requests: a busy member is not a lost one."""
        try:
            async with asyncio.timeout(limit_s), self._send("GET", "/readyz") as response:
                content = await _beginning(response)
        except TimeoutError as error:
            raise Unreachable(f"/readyz: no answer within {limit_s:g} s") from error
        except _NO_ANSWER as error:
            raise _unreachable(error, "/readyz: ") from error
        return HttpAnswer(response.status, _decode(content, response.status) if response.status >= 300 else {})  # "ok"

    async def fetch(self, path: str, *, limit_s: float, limit_bytes: int) -> tuple[int, bytes]:
        """Status and body of a GET as they come, beside the places for requests: no job waits for it. Raises
        Unreachable."""
        if self.lost():
            raise Unreachable("the member does not answer")
        try:
            async with (
                asyncio.timeout(limit_s),
                self._send("GET", path, headers={"accept-encoding": "identity"}) as response,
            ):
                return response.status, await _whole(response, limit_bytes)
        except TimeoutError as error:
            raise Unreachable(f"no answer within {limit_s:g} s") from error
        except _NO_ANSWER as error:
            raise _unreachable(error) from error

    @asynccontextmanager
    async def lines(
        self, path: str, params: Mapping[str, str], *, silence_s: float
    ) -> AsyncIterator[tuple[HttpAnswer, AsyncIterator[list[bytes]]]]:
        """A streamed answer, its lines as they come, several at a time; `silence_s` without a byte raises Unreachable,
        as every break does. So does a member that is known not to answer, at once: which cluster comes back there is
        not known yet."""
        if self.lost():
            raise Unreachable("the member does not answer")
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silence_s)
        try:
            async with self._send("GET", path, params, timeout=timeout) as response:
                if response.status != 200:
                    content = await _beginning(response)
                    yield HttpAnswer(response.status, _decode(content, response.status)), _nothing()
                else:
                    yield HttpAnswer(200, {}), _split(response)
        except (TimeoutError, *_NO_ANSWER) as error:
            raise _unreachable(error) from error


async def _nothing() -> AsyncIterator[list[bytes]]:
    empty: tuple[list[bytes], ...] = ()
    for lines in empty:
        yield lines


async def _answered(response: aiohttp.ClientResponse) -> bytes:
    """The body of an answer; of a refusal as much as is read of it."""
    return await _whole(response, ANSWER_BYTES_MAX) if response.ok else await _beginning(response)


async def _whole(response: aiohttp.ClientResponse, most: int) -> bytes:
    """The answer's body. Raises TooLarge."""
    parts, size = [], 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > most:
            raise TooLarge(most)
        parts.append(chunk)
    return b"".join(parts)


async def _beginning(response: aiohttp.ClientResponse) -> bytes:
    """The body of a refusal, or its beginning: the connection ends with the rest unread."""
    parts, size = [], 0
    async for chunk in response.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size > REFUSAL_BYTES_MAX:
            break
    return b"".join(parts)[:REFUSAL_BYTES_MAX]


async def _split(response: aiohttp.ClientResponse) -> AsyncIterator[list[bytes]]:
    """The lines of a stream. Raises TooLarge for a line without an end."""
    begun: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        first, *rest = chunk.split(b"\n")
        begun.append(first)
        size += len(first)
        if size > ANSWER_BYTES_MAX:
            raise TooLarge(ANSWER_BYTES_MAX)
        if not rest:
            continue
        *whole, last = b"".join(begun), *rest
        yield [line for line in whole if line]
        begun, size = [last], len(last)
