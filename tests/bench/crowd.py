"""Many simulated members for a bench, some to a process: large ones, with pods that run already.

usage: python -m tests.bench.crowd FOLDER NODES PODS NAME [NAME …]
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fleet.cli import logs
from fleet.cli.datadir import DataDir
from fleet.hub import compose
from fleet.hub.firststart import members_tls
from fleet.simulate.cluster import NodeShape, SimulatedCluster
from tests.testbed.processes import Processes, wait_for

START_S = 300.0


class Crowd:
    """`count` members, `kubeconfigs` by name once `start` has returned; `processes` share them evenly."""

    def __init__(self, folder: Path, count: int, *, nodes: int, pods: int, processes: int) -> None:
        self.names = tuple(f"m{number:03}" for number in range(count))
        self._folder, self._nodes, self._pods, self._count = folder, nodes, pods, processes
        folder.mkdir(parents=True)
        self._running = Processes(folder)

    def start(self) -> None:
        for number in range(self._count):
            place = self._folder / f"crowd-{number}"
            names = self.names[number :: self._count]
            words = [sys.executable, "-m", "tests.bench.crowd", place, self._nodes, self._pods, *names]
            self._running.start(f"crowd-{number}", words)
        for name in self.names:
            wait_for(f"member {name}", self.kubeconfig(name).exists, START_S, 0.5)

    def stop(self) -> None:
        self._running.stop(self._running.names())

    def kubeconfig(self, name: str) -> Path:
        return self._place(name) / "members" / f"{name}.kubeconfig"

    def certificate(self, name: str) -> tuple[Path, Path]:
        """The member's certificate and key, for a proxy before it."""
        return self._place(name) / "members" / "server.crt", self._place(name) / "members" / "server.key"

    def _place(self, name: str) -> Path:
        return self._folder / f"crowd-{self.names.index(name) % self._count}"


def running_pod(name: str, node: str) -> dict[str, Any]:
    """A pod of the member's own, as its kubelet shows it."""
    requests = {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}
    container = {"name": "main", "image": "busybox", "resources": {"requests": requests, "limits": requests}}
    conditions = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "own"}},
        "spec": {"nodeName": node, "containers": [container], "restartPolicy": "Never"},
        "status": {"phase": "Running", "conditions": conditions},
    }


async def _serve(folder: Path, nodes: int, pods: int, names: Sequence[str], stop: asyncio.Event) -> None:
    data = DataDir(folder)
    data.members.mkdir(parents=True)
    tls = members_tls(data)
    clusters = [SimulatedCluster(name, (NodeShape(nodes),), tls=tls) for name in names]
    for cluster in clusters:
        await cluster.start()
        world = cluster.world
        for number in range(pods):
            body = running_pod(f"own-{number}", f"node-{number % nodes}")
            await world.objects.create(world.pod_kind, "default", body, world.options, with_status=True)
        (data.members / f"{cluster.name}.kubeconfig").write_text(cluster.kubeconfig)
    await stop.wait()
    await asyncio.gather(*(cluster.stop() for cluster in clusters))


def main() -> None:
    folder, nodes, pods, *names = sys.argv[1:]
    logs.configure()
    compose.run(lambda stop: _serve(Path(folder), int(nodes), int(pods), names, stop))


if __name__ == "__main__":
    main()
