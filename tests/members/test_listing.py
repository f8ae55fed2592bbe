"""The news of the hub while a member is listed, and afterwards: a list of thousands is one change."""

from __future__ import annotations

from typing import Any

from fleet.core.model.pod import PodView
from fleet.members.index import ByBinding
from fleet.members.inventory import NodeSink, PodSink
from fleet.members.members import MemberChange
from fleet.members.nodes import MemberNodes
from fleet.simulate.cluster import NodeShape
from fleet.wellknown import LABEL_BINDING, LABEL_HUB

NODE, POD = MemberChange("cfa", "node"), MemberChange("cfa", "pod")


def pod(name: str, **labels: str) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels}
    return {"metadata": metadata, "spec": {"nodeName": "node-0", "containers": [container]}, "status": {}}


def node(number: int) -> dict[str, Any]:
    return NodeShape().node(number, "2026-01-01T00:00:00Z")


def test_a_list_of_nodes_is_one_change_and_each_node_after_it_one() -> None:
    told: list[MemberChange] = []
    sink = NodeSink("cfa", MemberNodes(), told.append)
    sink.started()
    for number in range(5):
        sink.seen(node(number))
    assert told == []
    sink.listed()
    assert told == [NODE]
    sink.seen({**node(0), "spec": {"unschedulable": True}})
    sink.gone(node(1))
    assert told == [NODE] * 3


def test_a_list_of_foreign_pods_is_one_change_and_each_pod_of_ours_one_more() -> None:
    told: list[MemberChange] = []
    sink = PodSink("cfa", "hub", MemberNodes(), ByBinding[PodView](), told.append)
    ours = {LABEL_HUB: "hub", LABEL_BINDING: "b1"}
    sink.started()
    for body in (pod("a"), pod("b"), pod("c", **ours)):
        sink.seen(body)
    assert told == [MemberChange("cfa", "pod", "b1")]
    sink.listed()
    assert told[1:] == [POD]
    sink.seen(pod("d"))
    sink.gone(pod("a"))
    assert told[2:] == [POD] * 2


def test_a_second_list_tells_of_what_is_gone() -> None:
    told: list[MemberChange] = []
    sink = PodSink("cfa", "hub", MemberNodes(), ByBinding[PodView](), told.append)
    for bodies in ((pod("a"), pod("b")), (pod("a"),)):
        sink.started()
        for body in bodies:
            sink.seen(body)
        sink.listed()
    assert told == [POD] * 3  # a list, the pod that is gone, a list
