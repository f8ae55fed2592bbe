"""What jobs of one tenant that are as large as admission lets them be cost the starts of another tenant.

    python -m tests.bench.run neighbours

A hub with three simulated members of 50 nodes for each kind of large job. 1,000 of them are admitted, most of which
wait. Meanwhile, and then for 50 times, the other tenant creates a small job, waits for its binding to be placed, and
deletes it. Beside them stand the same starts with no other jobs.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from tests.bench.client import JOBS, items, post, post_all, session
from tests.bench.report import Figure, Report
from tests.builders import GPU
from tests.e2e.hub import Hub, Kubectl
from tests.e2e.manifests import Manifest, gang_policy, leaf, pytorchjob, quota_tree

MANY = 1_000
STARTS = 50
HEAVY = JOBS.replace("default", "heavy")
BINDINGS = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings"
PATIENCE_S = 120.0


def measure(report: Report, folder: Path, rounds: int, many: int = MANY) -> None:
    for kind, (name, make) in enumerate({"no other jobs": None, **KINDS}.items()):
        alone: list[float] = []
        during: list[float] = []
        after: list[float] = []
        for number in range(rounds):
            hub = Hub(folder / f"{kind}-{number}", "--members", "3", "--nodes", "50")
            hub.start()
            try:
                kubectl = Kubectl(hub.kubeconfig)
                kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "heavy"}})
                kubectl.apply(quota_tree(leaf("small", "default"), leaf("heavy", "heavy", **{GPU: 100})))
                for namespace in ("default", "heavy"):
                    policy = gang_policy(queue=True)
                    policy["metadata"]["namespace"] = namespace
                    kubectl.apply(policy)
                took = asyncio.run(_starts(hub.kubeconfig, make, many))
            finally:
                hub.stop()
            (during if make else alone).extend(took[0])
            after.extend(took[1])
        if make is None:
            report.add(Figure(f"a start of another tenant, {name}", "s", tuple(alone + after)))
            continue
        text = f"{many:,} jobs with {name}"
        report.add(Figure(f"a start of another tenant, {text}", "s", tuple(after), "p99 ≤ 2"))
        report.add(Figure("while they are admitted", "s", tuple(during), "p99 ≤ 5", beside=text))


async def _starts(
    kubeconfig: Path, make: Callable[[int], Manifest] | None, many: int
) -> tuple[list[float], list[float]]:
    """The seconds of each start while the large jobs are admitted, and afterwards."""
    async with session(kubeconfig) as client, session(kubeconfig) as other:
        await _start(client, "first")  # which warms all up
        during: list[float] = []
        if make is not None:
            bodies = (_named(make(number), number) for number in range(many))
            admitting = asyncio.create_task(post_all(other, HEAVY, bodies))
            while not admitting.done():
                during.append(await _start(client, f"during-{len(during)}"))
            await admitting
        return during, [await _start(client, f"after-{number}") for number in range(STARTS)]


def _named(body: Manifest, number: int) -> Manifest:
    body["metadata"]["name"] = f"heavy-{number}"
    body["metadata"]["namespace"] = "heavy"
    return body


async def _start(client: aiohttp.ClientSession, name: str) -> float:
    """Seconds from the request that creates a job to its placed binding."""
    began = time.monotonic()
    await post(client, JOBS, pytorchjob(name, workers=0))
    while not any(
        one["spec"]["resource"]["name"] == name and one["spec"].get("clusters") for one in await items(client, BINDINGS)
    ):
        assert time.monotonic() - began < PATIENCE_S, f"{name} was not placed"
        await asyncio.sleep(0.02)
    took = time.monotonic() - began
    async with client.delete(f"{JOBS}/{name}") as answer:
        assert answer.status == 200, await answer.text()
    return took


def _job(number: int, *, pod: Mapping[str, Any] | None = None, gpus: int = 1, workers: int = 0) -> Manifest:
    return pytorchjob("", workers=workers, gpus=gpus, pod=dict(pod or {}))


def _resources(number: int) -> Manifest:
    limits = {GPU: 1, "cpu": 1, "memory": "1Gi"} | {f"example.com/r{number}-{k}": 1 for k in range(60)}
    return _job(number, pod={"container": {"resources": {"limits": limits}}})


def _affinity(number: int, terms: list[dict[str, Any]]) -> Manifest:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return _job(number, pod={"affinity": {"nodeAffinity": required}})


def _terms(number: int) -> Manifest:
    return _affinity(number, [_expressions_of("In", f"zone-{number}-{k}", ["a"]) for k in range(64)])


def _expressions_of(operator: str, key: str, values: list[str]) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": values} if values else {})}]}


def _expressions(number: int) -> Manifest:
    each = [{"key": f"k{number}-{k}", "operator": "DoesNotExist"} for k in range(256)]
    return _affinity(number, [{"matchExpressions": each}])


def _values(number: int) -> Manifest:
    hosts = [f"n{number}-{k}" for k in range(2_000)]
    return _affinity(number, [_expressions_of("NotIn", "kubernetes.io/hostname", hosts)])


def _tolerations(number: int) -> Manifest:
    return _job(number, pod={"tolerations": [{"key": f"k{number}-{k}", "operator": "Exists"} for k in range(64)]})


def _selectors(number: int) -> Manifest:
    return _job(number, pod={"nodeSelector": {f"k{number}-{k}": "v" for k in range(250)}})


def _containers(number: int) -> Manifest:
    more = [{"name": f"c{k}", "image": "busybox"} for k in range(100)]
    return _job(number, pod={"initContainers": more})


def _env(number: int) -> Manifest:
    env = [{"name": f"V{number}_{k}", "value": "x" * 20} for k in range(1_000)]
    return _job(number, pod={"container": {"env": env}})


def _volumes(number: int) -> Manifest:
    return _job(number, pod={"volumes": [{"name": f"v{number}-{k}", "emptyDir": {}} for k in range(300)]})


def _spread(number: int) -> Manifest:
    each = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"a": "b"}}}
    return _job(number, pod={"topologySpreadConstraints": [{**each, "topologyKey": f"k{k}"} for k in range(100)]})


def _labels(number: int) -> Manifest:
    body = _job(number)
    body["metadata"]["labels"] = {f"k{number}-{k}": "v" for k in range(500)}
    return body


def _odd(number: int) -> Manifest:
    body = _job(number, gpus=1)
    replicas = body["spec"]["pytorchReplicaSpecs"]
    size = {GPU: 1, "cpu": f"{33_001 + 131 * number % 20_000}m", "memory": f"{7_919 + number}Mi"}
    master, worker = (
        pytorchjob("", workers=1, pod={"container": {"resources": {"limits": size | more}}})
        for more in ({}, {"cpu": f"{32_003 + number}m"})
    )
    replicas["Master"] = master["spec"]["pytorchReplicaSpecs"]["Master"]
    replicas["Worker"] = {**worker["spec"]["pytorchReplicaSpecs"]["Worker"], "replicas": 47 + number % 13}
    return body


def _replicas(number: int) -> Manifest:
    return _job(number, workers=100 + number)


def _after(number: int) -> Manifest:
    body = _job(number)
    if number:
        body["metadata"]["annotations"] = {"fleet.io/after": f"pytorchjob/heavy-{number - 1}"}
    return body


KINDS: dict[str, Callable[[int], Manifest]] = {
    "one GPU each": _job,
    "60 resources of their own": _resources,
    "64 terms of node affinity": _terms,
    "256 expressions": _expressions,
    "2,000 values": _values,
    "64 tolerations": _tolerations,
    "250 selectors": _selectors,
    "100 init containers": _containers,
    "1,000 variables": _env,
    "300 volumes": _volumes,
    "100 spread constraints": _spread,
    "500 labels": _labels,
    "odd sizes": _odd,
    "100 to 1,100 replicas": _replicas,
    "jobs that they wait for": _after,
}
KINDS["a mix of these"] = lambda number: random.Random(number).choice(list(KINDS.values())[:-1])(number)
