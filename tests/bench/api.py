"""How fast the API is: creates, reads, patches, lists and watch events a second, over TLS and with RBAC.

    python -m tests.bench.api [--postgres] [--json FILE] [--seconds 3]

The server runs in a process of its own, this one makes the load with a client of a few lines, since a real HTTP
library would be slower than what it measures. The bodies are ConfigMaps of about 1 KB.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import ssl
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

MAPS = "/api/v1/namespaces/default/configmaps"
DATA = {f"key-{i}": "x" * 90 for i in range(8)}


def serve_forever(pipe: Connection, folder: str, postgres: bool) -> None:
    """The server's process: announces its port, ends when the other side closes the pipe."""
    import uvloop

    uvloop.run(_serve(pipe, Path(folder), postgres))


async def _serve(pipe: Connection, folder: Path, postgres: bool) -> None:
    from api.app import build_app
    from api.auth import StaticTokens
    from api.kindfiles import load_kinds
    from api.openapi import OpenApi
    from api.rbac import Rbac
    from api.serve import Server
    from fleet.engine.registry import Registry
    from fleet.objects.objects import Objects
    from fleet.objects.writing import Options, User
    from fleet.simulate.wall import RandomIds, WallClock
    from tests.api.conftest import ADMIN, self_signed

    clock = WallClock()
    async with contextlib.AsyncExitStack() as stack:
        store: Any
        if postgres:
            from fleet.store.embedded import EmbeddedPostgres
            from fleet.store.postgres import PostgresStore

            database = EmbeddedPostgres(folder / "pg")
            dsn = await database.start()
            stack.push_async_callback(database.stop)
            (folder / "key").write_bytes(b"")
            (folder / "key").unlink()
            store = PostgresStore(dsn, clock, secret_key_file=folder / "key")
        else:
            from fleet.store.memory import MemoryStore

            store = MemoryStore(clock)
        await store.start()
        stack.push_async_callback(store.stop)
        registry = Registry(load_kinds())
        objects = Objects(store, registry, clock, RandomIds())
        app = build_app(
            objects, store, registry, clock=clock,
            authenticator=StaticTokens({"t": User("bench", ("bench",))}), authorizer=Rbac(store),
            openapi=OpenApi(registry),
        )  # fmt: skip
        await app.start()
        stack.push_async_callback(app.stop)
        options = Options(ADMIN, "bench")
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
        await objects.create(registry.need("", "namespaces"), "", namespace, options)
        group = "rbac.authorization.k8s.io"
        role = {
            "apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": {"name": "b"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}],
        }  # fmt: skip
        binding = {
            "apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "subjects": [{"kind": "Group", "apiGroup": group, "name": "bench"}],
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "b"},
        }  # fmt: skip
        await objects.create(registry.need(group, "clusterroles"), "", role, options)
        await objects.create(registry.need(group, "clusterrolebindings"), "", binding, options)
        cert, key = self_signed(folder)
        server = Server(app, cert=cert, key=key, close_streams=app.close_streams)
        await server.start()
        pipe.send(server.port)
        with contextlib.suppress(EOFError):
            await asyncio.to_thread(pipe.recv)
        await server.stop()


