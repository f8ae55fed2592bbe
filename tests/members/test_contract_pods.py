"""Pods that only keep room, and their exchange for the pods of a job; simulated and real schedulers alike."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from fleet.core.model.pod import PodView
from fleet.members.clusters import ClusterMembers
from fleet.members.members import ActResult
from fleet.wellknown import GATE, LABEL_COMPONENT, LABEL_PLACEHOLDER, TAKES
from tests.members.builders import ours, pod
from tests.members.conftest import Target, eventually

NODE = "/api/v1/nodes"
GPU = "example.com/place"  # a resource of its own, so that nothing else of the shared member is in the way


async def node(target: Target, places: int) -> str:
    """A node with places that no other test uses."""
    name = f"node-{uuid.uuid4().hex[:6]}"
    amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", f"{GPU}-{name}": str(places)}
    await target.create_node(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name},
            "status": {
                "allocatable": amounts,
                "capacity": amounts,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
    )
    return name


def one(target: Target, name: str, where: str, binding: str, **labels: str) -> dict[str, Any]:
    """A pod of ours that needs a place of this node."""
    body = pod(name)
    body["metadata"] = ours(target.namespace, name, binding=binding)
    body["metadata"]["labels"].update({LABEL_COMPONENT: "worker", **labels})
    body["spec"]["containers"][0]["resources"] = {"limits": {f"{GPU}-{where}": "1"}}
    return body


def named(view: PodView) -> dict[str, Any]:
    meta = {"name": view.name, "namespace": view.namespace, "uid": view.uid}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta}


def views(joined: ClusterMembers, binding: str) -> dict[str, PodView]:
    return {view.name: view for view in joined.pods_of(binding)}


async def test_a_placeholder_is_created_once_shown_as_one_and_gets_a_node(
    joined: ClusterMembers, target: Target
) -> None:
    await target.create_namespace()
    where, binding = await node(target, 1), uuid.uuid4().hex
    body = one(target, "h-0", where, binding, **{LABEL_PLACEHOLDER: "true"})
    assert (await joined.put_pod("cfa", body)).did is ActResult.DONE
    assert (await joined.put_pod("cfa", body)).did is ActResult.DONE
    await eventually(lambda: [v.node for v in joined.pods_of(binding)] == [where])
    assert [view.name for view in joined.placeholders("cfa") if view.binding == binding] == ["h-0"]
    [view] = joined.pods_of(binding)
    gone = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "h-0", "namespace": target.namespace, "uid": view.uid},
    }
    assert (await joined.delete("cfa", gone, grace_s=0)).did is ActResult.DONE
    await eventually(lambda: not joined.pods_of(binding))


async def test_a_gated_pod_that_takes_the_place_of_a_placeholder_keeps_it_against_a_waiting_rival(
    joined: ClusterMembers, target: Target
) -> None:
    await target.create_namespace()
    where, binding = await node(target, 1), uuid.uuid4().hex
    await joined.put_pod("cfa", one(target, "h-0", where, binding, **{LABEL_PLACEHOLDER: "true"}))
    await eventually(lambda: [v.node for v in joined.pods_of(binding)] == [where])
    rival = one(target, "rival", where, "others")
    rival["metadata"]["labels"] = {}
    await target.post(f"/api/v1/namespaces/{target.namespace}/pods", rival)
    real = one(target, "w-0", where, binding)
    real["spec"]["schedulingGates"] = [{"name": GATE}]
    await target.post(f"/api/v1/namespaces/{target.namespace}/pods", real)
    await eventually(lambda: "w-0" in views(joined, binding) and views(joined, binding)["w-0"].gated)
    told = {"type": TAKES, "status": "True", "reason": "RoomHeld", "message": "h-0"}
    status = {"status": {"nominatedNodeName": where, "conditions": [told]}}
    assert (await joined.patch_pod("cfa", views(joined, binding)["w-0"], status, status=True)).did is ActResult.DONE
    await eventually(lambda: views(joined, binding)["w-0"].takes == "h-0")
    await joined.delete("cfa", named(views(joined, binding)["h-0"]), grace_s=0)
    await asyncio.sleep(0.3)  # time for the rival, were the room anybody's
    opened = {"spec": {"schedulingGates": [{"name": GATE, "$patch": "delete"}]}}
    assert (await joined.patch_pod("cfa", views(joined, binding)["w-0"], opened)).did is ActResult.DONE
    await eventually(lambda: views(joined, binding)["w-0"].node == where)
    assert not views(joined, binding)["w-0"].gated
    found = await target.get(f"/api/v1/namespaces/{target.namespace}/pods/rival")
    assert found is not None and not found["spec"].get("nodeName")


async def test_a_pod_of_the_name_that_came_later_is_not_patched(joined: ClusterMembers, target: Target) -> None:
    await target.create_namespace()
    where, binding = await node(target, 2), uuid.uuid4().hex
    await joined.put_pod("cfa", one(target, "h-0", where, binding))
    await eventually(lambda: "h-0" in views(joined, binding))
    old = views(joined, binding)["h-0"]
    await joined.delete("cfa", named(old), grace_s=0)
    await eventually(lambda: not joined.pods_of(binding))
    assert (await joined.patch_pod("cfa", old, {"spec": {}})).did is ActResult.NOT_FOUND
    await joined.put_pod("cfa", one(target, "h-0", where, binding))
    status = {"status": {"nominatedNodeName": where}}
    assert (await joined.patch_pod("cfa", old, status, status=True)).did is ActResult.REFUSED
