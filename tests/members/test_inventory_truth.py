"""The hub's idea of what fits is that of a real kube-scheduler.

Random worlds of nodes stand in a real member. The pods of a world are created one at a time. Before each, the hub
judges the spec as a user writes it, by what its inventory makes of the objects that the API server shows. Then the
scheduler places the pod or says that no node is left. Both must agree. At the end of a world, the scheduler itself is
asked for the free vector of every node: a pod that asks for all of it starts, and a pod that asks for one unit more of
anything does not.

`make test` places some hundred pods, the same each time; `make truth` new ones in 300 worlds (FLEET_TRUTH_WORLDS).
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from fleet.bindings.components import from_body, to_body
from fleet.controllers.decide.units import asked_of_nodes
from fleet.core.decide import decide
from fleet.core.model.amounts import Amounts
from fleet.core.model.member import Member
from fleet.core.model.pod import PodView
from fleet.core.model.unit import Unit
from fleet.core.snapshot import Snapshot
from fleet.kinds.interpreter import Template
from fleet.kinds.pods import component
from fleet.members.index import ByBinding
from fleet.members.inventory import NodeSink, PodSink
from fleet.members.nodes import MemberNodes, read_node
from fleet.values.quantity import texts_of
from tests.members.builders import Body
from tests.members.conftest import HUB, SOON_S, RealTarget
from tests.members.sets import BESIDE, EXCLUDED, HUGE, WORLD, WorldSet, excluded, filling, world
from tests.testbed.bed import Bed

LONG = "FLEET_TRUTH_WORLDS" in os.environ
WORLDS = int(os.environ.get("FLEET_TRUTH_WORLDS", "30"))
SEED = time.time_ns() if LONG else 1
PODS = 12  # of a world
AT_ONCE = 10  # worlds
# The scheduler hears of a freed node a moment after the client does, and tries again after a second.
SECOND_TRY_S = 20.0
NODES, PODS_PATH = "/api/v1/nodes", "/api/v1/namespaces/default/pods"


class Hub:
    """The hub's inventory of some nodes and pods, and its verdict about one pod more."""

    def __init__(self, nodes: list[Body], pods: list[Body]) -> None:
        self.nodes = MemberNodes()
        node_sink = NodeSink("cfa", self.nodes, lambda change: None)
        pod_sink = PodSink("cfa", HUB, self.nodes, ByBinding[PodView](), lambda change: None)
        for body in nodes:
            node_sink.seen(body)
        for body in pods:
            pod_sink.seen(body)

    def fits(self, spec: Body) -> bool:
        asked = from_body(to_body(component(Template("main", 1, {"spec": spec}, ""))))  # as a binding stores it
        unit = Unit("u", "default/u", (asked,))
        self.nodes.tell_apart(asked_of_nodes(unit))
        member = Member("cfa", pools=self.nodes.pools())
        return bool(decide(Snapshot.of([unit], [member]), now=0.0, seed=0, solver=None).placements)

    def free(self) -> Amounts:
        """The free vector of the only node."""
        ((vector, count),) = (entry for pool in self.nodes.pools() for entry in pool.free)
        assert count == 1
        return vector


class Pods:
    """The pods of the member as a watch shows them."""

    def __init__(self, target: RealTarget) -> None:
        self._target = target
        self.bodies: dict[str, Body] = {}
        self.changed = asyncio.Condition()

    @asynccontextmanager
    async def followed(self) -> AsyncIterator[Pods]:
        begin = await self._target.call("GET", PODS_PATH)
        task = asyncio.create_task(self._follow(begin["metadata"]["resourceVersion"]))
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self, version: str) -> None:
        path = f"{PODS_PATH}?watch=1&resourceVersion={version}&labelSelector={WORLD}"
        async with self._target.client.stream("GET", path, timeout=None) as answer:
            async for line in answer.aiter_lines():
                event = json.loads(line)
                name = event["object"]["metadata"]["name"]
                async with self.changed:
                    if event["type"] == "DELETED":
                        self.bodies.pop(name, None)
                    else:
                        self.bodies[name] = event["object"]
                    self.changed.notify_all()

    async def until(self, condition: Any, within_s: float = SOON_S) -> Any:
        """The first true answer; None when time is up."""
        try:
            async with asyncio.timeout(within_s), self.changed:
                while not (found := condition()):
                    await self.changed.wait()
                return found
        except TimeoutError:
            return None


