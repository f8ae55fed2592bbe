"""The memory of the hub with its PostgreSQL beside that of kube-apiserver with etcd, both with the same objects.

The objects come through the APIs, by the program that makes the load of `api`. A million small ones are copied into the
hub's database while the hub is away, since a million creates take ten minutes; a start reads them from there.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg

from api.store.embedded import EmbeddedPostgres
from tests.bench.api import body
from tests.bench.loader import NUMBER, Loader, Request, Task
from tests.bench.report import Figure, Report, say
from tests.bench.servers import CONFIGMAPS, HubAlone, Server, started_hub, started_real

OBJECTS, CLIENTS = 100_000, 50
SMALL_OBJECTS, SMALL_NAMESPACES = 1_000_000, 100
SETTLE_S = 2.0
COLUMNS = ("group", "resource", "namespace", "name", "uid", "revision", "key_id", "body")


def measure(report: Report, folder: Path, rounds: int) -> None:
    loader = Loader()
    try:
        with started_hub(folder / "hub") as hub:
            ours = _filled(report, loader, hub)
        say("starting it again")
        again = HubAlone(folder / "hub")
        _restarted(report, again, f"hub with {OBJECTS:,} objects")
        again.stop()
        with started_real(folder / "real") as real:
            theirs = _filled(report, loader, real)
    finally:
        loader.close()
    for when, total in ours.items():
        report.add(Figure(f"the hub's part of theirs, {when}", "", (total / theirs[when],), "< 0.5"))
    _small(report, folder / "many")


def _filled(report: Report, loader: Loader, server: Server) -> dict[str, float]:
    """Create the objects, list them all, and report the memory of both processes after each. Returns the sums."""
    say(f"{OBJECTS:,} objects in {server.name}")
    loader.run(server, Task(Request("POST", CONFIGMAPS, body(f"item-{NUMBER}")), CLIENTS, count=OBJECTS))
    sums = {"after the load": _memory(report, server, "after the load")}
    loader.run(server, Task(Request("GET", CONFIGMAPS), 1, count=1))
    sums["after a full list"] = _memory(report, server, "after a full list")
    return sums


def _memory(report: Report, server: Server, when: str) -> float:
    time.sleep(SETTLE_S)
    parts = server.memory()
    name = f"{server.name} with {OBJECTS:,} objects, {when}"
    report.add(Figure(name, "MiB", (sum(parts.values()),)))
    for part, mib in parts.items():
        report.add(Figure(part, "MiB", (mib,), beside=name))
    return sum(parts.values())


def _restarted(report: Report, hub: HubAlone, what: str, goal: str = "< 5") -> Server:
    began = time.monotonic()
    server = hub.start()
    report.add(Figure(f"start of the {what}", "s", (time.monotonic() - began,), goal))
    return server


def _small(report: Report, folder: Path) -> None:
    say(f"{SMALL_OBJECTS:,} small objects in the hub")
    hub = HubAlone(folder)
    hub.start()
    hub.stop()
    asyncio.run(_copy(hub.data))
    try:
        server = _restarted(report, hub, f"hub with {SMALL_OBJECTS:,} small objects", "")
        time.sleep(SETTLE_S)
        name = f"API process with {SMALL_OBJECTS:,} small objects"
        report.add(Figure(name, "MiB", (server.memory()["server"],), "< 1024"))
        with server.client() as client:
            for number in range(SMALL_NAMESPACES):
                answer = client.get(CONFIGMAPS.replace("bench", f"many-{number:02}"))
                assert len(answer.json()["items"]) == SMALL_OBJECTS // SMALL_NAMESPACES
        report.add(Figure("after lists of all", "MiB", (server.memory()["server"],), "< 1024", beside=name))
    finally:
        hub.stop()


async def _copy(data: Path) -> None:
    """The objects as the hub stores them, with their metadata, and the revisions that they take."""
    database = EmbeddedPostgres(data / "postgres")
    connection = await asyncpg.connect(await database.start())
    try:
        first: int = await connection.fetchval("SELECT revision FROM log_state")
        async with connection.transaction():
            await connection.copy_records_to_table("objects", records=_rows(first), columns=COLUMNS)
            await connection.execute("UPDATE log_state SET revision = $1, compacted = $1", first + SMALL_OBJECTS)
    finally:
        await connection.close()
        await database.stop()


def _rows(first: int) -> Iterator[tuple[object, ...]]:
    made = "2026-11-23T12:00:00Z"
    fields: dict[str, dict[str, Any]] = {"f:data": {".": {}, "f:owner": {}, "f:value": {}}}
    managed = {
        "manager": "bench",
        "operation": "Update",
        "apiVersion": "v1",
        "time": made,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    for number in range(SMALL_OBJECTS):
        namespace, name = f"many-{number % SMALL_NAMESPACES:02}", f"item-{number:07}"
        uid, revision = str(uuid.uuid4()), first + number + 1
        metadata = {
            "name": name,
            "namespace": namespace,
            "uid": uid,
            "creationTimestamp": made,
            "managedFields": [managed],
            "resourceVersion": str(revision),
        }
        data = {"owner": f"team-{number % 977}", "value": f"{uuid.uuid4().hex}-{'x' * 100}"}
        raw = json.dumps(
            {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data}, separators=(",", ":")
        )
        yield "", "configmaps", namespace, name, uid, revision, None, raw.encode()
