"""Why no node takes a pod: nodes counted by cause, in kube-scheduler's words."""

from __future__ import annotations

import pytest

from fleet.model.reason import Code
from fleet.model.unit import Component
from fleet.snapshot import Snapshot
from tests.builders import NodeClaim, Requirement, Taint, Toleration, amounts, member, snapshot, unit
from tests.placement.explain.test_why import reason

ZONE_B = NodeClaim(node_selector=(("zone", "b"),))
IN_ZONE_B = NodeClaim(affinity=((Requirement("zone", "In", ("b",)),),))
INFRA = Taint("dedicated", "infra")
NVME = Taint("nvme")


def asks(**resources: int) -> tuple[Component, ...]:
    """One pod that asks for resources by whatever name, "__" for "/"."""
    named = {name.replace("__", "/").replace("_", "."): amount for name, amount in resources.items()}
    return (Component("worker", 1, amounts(pods=1, **named)),)


NO_NODE = {
    "a selector that no node has": (
        snapshot(unit("a").gang(1, gpu=1, claim=ZONE_B), member("x").nodes(16), member("y").nodes(8)),
        Code.NO_NODE_MATCHES,
        "0/24 nodes are available: 24 node(s) didn't match Pod's node affinity/selector",
    ),
    "an affinity that no node has": (
        snapshot(unit("a").gang(1, gpu=1, claim=IN_ZONE_B), member("x").nodes(2)),
        Code.NO_NODE_MATCHES,
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector",
    ),
    "taints, named": (
        snapshot(unit("a"), member("x").nodes(3, taints=(INFRA,)).nodes(1, taints=(NVME,))),
        Code.NO_NODE_MATCHES,
        "0/4 nodes are available: 3 node(s) had untolerated taint {dedicated: infra},"
        " 1 node(s) had untolerated taint {nvme: }",
    ),
    "a taint that is tolerated is no cause": (
        snapshot(
            unit("a").gang(1, gpu=16, claim=NodeClaim(tolerations=(Toleration(operator="Exists"),))),
            member("x").nodes(3, taints=(INFRA,)),
        ),
        Code.LARGER_THAN_ANY_NODE,
        "0/3 nodes are available: 3 Insufficient nvidia.com/gpu; the largest node has 8 nvidia.com/gpu, a pod asks for"
        " 16",
    ),
    "some do not match, the others are too small": (
        snapshot(
            unit("a").gang(2, gpu=16, claim=ZONE_B),
            member("x").nodes(16),
            member("y").nodes(6, labels={"zone": "b"}).nodes(2, gpu=4, labels={"zone": "b"}),
        ),
        Code.LARGER_THAN_ANY_NODE,
        "0/24 nodes are available: 16 node(s) didn't match Pod's node affinity/selector, 8 Insufficient nvidia.com/gpu;"
        " the largest node has 8 nvidia.com/gpu, a pod asks for 16",
    ),
    "of several resources only what nodes lack": (
        snapshot(unit("a").gang(1, gpu=8, cpu=8, memory=1024), member("x").nodes(2)),
        Code.LARGER_THAN_ANY_NODE,
        "0/2 nodes are available: 2 Insufficient memory; the largest node has 768 GiB memory, a pod asks for 1 TiB",
    ),
    "nodes with devices lack CPU, those with CPU lack devices": (
        snapshot(unit("a").gang(1, gpu=8, cpu=64), member("x").nodes(2, cpu=32).nodes(1, gpu=0)),
        Code.LARGER_THAN_ANY_NODE,
        "0/3 nodes are available: 2 Insufficient cpu, 1 Insufficient nvidia.com/gpu",
    ),
    "a resource that is misspelt": (
        snapshot(unit("a").having(components=asks(nvidia_com__gpus=1)), member("x").nodes(4)),
        Code.UNKNOWN_RESOURCE,
        "0/4 nodes are available: 4 Insufficient nvidia.com/gpus; no node has nvidia.com/gpus,"
        " did you mean nvidia.com/gpu?",
    ),
    "a resource that nothing is like": (
        snapshot(unit("a").having(components=asks(rdma__hca=1)), member("x").nodes(4)),
        Code.UNKNOWN_RESOURCE,
        "0/4 nodes are available: 4 Insufficient rdma/hca; no node has rdma/hca",
    ),
    "one kind of its pods": (
        snapshot(unit("a").gang(2, gpu=1).gang(1, cpu=1, claim=ZONE_B), member("x").nodes(4)),
        Code.NO_NODE_MATCHES,
        "0/4 nodes are available for 1 of its 3 pods: 4 node(s) didn't match Pod's node affinity/selector",
    ),
    "nodes without the label that the gang must lie within": (
        snapshot(unit("a").gpus(8, pods=2).within("rack"), member("x").nodes(4)),
        Code.NO_NODE_MATCHES,
        "0/4 nodes are available: 4 node(s) didn't have label rack",
    ),
    "members that policy forbids are not counted": (
        snapshot(unit("a").gpus(16).only_in("y"), member("x").nodes(9, gpu=16), member("y").nodes(2)),
        Code.LARGER_THAN_ANY_NODE,
        "0/2 nodes are available: 2 Insufficient nvidia.com/gpu; the largest node has 8 nvidia.com/gpu, a pod asks for"
        " 16",
    ),
    "cordoned nodes are counted": (
        snapshot(unit("a").gpus(16), member("x").nodes(4).having(unschedulable=2)),
        Code.LARGER_THAN_ANY_NODE,
        "0/6 nodes are available: 4 Insufficient nvidia.com/gpu, 2 node(s) were unschedulable or not ready;"
        " the largest node has 8 nvidia.com/gpu, a pod asks for 16",
    ),
    "all nodes are cordoned": (
        snapshot(unit("a"), member("x").having(unschedulable=2)),
        Code.NO_MEMBER_FITS,
        "0/2 nodes are available: 2 node(s) were unschedulable or not ready",
    ),
    "no nodes at all": (
        snapshot(unit("a"), member("x")),
        Code.NO_MEMBER_FITS,
        "0/0 nodes are available: the members have no nodes",
    ),
    "some pod finds nodes in each member, not all of them in one": (
        snapshot(
            unit("a").gang(1, gpu=1, claim=ZONE_B).gang(1, gpu=16),
            member("x").nodes(1, labels={"zone": "b"}),
            member("y").nodes(1, gpu=16),
        ),
        Code.TOO_LARGE,
        "no member has room for all 2 pods at once, even when empty. Closest is x: 1 pod finds no node with 16"
        " nvidia.com/gpu",
    ),
}


@pytest.mark.parametrize("story", NO_NODE)
def test_why_no_node_takes_it(story: str) -> None:
    world, code, text = NO_NODE[story]
    assert reason(world, "a") == (code, text)


def test_programs_read_the_numbers_of_a_pod_that_is_larger_than_any_node() -> None:
    world: Snapshot = snapshot(unit("a").gpus(16, pods=3), member("x").nodes(4).nodes(2, gpu=4))
    numbers = dict(reason_of(world).numbers)
    assert numbers == {
        "pods": 3, "of": 3, "nodes": 6, "causes": "6 Insufficient nvidia.com/gpu",
        "resource": "nvidia.com/gpu", "request": 16, "largest": 8,
    }  # fmt: skip


def reason_of(world: Snapshot):  # type: ignore[no-untyped-def]
    from tests.decide.test_decide import plan_of

    return plan_of(world).reasons["a"]
