"""A hub before a member with Kueue: the pods of a gang are a pod group of a queue."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.manifests import pytorchjob
from tests.operators.hub import bound, hub_before, member_of, pods
from tests.operators.jobs import PODS, Body, stays
from tests.testbed.member import RealMember

QUEUES = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS = f"{QUEUES}/namespaces/default/workloads"
GPU = "nvidia.com/gpu"


def test_a_gang_waits_whole_until_its_queue_has_quota_for_all_of_it_and_goes_whole(tmp_path: Path) -> None:
    with hub_before(tmp_path, "kueue", "fleet.io/gang-scheduler=Kueue/training") as world:
        member = member_of(world)
        make_queue(member, gpus=4)
        world.kubectl.apply(pytorchjob("whole", gpus=2))
        world.until("its pods are in the member", lambda: len(pods(world, "whole")) == 3)
        world.until("Kueue says what lacks", lambda: GPU in lacks(member))
        stays("a queue of 4 GPUs takes no part of a gang of 6", lambda: bound(world, "whole") == 0)
        assert all(pod["spec"]["schedulingGates"] for pod in pods(world, "whole"))
        member.patch(f"{QUEUES}/clusterqueues/training", {"spec": quota(gpus=6)})
        world.until("the whole gang has nodes", lambda: bound(world, "whole") == 3)
        world.until("the job runs", lambda: world.state("whole", "default") == "Running")
        world.kubectl.run("delete", "pytorchjob", "whole")
        world.until("no pod is left", lambda: not member.names(PODS))
        world.until("no workload is left", lambda: not member.names(WORKLOADS))


def make_queue(member: RealMember, gpus: int) -> None:
    """The LocalQueue `training` of the namespace default, with all that Kueue needs for it."""
    parts: dict[str, tuple[str, Body]] = {
        "resourceflavors": ("ResourceFlavor", {}),
        "clusterqueues": ("ClusterQueue", quota(gpus)),
        "namespaces/default/localqueues": ("LocalQueue", {"clusterQueue": "training"}),
    }
    for place, (kind, spec) in parts.items():
        body = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": {"name": "training"}, "spec": spec}
        member.post(f"{QUEUES}/{place}", body)


def quota(gpus: int) -> Body:
    """Of a ClusterQueue. CPU and memory are there for the init containers that the training operator adds."""
    room = {"cpu": "100", "memory": "100Gi", GPU: str(gpus)}
    resources = [{"name": name, "nominalQuota": amount} for name, amount in room.items()]
    group = {"coveredResources": list(room), "flavors": [{"name": "training", "resources": resources}]}
    return {"namespaceSelector": {}, "resourceGroups": [group]}


def lacks(member: RealMember) -> str:
    """What Kueue says of the workloads that it has not admitted."""
    conditions = [c for one in member.get(WORKLOADS)["items"] for c in one.get("status", {}).get("conditions", [])]
    return " ".join(c["message"] for c in conditions if (c["type"], c["status"]) == ("QuotaReserved", "False"))
