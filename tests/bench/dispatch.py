"""Gangs a second from their committed decisions to their objects in the members: a leaf full of waiting jobs gets quota
for all of them at once. Ten simulated members, then three real ones.

The jobs are created and their decisions are waited for before the clock starts, so that only the start of the work is
measured: the commits of the plan, the manifests, the writes to the members, and what comes back from there meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from tests.bench.client import JOBS, post_all, session
from tests.bench.family import Family
from tests.bench.report import Figure, Report, say
from tests.bench.sent import seen, until_queued
from tests.e2e.conftest import join
from tests.e2e.hub import Hub, Kubectl
from tests.e2e.manifests import gang_policy, leaf, pytorchjob, quota_tree
from tests.testbed.bed import started_bed

GPU = "nvidia.com/gpu"
SIMULATED, REAL = 10, ("cfa", "cfb", "cfc")
QUEUED_S, APPLIED_S = 300.0, 300.0  # on a machine that does other work


def measure(report: Report, folder: Path, rounds: int, jobs: int = 500, real_jobs: int = 120) -> None:
    hub = Hub(folder / "simulated", "--members", str(SIMULATED), "--nodes", "50")
    hub.start()
    try:
        members = [f"cf{letter}" for letter in "abcdefghij"]
        _measure_hub(report, hub, members, rounds, jobs, f"{SIMULATED} simulated members", "≥ 150")
    finally:
        hub.stop()
    with started_bed(folder / "bed", REAL, nodes=30) as bed:
        hub = Hub(folder / "real")
        hub.start()
        try:
            for name in REAL:
                join(hub, name, bed.members[name].kubeconfig)
            _measure_hub(report, hub, REAL, rounds, real_jobs, f"{len(REAL)} real members", "≥ 30")
        finally:
            hub.stop()


def _measure_hub(
    report: Report, hub: Hub, members: Iterable[str], rounds: int, jobs: int, where: str, goal: str
) -> None:
    kubectl, names = Kubectl(hub.kubeconfig), tuple(members)
    kubectl.apply(*(policy_to(name) for name in names), _quota(0))
    rates, spent, others = [], [], []
    for number in range(rounds):
        say(f"dispatch: {where}, round {number + 1} of {rounds}: {jobs} jobs wait")
        rate, own, all_ = asyncio.run(_one_round(hub, kubectl, names, number, jobs))
        rates.append(rate)
        spent.append(1000 * own / jobs)
        others.append(1000 * all_ / jobs)
        say(f"dispatch: {where}: {rate:.0f} gangs/s, {spent[-1]:.1f} ms of the controllers' processor a gang")
    report.add(Figure(f"dispatch to {where}", "gangs/s", tuple(rates), goal))
    report.add(Figure("processor: controllers", "ms/gang", tuple(spent), beside="dispatch"))
    report.add(Figure("processor: whole hub", "ms/gang", tuple(others), beside="dispatch"))


async def _one_round(
    hub: Hub, kubectl: Kubectl, members: tuple[str, ...], number: int, jobs: int
) -> tuple[float, float, float]:
    """(gangs a second, seconds of the controllers' processor, seconds of the hub's)."""
    prefix = f"round-{number}-"
    async with session(hub.kubeconfig) as client:
        await post_all(client, JOBS, (job_to(members[n % len(members)], f"{prefix}{n}") for n in range(jobs)))
        await until_queued(client, prefix, jobs, QUEUED_S)
        async with seen(client) as sent:
            before = Family.of(hub)
            await asyncio.to_thread(kubectl.apply, _quota(jobs * (number + 1)))
            await sent.until(prefix, jobs, APPLIED_S)
            after = Family.of(hub)
        return sent.rate(prefix), after.controllers_s - before.controllers_s, after.cpu_s - before.cpu_s


def policy_to(member: str) -> dict[str, object]:
    """Sends the jobs that are labelled so to this member alone: the decider fills one member first."""
    selector = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "labelSelector": {"matchLabels": {"to": member}}}
    placement = {"clusterAffinity": {"clusterNames": [member]}}
    return gang_policy(f"to-{member}", queue=True, placement=placement, resourceSelectors=[selector])


def job_to(member: str, name: str, workers: int = 0) -> dict[str, object]:
    """A job for that policy."""
    body = pytorchjob(name, workers=workers)
    body["metadata"]["labels"] = {"to": member}
    return body


def _quota(gpus: int) -> dict[str, object]:
    return quota_tree(leaf("bench", "default", **{GPU: gpus}))
