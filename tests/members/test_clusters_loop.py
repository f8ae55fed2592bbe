"""Cluster objects and their Secrets become connections, and Cluster.status tells what the member shows."""

from __future__ import annotations

import base64
import json

from fleet.bindings.conditions import condition
from fleet.values.ports import Body, Key
from fleet.wellknown import ANNOTATION_FORCE_REMOVAL, CLUSTER, FINALIZER_CLUSTER, SYSTEM_NAMESPACE, WORK
from tests.members.builders import node
from tests.members.conftest import SimulatedTarget, eventually
from tests.members.world import World

CFA = Key(CLUSTER, "clusters", "", "cfa")


def placed_in_cfa() -> Body:
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "namespace": "default", "name": "train"}
    return {
        "apiVersion": f"{WORK}/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "train-pytorchjob", "namespace": "default"},
        "spec": {"resource": job, "clusters": [{"name": "cfa"}]},
    }


async def test_a_joined_cluster_shows_what_its_member_has(world: World, simulated: SimulatedTarget) -> None:
    await world.join(simulated.kubeconfig, provider="aws", region="eu", taints=[{"key": "k", "effect": "NoSchedule"}])
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))
    status = await eventually(lambda: world.status() if world.status().get("nodeSummary") else None)
    assert status["kubernetesVersion"] == "v1.36.3"
    assert status["nodeSummary"] == {"totalNum": 4, "readyNum": 4}
    assert status["resourceSummary"]["allocatable"] == {
        "cpu": "256",
        "ephemeral-storage": "4Ti",
        "memory": "1Ti",
        "nvidia.com/gpu": "32",
        "pods": "440",
    }
    groups = {e["groupVersion"]: {r["kind"] for r in e["resources"]} for e in status["apiEnablements"]}
    assert "PyTorchJob" in groups["kubeflow.org/v1"] and "Pod" in groups["v1"]
    stored = world.stored()
    assert stored is not None and FINALIZER_CLUSTER in stored["metadata"]["finalizers"]
    model = world.members.model("cfa")
    assert model is not None and (model.provider, model.region, model.price) == ("aws", "eu", 7)
    assert ("team", "ml") in model.labels and model.taints[0].key == "k"


async def test_status_follows_the_member_and_is_still_when_nothing_changes(
    world: World, simulated: SimulatedTarget
) -> None:
    await world.join(simulated.kubeconfig)
    await eventually(lambda: world.status().get("nodeSummary", {}).get("totalNum") == 4)
    await simulated.create_node(node("extra"))
    await eventually(lambda: world.status()["nodeSummary"]["totalNum"] == 5)
    writes = world.hub.store.stats.writes  # type: ignore[attr-defined]
    await simulated.merge("/api/v1/nodes/extra", {"metadata": {"annotations": {"note": "changes nothing of interest"}}})
    await eventually(lambda: world.loop.controller.queue.idle())
    assert world.hub.store.stats.writes == writes  # type: ignore[attr-defined]


async def test_a_cluster_without_its_secret_says_so_and_joins_when_it_comes(
    world: World, simulated: SimulatedTarget
) -> None:
    await world.cluster()
    await eventually(lambda: world.ready() == ("False", "SecretMissing"))
    encoded = base64.b64encode(simulated.kubeconfig.encode()).decode()
    meta = {"name": "member-cfa", "namespace": SYSTEM_NAMESPACE}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"kubeconfig": encoded}}
    await world.create("", "secrets", SYSTEM_NAMESPACE, secret)
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))


async def test_a_kubeconfig_that_cannot_be_used_names_the_field(world: World) -> None:
    await world.join("current-context: m\ncontexts: []\n")
    await eventually(lambda: world.ready() == ("False", "BadKubeconfig"))
    found = condition(world.stored() or {}, "Ready")
    assert found is not None
    assert found["message"].endswith("kubeconfig: current-context: 'm' is not in contexts"), found["message"]


async def test_a_member_that_is_lost_turns_the_cluster_not_ready_once(world: World, simulated: SimulatedTarget) -> None:
    await world.join(simulated.kubeconfig)
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))
    await simulated.cut_off()
    await eventually(lambda: world.ready() == ("False", "ClusterNotReachable"))
    assert world.status()["nodeSummary"]["totalNum"] == 4  # what was last seen stays
    await simulated.reconnect()
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))


