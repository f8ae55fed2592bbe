"""A hub before 100 simulated members of 500 nodes each, in which 20,000 pods run: how long its controllers need to know
them, how far behind they are when something changes there, what that costs, and whether a dead member is felt by the
others."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import psutil
import yaml

from fleet.cli.hub import connect
from fleet.cli.joining import MemberFacts, join, wait_ready
from tests.bench.client import JOBS, items, patch, post, post_all, session, watched
from tests.bench.crowd import Crowd, running_pod
from tests.bench.dispatch import job_to, policy_to
from tests.bench.family import cpu_seconds
from tests.bench.report import Figure, Report, percentile, say
from tests.bench.sent import Sent, seen
from tests.chaos.parts import hit, process_of, wait_gone
from tests.chaos.proxy import Mode, Proxy, ProxyThread, behind
from tests.e2e.hub import Hub, Kubectl
from tests.e2e.manifests import leaf, quota_tree
from tests.testbed.processes import wait_for

MEMBERS, NODES, PODS = 100, 500, 20_000
GANGS, WORKERS = 400, 9  # of the hub's own, so that a fifth of the pods are of them
PROCESSES = 2
CLUSTERS = "/apis/cluster.karmada.io/v1alpha1/clusters"
STARTS = 2
REST_S = 15.0
CHANGES = 40
WITHIN_S = 300.0  # a machine that does other work
SETTLED_S = 3.0

# The load beside a dead member: gangs of one pod at a steady pace, one in DEAD_SHARE of them for the member that dies.
GANGS_PER_S, LOAD, DEAD_SHARE = 20, 200, 10


def measure(report: Report, folder: Path, rounds: int) -> None:
    own = PODS - GANGS * (WORKERS + 1)
    say(f"members: {MEMBERS} members of {NODES} nodes with {own:,} pods of their own start")
    crowd = Crowd(folder, MEMBERS, nodes=NODES, pods=own // MEMBERS, processes=PROCESSES)
    hub, network = Hub(folder / "hub"), ProxyThread()
    try:
        crowd.start()
        hub.start()
        mortal = crowd.names[-1]
        proxy, kubeconfig = _before(crowd, mortal, network, folder / "mortal.kubeconfig")
        _join(hub, crowd, {mortal: kubeconfig})
        asyncio.run(_fill(hub, crowd.names))
        _measure_starts(report, hub)
        _measure_rest(report, hub)
        asyncio.run(_measure_lag(report, hub, crowd))
        asyncio.run(_measure_dead(report, hub, crowd.names, proxy, rounds))
        _measure_memory(report, hub)
    finally:
        hub.stop()
        network.stop()
        crowd.stop()


def _before(crowd: Crowd, name: str, network: ProxyThread, to: Path) -> tuple[Proxy, Path]:
    """A proxy before the member that is to die, and the kubeconfig that leads there."""
    own = crowd.kubeconfig(name)
    port = urlsplit(yaml.safe_load(own.read_text())["clusters"][0]["cluster"]["server"]).port
    assert port is not None
    certificate, key = crowd.certificate(name)
    proxy = network.add(Proxy(name, port, certificate=certificate, key=key, seed=1))
    return proxy, behind(own, proxy, port, to)


def _join(hub: Hub, crowd: Crowd, instead: dict[str, Path]) -> None:
    say(f"members: {len(crowd.names)} members join")
    api, begin = connect(hub.kubeconfig), time.monotonic()
    for name in crowd.names:
        join(api, MemberFacts(name, instead.get(name, crowd.kubeconfig(name)), provider="simulated"))
    wait_ready(api, crowd.names, WITHIN_S)
    say(f"members: all are ready after {time.monotonic() - begin:.0f} s")


async def _fill(hub: Hub, names: Sequence[str]) -> None:
    """Gangs through the hub, evenly to all members, until all pods run."""
    say(f"members: {GANGS} gangs of {WORKERS + 1} pods through the hub")
    kubectl = Kubectl(hub.kubeconfig)
    kubectl.apply(quota_tree(leaf("bench", "default")), *(policy_to(name) for name in names))
    async with session(hub.kubeconfig) as client:
        gangs = (job_to(names[n % len(names)], f"gang-{n}", WORKERS) for n in range(GANGS))
        await post_all(client, JOBS, gangs)
        end = time.monotonic() + 2 * WITHIN_S
        while (known := await _pods_known(client)) < PODS:
            assert time.monotonic() < end, f"the hub knows {known} of {PODS} pods"
            await asyncio.sleep(1.0)


async def _pods_known(client: aiohttp.ClientSession) -> int:
    return sum(_allocated(cluster) for cluster in await items(client, CLUSTERS))


def _allocated(cluster: dict[str, object]) -> int:
    """The pods on nodes of a member, as its Cluster object says."""
    status = cluster.get("status")
    summary = status.get("resourceSummary") if isinstance(status, dict) else None
    return int((summary or {}).get("allocated", {}).get("pods", 0))


# -- starts, rest, memory ---------------------------------------------------------------------------------------------


def _measure_starts(report: Report, hub: Hub) -> None:
    """kill -9 of the controllers: from the start of the next process until every member is listed."""
    walls, spent = [], []
    log = hub.folder / "logs" / "controllers.log"
    for number in range(STARTS):
        say(f"members: start {number + 1} of {STARTS} of the controllers")
        begun = log.stat().st_size
        killed = psutil.Process(hit(hub.folder, "controllers"))
        wait_gone([killed])
        process = wait_for("controllers", lambda: process_of(hub.folder, "controllers"))
        ready = wait_for("all members ready", partial(_all_ready, log, begun), WITHIN_S)
        spent.append(cpu_seconds([process]))
        walls.append(ready - process.create_time())
        time.sleep(SETTLED_S)
    report.add(Figure(f"start → {MEMBERS} members in step", "s", tuple(walls)))
    report.add(Figure("processor meanwhile", "s", tuple(spent), beside="members"))


def _all_ready(log: Path, begun: int) -> float | None:
    """The moment at which the last member became ready, by the log from `begun` on; None before that."""
    ready: dict[str, float] = {}
    with log.open("rb") as file:
        file.seek(begun)
        for line in file.read().splitlines():
            said = json.loads(line) if line.startswith(b"{") else {}
            if said.get("event") == "member ready":
                ready[said["member"]] = datetime.fromisoformat(said["timestamp"]).timestamp()
    return max(ready.values()) if len(ready) == MEMBERS else None


def _controllers(hub: Hub) -> psutil.Process:
    process = process_of(hub.folder, "controllers")
    assert process is not None, hub.log()
    return process


def _measure_rest(report: Report, hub: Hub) -> None:
    say("members: rest")
    process = _controllers(hub)
    before, begin = cpu_seconds([process]), time.monotonic()
    time.sleep(REST_S)
    share = 100 * (cpu_seconds([process]) - before) / (time.monotonic() - begin)
    report.add(Figure("at rest: processor of the controllers", "% core", (share,)))


def _measure_memory(report: Report, hub: Hub) -> None:
    """At the end, after all that was measured."""
    process = _controllers(hub)
    status = Path(f"/proc/{process.pid}/status").read_text()
    most = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    report.add(Figure("memory of the controllers (RSS)", "MiB", (process.memory_info().rss / 2**20,), "< 1024"))
    report.add(Figure("its most so far", "MiB", (most / 1024,), "< 1024", beside="members"))


# -- lag --------------------------------------------------------------------------------------------------------------


async def _measure_lag(report: Report, hub: Hub, crowd: Crowd) -> None:
    """From a request to a member until the hub's Cluster object tells of the change."""
    say(f"members: {CHANGES} changes one by one, then one in each member at once")
    dice = random.Random(1)
    async with session(hub.kubeconfig) as client:
        clusters: dict[str, dict[str, object]] = {}
        following = asyncio.create_task(_follow(client, clusters))
        try:
            await _until(lambda: len(clusters) == MEMBERS)
            pods = [await _pod_lag(crowd, dice.choice(crowd.names), clusters, f"p{n}") for n in range(CHANGES)]
            nodes = [await _node_lag(crowd, dice.choice(crowd.names), clusters, n) for n in range(CHANGES)]
            at_once = await asyncio.gather(*(_pod_lag(crowd, name, clusters, "all") for name in crowd.names))
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    report.add(Figure("a pod in a member → known", "s", tuple(pods), "≤ 2"))
    report.add(Figure("a node not ready → known", "s", tuple(nodes), "≤ 2"))
    report.add(Figure(f"{MEMBERS} members change at once", "s", tuple(at_once), "≤ 2"))


