"""All simulated members of a machine as one program: `fleet sim`, and `fleet up --members N`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

from fleet.simulate.cluster import NodeShape, SimulatedCluster, Tls, identity_of
from fleet.simulate.wall import RandomIds
from fleet.values.files import write_private

MEMBERS_MAX = 26 * 26


def member_names(count: int) -> list[str]:
    """cfa, cfb, …, cfz, cfaa, …: the names that the walk-through uses."""
    if not 0 <= count <= MEMBERS_MAX:
        raise ValueError(f"between 0 and {MEMBERS_MAX} simulated members, not {count}")
    letters = "abcdefghijklmnopqrstuvwxyz"
    names = [*letters, *(first + second for first in letters for second in letters)]
    return [f"cf{name}" for name in names[:count]]


def _seed(directory: Path) -> uuid.UUID:
    """The secret that tells the members of this directory from all others; made once. A member keeps its identity over
    restarts, so that its name does not come to mean another cluster."""
    path = directory / "identity"
    if not path.exists():
        write_private(path, f"{RandomIds().uid()}\n".encode())
    try:
        return uuid.UUID(path.read_text().strip())
    except ValueError as error:
        why = "put it back, or delete it, unjoin the members and join them anew"
        raise ValueError(f"{path} does not hold what simulated members are known by: {why}") from error


async def run_simulated(
    names: Sequence[str],
    *,
    directory: Path,
    nodes: int = 4,
    gpus: int = 8,
    cpu: str = "64",
    memory: str = "256Gi",
    host: str = "127.0.0.1",
    tls: Tls | None = None,
    stop: asyncio.Event | None = None,
    on_ready: Callable[[list[SimulatedCluster]], None] | None = None,
) -> None:
    """Run one simulated member per name until `stop` is set or the task is cancelled.

    Each member's kubeconfig is `directory/NAME.kubeconfig` (mode 0600), written once the member serves; the port is any
    free one. `directory/NAME.objects` keeps its objects over restarts. `on_ready` is called when all serve. Raises what
    ends a member unexpectedly.
    """
    stop = stop or asyncio.Event()
    await asyncio.to_thread(directory.mkdir, 0o700, True, True)
    shapes, seed = (NodeShape(nodes, gpus, cpu, memory),), _seed(directory)
    clusters = [
        SimulatedCluster(
            name, shapes, host=host, identity=identity_of(seed, name), tls=tls, file=directory / f"{name}.objects"
        )
        for name in names
    ]
    started: list[SimulatedCluster] = []
    try:
        for cluster in clusters:
            started.append(cluster)
            await cluster.start()
            write_private(directory / f"{cluster.name}.kubeconfig", cluster.kubeconfig.encode())
        if on_ready is not None:
            on_ready(clusters)
        waiting = [asyncio.ensure_future(cluster.wait()) for cluster in clusters]
        stopping = asyncio.ensure_future(stop.wait())
        try:
            done, _ = await asyncio.wait((*waiting, stopping), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in (*waiting, stopping):
                task.cancel()
    finally:
        await asyncio.gather(*(cluster.stop() for cluster in started))