def _judged(body: Body | None) -> str:
    """The node that the scheduler chose, "nowhere", or "" while it has not said."""
    if body is None:
        return ""
    if body["spec"].get("nodeName"):
        return str(body["spec"]["nodeName"])
    conditions = body.get("status", {}).get("conditions", [])
    return "nowhere" if any(c.get("reason") == "Unschedulable" for c in conditions) else ""


@dataclass
class Run:
    """One comparison: all that it found, and how much it looked at."""

    target: RealTarget
    pods: Pods
    differences: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    async def place(self, name: str, world: str, spec: Body, *, hoped: bool) -> str:
        """Where the scheduler puts it: a node, "nowhere", or "refused" by the API server. `hoped`: the hub says that it
        fits, so a first no may only be early."""
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {WORLD: world}}, "spec": spec}
        answer = await self.target.client.post(PODS_PATH, json=body)
        if answer.status_code in (403, 422):
            self.counts["refused"] += 1
            return "refused"
        assert answer.status_code == 201, answer.text[:500]
        found: str = await self.pods.until(lambda: _judged(self.pods.bodies.get(name)))
        assert found, f"the scheduler says nothing of {name}"
        if found == "nowhere" and hoped:
            await self.pods.until(lambda: _judged(self.pods.bodies.get(name)) not in ("", "nowhere"), SECOND_TRY_S)
            found = _judged(self.pods.bodies[name])
        return found

    async def remove(self, name: str) -> None:
        await self.target.call("DELETE", f"{PODS_PATH}/{name}?gracePeriodSeconds=0")
        await self.pods.until(lambda: name not in self.pods.bodies)

    def of(self, world: str) -> list[Body]:
        return [body for body in self.pods.bodies.values() if body["metadata"]["labels"][WORLD] == world]

    async def judge(self, made: WorldSet) -> None:
        rng = Random(made.name)
        found = await self.target.call("GET", f"{NODES}?labelSelector={WORLD}%3D{made.name}")
        nodes = {node["metadata"]["name"]: node for node in found["items"]}
        for number, spec in enumerate(made.pods):
            name = f"{made.name}-p{number}"
            there = self.of(made.name)
            hub = number not in made.refused and Hub(list(nodes.values()), there).fits(spec)
            went = await self.place(name, made.name, spec, hoped=hub)
            if went == "refused":
                continue
            alone = went == "nowhere" or Hub([nodes[went]], [p for p in there if _judged(p) == went]).fits(spec)
            self.counts["nowhere" if went == "nowhere" else "placed"] += 1
            if hub != (went != "nowhere") or not alone or number in made.refused:
                why = self.pods.bodies[name].get("status", {}).get("conditions", [{}])[0].get("message", "")
                self.differences.append(
                    f"{name}: hub {hub}, there {alone}, scheduler {went} {why}\n  {json.dumps(spec)}\n"
                    + "\n".join(f"  {json.dumps(_short(node, there))}" for node in nodes.values())
                )
            if went == "nowhere":
                await self.remove(name)
            elif rng.random() < 0.15:
                await self.remove(rng.choice(self.of(made.name))["metadata"]["name"])
        for node in nodes.values():
            await self.measure(made.name, node)

    async def measure(self, world: str, node: Body) -> None:
        """Ask the scheduler for one unit more of each resource than is free on the node, and at last for all that is
        free. The other order would hide a difference: the scheduler may hear late that a pod has left."""
        there = [pod for pod in self.of(world) if _judged(pod) == node["metadata"]["name"]]
        hub = Hub([node], there)
        if not hub.nodes.pools():
            return  # absent: nothing is offered
        free = dict(hub.free().items_)
        room = free.pop("pods", 0)
        free.pop(HUGE, 0)  # cannot be asked for in odd amounts
        names = sorted(set(read_node(node).allocatable) - {"pods", HUGE}) if room else []
        asked = [({**free, name: free.get(name, 0) + 1}, False) for name in names] + [(free, bool(room))]
        for number, (amounts, fits) in enumerate(asked):
            name = f"{node['metadata']['name']}-free-{number}"
            went = await self.place(name, world, filling(world, node, texts_of(amounts)), hoped=fits)
            assert went != "refused"
            if (went != "nowhere") != fits:
                self.differences.append(f"{name}: hub {fits}, scheduler {went}, free {free}, asked {amounts}")
            self.counts["measured"] += 1
            await self.remove(name)


