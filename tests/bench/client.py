"""Asking a hub or a member with as little work as possible: on the machine that also runs the hub, what a client spends
is missing there."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import yaml

JSON = {"Content-Type": "application/json"}
MERGE = {"Content-Type": "application/merge-patch+json"}
CLIENTS = 20
TOTAL_S = 310.0
JOBS = "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs"


def session(kubeconfig: Path) -> aiohttp.ClientSession:
    """A session with the server and token of the kubeconfig."""
    config: dict[str, Any] = yaml.safe_load(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    data = base64.b64decode(cluster.get("certificate-authority-data", "")).decode()
    trust = ssl.create_default_context(cafile=cluster.get("certificate-authority"), cadata=data or None)
    return aiohttp.ClientSession(
        cluster["server"],
        connector=aiohttp.TCPConnector(ssl=trust, limit=0),
        headers={"Authorization": f"Bearer {user['token']}"},
        timeout=aiohttp.ClientTimeout(total=TOTAL_S),
    )


async def post(client: aiohttp.ClientSession, path: str, body: Mapping[str, Any]) -> None:
    async with client.post(path, data=orjson.dumps(body), headers=JSON) as answer:
        assert answer.status == 201, await answer.text()


async def post_all(client: aiohttp.ClientSession, path: str, bodies: Iterable[Mapping[str, Any]]) -> None:
    """Post them as fast as CLIENTS clients can that wait for each answer."""
    left = iter(bodies)

    async def work() -> None:
        for body in left:
            await post(client, path, body)

    await asyncio.gather(*(work() for _ in range(CLIENTS)))


async def patch(client: aiohttp.ClientSession, path: str, body: Mapping[str, Any]) -> None:
    async with client.patch(path, data=orjson.dumps(body), headers=MERGE) as answer:
        assert answer.status == 200, await answer.text()


async def items(client: aiohttp.ClientSession, path: str) -> list[dict[str, Any]]:
    async with client.get(path) as answer:
        assert answer.status == 200, await answer.text()
        found: list[dict[str, Any]] = orjson.loads(await answer.read())["items"]
        return found


async def watched(client: aiohttp.ClientSession, path: str) -> AsyncIterator[list[dict[str, Any]]]:
    """The objects of a collection as they are, then as they change: all that came in one piece, at once."""
    async with client.get(path, params={"watch": "true", "timeoutSeconds": "300"}) as answer:
        rest = b""
        async for chunk in answer.content.iter_any():
            *lines, rest = (rest + chunk).split(b"\n")
            yield [orjson.loads(line)["object"] for line in lines]
