"""The metrics of a large fleet, for the bounds of rows and for the bench."""

from __future__ import annotations

from fleet.controllers.runtime.metrics import Metrics
from fleet.core.model.unit import Unit
from fleet.core.quota.tree import QuotaNode, QuotaTree
from fleet.core.snapshot import Snapshot
from tests.builders import GPU, NOW, member, unit
from tests.controllers.fakes import FakeMembers


def large_fleet(*, members: int, models: int) -> Metrics:
    """What a process tells of so many members, with GPUs of so many models each, and of 10,000 queues with a job in
    each."""
    metrics = Metrics()
    names = [f"member-{number:04}" for number in range(members)]
    paths = [f"root/leaf{number}" for number in range(10_000)]
    nodes = {path: QuotaNode(path, path[5:], "root", {GPU: 1}, {GPU: 8}) for path in paths}
    quota_tree = QuotaTree("root", {"root": QuotaNode("root", "root", None, children=tuple(paths)), **nodes})
    made = member("any")
    for model in range(models):
        made = made.nodes(1, gpu=8, labels={"nvidia.com/gpu.product": f"model-{model}"})
    present = [made.having(name=name).value for name in names]
    units: list[Unit] = []
    for number, path in enumerate(paths):
        waits = unit(f"u{number}").gpus(4).queue(path).since(60)
        units.append((waits if number % 2 else waits.runs_in(names[number % members])).value)
        metrics.placed(units[-1], quota_tree, NOW)
        metrics.ended_job(path, "Succeeded")
        metrics.lost_gpu_time(path, f"reason-{number}", 1.0)
    metrics.watch((), FakeMembers())
    for name in names:
        metrics.dispatched(name, 2.0)
    metrics.see(Snapshot.of(units, present, quota_tree))
    return metrics
