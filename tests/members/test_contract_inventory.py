"""Nodes and pods of a member reach the model that decisions are made from."""

from __future__ import annotations

import uuid

from fleet.core.model.member import Pool, Taint
from fleet.members.clusters import ClusterMembers
from fleet.members.members import MemberChange
from fleet.members.traits import Traits
from fleet.wellknown import LABEL_BINDING, LABEL_HUB
from tests.members.builders import node, pod
from tests.members.conftest import HUB, Target, eventually

GPU = "nvidia.com/gpu"


def pool_of(members: ClusterMembers, label: str) -> Pool | None:
    """The one pool with this label (key pool), or None."""
    model = members.model("cfa")
    assert model is not None
    found = [pool for pool in model.pools if ("pool", label) in pool.labels]
    assert len(found) <= 1
    return found[0] if found else None


def free_gpus(pool: Pool | None) -> list[int]:
    return sorted(vector[GPU] for vector, count in (pool.free if pool else ()) for _ in range(count))


async def test_a_ready_member_shows_its_nodes_as_one_pool_with_all_its_room(joined: ClusterMembers) -> None:
    def unlabelled() -> Pool:
        model = joined.model("cfa")
        assert model is not None and model.ready and model.name == "cfa"
        [pool] = [p for p in model.pools if not any(key == "pool" for key, _ in p.labels)]
        return pool

    await eventually(lambda: free_gpus(unlabelled()) == [8, 8, 8, 8], what="pods of other tests are gone")
    pool, model = unlabelled(), joined.model("cfa")
    assert model is not None and pool.allocatable["cpu"] == 64_000
    assert pool.allocatable["memory"] == 256 << 30
    assert pool.allocatable["pods"] == 110
    assert "kubernetes.io/hostname" not in dict(pool.labels)
    assert model.kinds is not None and {"kubeflow.org/PyTorchJob", "batch/Job", "/ConfigMap"} <= model.kinds


async def test_the_model_is_the_same_object_until_something_changes(joined: ClusterMembers) -> None:
    first = joined.model("cfa")
    assert joined.model("cfa") is first
    joined.describe("cfa", Traits(labels=(("team", "ml"),), taints=(Taint("gpu"),), region="eu", price=3))
    model = joined.model("cfa")
    assert model is not None and model is not first
    assert (model.labels, model.taints, model.region, model.price) == ((("team", "ml"),), (Taint("gpu"),), "eu", 3)


async def test_nodes_that_come_and_go_change_the_pools(joined: ClusterMembers, target: Target) -> None:
    label = uuid.uuid4().hex[:8]
    for number in range(2):
        await target.create_node(node(f"n-{label}-{number}", gpus=4, labels={"pool": label}))
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [4, 4], what="both nodes")

    await target.merge(f"/api/v1/nodes/n-{label}-0", {"spec": {"unschedulable": True}})
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [4], what="a cordoned node offers nothing")
    model = joined.model("cfa")
    assert model is not None and model.unschedulable >= 1  # others may have cordoned theirs

    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    await target.merge(f"/api/v1/nodes/n-{label}-1", {"spec": {"taints": [taint]}})
    await eventually(lambda: (p := pool_of(joined, label)) and p.taints == (Taint("dedicated", "x"),), what="the taint")

    for number in range(2):
        await target.call("DELETE", f"/api/v1/nodes/n-{label}-{number}")
    await eventually(lambda: pool_of(joined, label) is None, what="no node left")


async def test_a_node_that_lost_its_kubelet_offers_nothing(joined: ClusterMembers, target: Target) -> None:
    label = uuid.uuid4().hex[:8]
    silent = {"kwok.x-k8s.io/status": "custom"}  # else kwok reports the node as ready again at once
    await target.create_node(node(f"n-{label}", labels={"pool": label}, annotations=silent))
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [8])
    lost = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "no word of the kubelet"}
    await target.merge(f"/api/v1/nodes/n-{label}/status", {"status": {"conditions": [lost]}})
    await eventually(lambda: pool_of(joined, label) is None, what="unreachable")
    await target.call("DELETE", f"/api/v1/nodes/n-{label}")


