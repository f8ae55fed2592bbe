"""Nodes that somebody asks for by name are pools of their own, and only those."""

from __future__ import annotations

from fleet.core.model.amounts import Amounts
from fleet.kinds.requests import amounts
from fleet.members.nodes import MemberNodes, read_node
from tests.members.builders import node

HOST = "kubernetes.io/hostname"


def four() -> MemberNodes:
    nodes = MemberNodes()
    for number in range(4):
        nodes.put(
            read_node(node(f"n{number}", labels={HOST: f"host-{number}", "kind": "a100", "machine": f"n{number}"}))
        )
    return nodes


def shown(nodes: MemberNodes) -> list[tuple[dict[str, str], int]]:
    return [(dict(pool.labels), sum(count for _, count in pool.free)) for pool in nodes.pools()]


def test_nobody_asks_and_all_are_one_pool() -> None:
    assert shown(four()) == [({"kind": "a100"}, 4)]


def test_a_node_that_is_asked_for_is_a_pool_of_its_own_until_nobody_asks() -> None:
    nodes = four()
    assert nodes.tell_apart(frozenset({(HOST, "host-2"), ("kind", "a100")}))
    assert shown(nodes) == [
        ({"kind": "a100"}, 3),
        ({"kind": "a100", HOST: "host-2", "machine": "n2", "metadata.name": "n2"}, 1),
    ]
    assert not nodes.tell_apart(frozenset({(HOST, "host-2"), (HOST, "host-9")}))
    assert nodes.tell_apart(frozenset())
    assert shown(nodes) == [({"kind": "a100"}, 4)]


def test_a_label_that_holds_the_nodes_name_tells_it_apart_too() -> None:
    nodes = four()
    nodes.tell_apart(frozenset({("machine", "n1")}))
    assert [count for _, count in shown(nodes)] == [3, 1]


def test_a_node_is_told_apart_by_its_name_whatever_its_host_name_is() -> None:
    nodes = four()
    nodes.tell_apart(frozenset({("metadata.name", "n2")}))
    assert [labels.get(HOST) for labels, _ in shown(nodes)] == [None, "host-2"]


def test_room_follows_the_pods_whatever_pool_the_node_is_in() -> None:
    nodes = four()
    used = Amounts.of(amounts({"nvidia.com/gpu": "3"}))
    nodes.use("n2", used, 1)
    nodes.tell_apart(frozenset({(HOST, "host-2")}))
    assert [[free["nvidia.com/gpu"] for free, _ in pool.free] for pool in nodes.pools()] == [[8], [5]]
    nodes.use("n2", used, -1)
    nodes.put(read_node(node("n7", labels={HOST: "host-2", "kind": "a100"})))
    assert [[free["nvidia.com/gpu"] for free, _ in pool.free] for pool in nodes.pools()] == [[8], [8], [8]]
    nodes.remove("n2")
    assert nodes.tell_apart(frozenset())
    assert shown(nodes) == [({"kind": "a100"}, 4)]