def _short(node: Body, pods: list[Body]) -> Body:
    """Enough to see why."""
    name = node["metadata"]["name"]
    used = Hub([node], [pod for pod in pods if _judged(pod) == name]).nodes.total_used
    return {
        "name": name,
        "labels": node["metadata"]["labels"],
        "spec": node["spec"],
        "room": node["status"]["allocatable"],
        "used": dict(used.items_),
    }


async def _ready(target: RealTarget, worlds: list[WorldSet]) -> None:
    """Create the nodes, and wait until the member's controllers have marked the faulty ones."""
    for made in worlds:
        for node in made.nodes:
            await target.post(NODES, node)
    absent = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unschedulable"}
    expected = {
        node["metadata"]["name"]: bool(node["spec"].get("unschedulable")) or _condition(node) == "False"
        for made in worlds
        for node in made.nodes
    }
    deadline = time.monotonic() + SOON_S
    while True:
        found = (await target.call("GET", f"{NODES}?labelSelector={WORLD}"))["items"]
        shown = {
            node["metadata"]["name"]: any(taint["key"] in absent for taint in node["spec"].get("taints", []))
            for node in found
        }
        if shown == expected:
            return
        assert time.monotonic() < deadline, {name for name in expected if shown[name] != expected[name]}
        await asyncio.sleep(0.3)


def _condition(node: Body) -> str:
    return str(next(c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready"))


@asynccontextmanager
async def _prepared(bed: Bed, worlds: list[WorldSet]) -> AsyncIterator[Run]:
    """The member with the nodes of these worlds; all that was made goes at the end."""
    target = RealTarget(bed)
    for path, body in BESIDE.items():
        await target.post(path, body)
    try:
        await _ready(target, worlds)
        async with Pods(target).followed() as pods:
            yield Run(target, pods)
    finally:
        for path, body in BESIDE.items():
            await target.call("DELETE", f"{path}/{body['metadata']['name']}")
        await target.call("DELETE", f"{PODS_PATH}?labelSelector={WORLD}&gracePeriodSeconds=0")
        await target.call("DELETE", f"{NODES}?labelSelector={WORLD}")
        await target.client.aclose()


async def _compared(bed: Bed, worlds: list[WorldSet]) -> Run:
    limit = asyncio.Semaphore(AT_ONCE)
    async with _prepared(bed, worlds) as run:

        async def one(made: WorldSet) -> None:
            async with limit:
                await run.judge(made)

        await asyncio.gather(*map(one, worlds))
    return run


async def _excluded(bed: Bed) -> dict[str, tuple[bool, bool]]:
    """Whether the pod of each feature finds a node: the answers of the hub and of the scheduler."""
    worlds = {feature: excluded(number, feature) for number, feature in enumerate(EXCLUDED)}
    said: dict[str, tuple[bool, bool]] = {}
    async with _prepared(bed, [made for made, _ in worlds.values()]) as run:
        for feature, (made, spec) in worlds.items():
            nodes = (await run.target.call("GET", f"{NODES}?labelSelector={WORLD}%3D{made.name}"))["items"]
            for number, before in enumerate(made.pods):
                assert await run.place(f"{made.name}-before-{number}", made.name, before, hoped=True) != "nowhere"
            hub = Hub(nodes, run.of(made.name)).fits(spec)
            went = await run.place(f"{made.name}-pod", made.name, spec, hoped=False)
            assert went != "refused", feature
            said[feature] = (hub, went != "nowhere")
    return said


def test_the_features_that_are_left_to_the_member_are_these(bed: Bed) -> None:
    """A feature that the hub has learned leaves the list, and docs/known-limits.md."""
    assert asyncio.run(_excluded(bed)) == {feature: (not finds, finds) for feature, (_, finds) in EXCLUDED.items()}


@pytest.mark.timeout(0 if LONG else 300)
def test_the_hub_and_a_real_scheduler_agree(bed: Bed) -> None:
    began = time.monotonic()
    run = asyncio.run(_compared(bed, [world(SEED, number, PODS) for number in range(WORLDS)]))
    print(f"seed {SEED}: {dict(run.counts)} in {time.monotonic() - began:.1f} s")
    assert not run.differences, f"seed {SEED}: {len(run.differences)}\n" + "\n".join(run.differences)
    assert run.counts["placed"] + run.counts["nowhere"] > WORLDS * PODS // 2, run.counts
    assert min(run.counts[what] for what in ("placed", "nowhere", "measured")) > WORLDS, run.counts
    assert run.counts["refused"] > WORLDS // 4, run.counts