async def test_a_node_whose_taint_says_that_its_machine_is_off_offers_nothing(
    joined: ClusterMembers, target: Target
) -> None:
    label = uuid.uuid4().hex[:8]
    await target.create_node(node(f"n-{label}", labels={"pool": label}))
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [8])
    # A cluster without a cloud's controllers leaves this taint alone, and takes `unreachable` off a node that is ready.
    taint = {"key": "node.cloudprovider.kubernetes.io/shutdown", "effect": "NoSchedule"}
    await target.merge(f"/api/v1/nodes/n-{label}", {"spec": {"taints": [taint]}})
    await eventually(lambda: pool_of(joined, label) is None, what="shut down")
    await target.call("DELETE", f"/api/v1/nodes/n-{label}")


async def test_a_pod_takes_its_requests_from_its_node_until_it_is_gone(joined: ClusterMembers, target: Target) -> None:
    label = uuid.uuid4().hex[:8]
    await target.create_namespace()
    for number in range(2):
        await target.create_node(node(f"n-{label}-{number}", labels={"pool": label}))
    pods = f"/api/v1/namespaces/{target.namespace}/pods"
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [8, 8])

    await target.post(pods, pod("one", node=f"n-{label}-0", gpus=3))
    await target.post(pods, pod("two", node=f"n-{label}-0", gpus=1))
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [4, 8], what="two pods on one node")
    pool = pool_of(joined, label)
    assert pool is not None and sorted(v["pods"] for v, _ in pool.free) == [18, 20]

    await target.call("DELETE", f"{pods}/one")
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [7, 8], what="one pod gone")
    await target.call("DELETE", f"{pods}/two")
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [8, 8], what="both gone")
    for number in range(2):
        await target.call("DELETE", f"/api/v1/nodes/n-{label}-{number}")


async def test_a_pod_that_has_ended_takes_no_room(joined: ClusterMembers, target: Target) -> None:
    label = uuid.uuid4().hex[:8]
    await target.create_namespace()
    await target.create_node(node(f"n-{label}", labels={"pool": label}))
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [8])
    pods = f"/api/v1/namespaces/{target.namespace}/pods"
    await target.post(pods, pod("short", node=f"n-{label}", gpus=5, testbed_run_for="1s"))
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [3], what="running")
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [8], what="ended")
    stored = await target.get(f"{pods}/short")
    assert stored is not None and stored["status"]["phase"] == "Succeeded"
    await target.call("DELETE", f"/api/v1/nodes/n-{label}")


async def test_a_pod_of_a_binding_is_known_with_why_it_waits(joined: ClusterMembers, target: Target) -> None:
    changes: list[MemberChange] = []
    joined.subscribe(changes.append)
    binding = uuid.uuid4().hex
    await target.create_namespace()
    labels = {LABEL_HUB: HUB, LABEL_BINDING: binding, "fleet.io/component": "worker", "fleet.io/attempt": "3"}
    body = pod("big", gpus=99, labels=labels)
    await target.post(f"/api/v1/namespaces/{target.namespace}/pods", body)
    view = await eventually(lambda: next((p for p in joined.pods_of(binding) if p.reason), None), what="the pod")
    assert (view.member, view.namespace, view.name, view.node) == ("cfa", target.namespace, "big", "")
    assert (view.phase, view.ready, view.component, view.attempt) == ("Pending", False, "worker", 3)
    assert view.requests[GPU] == 99
    assert view.reason.startswith("Unschedulable: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.")
    assert MemberChange("cfa", "pod", binding) in changes

    await target.call("DELETE", f"/api/v1/namespaces/{target.namespace}/pods/big")
    await eventually(lambda: not joined.pods_of(binding), what="the pod is gone")


async def test_pods_of_another_hub_take_room_and_are_not_ours(joined: ClusterMembers, target: Target) -> None:
    label, binding = uuid.uuid4().hex[:8], uuid.uuid4().hex
    await target.create_namespace()
    await target.create_node(node(f"n-{label}", labels={"pool": label}))
    labels = {LABEL_HUB: "hub-2", LABEL_BINDING: binding}
    path = f"/api/v1/namespaces/{target.namespace}/pods"
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [8])
    await target.post(path, pod("theirs", node=f"n-{label}", gpus=2, labels=labels))
    await eventually(lambda: free_gpus(pool_of(joined, label)) == [6])
    assert joined.pods_of(binding) == ()
    await target.call("DELETE", f"{path}/theirs")
    await target.call("DELETE", f"/api/v1/nodes/n-{label}")
