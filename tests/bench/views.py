"""The views of the console over a large fleet: 10,000 queues with their fair shares, 25,000 nodes with jobs on them.

    python -m tests.bench.run views

Hub and client are one process on the memory store, so both are in the time. `first`: what the process does once, or
once for each new snapshot.
"""

from __future__ import annotations

import asyncio
import base64
import time
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson

from api.store.memory import MemoryStore
from fleet.admission.latest import KIND, NODES
from fleet.controllers.decide.manifestunits import unit_in
from fleet.controllers.decide.nodesnow import NODES_MOST
from fleet.core.notation.codec import encode_snapshot
from fleet.core.quota.tree import QuotaNode, QuotaTree
from fleet.core.snapshot import Snapshot
from fleet.rest.mount import PREFIX, RestFace
from fleet.simulate.wall import WallClock
from fleet.values.ports import Key, Put, Store
from fleet.wellknown import ANNOTATION_QUOTA_FULLNAME, QUEUE, QUEUE_NAMESPACE, QUOTA, TREE_NAMESPACE
from tests.api.conftest import open_hub
from tests.bench.client import session
from tests.bench.report import Figure, Report, say
from tests.builders import GPU, member, unit
from tests.e2e.manifests import leaf, quota_tree

QUEUES, MEMBERS, NODES_EACH = 10_000, 50, 500  # as many nodes as a quota tree may have: the root and its leaves
WHOLE_S = 120.0


def measure(
    report: Report, folder: Path, rounds: int, queues: int = QUEUES, members: int = MEMBERS, each: int = NODES_EACH
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    asyncio.run(_measure(report, folder, rounds, queues, members, each))


async def _measure(report: Report, folder: Path, rounds: int, queues: int, members: int, each: int) -> None:
    store, clock = MemoryStore(WallClock()), WallClock()
    rest = partial(unit_in, store)
    async with open_hub(folder, store, mounts=lambda o: {PREFIX: RestFace(o, o.store, o.registry, rest)}) as hub:
        say(f"views: {queues:,} queues, {members * each:,} nodes")
        await fill(store, clock.now(), queues, members, each)
        async with session(hub.kubeconfig()) as client:
            for what, path in (
                (f"nodes of one member of {each:,}", "/nodes?member=m00&limit=400"),
                (f"first 5,000 of {members * each:,} nodes", "/nodes?limit=5000"),
                (f"{queues:,} queues with fair shares", "/queues"),
            ):
                first = await _asked(client, path)
                took = tuple([(await _asked(client, path))[0] for _ in range(rounds)])
                report.add(Figure(what, "ms", took))
                report.add(Figure("the first time", "ms", (first[0],), beside="views"))
                report.add(Figure("its size", "KB", (first[1] / 1000,), beside="views"))
            report.add(Figure(f"until {queues:,} fair shares are there", "s", (await _until_shares(client),)))


async def _asked(client: aiohttp.ClientSession, path: str) -> tuple[float, int]:
    """Milliseconds and bytes of an answer."""
    began = time.perf_counter()
    async with client.get(f"{PREFIX}{path}") as answer:
        body = await answer.read()
        assert answer.status == 200, body[:500]
    return 1000 * (time.perf_counter() - began), len(body)


async def _until_shares(client: aiohttp.ClientSession) -> float:
    """Seconds from now on; nearly 0 where the questions before have brought them."""
    began = time.monotonic()
    while True:
        async with client.get(f"{PREFIX}/queues") as answer:
            items = orjson.loads(await answer.read())["items"]
        if any(item["fairShare"] for item in items):
            return time.monotonic() - began
        assert time.monotonic() - began < WHOLE_S, "no fair shares"
        await asyncio.sleep(0.1)


async def fill(store: Store, now: float, queues: int, members: int, each: int) -> None:
    """The tree and its Queues, and what the controllers would have written of nodes and jobs."""
    names = [f"leaf{number}" for number in range(queues - 1)]  # and the root
    tree = quota_tree(*(leaf(name, **{GPU: 8}) for name in names))
    await store.commit([Put(Key(QUOTA, "elasticquotatrees", TREE_NAMESPACE, "elasticquotatree"), tree)])
    for path in ("root", *(f"root/{name}" for name in names)):
        name = path.replace("/", "-")
        body = {"metadata": {"name": name, "annotations": {ANNOTATION_QUOTA_FULLNAME: path}}}
        await store.commit([Put(Key(QUEUE, "queues", QUEUE_NAMESPACE, name), body)])
    await store.history(NODES, {"now": now, "nodes": packed(nodes_row(members, each))}, keep=1)
    document = {**encode_snapshot(snapshot(names, members)), "now": now}
    await store.history(KIND, {"now": now, "snapshot": packed(document)}, keep=1)


def packed(document: Any) -> str:
    return base64.b64encode(zlib.compress(orjson.dumps(document))).decode()


def nodes_row(members: int, each: int) -> dict[str, Any]:
    """As fleet/controllers/decide/nodesnow.py writes it: a job of 8 GPUs on each node."""
    shown = min(members * each, NODES_MOST)
    found: dict[str, list[Any]] = {}
    units: dict[str, list[str]] = {}
    for number in range(shown):
        key, place = f"u{number}", f"m{number // each:02}"
        units[key] = ["kubeflow.org/PyTorchJob", f"default/job-{number}", f"root/leaf{number % 100}"]
        found.setdefault(place, []).append([f"node-{number % each}", "model-0", 8, 8, "ready", {key: 8}])
    return {"units": units, "members": found, "left": members * each - shown}


def snapshot(names: list[str], members: int) -> Snapshot:
    """A job of each queue; every second one runs."""
    nodes = {f"root/{name}": QuotaNode(f"root/{name}", name, "root", {}, {GPU: 8}) for name in names}
    tree = QuotaTree("root", {"root": QuotaNode("root", "root", None, children=tuple(nodes)), **nodes})
    there = [member(f"m{number:02}").nodes(100, gpu=8).value for number in range(members)]
    units = []
    for number, path in enumerate(nodes):
        waits = unit(f"u{number}").gpus(4).queue(path).since(60)
        units.append((waits if number % 2 else waits.runs_in(f"m{number % members:02}")).value)
    return Snapshot.of(units, there, tree)