async def test_a_cluster_stays_while_a_binding_is_in_it_or_leaving_it(world: World, simulated: SimulatedTarget) -> None:
    await world.join(simulated.kubeconfig)
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))
    binding = placed_in_cfa()
    await world.create(WORK, "resourcebindings", "default", binding)
    await world.hub.delete(CFA)
    await eventually(lambda: "cfa" in world.loop._leaving)
    key = Key(WORK, "resourcebindings", "default", "train-pytorchjob")

    def evict(body: Body) -> bool:
        body["spec"]["clusters"] = []
        body["spec"]["gracefulEvictionTasks"] = [{"fromCluster": "cfa", "reason": "r", "producer": "fleet"}]
        return True

    assert await world.hub.edit(key, evict)
    await eventually(lambda: world.loop.controller.queue.idle())
    assert world.stored() is not None and world.members.names() == ("cfa",)

    def gone(body: Body) -> bool:
        body["spec"]["gracefulEvictionTasks"] = []
        return True

    assert await world.hub.edit(key, gone)
    await eventually(lambda: world.stored() is None and world.members.names() == ())


async def test_a_cluster_that_cannot_leave_says_what_it_waits_for_and_how_to_give_up(
    world: World, simulated: SimulatedTarget
) -> None:
    await world.join(simulated.kubeconfig)
    await eventually(lambda: condition(world.stored() or {}, "Ready"))
    resource = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "namespace": "team", "name": "one"}
    binding = {
        "apiVersion": f"{WORK}/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "one-pytorchjob"},
        "spec": {"resource": resource, "clusters": [{"name": "cfa"}]},
    }
    await world.create(WORK, "resourcebindings", "team", binding)
    await eventually(lambda: world.members.ready("cfa"))
    await world.hub.delete(CFA)
    leaving = await eventually(lambda: condition(world.stored() or {}, "Leaving"))
    assert leaving["message"] == "its work is being withdrawn: team/one"
    await simulated.cut_off()
    await eventually(
        lambda: f"{ANNOTATION_FORCE_REMOVAL}=true" in (condition(world.stored() or {}, "Leaving") or {})["message"]
    )


async def test_forced_removal_waits_for_nothing(world: World, simulated: SimulatedTarget) -> None:
    await world.join(simulated.kubeconfig)
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))
    binding = placed_in_cfa()
    await world.create(WORK, "resourcebindings", "default", binding)

    def force(body: Body) -> bool:
        body["metadata"].setdefault("annotations", {})[ANNOTATION_FORCE_REMOVAL] = "true"
        return True

    assert await world.hub.edit(CFA, force)
    await world.hub.delete(CFA)
    await eventually(lambda: world.stored() is None and world.members.names() == ())


async def test_new_credentials_in_the_secret_are_taken_up(world: World, simulated: SimulatedTarget) -> None:
    await world.join(simulated.kubeconfig.replace(simulated.cluster.token, "wrong"))
    await eventually(lambda: world.ready() == ("False", "CredentialsRefused"))
    await world.lead_to(simulated.kubeconfig)
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))


async def test_the_end_of_a_members_credentials_is_told_until_the_member_leaves(
    world: World, simulated: SimulatedTarget
) -> None:
    def told() -> float | None:
        metric = "fleet_member_credentials_expiry_timestamp_seconds"
        return world.hub.metrics.registry.get_sample_value(metric, {"member": "cfa"})

    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode() for part in ({}, {"exp": 2_000_000_000}))
    ends = f"{'.'.join(parts)}.signature"
    await world.join(simulated.kubeconfig.replace(simulated.cluster.token, ends))
    await eventually(lambda: told() == 2_000_000_000)
    await world.lead_to(simulated.kubeconfig)
    await eventually(lambda: world.ready() == ("True", "ClusterReady"))
    assert told() is None, "this token does not say when it ends"
    await world.lead_to(simulated.kubeconfig.replace(simulated.cluster.token, ends))
    await eventually(lambda: told() == 2_000_000_000)
    await world.hub.delete(CFA)
    await eventually(lambda: told() is None)
