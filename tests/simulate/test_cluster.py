"""The rest of a simulated member: scheduling, kubelets, garbage collection, namespaces, and the program around it."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from fleet.simulate.cluster import NodeShape, SimulatedCluster
from fleet.simulate.kubelet import duration_s
from fleet.simulate.run import member_names, run_simulated
from tests.simulate.conftest import KUBEFLOW, PODS, Member, kubeflow_job, pod, replicas

MERGE = "application/merge-patch+json"


async def unscheduled(member: Member, name: str) -> str:
    """Reason and message of the PodScheduled condition while it is False."""
    found = (await member.pods()).get(name) or {}
    for condition in (found.get("status") or {}).get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return f"{condition['reason']}: {condition['message']}"
    return ""


async def test_nodes_are_ready_and_carry_their_room(member: Member) -> None:
    nodes = await member.get("/api/v1/nodes")
    assert nodes is not None and [n["metadata"]["name"] for n in nodes["items"]] == ["node-0", "node-1"]
    assert nodes["items"][0]["status"]["allocatable"]["nvidia.com/gpu"] == "4"


async def test_a_pod_goes_only_where_its_selector_and_tolerations_allow(member: Member) -> None:
    await member.call("PATCH", "/api/v1/nodes/node-0", {"metadata": {"labels": {"zone": "a"}}}, MERGE)
    taint = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    await member.call("PATCH", "/api/v1/nodes/node-1", {"spec": {"taints": [taint]}}, MERGE)
    await member.post(PODS, pod("a", nodeSelector={"zone": "a"}))
    await member.post(PODS, pod("b", nodeSelector={"zone": "b"}))
    tolerations = [{"key": "dedicated", "operator": "Exists"}]
    on = {"key": "zone", "operator": "DoesNotExist"}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [on]}]}
        }
    }
    await member.post(PODS, pod("c", tolerations=tolerations, affinity=affinity))
    why = (
        "Unschedulable: 0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, "
        "1 node(s) had untolerated taint {dedicated: x}."
    )
    await member.until(lambda: unscheduled(member, "b"), why)

    async def where() -> dict[str, str]:
        return {name: p["spec"].get("nodeName", "") for name, p in (await member.pods()).items()}

    await member.until(where, {"a": "node-0", "b": "", "c": "node-1"})


async def test_a_gated_pod_is_scheduled_when_its_gate_goes(member: Member) -> None:
    await member.post(PODS, pod("gated", schedulingGates=[{"name": "example.org/hold"}]))
    blocked = "SchedulingGated: Scheduling is blocked due to non-empty scheduling gates"
    await member.until(lambda: unscheduled(member, "gated"), blocked)
    await member.call("PATCH", f"{PODS}/gated", {"spec": {"schedulingGates": None}}, MERGE)
    await member.until(member.phases, {"gated": "Running"})


async def test_a_new_node_takes_what_waits(member: Member) -> None:
    await member.post(PODS, pod("large", gpus=6))
    await member.until(lambda: unscheduled(member, "large"))
    room = {"cpu": "8", "memory": "16Gi", "pods": "10", "nvidia.com/gpu": "8"}
    await member.post("/api/v1/nodes", {"metadata": {"name": "big"}})
    await member.call("PATCH", "/api/v1/nodes/big/status", {"status": {"allocatable": room, "capacity": room}}, MERGE)
    await member.until(member.phases, {"large": "Running"})
    await member.call("DELETE", "/api/v1/nodes/big")
    await member.until(member.pods, {})


async def test_a_deleted_pod_is_seen_going_and_then_is_gone(member: Member) -> None:
    await member.post(PODS, pod("one"))
    await member.until(member.phases, {"one": "Running"})
    answer = await member.call("DELETE", f"{PODS}/one")
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 30
    await member.until(member.pods, {})


async def test_dependents_go_with_their_owner_or_stay_as_asked(member: Member) -> None:
    configs = "/api/v1/namespaces/default/configmaps"

    async def family(name: str) -> None:
        owner = await member.post(configs, {"metadata": {"name": name}})
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"]}
        reference["blockOwnerDeletion"] = True
        await member.post(configs, {"metadata": {"name": f"{name}-child", "ownerReferences": [reference]}})

    async def names() -> list[str]:
        listed = await member.get(configs)
        assert listed is not None
        return sorted(item["metadata"]["name"] for item in listed["items"])

    for name in ("back", "front", "orphaning"):
        await family(name)
    await member.call("DELETE", f"{configs}/back", {"propagationPolicy": "Background"})
    await member.until(names, ["front", "front-child", "orphaning", "orphaning-child"])
    await member.call("DELETE", f"{configs}/front", {"propagationPolicy": "Foreground"})
    await member.until(names, ["orphaning", "orphaning-child"])
    await member.call("DELETE", f"{configs}/orphaning", {"propagationPolicy": "Orphan"})
    await member.until(names, ["orphaning-child"])
    left = await member.get(f"{configs}/orphaning-child")
    assert left is not None and not left["metadata"].get("ownerReferences")


async def test_an_object_whose_owner_never_was_goes(member: Member) -> None:
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": "nobody",
        "uid": "00000000-0000-0000-0000-000000000000",
    }
    configs = "/api/v1/namespaces/default/configmaps"
    await member.post(configs, {"metadata": {"name": "child", "ownerReferences": [reference]}})

    async def gone() -> bool:
        return await member.get(f"{configs}/child") is None

    assert await member.until(gone)


async def test_a_namespace_has_its_account_and_takes_everything_with_it(member: Member) -> None:
    await member.post("/api/v1/namespaces", {"metadata": {"name": "team"}})
    account = "/api/v1/namespaces/team/serviceaccounts/default"
    await member.until(lambda: member.get(account))
    await member.post("/api/v1/namespaces/team/configmaps", {"metadata": {"name": "settings"}})
    path = "/apis/kubeflow.org/v1/namespaces/team/pytorchjobs"
    await member.post(path, kubeflow_job("PyTorchJob", "train", {"Master": replicas(1)}))

    async def running() -> bool:
        listed = await member.get("/api/v1/namespaces/team/pods")
        return [p["status"]["phase"] for p in (listed or {})["items"]] == ["Running"]

    assert await member.until(running)
    await member.call("DELETE", "/api/v1/namespaces/team")

    async def gone() -> bool:
        return await member.get("/api/v1/namespaces/team") is None

    assert await member.until(gone)
    listed = await member.get("/api/v1/pods")
    assert listed is not None and listed["items"] == []


async def test_nobody_without_its_token_is_let_in(member: Member) -> None:
    async with httpx.AsyncClient(base_url=member.cluster.url) as stranger:
        assert (await stranger.get("/api/v1/pods")).status_code == 401


async def test_a_thousand_pods_run_and_go() -> None:
    cluster = SimulatedCluster("cfa", [NodeShape(count=20, gpus=64)], pod_start_s=0.02, pod_stop_s=0.02)
    await cluster.start()
    member = Member(cluster)
    jobs = f"{KUBEFLOW}/pytorchjobs"
    for number in range(10):
        await member.post(jobs, kubeflow_job("PyTorchJob", f"job-{number}", {"Worker": replicas(100)}))

    async def running() -> int:
        return list((await member.phases()).values()).count("Running")

    await member.until(running, 1000, within_s=60)
    for number in range(10):
        await member.call("DELETE", f"{jobs}/job-{number}")
    await member.until(member.pods, {}, within_s=60)
    await member.client.aclose()
    await cluster.stop()


async def test_the_program_writes_private_kubeconfigs_and_stops(tmp_path: Path) -> None:
    ready, stop = asyncio.Event(), asyncio.Event()
    names = member_names(2)
    running = asyncio.create_task(
        run_simulated(names, directory=tmp_path / "members", nodes=1, stop=stop, on_ready=lambda _: ready.set())
    )
    await asyncio.wait_for(ready.wait(), 20)
    for name in names:
        path = tmp_path / "members" / f"{name}.kubeconfig"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        config = yaml.safe_load(path.read_text())
        headers = {"authorization": f"Bearer {config['users'][0]['user']['token']}"}
        async with httpx.AsyncClient(base_url=config["clusters"][0]["cluster"]["server"], headers=headers) as client:
            assert len((await client.get("/api/v1/nodes")).json()["items"]) == 1
    stop.set()
    await asyncio.wait_for(running, 20)


def test_a_simulated_member_listens_on_loopback_only() -> None:
    with pytest.raises(ValueError, match="loopback only"):
        SimulatedCluster("cfa", host="0.0.0.0")


def test_names_go_on_after_cfz() -> None:
    names = member_names(28)
    assert names[:3] == ["cfa", "cfb", "cfc"]
    assert names[25:] == ["cfz", "cfaa", "cfab"]


@pytest.mark.parametrize(
    ("text", "expected"), [("3s", 3.0), ("1m30s", 90.0), ("250ms", 0.25), ("1.5h", 5400.0), ("", None), ("soon", None)]
)
def test_durations_are_read_as_go_writes_them(text: str, expected: float | None) -> None:
    assert duration_s(text) == expected


async def test_pods_that_require_each_others_rack_share_one_and_the_preferred_one_first(member: Member) -> None:
    for node, rack in (("node-0", "r0"), ("node-1", "r1")):
        await member.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {"rack": rack}}}, MERGE)
    together = {"labelSelector": {"matchLabels": {"gang": "one"}}, "topologyKey": "rack"}
    there = {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}
    affinity = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [together]},
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": there}]},
    }
    for number in range(3):
        made = pod(f"p{number}", gpus=2, affinity=affinity)
        made["metadata"]["labels"] = {"gang": "one"}
        await member.post(PODS, made)

    async def where() -> list[str]:
        return [p["spec"].get("nodeName", "") for _, p in sorted((await member.pods()).items())]

    await member.until(where, ["node-1", "node-1", ""])
    told = "0/2 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match pod affinity rules."
    await member.until(lambda: unscheduled(member, "p2"), f"Unschedulable: {told}")


async def test_pods_require_those_of_their_component_and_like_to_be_beside_others(member: Member) -> None:
    for node, rack in (("node-0", "r0"), ("node-1", "r1")):
        await member.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {"rack": rack}}}, MERGE)

    def beside(*of: str) -> dict[str, Any]:
        expressions = [{"key": "part", "operator": "In", "values": list(of)}]
        selector = {"matchLabels": {"gang": "one"}, "matchExpressions": expressions}
        return {"labelSelector": selector, "topologyKey": "rack"}

    required = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [beside("worker")]}}
    liked = [{"weight": 100, "podAffinityTerm": beside("leader", "worker")}]
    preferred = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": liked}}
    for name, part, affinity in (
        ("a", "leader", {}),
        ("b", "worker", required),
        ("c", "worker", required),
        ("d", "helper", preferred),
    ):
        made = pod(name, gpus=1, affinity=affinity)
        made["metadata"]["labels"] = {"gang": "one", "part": part}
        await member.post(PODS, made)
        await member.until(partial(bound, member, name), True)
    where = {name: p["spec"].get("nodeName", "") for name, p in (await member.pods()).items()}
    assert where["a"] != where["b"] == where["c"] == where["d"], "the leader alone is apart"


async def bound(member: Member, name: str) -> bool:
    return bool((await member.pods())[name]["spec"].get("nodeName"))


async def restarted(file: Path, *shapes: NodeShape) -> Member:
    cluster = SimulatedCluster("cfa", shapes, pod_start_s=0.02, pod_stop_s=0.02, identity="one", file=file)
    await cluster.start()
    return Member(cluster)


async def running_two(member: Member) -> dict[str, str]:
    """The uids of the pods of a job, once both run."""
    await member.until(member.phases, {"runs-worker-0": "Running", "runs-worker-1": "Running"})
    return {name: pod["metadata"]["uid"] for name, pod in (await member.pods()).items()}


async def nodes_of(member: Member) -> dict[str, str]:
    return {name: pod["spec"].get("nodeName", "") for name, pod in (await member.pods()).items()}


async def stopped(member: Member) -> None:
    await member.client.aclose()
    await member.cluster.stop()


async def test_a_member_with_a_file_goes_on_after_a_restart(tmp_path: Path) -> None:
    file, shape = tmp_path / "cfa.objects", NodeShape(count=1, gpus=4)
    member = await restarted(file, shape)
    await member.post(f"{KUBEFLOW}/pytorchjobs", kubeflow_job("PyTorchJob", "runs", {"Worker": replicas(2)}))
    before = await running_two(member)
    await stopped(member)
    member = await restarted(file, shape)
    assert await running_two(member) == before
    await member.call("DELETE", f"{KUBEFLOW}/pytorchjobs/runs")
    await member.until(member.pods, {}, within_s=20)
    await stopped(member)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_pods_that_run_wait_or_start_go_on_after_a_restart(tmp_path: Path) -> None:
    file, shape = tmp_path / "cfa.objects", NodeShape(count=1, gpus=4)
    cluster = SimulatedCluster("cfa", [shape], pod_start_s=600, identity="one", file=file)
    await cluster.start()
    member = Member(cluster)
    await member.post(PODS, pod("starts", gpus=4, run_for="1s"))
    await member.post(PODS, pod("waits", gpus=4))
    await member.until(lambda: nodes_of(member), {"starts": "node-0", "waits": ""})
    await stopped(member)
    member = await restarted(file, shape)
    await member.until(member.phases, {"starts": "Succeeded", "waits": "Running"})
    await stopped(member)


def cut(file: Path) -> int:
    file.write_bytes(file.read_bytes()[:-40])
    return 1


def spoilt(file: Path) -> int:
    file.write_bytes(b"\x00" * 100)
    return 1


@pytest.mark.parametrize("damage", [cut, spoilt, pytest.param(lambda file: 2, id="other nodes")])
async def test_a_member_whose_file_does_not_fit_begins_empty(tmp_path: Path, damage: Callable[[Path], int]) -> None:
    file = tmp_path / "cfa.objects"
    member = await restarted(file, NodeShape(count=1, gpus=4))
    await member.post(f"{KUBEFLOW}/pytorchjobs", kubeflow_job("PyTorchJob", "runs", {"Worker": replicas(2)}))
    await running_two(member)
    await stopped(member)
    nodes = damage(file)
    member = await restarted(file, NodeShape(count=nodes, gpus=4))
    assert await member.pods() == {}
    listed = await member.get("/api/v1/nodes")
    assert listed is not None and len(listed["items"]) == nodes
    await stopped(member)
