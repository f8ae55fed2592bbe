"""Requests to one member, each with a time limit, and no more of them at once than the member should get.

A member that answers slowly fills its own places here and no other member's. What comes back is an `Answer` for every
HTTP status; only the lack of an answer is an exception, `Unreachable`, because there is nothing to look at then.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import orjson

from fleet.ports import Body

CONCURRENCY = 16  # requests at once, watches not counted
REQUEST_S = 15.0  # for one request, once it has a place
PLACE_S = 60.0  # to wait for a place
CONNECT_S = 5.0


class Unreachable(Exception):
    """No answer: refused, reset, timed out, or something that is not the API."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Body
    etag: str = ""

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def message(self) -> str:
        """What the API said about a refusal."""
        return str(self.body.get("message") or f"HTTP {self.status}")


def _decode(content: bytes, status: int) -> Body:
    if not content:
        return {}
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        # Proxies and dying servers answer in prose; 2xx prose is not a Kubernetes API.
        if 200 <= status < 300:
            raise Unreachable("the server's answer is not JSON") from None
        return {"message": content[:300].decode("utf-8", "replace").strip()}
    return body if isinstance(body, dict) else {}


class Connection:
    """Wraps the client of `client_from_kubeconfig`; owns it and closes it."""

    def __init__(
        self, client: httpx.AsyncClient, *, concurrency: int = CONCURRENCY, request_s: float = REQUEST_S
    ) -> None:
        self._client = client
        self._places = asyncio.Semaphore(concurrency)
        self._request_s = request_s
        self.lost: Callable[[], bool] = lambda: False  # set by the member: whether it is known not to answer

    async def aclose(self) -> None:
        await self._client.aclose()

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
    ) -> Answer:
        """One request and its whole answer, within `limit_s` seconds of getting a place. Raises Unreachable; without
        `even_lost` at once when the member is known not to answer, so that nothing queues up for it."""
        limit_s = self._request_s if limit_s is None else limit_s
        sent = dict(headers or ())
        content = None
        if body is not None:
            content = orjson.dumps(body)
            sent["content-type"] = content_type
        await self._place()
        try:
            if not even_lost and self.lost():
                raise Unreachable("the member does not answer")
            async with asyncio.timeout(limit_s):
                timeout = httpx.Timeout(limit_s, connect=min(CONNECT_S, limit_s))
                response = await self._client.request(
                    method, path, params=params, content=content, headers=sent, timeout=timeout
                )
        except TimeoutError as error:
            raise Unreachable(f"no answer within {limit_s:g} s") from error
        except httpx.TimeoutException as error:
            raise Unreachable(f"no answer within {limit_s:g} s ({type(error).__name__})") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            raise Unreachable(str(error) or type(error).__name__) from error
        finally:
            self._places.release()
        return Answer(
            response.status_code, _decode(response.content, response.status_code), response.headers.get("etag", "")
        )

    async def _place(self) -> None:
        try:
            async with asyncio.timeout(PLACE_S):
                await self._places.acquire()
        except TimeoutError as error:
            raise Unreachable(f"the member was busy for {PLACE_S:g} s") from error

    async def probe(self, limit_s: float) -> Answer:
        """/readyz, beside the places for requests: a busy member is not a lost one."""
        try:
            async with asyncio.timeout(limit_s):
                response = await self._client.get("/readyz", timeout=httpx.Timeout(limit_s))
        except (TimeoutError, httpx.TimeoutException) as error:
            raise Unreachable(f"/readyz: no answer within {limit_s:g} s") from error
        except (httpx.HTTPError, OSError) as error:
            raise Unreachable(f"/readyz: {error or type(error).__name__}") from error
        return Answer(response.status_code, {"message": response.text[:300]})

    @asynccontextmanager
    async def lines(
        self, path: str, params: Mapping[str, str], *, silence_s: float
    ) -> AsyncIterator[tuple[Answer, AsyncIterator[bytes]]]:
        """A streamed answer, line by line; `silence_s` without a byte raises Unreachable, as every break does."""
        timeout = httpx.Timeout(silence_s, connect=CONNECT_S)
        try:
            async with self._client.stream("GET", path, params=params, timeout=timeout) as response:
                if response.status_code != 200:
                    content = await response.aread()
                    yield Answer(response.status_code, _decode(content, response.status_code)), _nothing()
                else:
                    yield Answer(200, {}), _split(response)
        except (httpx.HTTPError, OSError) as error:
            raise Unreachable(str(error) or type(error).__name__) from error


async def _nothing() -> AsyncIterator[bytes]:
    empty: tuple[bytes, ...] = ()
    for line in empty:
        yield line


async def _split(response: httpx.Response) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in response.aiter_bytes():
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line