class Client:
    """One keep-alive connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def request(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> bytes:
        self.write(method, path, body, media)
        return await self.answer()

    def write(self, method: str, path: str, body: bytes = b"", media: str = "application/json") -> None:
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: b\r\nauthorization: Bearer t\r\nuser-agent: bench/1\r\n"
            f"accept: application/json\r\ncontent-type: {media}\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)

    async def head(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(head.decode() + (await self.reader.read(2000)).decode())
        return head

    async def answer(self) -> bytes:
        head = await self.head()
        at = head.lower().index(b"content-length:") + 15
        return await self.reader.readexactly(int(head[at : head.index(b"\r", at)]))


@dataclass
class Bench:
    port: int
    tls: ssl.SSLContext
    seconds: float

    async def client(self) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", self.port, ssl=self.tls, limit=1 << 22))

    async def load(self, clients: int, one: Callable[[Client, int], Awaitable[Any]]) -> dict[str, float]:
        """`one` from so many clients at once, for a while: rate and latencies in ms."""
        times: list[float] = []
        number = 0
        end = time.perf_counter() + self.seconds

        async def run(client: Client) -> None:
            nonlocal number
            while time.perf_counter() < end:
                number += 1
                began = time.perf_counter()
                await one(client, number)
                times.append((time.perf_counter() - began) * 1000)

        opened = [await self.client() for _ in range(clients)]
        began = time.perf_counter()
        await asyncio.gather(*(run(client) for client in opened))
        took = time.perf_counter() - began
        for client in opened:
            client.writer.close()
        times.sort()
        return {
            "per_s": round(len(times) / took, 1), "p50_ms": round(statistics.median(times), 2),
            "p99_ms": round(times[int(len(times) * 0.99)], 2),
        }  # fmt: skip


def body(name: str) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": DATA}).encode()


async def watchers(bench: Bench, count: int, updates: int) -> dict[str, float]:
    """Events a second over all watchers of one resource, while ten clients patch."""
    first = await bench.client()
    for index in range(10):
        await first.request("POST", MAPS, body(f"watched-{index}"))
    found = json.loads(await first.request("GET", f"{MAPS}/watched-9"))
    since = found["metadata"]["resourceVersion"]
    received = 0
    done = asyncio.Event()

    async def follow(client: Client) -> None:
        nonlocal received
        await client.head()
        while received < count * updates:
            chunk = await client.reader.read(1 << 20)
            if not chunk:
                return
            received += chunk.count(b'"type":"MODIFIED"')
        done.set()

    opened = [await bench.client() for _ in range(count)]
    for client in opened:
        client.write("GET", f"{MAPS}?watch=true&resourceVersion={since}")
    tasks = [asyncio.create_task(follow(client)) for client in opened]
    writers = [await bench.client() for _ in range(10)]
    began = time.perf_counter()

    async def write(client: Client, index: int) -> None:
        for i in range(updates // 10):
            patch = json.dumps({"data": {"key-0": f"{index}-{i}"}}).encode()
            await client.request("PATCH", f"{MAPS}/watched-{index}", patch, "application/merge-patch+json")

    await asyncio.gather(*(write(client, index) for index, client in enumerate(writers)))
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(60):
            await done.wait()
    took = time.perf_counter() - began
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {"per_s": round(received / took, 1), "events": float(received), "wanted": float(count * updates)}


@contextlib.asynccontextmanager
async def running(postgres: bool, seconds: float) -> AsyncIterator[Bench]:
    with tempfile.TemporaryDirectory(prefix="fleet-bench-") as folder:
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=serve_forever, args=(theirs, folder, postgres), daemon=False
        )
        process.start()
        theirs.close()
        try:
            port = await asyncio.to_thread(ours.recv)
            yield Bench(port, ssl.create_default_context(cafile=str(Path(folder) / "tls.crt")), seconds)
        finally:
            ours.close()
            await asyncio.to_thread(process.join, 20)
            if process.is_alive():
                process.kill()


async def measure(postgres: bool, seconds: float) -> dict[str, dict[str, float]]:
    async with running(postgres, seconds) as bench:
        bench.tls.check_hostname = True
        results: dict[str, dict[str, float]] = {}
        for clients in (1, 10, 50):
            results[f"create c={clients}"] = await bench.load(
                clients,
                lambda c, n, k=clients: c.request("POST", MAPS, body(f"c{k}-{n}")),  # type: ignore[misc]
            )
        for clients in (1, 50):
            results[f"get c={clients}"] = await bench.load(clients, lambda c, n: c.request("GET", f"{MAPS}/c1-1"))
        results["merge patch c=10"] = await bench.load(
            10,
            lambda c, n: c.request(
                "PATCH", f"{MAPS}/c1-{n % 20 + 1}", b'{"data":{"key-0":"%d"}}' % n, "application/merge-patch+json"
            ),
        )
        results["list 500 c=1"] = await bench.load(1, lambda c, n: c.request("GET", f"{MAPS}?limit=500"))
        results["watch 100 watchers"] = await watchers(bench, 100, 600)
        return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgres", action="store_true", help="an embedded PostgreSQL in place of memory")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each measurement")
    parser.add_argument("--json", type=Path, help="write the results there too")
    given = parser.parse_args()
    results = asyncio.run(measure(given.postgres, given.seconds))
    for name, row in results.items():
        print(f"{name:22} " + "  ".join(f"{key} {value:>10}" for key, value in row.items()))
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
