"""No request holds the event loop: what one client sends, everybody else would wait for."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import AsyncIterator, MutableMapping
from typing import Any
from urllib.parse import unquote

import orjson
import pytest
import pytest_asyncio

from api.engine.bounds import CONTAINERS_MAX, refuse_shape
from fleet.hub.collecting import AFTER
from tests.security.hub import Hub, open_hub
from tests.security.loopwatch import Steps, watched
from tests.security.nasty import ENV, NASTY, Nasty, config_map, job, pod

HELD_S = 0.1  # of processor time that one step of the loop may take
NOISE = 4.0  # a machine that does much else makes the same work cost up to so much more; what is wrong costs seconds
OBJECTS = 5000  # of the kinds that are listed


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hub() -> AsyncIterator[Hub]:
    """With thousands of small objects, and a large one."""
    usual = gc.get_threshold()
    gc.set_threshold(*AFTER)  # as the hub's processes do
    async with open_hub() as opened:
        await opened.create(
            "namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}
        )
        for number in range(OBJECTS):
            await opened.create("configmaps", config_map(f"m{number}", {"k": "v"}), namespace="default")
            await opened.create("pods", pod(f"p{number}"), namespace="default")
        await opened.create("configmaps", config_map("kept", {"k": "v"}), namespace="default")
        await opened.create("pods", pod("some", env=ENV), namespace="default")
        for name, env in (("small", []), ("large", ENV)):
            await opened.create("pytorchjobs", job(name, env=env), group="kubeflow.org", namespace="default")
        yield opened
    gc.set_threshold(*usual)
    gc.unfreeze()


async def ask(hub: Hub, nasty: Nasty) -> tuple[int, Steps]:
    """The status of the answer, and the steps of the loop that took long."""
    body = nasty.body()
    answer: list[int] = []
    pieces = [body[at : at + 65536] for at in range(0, len(body), 65536)] or [b""]

    async def receive() -> dict[str, object]:
        if not pieces:
            await asyncio.Event().wait()
        piece = pieces.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

    async def send(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            answer.append(int(str(message["status"])))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": nasty.method,
        "scheme": "https",
        "path": unquote(nasty.path),
        "raw_path": nasty.path.encode(),
        "root_path": "",
        "state": {},
        "query_string": nasty.query.encode(),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
        "headers": [
            (b"authorization", b"Bearer admin-token"),
            (b"content-type", nasty.media.encode()),
            (b"accept", nasty.accept.encode()),
            *nasty.headers,
        ],
    }
    gc.collect()
    gc.freeze()  # a full collection walks over what this request made, not over the tests and objects before it
    with watched() as steps:
        await asyncio.create_task(hub.app(scope, receive, send))
    return answer[0], steps


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("nasty", NASTY, ids=lambda nasty: nasty.name)
async def test_no_step_of_the_loop_takes_long(hub: Hub, nasty: Nasty) -> None:
    status, steps = await ask(hub, nasty)
    assert status < 500
    assert steps.longest_s < HELD_S * NOISE


@pytest.mark.parametrize(
    "data",
    [
        b"[" + b"1," * 1_500_000 + b"1]",
        b"[" + b'"",' * 1_000_000 + b"1]",
        b"[" + b"[]," * (CONTAINERS_MAX - 10) + b"1]",
        b"[" + b'{"a":1},' * (CONTAINERS_MAX - 10) + b"1]",
        b"{" + b",".join(b'"k%d":1' % number for number in range(240_000)) + b"}",
        b'["' + b"\\u00e9" * 500_000 + b'"]',
    ],
    ids=["numbers", "texts", "lists", "objects", "keys", "escapes"],
)
def test_no_parser_has_the_interpreter_to_itself_for_long(data: bytes) -> None:
    """Beside the loop is not enough: a parser in C lets no other thread run. The collector is off meanwhile: this
    process holds what thousands of tests have left."""
    refuse_shape(data)
    gc.collect()
    gc.disable()
    try:
        _timed(data)
    finally:
        gc.enable()


def _timed(data: bytes) -> None:
    for parse in (orjson.loads, json.loads):
        began = time.thread_time()
        parsed = parse(data)
        assert time.thread_time() - began < HELD_S * NOISE
        began = time.thread_time()
        orjson.dumps(parsed)
        assert time.thread_time() - began < HELD_S * NOISE