async def _follow(client: aiohttp.ClientSession, clusters: dict[str, dict[str, object]]) -> None:
    while True:
        async for bodies in watched(client, CLUSTERS):
            clusters.update({body["metadata"]["name"]: body for body in bodies})


async def _until(probe: Callable[[], bool]) -> None:
    end = time.monotonic() + WITHIN_S
    while not probe():
        assert time.monotonic() < end, "the hub does not tell of a change"
        await asyncio.sleep(0.005)


async def _pod_lag(crowd: Crowd, member: str, clusters: dict[str, dict[str, object]], name: str) -> float:
    wanted = _allocated(clusters[member]) + 1
    async with session(crowd.kubeconfig(member)) as there:
        await items(there, "/api/v1/namespaces")  # connected before the clock starts
        begin = time.monotonic()
        await post(there, "/api/v1/namespaces/default/pods", running_pod(f"late-{name}", "node-7"))
        await _until(lambda: _allocated(clusters[member]) >= wanted)
    return time.monotonic() - begin


async def _node_lag(crowd: Crowd, member: str, clusters: dict[str, dict[str, object]], number: int) -> float:
    wanted = _nodes_ready(clusters[member]) - 1
    condition = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
    async with session(crowd.kubeconfig(member)) as there:
        await items(there, "/api/v1/namespaces")
        begin = time.monotonic()
        await patch(there, f"/api/v1/nodes/node-{100 + number}/status", {"status": {"conditions": [condition]}})
        await _until(lambda: _nodes_ready(clusters[member]) <= wanted)
    return time.monotonic() - begin


