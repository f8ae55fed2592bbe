"""Nodes that the hub counts out, and the signs of a pod's end, as the inventory reads them."""

from __future__ import annotations

from dataclasses import replace

from fleet.core.model.amounts import NOTHING, Amounts
from fleet.members.inventory import read_pod
from fleet.members.nodes import MemberNodes, read_node
from fleet.values.ports import Body

SMALL = Amounts.of({"cpu": 1000, "pods": 1})


def node(name: str, ready: bool = True) -> Body:
    return {
        "metadata": {"name": name},
        "status": {
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "allocatable": {"cpu": "4", "pods": "10"},
        },
    }


def room(nodes: MemberNodes) -> int:
    """How many nodes offer something."""
    return sum(count for pool in nodes.pools() for _, count in pool.free)


def test_an_avoided_node_offers_nothing_until_it_is_avoided_no_more() -> None:
    nodes = MemberNodes()
    for name in ("n0", "n1"):
        nodes.put(read_node(node(name)))
    assert nodes.avoid(frozenset({"n0", "n9"}))
    assert (room(nodes), nodes.ready_count, nodes.unschedulable_count) == (1, 2, 1)
    assert not nodes.put(read_node(node("n0")))  # a heartbeat
    nodes.use("n0", SMALL, 1)
    assert nodes.avoid(frozenset())
    assert (room(nodes), nodes.unschedulable_count) == (2, 0)
    assert {vector["cpu"] for pool in nodes.pools() for vector, _ in pool.free} == {3000, 4000}


def test_a_node_that_breaks_or_goes_while_it_is_avoided_stays_so_afterwards() -> None:
    nodes = MemberNodes()
    nodes.avoid(frozenset({"n0", "n1"}))
    for name in ("n0", "n1"):
        nodes.put(read_node(node(name)))
    assert room(nodes) == 0
    nodes.put(read_node(node("n0", ready=False)))
    nodes.remove("n1")
    nodes.avoid(frozenset())
    assert (room(nodes), len(nodes), nodes.ready("n0"), nodes.ready("n1")) == (0, 1, False, False)


def test_the_signs_of_a_pods_end_are_read_apart() -> None:
    status = {
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}],
        "initContainerStatuses": [{"name": "i", "state": {"terminated": {"exitCode": 0}}}],
        "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}],
    }
    body = {"metadata": {"name": "p", "uid": "u"}, "spec": {}, "status": status}
    pod = read_pod("cfa", body, NOTHING)
    assert (pod.failed_with, pod.disruption, pod.exits) == ("Evicted", "TerminationByKubelet", ((137, "OOMKilled"),))
    status["conditions"] = [{"type": "DisruptionTarget", "status": "False", "reason": "TerminationByKubelet"}]
    status["phase"] = "Running"
    assert read_pod("cfa", body, NOTHING) == replace(pod, phase="Running", disruption="", failed_with="", reason="")
