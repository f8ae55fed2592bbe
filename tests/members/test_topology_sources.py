"""Place trees of a member come from its Cluster, the hub's HyperNodes and its own objects, and follow them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from fleet.bindings.conditions import condition
from fleet.core.model.matching import domain_of
from fleet.members.connection import Connection, HttpAnswer
from fleet.values.ports import Body, Key
from fleet.wellknown import CLUSTER, HYPERNODES
from tests.members.builders import node
from tests.members.conftest import SimulatedTarget, eventually
from tests.members.world import World

THERE = "/apis/topology.volcano.sh/v1alpha1/hypernodes"


def hypernode(name: str, tier: int, *names: str, kind: str = "Node", labels: Body | None = None) -> Body:
    return {
        "apiVersion": f"{HYPERNODES}/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "tier": tier,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": one}}} for one in names],
        },
    }


def domains(world: World, level: str) -> dict[str, int]:
    """Nodes by their domain of a level, those in none left out."""
    model, counts = world.members.model("cfa"), dict[str, int]()
    for pool in model.pools if model is not None else ():
        if domain := domain_of(pool, level):
            counts[domain] = counts.get(domain, 0) + sum(count for _, count in pool.free)
    return counts


def message(world: World, type_: str) -> str:
    return str((condition(world.stored() or {}, type_) or {}).get("message", ""))


async def ready(world: World, simulated: SimulatedTarget, **spec: Any) -> None:
    await world.join(simulated.kubeconfig, **spec)
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))


async def change(world: World, change_spec: Callable[[Body], object]) -> None:
    def changed(body: Body) -> bool:
        change_spec(body["spec"])
        return True

    assert await world.hub.edit(Key(CLUSTER, "clusters", "", "cfa"), changed)


async def test_labels_in_order_are_a_tree_and_follow_the_nodes_and_the_cluster(
    world: World, simulated: SimulatedTarget
) -> None:
    for number in range(4):
        labels = {"block": f"b{number // 2}", "rack": "r1"}
        await simulated.merge(f"/api/v1/nodes/node-{number}", {"metadata": {"labels": labels}})
    await ready(world, simulated, topology=[["block", "rack"]])
    await eventually(lambda: domains(world, "rack") == {"/b0/r1": 2, "/b1/r1": 2})
    await simulated.create_node(node("extra", labels={"block": "b1", "rack": "r9"}))
    await eventually(lambda: domains(world, "rack") == {"/b0/r1": 2, "/b1/r1": 2, "/b1/r9": 1})
    await simulated.merge("/api/v1/nodes/extra", {"metadata": {"labels": {"rack": "r1"}}})
    await eventually(lambda: domains(world, "rack") == {"/b0/r1": 2, "/b1/r1": 3})
    await change(world, lambda spec: spec.pop("topology"))
    await eventually(lambda: domains(world, "rack") == {"r1": 5})


async def test_hypernodes_of_the_hub_are_those_of_each_member_whose_nodes_they_match(
    world: World, simulated: SimulatedTarget
) -> None:
    await ready(world, simulated)
    for body in (
        hypernode("s0", 1, "node-0", "node-1", labels={"site": "a"}),
        hypernode("s1", 1, "node-2", "elsewhere", labels={"site": "a"}),
        hypernode("core", 2, "s0", "s1", "s9", kind="HyperNode"),
    ):
        await world.create(HYPERNODES, "hypernodes", "", body)
    await eventually(lambda: domains(world, "tier-1") == {"/core/s0": 2, "/core/s1": 1})
    left_out = "HyperNode core has the member s9, which does not exist"
    await eventually(lambda: message(world, "TopologyLeftOut") == left_out)
    await change(world, lambda spec: spec.update(hyperNodeSelector={"matchLabels": {"site": "a"}}))
    await eventually(lambda: (domains(world, "tier-1"), domains(world, "tier-2")) == ({"/s0": 2, "/s1": 1}, {}))
    await eventually(lambda: condition(world.stored() or {}, "TopologyLeftOut") is None)
    await world.hub.delete(Key(HYPERNODES, "hypernodes", "", "s0"))
    await eventually(lambda: domains(world, "tier-1") == {"/s1": 1})


async def test_a_members_own_hypernodes_win_and_its_cluster_says_so(world: World, simulated: SimulatedTarget) -> None:
    await world.create(HYPERNODES, "hypernodes", "", hypernode("hubs", 1, "node-0"))
    await ready(world, simulated)
    await eventually(lambda: domains(world, "tier-1") == {"/hubs": 1})
    await simulated.post(THERE, hypernode("own", 1, "node-0", "node-1", "node-7"))
    await simulated.post(THERE, hypernode("other", 1, "node-1", "node-2", "node-3"))
    await eventually(lambda: domains(world, "tier-1") == {"/own": 2})
    said = "the member has 2 HyperNodes of its own: none of the hub's 1 is read for it"
    await eventually(lambda: message(world, "TopologyOwn") == said)
    absent = "no node is called node-7, which a HyperNode lists"
    said = f"HyperNode other of 3 nodes overlaps own of 2: it is left out; {absent}"
    await eventually(lambda: message(world, "TopologyLeftOut") == said)
    for name in ("own", "other"):
        await simulated.call("DELETE", f"{THERE}/{name}")
    await eventually(lambda: domains(world, "tier-1") == {"/hubs": 1})
    await eventually(lambda: condition(world.stored() or {}, "TopologyOwn") is None)


async def test_a_kind_that_the_hub_may_not_list_is_named_with_the_rule_until_it_may(
    world: World, simulated: SimulatedTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    request, refused = Connection.request, [True]

    async def refusing(self: Connection, method: str, path: str, **more: Any) -> HttpAnswer:
        if refused[0] and path == THERE:
            return HttpAnswer(403, {"message": "User fleet cannot list resource hypernodes"})
        return await request(self, method, path, **more)

    monkeypatch.setattr(Connection, "request", refusing)
    monkeypatch.setattr("fleet.members.planting.REFUSED_PAUSE_S", 0.3)
    await ready(world, simulated)
    said = (
        "the hub's account may not list hypernodes.topology.volcano.sh there: add to its ClusterRole:"
        " apiGroups [topology.volcano.sh], resources [hypernodes], verbs [list, watch]"
    )
    await eventually(lambda: message(world, "TopologyUnread") == said)
    await simulated.post(THERE, hypernode("own", 1, "node-0"))
    refused[0] = False
    await eventually(lambda: domains(world, "tier-1") == {"/own": 1})
    await eventually(lambda: condition(world.stored() or {}, "TopologyUnread") is None)


def definition(group: str, version: str) -> Body:
    open_object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"topologies.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": "topologies", "kind": "Topology"},
            "versions": [
                {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": open_object}}
            ],
        },
    }


@pytest.mark.parametrize(("group", "version"), [("kueue.x-k8s.io", "v1beta2"), ("kai.scheduler", "v1alpha1")])
async def test_topologies_of_kueue_and_kai_are_trees_of_labels_as_long_as_they_are_there(
    world: World, simulated: SimulatedTarget, group: str, version: str
) -> None:
    for number in range(4):
        labels = {"block": f"b{number // 2}", "rack": "r1"}
        await simulated.merge(f"/api/v1/nodes/node-{number}", {"metadata": {"labels": labels}})
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await simulated.post(crds, definition(group, version))
    await ready(world, simulated)
    there = f"/apis/{group}/{version}/topologies"
    levels = [{"nodeLabel": "block"}, {"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]
    topology = {"apiVersion": f"{group}/{version}", "kind": "Topology", "metadata": {"name": "default"}}

    async def posted() -> bool:
        answer = await simulated.client.post(there, json={**topology, "spec": {"levels": levels}})
        return answer.status_code == 201

    for _ in range(100):  # until the definition is served
        if await posted():
            break
        await asyncio.sleep(0.05)
    await eventually(lambda: domains(world, "rack") == {"/b0/r1": 2, "/b1/r1": 2})
    await simulated.merge(f"{there}/default", {"spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "rack"}]}})
    await eventually(lambda: domains(world, "rack") == {"r1": 4}, what="a topology that is no tree is none")
    await simulated.merge(f"{there}/default", {"spec": {"levels": levels[1:]}})
    await change(world, lambda spec: spec.update(topology=[["block", "rack"]]))
    await eventually(lambda: domains(world, "rack") == {"/b0/r1": 2, "/b1/r1": 2}, what="the Cluster's come first")
    await change(world, lambda spec: spec.pop("topology"))
    await simulated.merge(f"{there}/default", {"spec": {"levels": levels}})
    await eventually(lambda: domains(world, "rack") == {"/b0/r1": 2, "/b1/r1": 2})
    await simulated.call("DELETE", f"{crds}/topologies.{group}")
    await eventually(lambda: domains(world, "rack") == {"r1": 4}, what="its definition takes it along")