def _nodes_ready(cluster: dict[str, object]) -> int:
    status = cluster.get("status")
    summary = status.get("nodeSummary") if isinstance(status, dict) else None
    return int((summary or {}).get("readyNum", 0))


# -- a dead member ----------------------------------------------------------------------------------------------------


async def _measure_dead(report: Report, hub: Hub, names: Sequence[str], proxy: Proxy, rounds: int) -> None:
    """p95 of the dispatch times in the others, in turns: all members alive, and one dead since the load began. Every
    other round begins with the dead one, so that a drift of the machine is no difference between the two."""
    found: dict[bool, list[tuple[float, ...]]] = {False: [], True: []}  # by whether one is dead
    async with session(hub.kubeconfig) as client, seen(client) as sent:
        for number in range(rounds):
            for strikes in sorted(found, reverse=number % 2 == 1):
                prefix = f"load-{number}-{int(strikes)}"
                found[strikes].append(await _under_load(client, sent, names, proxy, prefix, strikes=strikes))
                state = "beside a dead member" if strikes else "with all alive"
                say(f"members: p95 of dispatch {state}: {percentile(found[strikes][-1], 0.95):.3f} s")
    alive, dead = (tuple(percentile(times, 0.95) for times in found[strikes]) for strikes in (False, True))
    together = [percentile(tuple(s for times in found[strikes] for s in times), 0.95) for strikes in (False, True)]
    report.add(Figure("dispatch time p95, one member dead", "s", dead, "< 10 % more"))
    report.add(Figure("all members alive", "s", alive, beside="members"))
    report.add(
        Figure("more when one is dead, p95 of all rounds", "%", (100 * (together[1] / together[0] - 1),), "< 10")
    )


async def _under_load(
    client: aiohttp.ClientSession, sent: Sent, names: Sequence[str], proxy: Proxy, prefix: str, *, strikes: bool
) -> tuple[float, ...]:
    """The dispatch times of the gangs to the others."""
    others = [name for name in names if name != proxy.name]
    if strikes:
        await asyncio.to_thread(proxy.set_mode, Mode.BLACKHOLE)
    begin = time.monotonic()
    for number in range(LOAD):
        await asyncio.sleep(max(0.0, begin + number / GANGS_PER_S - time.monotonic()))
        to = proxy.name if number % DEAD_SHARE == 0 else others[number % len(others)]
        await post(client, JOBS, job_to(to, f"{prefix}-{number}"))
    await sent.until(prefix, LOAD - LOAD // DEAD_SHARE, WITHIN_S, without=proxy.name)
    if strikes:
        await asyncio.to_thread(proxy.set_mode, Mode.PASS)
    await sent.until(prefix, LOAD, WITHIN_S)
    await asyncio.sleep(SETTLED_S)
    return tuple(sent.seconds(prefix, without=proxy.name))
