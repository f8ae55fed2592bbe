"""What a Cluster says of nodes that could be added, and how much of it is left."""

from __future__ import annotations

import json

import pytest

from fleet.members.nodes import ANY_VALUE, MemberNodes, read_node
from fleet.members.potential import BadPotential, potential_pools, read_groups
from tests.members.builders import node

GPU = "nvidia.com/gpu"
HOST = "kubernetes.io/hostname"
GROUP = {"maxNodes": 3, "resources": {GPU: 8, "cpu": "96", "memory": "1Ti"}, "labels": {"group": "h800"}}


def test_a_group_is_what_one_node_has_and_how_many_there_may_be() -> None:
    taint = {"key": "gpu", "effect": "NoSchedule"}
    [group] = read_groups(json.dumps([{**GROUP, "taints": [taint]}]))
    assert (group.most, group.has[GPU], group.has["cpu"], group.has["pods"]) == (3, 8, 96_000, 110)
    assert group.labels == (("group", "h800"),) and group.taints[0].effect == "NoSchedule"
    assert read_groups("") == ()


def test_nodes_that_are_there_are_not_added_again() -> None:
    nodes, groups = MemberNodes(), read_groups(json.dumps([GROUP]))
    [pool] = potential_pools(groups, nodes.count, nodes.trees)
    assert (pool.free[0][1], pool.labels, pool.allocatable) == (3, (("group", "h800"),), groups[0].has)
    nodes.put(read_node(node("n0", labels={"group": "h800"})))
    nodes.put(read_node(node("n1", labels={"group": "other"})))
    assert [pool.free[0][1] for pool in potential_pools(groups, nodes.count, nodes.trees)] == [2]
    for number in range(5, 8):
        nodes.put(read_node(node(f"n{number}", labels={"group": "h800"})))
    assert potential_pools(groups, nodes.count, nodes.trees) == ()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("{", ""),
        ('{"maxNodes": 1}', ""),
        ("[1]", "[0]"),
        ('[{"maxNodes": -1, "resources": {"cpu": 1}}]', "[0].maxNodes"),
        ('[{"maxNodes": true, "resources": {"cpu": 1}}]', "[0].maxNodes"),
        ('[{"maxNodes": 1}]', "[0].resources"),
        ('[{"maxNodes": 1, "resources": {"cpu": "many"}}]', "[0].resources[cpu]"),
        ('[{"maxNodes": 1, "resources": {"cpu": -1}}]', "[0].resources[cpu]"),
        ('[{"maxNodes": 1, "resources": {"cpu": 1}, "labels": {"a": 1}}]', "[0].labels"),
        ('[{"maxNodes": 1, "resources": {"cpu": 1}, "taints": [{"key": "a"}]}]', "[0].taints[0]"),
        ('[{"maxNodes": 1, "resources": {"cpu": 1}, "maxnodes": 2}]', "[0].maxnodes"),
    ],
)
def test_what_is_wrong_names_its_place(text: str, where: str) -> None:
    with pytest.raises(BadPotential) as caught:
        read_groups(text)
    assert caught.value.where == where


def test_every_host_is_a_pool_of_its_own_while_some_gang_must_lie_on_one() -> None:
    nodes = MemberNodes()
    for number in range(3):
        nodes.put(read_node(node(f"n{number}", labels={HOST: f"host-{number}", "rack": "r1"})))
    assert len(nodes.pools()) == 1
    assert nodes.tell_apart(frozenset({(HOST, ANY_VALUE)}))
    assert [dict(pool.labels)[HOST] for pool in nodes.pools()] == ["host-0", "host-1", "host-2"]
    assert nodes.tell_apart(frozenset())
    assert len(nodes.pools()) == 1
